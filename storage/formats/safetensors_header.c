/* safetensors_header.c - the checks on a safetensors header.
 *
 *     8 bytes    n, the length of the header, u64 little-endian
 *     n bytes    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...},
 *                with "__metadata__": {"key": "value"} as the one name that is no tensor,
 *                padded by spaces
 *     the rest   the tensors' bytes; offsets count from here
 *
 * A model file comes from strangers.  Nothing in it is believed before it is proven: lengths are
 * compared before they are added, products are checked before they are taken, and the tensors
 * must tile the data exactly, without a hole, an overlap or a byte left over (a byte that no
 * tensor owns is where a second file format would hide).
 *
 * What the JSON parser builds is bounded before it runs (json_bounds.h).
 */
#include "storage/formats/safetensors_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "storage/formats/json_bounds.h"

#define DEPTH_MAX 3 /* {"name": {"shape": [ ... ]}} */
/* Per tensor: its name, three fields, the dimensions, two offsets. */
#define VALUES_MAX ((size_t)KILN_ST_TENSORS_MAX * (4 + KILN_ST_DIMS_MAX + 2))

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are used in place");

static const struct {
    const char *name;
    size_t size;
} dtypes[KILN_ST_DTYPE_COUNT] = {
    [KILN_ST_F32] = {"F32", 4}, [KILN_ST_F16] = {"F16", 2},         [KILN_ST_BF16] = {"BF16", 2},
    [KILN_ST_U8] = {"U8", 1},   [KILN_ST_I8] = {"I8", 1},           [KILN_ST_I32] = {"I32", 4},
    [KILN_ST_I64] = {"I64", 8}, [KILN_ST_F8_E4M3] = {"F8_E4M3", 1}, [KILN_ST_F64] = {"F64", 8},
};

size_t kiln_st_dtype_size(enum kiln_st_dtype dtype)
{
    return (unsigned)dtype < KILN_ST_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *kiln_st_dtype_name(enum kiln_st_dtype dtype)
{
    return (unsigned)dtype < KILN_ST_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

bool kiln_st_bytes(enum kiln_st_dtype dtype, const int64_t *shape, uint32_t ndim, int64_t *ret)
{
    int64_t bytes = (int64_t)kiln_st_dtype_size(dtype);
    bool zero = false;
    for (uint32_t i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return false;
        /* A zero must not hide an overflow elsewhere in the shape. */
        if (shape[i] == 0)
            zero = true;
        else if (__builtin_mul_overflow(bytes, shape[i], &bytes))
            return false;
    }
    *ret = zero ? 0 : bytes;
    return true;
}

/* Reads the length field and the JSON behind it. */
static int load_json(const uint8_t *data, size_t size, const char *what, json_t **ret_json,
                     size_t *ret_len, struct kiln_error *err)
{
    uint64_t len;
    if (size < sizeof len)
        return kiln_fail(err, KILN_CORRUPT, "%s: %zu bytes are too few for a safetensors file",
                         what, size);
    memcpy(&len, data, sizeof len);
    if (len > KILN_ST_HEADER_MAX)
        return kiln_fail(err, KILN_CORRUPT,
                         "%s is no safetensors file, or damaged: a header of %" PRIu64
                         " bytes is announced, %d are allowed",
                         what, len, KILN_ST_HEADER_MAX);
    if (len > size - sizeof len)
        return kiln_fail(err, KILN_CORRUPT,
                         "%s is cut off, or no safetensors file: a header of %" PRIu64
                         " bytes is announced, the file has %zu",
                         what, len, size);
    const char *text = (const char *)data + sizeof len;
    if (len == 0 || text[0] != '{')
        return kiln_fail(err, KILN_CORRUPT,
                         "%s is no safetensors file: its header does not start with '{'", what);
    int rc = kiln_json_bounds(text, len, DEPTH_MAX, VALUES_MAX, what, err);
    if (rc)
        return rc;
    json_error_t where;
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    if (!json)
        return kiln_fail(err, KILN_CORRUPT, "%s: header byte %d: %s", what, where.position,
                         where.text);
    *ret_json = json;
    *ret_len = len;
    return 0;
}

static int check_metadata(json_t *metadata, const char *what, struct kiln_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return kiln_fail(err, KILN_CORRUPT, "%s: __metadata__ is not an object", what);
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return kiln_fail(err, KILN_CORRUPT, "%s: __metadata__ value \"%.64s\" is not a string",
                             what, key);
    }
    return 0;
}

static int parse_dtype(const char *name, const json_t *value, const char *what,
                       enum kiln_st_dtype *ret, struct kiln_error *err)
{
    const char *text = json_string_value(value);
    if (!text)
        return kiln_fail(err, KILN_CORRUPT, "%s: tensor %s has no dtype", what, name);
    for (int i = 0; i < KILN_ST_DTYPE_COUNT; i++) {
        if (strcmp(text, dtypes[i].name) == 0) {
            *ret = (enum kiln_st_dtype)i;
            return 0;
        }
    }
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "%s: tensor %s has dtype \"%.32s\"; Kiln reads F32 F16 BF16 U8 I8 I32 I64 "
                     "F8_E4M3 F64",
                     what, name, text);
}

