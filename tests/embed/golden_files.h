/* golden_files.h - what the tests of embedders share: the files of tests/golden/embed. */
#ifndef KILN_TEST_GOLDEN_FILES_H
#define KILN_TEST_GOLDEN_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "storage/formats/regular.h"
#include "storage/formats/safetensors.h"

/* A path below tests/golden/embed, until the next call. */
static inline const char *golden(const char *name)
{
    static char path[4096];
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/tests/golden/embed/%s", source ? source : ".", name);
    return path;
}

/* A .safetensors.zst; *ret_memory lives as long as the tensors and is the caller's. */
static inline struct kiln_st *open_packed(const char *name, void **ret_memory)
{
    struct kiln_error err;
    struct kiln_st *st;
    char *packed;
    size_t size;
    if (kiln_regular_read(golden(name), 64 << 20, &packed, &size, &err))
        fail_msg("%s", err.text);
    const size_t plain = (size_t)ZSTD_getFrameContentSize(packed, size);
    *ret_memory = malloc(plain);
    assert_non_null(*ret_memory);
    assert_int_equal(ZSTD_decompress(*ret_memory, plain, packed, size), plain);
    free(packed);
    if (kiln_st_open_memory(*ret_memory, plain, name, &st, &err))
        fail_msg("%s", err.text);
    return st;
}

/* The values of a tensor named folder/name, and how many there are. */
static inline const void *tensor(const struct kiln_st *st, const char *folder, const char *name,
                                 size_t *ret_count)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s%s", folder, *folder ? "/" : "", name);
    const struct kiln_st_tensor *t = kiln_st_find(st, full);
    if (!t)
        fail_msg("no tensor %s", full);
    if (ret_count)
        *ret_count = t->size / kiln_st_dtype_size(t->dtype);
    return t->data;
}

static inline int32_t int32_at(const void *data, size_t i)
{
    int32_t value;
    memcpy(&value, (const char *)data + i * sizeof value, sizeof value);
    return value;
}

/* Writes bytes into a file below the test's own directory. */
static inline void write_file(const char *path, const void *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

#endif
