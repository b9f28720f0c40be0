/* safetensors_write.c - writes a safetensors file.
 *
 * The same tensors always give the same bytes: tensors go by falling size of their dtype (so that
 * each starts aligned to its own values) and then by name, metadata by key, and the header is
 * padded by spaces to a multiple of 8.
 */
#include <stdlib.h>
#include <string.h>

#include "schemas/text/utf8.h"
#include "storage/formats/replace.h"
#include "storage/formats/safetensors_header.h"

/* Length field and JSON text, and the tensors in the order of their data. */
struct plan {
    const struct kiln_st_tensor **order;
    uint8_t *head;
    size_t head_size, data_size;
};

static void plan_release(struct plan *p)
{
    free(p->order);
    free(p->head);
}

static int by_place(const void *a, const void *b)
{
    const struct kiln_st_tensor *x = *(const struct kiln_st_tensor *const *)a;
    const struct kiln_st_tensor *y = *(const struct kiln_st_tensor *const *)b;
    size_t n = kiln_st_dtype_size(x->dtype), m = kiln_st_dtype_size(y->dtype);
    return n != m ? (n > m ? -1 : 1) : strcmp(x->name, y->name);
}

static int check_tensor(const struct kiln_st_tensor *t, struct kiln_error *err)
{
    int64_t bytes;
    if (!t->name || !t->name[0] || strlen(t->name) > KILN_ST_NAME_MAX ||
        strcmp(t->name, "__metadata__") == 0)
        return kiln_fail(err, KILN_BAD_INPUT, "\"%.64s\" is not a valid name of a tensor",
                         t->name ? t->name : "");
    if ((unsigned)t->dtype >= KILN_ST_DTYPE_COUNT || t->ndim > KILN_ST_DIMS_MAX ||
        !kiln_st_bytes(t->dtype, t->shape, t->ndim, &bytes) || (size_t)bytes != t->size)
        return kiln_fail(err, KILN_BAD_INPUT, "tensor %s: %zu bytes do not fit its dtype and shape",
                         t->name, t->size);
    return 0;
}

/* NULL when memory ran out: dtype and shape are jansson's to refuse for no other reason. */
static json_t *describe(const struct kiln_st_tensor *t, size_t offset)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (json_array_append_new(shape, json_integer(t->shape[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", kiln_st_dtype_name(t->dtype), "shape", shape,
                     "data_offsets", (json_int_t)offset, (json_int_t)(offset + t->size));
}

/* jansson does not say why it took no text: UTF-8 that is none, or no memory. */
static int fail_text(struct kiln_error *err, const char *what, const char *name, const char *text)
{
    if (kiln_utf8_valid(name, strlen(name), NULL) && kiln_utf8_valid(text, strlen(text), NULL))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the %s \"%.64s\"", what, name);
    return kiln_fail(err, KILN_BAD_INPUT, "the %s \"%.64s\" is not UTF-8", what, name);
}

static int add_metadata(json_t *header, const char *const *metadata, struct kiln_error *err)
{
    json_t *object = json_object();
    if (json_object_set_new(header, "__metadata__", object) != 0)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for metadata");
    for (; metadata[0]; metadata += 2)
        if (json_object_set_new(object, metadata[0], json_string(metadata[1])) != 0)
            return fail_text(err, "metadata", metadata[0], metadata[1]);
    return 0;
}

static int add_tensors(json_t *header, struct plan *p, size_t count, struct kiln_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct kiln_st_tensor *t = p->order[i];
        if (json_object_get(header, t->name))
            return kiln_fail(err, KILN_BAD_INPUT, "two tensors are named %s", t->name);
        if (json_object_set_new(header, t->name, describe(t, p->data_size)) != 0)
            return fail_text(err, "tensor name", t->name, "");
        if (t->size > (size_t)INT64_MAX - p->data_size)
            return kiln_fail(err, KILN_BAD_INPUT, "the tensors up to %s overflow a file", t->name);
        p->data_size += t->size;
    }
    return 0;
}

/* Metadata keys are sorted by jansson; tensor names are sorted too: readers look at offsets.  Into
 * our own buffer: when jansson's cannot grow, json_dumps leaves keys out without a word. */
static int dump(const json_t *header, struct plan *p, struct kiln_error *err)
{
    const size_t flags = JSON_COMPACT | JSON_SORT_KEYS;
    size_t len = json_dumpb(header, NULL, 0, flags);
    uint64_t padded = (len + 7) / 8 * 8;
    if (len > KILN_ST_HEADER_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "the header needs %zu bytes, at most %d", len,
                         KILN_ST_HEADER_MAX);
    p->head = len > 0 ? malloc(8 + padded) : NULL;
    if (!p->head || json_dumpb(header, (char *)p->head + 8, len, flags) != len)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a header");
    memcpy(p->head, &padded, 8);
    memset(p->head + 8 + len, ' ', padded - len);
    p->head_size = 8 + padded;
    return 0;
}

/* Fills *p, which plan_release frees also after a failure. */
static int plan_file(struct plan *p, const struct kiln_st_tensor *tensors, size_t count,
                     const char *const *metadata, struct kiln_error *err)
{
    *p = (struct plan){0};
    if (count > KILN_ST_TENSORS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "%zu tensors, at most %d", count,
                         KILN_ST_TENSORS_MAX);
    p->order = calloc(count + 1, sizeof *p->order);
    json_t *header = json_object();
    int rc = p->order && header ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a header");
    for (size_t i = 0; i < count && !rc; i++) {
        p->order[i] = &tensors[i];
        rc = check_tensor(&tensors[i], err);
    }
    if (!rc) {
        qsort(p->order, count, sizeof *p->order, by_place);
        if (metadata && metadata[0])
            rc = add_metadata(header, metadata, err);
    }
    if (!rc)
        rc = add_tensors(header, p, count, err);
    if (!rc)
        rc = dump(header, p, err);
    json_decref(header);
    return rc;
}

int kiln_st_encode(const struct kiln_st_tensor *tensors, size_t count, const char *const *metadata,
                   uint8_t **ret_data, size_t *ret_size, struct kiln_error *err)
{
    struct plan p;
    int rc = plan_file(&p, tensors, count, metadata, err);
    uint8_t *bytes = rc ? NULL : malloc(p.head_size + p.data_size);
    if (!rc && !bytes)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for a file of %zu bytes",
                       p.head_size + p.data_size);
    if (!rc) {
        uint8_t *at = bytes + p.head_size;
        memcpy(bytes, p.head, p.head_size);
        for (size_t i = 0; i < count; at += p.order[i++]->size)
            if (p.order[i]->size > 0)
                memcpy(at, p.order[i]->data, p.order[i]->size);
        *ret_data = bytes;
        *ret_size = p.head_size + p.data_size;
    }
    plan_release(&p);
    return rc;
}

int kiln_st_write(const char *path, const struct kiln_st_tensor *tensors, size_t count,
                  const char *const *metadata, struct kiln_error *err)
{
    uint8_t *data;
    size_t size;
    int rc = kiln_st_encode(tensors, count, metadata, &data, &size, err);
    if (rc)
        return rc;
    rc = kiln_replace_bytes(path, data, size, 0644, err);
    free(data);
    return rc;
}