static int parse_shape(const char *name, const json_t *value, const char *what,
                       struct kiln_st_tensor *t, struct kiln_error *err)
{
    if (!json_is_array(value))
        return kiln_fail(err, KILN_CORRUPT, "%s: tensor %s has no shape", what, name);
    if (json_array_size(value) > KILN_ST_DIMS_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: tensor %s has %zu dimensions, at most %d",
                         what, name, json_array_size(value), KILN_ST_DIMS_MAX);
    t->ndim = (uint32_t)json_array_size(value);
    for (uint32_t i = 0; i < t->ndim; i++) {
        const json_t *dim = json_array_get(value, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return kiln_fail(err, KILN_CORRUPT,
                             "%s: tensor %s: dimension %u is not a whole number from 0", what, name,
                             i);
        t->shape[i] = json_integer_value(dim);
    }
    return 0;
}

/* Finds the tensor's bytes; that they touch their neighbours' is checked when all are known. */
static int parse_offsets(const char *name, const json_t *value, const char *what,
                         const uint8_t *data, size_t data_size, struct kiln_st_tensor *t,
                         struct kiln_error *err)
{
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return kiln_fail(err, KILN_CORRUPT, "%s: tensor %s has no pair of data_offsets", what,
                         name);
    int64_t from = json_integer_value(begin), to = json_integer_value(end), bytes;
    if (from < 0 || to < from || (uint64_t)to > data_size)
        return kiln_fail(err, KILN_CORRUPT,
                         "%s: tensor %s lies at [%" PRId64 ", %" PRId64 ") of %zu data bytes%s",
                         what, name, from, to, data_size,
                         from < 0 || to < from ? "" : ": the file is cut short, fetch it anew");
    if (!kiln_st_bytes(t->dtype, t->shape, t->ndim, &bytes))
        return kiln_fail(err, KILN_CORRUPT, "%s: tensor %s: its shape overflows", what, name);
    if (bytes != to - from)
        return kiln_fail(err, KILN_CORRUPT,
                         "%s: tensor %s needs %" PRId64 " bytes by its shape, its offsets give "
                         "%" PRId64,
                         what, name, bytes, to - from);
    t->data = data + from;
    t->size = (size_t)bytes;
    return 0;
}

static int parse_tensor(const char *name, const json_t *entry, const char *what,
                        const uint8_t *data, size_t data_size, struct kiln_st_tensor *t,
                        struct kiln_error *err)
{
    if (name[0] == '\0' || strlen(name) > KILN_ST_NAME_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: a tensor name has %zu bytes (\"%.32s...\"), 1 to %d are allowed",
                         what, strlen(name), name, KILN_ST_NAME_MAX);
    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return kiln_fail(err, KILN_CORRUPT, "%s: tensor %s is not {dtype, shape, data_offsets}",
                         what, name);
    t->name = name;
    int rc = parse_dtype(name, json_object_get(entry, "dtype"), what, &t->dtype, err);
    if (!rc)
        rc = parse_shape(name, json_object_get(entry, "shape"), what, t, err);
    if (!rc)
        rc = parse_offsets(name, json_object_get(entry, "data_offsets"), what, data, data_size, t,
                           err);
    return rc;
}

static int by_data(const void *a, const void *b)
{
    const struct kiln_st_tensor *x = a, *y = b;
    if (x->data != y->data)
        return (const uint8_t *)x->data < (const uint8_t *)y->data ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size); /* empty ones first: they fill no place */
}

/* The tensors, sorted by place, must follow each other without a gap from data to its end. */
static int check_tiling(const struct kiln_st_header *h, const uint8_t *data, size_t data_size,
                        const char *what, struct kiln_error *err)
{
    const uint8_t *expected = data;
    for (size_t i = 0; i < h->count; i++) {
        const struct kiln_st_tensor *t = &h->tensors[i];
        const uint8_t *begin = t->data;
        if (begin != expected)
            return kiln_fail(err, KILN_CORRUPT, "%s: tensor %s %s at data byte %zu", what, t->name,
                             begin < expected ? "overlaps another" : "follows a hole",
                             (size_t)(begin - data));
        expected = begin + t->size;
    }
    if (expected != data + data_size)
        return kiln_fail(err, KILN_CORRUPT, "%s: %zu bytes follow the last tensor", what,
                         (size_t)(data + data_size - expected));
    return 0;
}

static int fill_table(struct kiln_st_header *h, const uint8_t *data, size_t data_size,
                      const char *what, struct kiln_error *err)
{
    const char *name;
    json_t *entry;
    if (json_object_size(h->json) > KILN_ST_TENSORS_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %zu tensors, at most %d", what,
                         json_object_size(h->json), KILN_ST_TENSORS_MAX);
    h->tensors = calloc(json_object_size(h->json) + 1, sizeof *h->tensors);
    if (!h->tensors)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its table of tensors", what);
    json_object_foreach(h->json, name, entry)
    {
        int rc =
            strcmp(name, "__metadata__") == 0
                ? check_metadata(entry, what, err)
                : parse_tensor(name, entry, what, data, data_size, &h->tensors[h->count++], err);
        if (rc)
            return rc;
    }
    qsort(h->tensors, h->count, sizeof *h->tensors, by_data);
    return check_tiling(h, data, data_size, what, err);
}

int kiln_st_header_parse(const uint8_t *data, size_t size, const char *what,
                         struct kiln_st_header *ret, struct kiln_error *err)
{
    struct kiln_st_header h = {0};
    size_t len = 0;
    int rc = load_json(data, size, what, &h.json, &len, err);
    if (rc)
        return rc;
    size_t data_at = sizeof(uint64_t) + len;
    rc = fill_table(&h, data + data_at, size - data_at, what, err);
    if (rc) {
        kiln_st_header_release(&h);
        return rc;
    }
    *ret = h;
    return 0;
}

void kiln_st_header_release(struct kiln_st_header *header)
{
    json_decref(header->json);
    free(header->tensors);
    *header = (struct kiln_st_header){0};
}
