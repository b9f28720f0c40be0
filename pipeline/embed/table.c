/* table.c - see table.h. */
#include "pipeline/embed/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/floats.h"
#include "pipeline/embed/embedder.h"

struct kiln_table {
    const struct kiln_st *st;
    const struct kiln_st_tensor *tensor;
    uint8_t *bytes; /* NULL: rows are read from the file */
    size_t rows, width, row_bytes;
};

static bool dtype_fits(enum kiln_st_dtype dtype)
{
    return dtype == KILN_ST_F32 || dtype == KILN_ST_F16 || dtype == KILN_ST_BF16 ||
           dtype == KILN_ST_I8 || dtype == KILN_ST_F64;
}

int kiln_table_bytes(const struct kiln_st *st, const struct kiln_st_tensor *t, size_t from,
                     size_t size, void *out, struct kiln_error *err)
{
    int fd;
    uint64_t offset;
    const char *path;
    if (!kiln_st_source(st, t, &fd, &offset, &path)) {
        memcpy(out, (const uint8_t *)t->data + from, size);
        return 0;
    }
    for (size_t at = 0; at < size;) {
        const ssize_t n = pread(fd, (char *)out + at, size - at, (off_t)(offset + from + at));
        if (n < 0 && errno != EINTR)
            return kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(errno));
        if (n == 0)
            return kiln_fail(err, KILN_CORRUPT,
                             "%s was cut short since it was opened: replace "
                             "files by renaming a new one over the old",
                             path);
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* sums[i] += weight * value i, of one dtype. */
static void add_values(enum kiln_st_dtype dtype, const uint8_t *bytes, size_t n, float weight,
                       float *sums)
{
    for (size_t i = 0; i < n; i++) {
        float value = 0;
        uint16_t half;
        double wide;
        switch (dtype) {
        case KILN_ST_F32:
            memcpy(&value, bytes + 4 * i, sizeof value);
            break;
        case KILN_ST_F16:
            memcpy(&half, bytes + 2 * i, sizeof half);
            value = kiln_from_half(half);
            break;
        case KILN_ST_BF16:
            memcpy(&half, bytes + 2 * i, sizeof half);
            value = kiln_from_bf16(half);
            break;
        case KILN_ST_F64:
            memcpy(&wide, bytes + 8 * i, sizeof wide);
            value = (float)wide;
            break;
        default: /* I8, the last one that dtype_fits */
            value = (float)(int8_t)bytes[i];
            break;
        }
        sums[i] += weight * value;
    }
}

int kiln_table_open(const struct kiln_st *st, const char *name, size_t width, size_t width_max,
                    struct kiln_table **ret, struct kiln_error *err)
{
    const struct kiln_st_tensor *tensor = kiln_st_find(st, name);
    if (!tensor)
        return kiln_fail(err, KILN_CORRUPT, "no tensor \"%s\"", name);
    if (!dtype_fits(tensor->dtype))
        return kiln_fail(err, KILN_UNSUPPORTED, "tensor \"%s\" has type %s", name,
                         kiln_st_dtype_name(tensor->dtype));
    if (tensor->ndim != 2 || tensor->shape[0] < 1 || tensor->shape[1] < 1 ||
        (size_t)tensor->shape[1] > width_max || (width && (size_t)tensor->shape[1] != width))
        return kiln_fail(err, KILN_CORRUPT, "tensor \"%s\" is not a table of rows of %zu values",
                         name, width ? width : width_max);
    struct kiln_table *t = calloc(1, sizeof *t);
    if (!t)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for tensor \"%s\"", name);
    *t = (struct kiln_table){.st = st,
                             .tensor = tensor,
                             .rows = (size_t)tensor->shape[0],
                             .width = (size_t)tensor->shape[1]};
    t->row_bytes = t->width * kiln_st_dtype_size(tensor->dtype);
    int rc = 0;
    if (tensor->size <= KILN_TABLE_MEMORY_MAX) {
        t->bytes = malloc(tensor->size);
        rc = t->bytes ? kiln_table_bytes(st, tensor, 0, tensor->size, t->bytes, err)
                      : kiln_fail(err, KILN_NO_MEMORY, "no memory for tensor \"%s\"", name);
    }
    if (rc)
        kiln_table_free(t);
    else
        *ret = t;
    return rc;
}

void kiln_table_free(struct kiln_table *t)
{
    if (!t)
        return;
    free(t->bytes);
    free(t);
}

size_t kiln_table_rows(const struct kiln_table *t)
{
    return t->rows;
}

size_t kiln_table_width(const struct kiln_table *t)
{
    return t->width;
}

int kiln_table_add(const struct kiln_table *t, size_t row, float weight, float *sums,
                   struct kiln_error *err)
{
    uint8_t buffer[KILN_EMBED_DIMS_MAX * 8];
    const uint8_t *bytes = t->bytes ? t->bytes + row * t->row_bytes : buffer;
    if (!t->bytes) {
        int rc = kiln_table_bytes(t->st, t->tensor, row * t->row_bytes, t->row_bytes, buffer, err);
        if (rc)
            return rc;
    }
    add_values(t->tensor->dtype, bytes, t->width, weight, sums);
    return 0;
}

int kiln_table_values(const struct kiln_st *st, const struct kiln_st_tensor *tensor, size_t count,
                      float **ret, struct kiln_error *err)
{
    if (!dtype_fits(tensor->dtype))
        return kiln_fail(err, KILN_UNSUPPORTED, "tensor \"%s\" has type %s", tensor->name,
                         kiln_st_dtype_name(tensor->dtype));
    if (tensor->size / kiln_st_dtype_size(tensor->dtype) != count)
        return kiln_fail(err, KILN_CORRUPT, "tensor \"%s\" has %zu values instead of %zu",
                         tensor->name, tensor->size / kiln_st_dtype_size(tensor->dtype), count);
    uint8_t *bytes = malloc(tensor->size + 1);
    float *values = calloc(count + 1, sizeof *values);
    int rc = bytes && values
                 ? kiln_table_bytes(st, tensor, 0, tensor->size, bytes, err)
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for tensor \"%s\"", tensor->name);
    if (!rc)
        add_values(tensor->dtype, bytes, count, 1, values);
    free(bytes);
    if (rc)
        free(values);
    else
        *ret = values;
    return rc;
}
