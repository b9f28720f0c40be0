/* head.c - see head.h. */
#include "pipeline/embed/captions/head.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/formats/safetensors.h"

#define FORMAT "kiln-caption-head-2"
#define FORMAT_1 "kiln-caption-head-1" /* vague queries are as all queries */
#define FILE_MAX ((2 * KILN_HEAD_ROW_MAX + KILN_HEAD_USES + 1) * KILN_FIT_DIMS_MAX * sizeof(float))

struct kiln_caption_head kiln_caption_head_none(size_t dims)
{
    return (struct kiln_caption_head){.dims = dims, .row = dims};
}

void kiln_caption_head_release(struct kiln_caption_head *head)
{
    free(head->map);
    free(head->vague_map);
    free(head->weight);
    *head = (struct kiln_caption_head){0};
}

/* --- the file --------------------------------------------------------------------------------- */

/* Copies a tensor's values; false if one of them is not finite. */
static bool copy_values(const struct kiln_st_tensor *t, float *out)
{
    memcpy(out, t->data, t->size);
    for (size_t i = 0; i < t->size / sizeof *out; i++)
        if (!isfinite(out[i]))
            return false;
    return true;
}

static bool has_shape(const struct kiln_st_tensor *t, uint32_t ndim, int64_t first, int64_t second)
{
    return t && t->dtype == KILN_ST_F32 && t->ndim == ndim && t->shape[0] == first &&
           (ndim < 2 || t->shape[1] == second);
}

/* Copies what fits, and says whether all of it is as it must be. */
static int copy_head(const struct kiln_st *st, struct kiln_caption_head *head, bool *ret_fits,
                     struct kiln_error *err)
{
    const char *format = kiln_st_metadata(st, "format"), *model = kiln_st_metadata(st, "model");
    const bool first = format && strcmp(format, FORMAT_1) == 0;
    const int64_t uses = first ? KILN_HEAD_VAGUE : KILN_HEAD_USES;
    const struct kiln_st_tensor *map = kiln_st_find(st, "map");
    const struct kiln_st_tensor *vague_map = first ? map : kiln_st_find(st, "vague_map");
    const struct kiln_st_tensor *weight = kiln_st_find(st, "weight");
    const struct kiln_st_tensor *shift = kiln_st_find(st, "shift");
    *ret_fits = format && (first || strcmp(format, FORMAT) == 0) && model &&
                strlen(model) < sizeof head->model && map && map->ndim == 2 && map->shape[0] >= 1 &&
                map->shape[0] <= KILN_HEAD_ROW_MAX && map->shape[1] >= 1 &&
                map->shape[1] <= KILN_FIT_DIMS_MAX &&
                has_shape(map, 2, map->shape[0], map->shape[1]) &&
                has_shape(vague_map, 2, map->shape[0], map->shape[1]) &&
                has_shape(weight, 2, uses, map->shape[1]) && has_shape(shift, 1, uses, 0);
    if (!*ret_fits)
        return 0;
    head->row = (size_t)map->shape[0];
    head->dims = (size_t)map->shape[1];
    snprintf(head->model, sizeof head->model, "%s", model);
    head->map = malloc(map->size);
    head->vague_map = malloc(vague_map->size);
    head->weight = malloc(KILN_HEAD_USES * head->dims * sizeof *head->weight);
    if (!head->map || !head->vague_map || !head->weight)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a head of %zu x %zu values", head->row,
                         head->dims);
    *ret_fits = copy_values(map, head->map) && copy_values(vague_map, head->vague_map) &&
                copy_values(weight, head->weight) && copy_values(shift, head->shift);
    if (first) {
        memcpy(head->weight + KILN_HEAD_VAGUE * head->dims,
               head->weight + KILN_HEAD_QUERY * head->dims, head->dims * sizeof *head->weight);
        head->shift[KILN_HEAD_VAGUE] = head->shift[KILN_HEAD_QUERY];
    }
    return 0;
}

int kiln_caption_head_read(const char *path, struct kiln_caption_head *ret, struct kiln_error *err)
{
    struct kiln_caption_head head = {0};
    struct kiln_st *st;
    bool fits = false;
    int rc = kiln_st_open_read(path, FILE_MAX, &st, err);
    if (rc)
        return rc;
    rc = copy_head(st, &head, &fits, err);
    kiln_st_close(st);
    if (!rc && !fits)
        rc =
            kiln_fail(err, KILN_CORRUPT, "%s is not a head of caption features (" FORMAT ")", path);
    if (rc)
        kiln_caption_head_release(&head);
    else
        *ret = head;
    return rc;
}

/* --- using ------------------------------------------------------------------------------------ */

static double product(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* w of head.h, 1 without a map. */
static double weigh(const struct kiln_caption_head *head, enum kiln_head_use use, const float *x)
{
    if (!head->weight)
        return 1;
    const double squares = product(x, x, head->dims) / (double)head->dims;
    const double at =
        product(head->weight + (size_t)use * head->dims, x, head->dims) / sqrt(squares + 1e-5) +
        head->shift[use];
    return at > 30 ? at : log1p(exp(at));
}

void kiln_caption_head_apply(const struct kiln_caption_head *head, enum kiln_head_use use,
                             const float *features, size_t count, float *rows)
{
    const float *map = use == KILN_HEAD_VAGUE ? head->vague_map : head->map;
    for (size_t t = 0; t < count; t++) {
        const float *x = features + t * head->dims;
        float *row = rows + t * head->row;
        if (map)
            for (size_t i = 0; i < head->row; i++)
                row[i] = (float)product(map + i * head->dims, x, head->dims);
        else
            memcpy(row, x, head->dims * sizeof *row);
        const double length = sqrt(product(row, row, head->row)), weight = weigh(head, use, x);
        const bool says = length > 0 && isfinite(length) && isfinite(weight);
        for (size_t i = 0; i < head->row; i++)
            row[i] = says ? (float)(row[i] * (weight / length)) : 0;
    }
}
