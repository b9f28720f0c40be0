/* tokens.h - what the tests of the tokenizer share: golden files, and opened tokenizers. */
#ifndef KILN_TEST_TOKENS_H
#define KILN_TEST_TOKENS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "pipeline/text/tokenizer.h"

/* A path below tests/golden, until the next call. */
static inline const char *golden(const char *name)
{
    static char path[4096];
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/tests/golden/%s", source ? source : ".", name);
    return path;
}

static inline uint8_t *read_file(const char *path, size_t *ret_size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *ret_size = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*ret_size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *ret_size, f), *ret_size);
    fclose(f);
    return data;
}

static inline struct kiln_tokenizer *open_tokenizer(const char *dir)
{
    struct kiln_tokenizer *t = NULL;
    struct kiln_error err;
    if (kiln_tokenizer_open(dir, &t, &err))
        fail_msg("%s", err.text);
    return t;
}

/* A small tokenizer.json, the caller's. */
static inline json_t *small_tokenizer(void)
{
    json_t *root = json_load_file(golden("models/plain/tokenizer/tokenizer.json"), 0, NULL);
    assert_non_null(root);
    return root;
}

#endif
