/* store.c - see store.h. */
#include "tests/support/store.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

struct kiln_config *test_config(const char *const *pairs)
{
    struct kiln_config *config = kiln_config_new();
    assert_non_null(config);
    for (size_t i = 0; pairs[i]; i += 2) {
        struct kiln_error err = {0};
        if (kiln_config_set(config, pairs[i], pairs[i + 1], "test", &err))
            fail_msg("%s", err.text);
    }
    return config;
}

struct kiln_store *test_file_store(const char *name)
{
    char cwd[PATH_MAX], url[PATH_MAX + 256];
    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(url, sizeof url, "file://%s/%s", cwd, name);
    struct kiln_config *config = test_config((const char *[]){"store", url, NULL});
    struct kiln_store *store = NULL;
    struct kiln_error err = {0};
    if (kiln_store_open(config, &store, &err))
        fail_msg("%s", err.text);
    kiln_config_free(config);
    return store;
}
