/* fit.c - see fit.h. */
#include "pipeline/embed/captions/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/captions/directions.h"
#include "storage/formats/safetensors.h"

#define FORMAT "kiln-captions-1"

/* --- fitting ---------------------------------------------------------------------------------- */

struct kiln_caption_fitting {
    size_t dims, rows;
    double *sums;    /* [dims] */
    double *squares; /* [dims][dims]: sums of products, the upper half */
    double *row;     /* [dims] */
};

struct kiln_caption_fitting *kiln_caption_fitting_new(size_t dims)
{
    if (dims < 1 || dims > KILN_FIT_DIMS_MAX)
        return NULL;
    struct kiln_caption_fitting *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->dims = dims;
    f->sums = calloc(dims, sizeof *f->sums);
    f->squares = calloc(dims * dims, sizeof *f->squares);
    f->row = calloc(dims, sizeof *f->row);
    if (f->sums && f->squares && f->row)
        return f;
    kiln_caption_fitting_free(f);
    return NULL;
}

void kiln_caption_fitting_free(struct kiln_caption_fitting *f)
{
    if (!f)
        return;
    free(f->sums);
    free(f->squares);
    free(f->row);
    free(f);
}

void kiln_caption_fitting_add(struct kiln_caption_fitting *f, const float *row)
{
    for (size_t i = 0; i < f->dims; i++) {
        f->row[i] = row[i];
        f->sums[i] += f->row[i];
    }
    for (size_t i = 0; i < f->dims; i++)
        for (size_t k = i; k < f->dims; k++)
            f->squares[i * f->dims + k] += f->row[i] * f->row[k];
    f->rows++;
}

static bool take_memory(struct kiln_caption_fit *fit)
{
    fit->mean = malloc(fit->dims * sizeof *fit->mean);
    fit->removed = malloc((fit->directions * fit->dims + 1) * sizeof *fit->removed);
    return fit->mean && fit->removed;
}

int kiln_caption_fitting_finish(const struct kiln_caption_fitting *f, size_t directions,
                                const char *model, struct kiln_caption_fit *ret,
                                struct kiln_error *err)
{
    const size_t n = f->dims;
    struct kiln_caption_fit fit = {.dims = n, .directions = directions};
    if (f->rows < KILN_FIT_ROWS_MIN)
        return kiln_fail(err, KILN_BAD_INPUT, "%zu captions are too few for a fit (at least %d)",
                         f->rows, KILN_FIT_ROWS_MIN);
    if (directions > n / 4 || directions > KILN_FIT_DIRECTIONS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "%zu of %zu directions cannot be removed", directions,
                         n);
    double *covariance = calloc(n * n, sizeof *covariance);
    double *found = malloc((directions * n + 1) * sizeof *found);
    int rc = covariance && found && take_memory(&fit)
                 ? 0
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a fit of %zu dimensions", n);
    for (size_t i = 0; i < n && !rc; i++)
        for (size_t k = i; k < n; k++)
            covariance[i * n + k] = covariance[k * n + i] =
                f->squares[i * n + k] / (double)f->rows -
                f->sums[i] / (double)f->rows * (f->sums[k] / (double)f->rows);
    rc = rc ? rc : kiln_principal_directions(covariance, n, directions, found, err);
    for (size_t i = 0; i < n && !rc; i++)
        fit.mean[i] = (float)(f->sums[i] / (double)f->rows);
    for (size_t i = 0; i < directions * n && !rc; i++)
        fit.removed[i] = (float)found[i];
    free(covariance);
    free(found);
    snprintf(fit.model, sizeof fit.model, "%s", model);
    if (rc)
        kiln_caption_fit_release(&fit);
    else
        *ret = fit;
    return rc;
}

/* --- using ------------------------------------------------------------------------------------ */

void kiln_caption_fit_release(struct kiln_caption_fit *fit)
{
    free(fit->mean);
    free(fit->removed);
    *fit = (struct kiln_caption_fit){0};
}

void kiln_caption_fit_apply(const struct kiln_caption_fit *fit, float *row)
{
    for (size_t i = 0; i < fit->dims; i++)
        row[i] -= fit->mean[i];
    for (size_t k = 0; k < fit->directions; k++) {
        const float *direction = fit->removed + k * fit->dims;
        double share = 0;
        for (size_t i = 0; i < fit->dims; i++)
            share += (double)row[i] * direction[i];
        for (size_t i = 0; i < fit->dims; i++)
            row[i] -= (float)share * direction[i];
    }
}

/* --- the file --------------------------------------------------------------------------------- */

int kiln_caption_fit_write(const struct kiln_caption_fit *fit, const char *path,
                           struct kiln_error *err)
{
    const int64_t dims = (int64_t)fit->dims, count = (int64_t)fit->directions;
    const struct kiln_st_tensor tensors[] = {
        {"directions",
         KILN_ST_F32,
         2,
         {count, dims},
         fit->removed,
         fit->directions * fit->dims * sizeof *fit->removed},
        {"mean", KILN_ST_F32, 1, {dims}, fit->mean, fit->dims * sizeof *fit->mean},
    };
    const char *const metadata[] = {"format", FORMAT, "model", fit->model, NULL};
    return kiln_st_write(path, tensors, 2, metadata, err);
}

/* Copies a tensor's values; false if one of them is not finite. */
static bool copy_values(const struct kiln_st_tensor *t, float *out)
{
    if (t->size > 0)
        memcpy(out, t->data, t->size);
    for (size_t i = 0; i < t->size / sizeof *out; i++)
        if (!isfinite(out[i]))
            return false;
    return true;
}

int kiln_caption_fit_read(const char *path, struct kiln_caption_fit *ret, struct kiln_error *err)
{
    const size_t bytes_max = (KILN_FIT_DIRECTIONS_MAX + 2) * KILN_FIT_DIMS_MAX * sizeof(float);
    struct kiln_caption_fit fit = {0};
    struct kiln_st *st;
    int rc = kiln_st_open_read(path, bytes_max, &st, err);
    if (rc)
        return rc;
    const struct kiln_st_tensor *mean = kiln_st_find(st, "mean");
    const struct kiln_st_tensor *removed = kiln_st_find(st, "directions");
    const char *format = kiln_st_metadata(st, "format"), *model = kiln_st_metadata(st, "model");
    const bool fits =
        format && strcmp(format, FORMAT) == 0 && model && strlen(model) < sizeof fit.model &&
        mean && removed && mean->dtype == KILN_ST_F32 && removed->dtype == KILN_ST_F32 &&
        mean->ndim == 1 && removed->ndim == 2 && mean->shape[0] >= 1 &&
        mean->shape[0] <= KILN_FIT_DIMS_MAX && removed->shape[0] >= 0 &&
        removed->shape[0] <= KILN_FIT_DIRECTIONS_MAX && removed->shape[1] == mean->shape[0];
    if (fits) {
        fit.dims = (size_t)mean->shape[0];
        fit.directions = (size_t)removed->shape[0];
        snprintf(fit.model, sizeof fit.model, "%s", model);
        if (!take_memory(&fit))
            rc = kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for it", path);
    }
    if (!rc && (!fits || !copy_values(mean, fit.mean) || !copy_values(removed, fit.removed)))
        rc = kiln_fail(err, KILN_CORRUPT, "%s is not a fit of caption features (" FORMAT ")", path);
    kiln_st_close(st);
    if (rc)
        kiln_caption_fit_release(&fit);
    else
        *ret = fit;
    return rc;
}
