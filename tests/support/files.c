/* files.c - see files.h. */
#include "tests/support/files.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static void make_directories(const char *path)
{
    char dir[PATH_MAX];
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        snprintf(dir, sizeof dir, "%.*s", (int)(at - path), path);
        if (mkdir(dir, 0755) != 0 && errno != EEXIST)
            fail_msg("mkdir %s: %s", dir, strerror(errno));
    }
}

void kiln_test_write_bytes(const char *path, const void *bytes, size_t len)
{
    make_directories(path);
    FILE *file = fopen(path, "we");
    if (!file)
        fail_msg("open %s: %s", path, strerror(errno));
    size_t written = fwrite(bytes, 1, len, file);
    if (fclose(file) != 0 || written != len)
        fail_msg("write %s: %s", path, strerror(errno));
}

void kiln_test_write(const char *path, const char *text)
{
    kiln_test_write_bytes(path, text, strlen(text));
}
