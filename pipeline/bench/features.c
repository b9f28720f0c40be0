/* features.c - see features.h.  Sums are in fp32, whatever the model computes in. */
#include "pipeline/bench/features.h"

#include <math.h>
#include <stdlib.h>

#include "pipeline/context.h"
#include "pipeline/model/vae.h"
#include "pipeline/torch/load.h"

#define EPS 1e-12 /* beside the mean square of a position's features, which may all be 0 */

struct kiln_features {
    struct kt_scope *scope;
    kt unit; /* [1][positions][channels] */
};

/* The features of each position, of length 1. */
static kt units_of(const struct kiln_engine *e, struct kt_scope *s, kt latent)
{
    kt rows = kt_to(s, kt_image_rows(s, kiln_vae_decode_middle(e->vae, s, latent)), KT_F32);
    const int64_t channels = kt_size(rows, 1), shape[3] = {1, kt_size(rows, 0), channels};
    /* A row divided by its root mean square has the length sqrt(channels). */
    kt gain = kt_affine(s, kt_zeros(s, KT_F32, 1, &channels), 1, 1 / sqrt((double)channels));
    return kt_reshape(s, kt_rms_norm(s, rows, gain, EPS, KT_PLAIN), 3, shape);
}

int kiln_features_of(DiffusionZContext *ctx, const float *latent, int channels, int height,
                     int width, struct kiln_features **ret, struct kiln_error *err)
{
    const struct kiln_engine *e = ctx->engine;
    const int64_t shape[3] = {channels, height, width};
    struct kiln_features *features = calloc(1, sizeof *features);
    if (!features || !(features->scope = kt_scope_new(e->device))) {
        free(features);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the features of a picture");
    }
    struct kt_scope *s = kt_scope_child(features->scope);
    kt x = kt_from_host(s, latent, KT_F32, KT_F32, 3, shape);
    features->unit = kt_keep(features->scope, units_of(e, s, x));
    kt_scope_free(s);
    int code = kt_scope_check(features->scope, err);
    if (code)
        kiln_features_free(features);
    else
        *ret = features;
    return code;
}

int kiln_features_distance(const struct kiln_features *a, const struct kiln_features *b,
                           double *ret, struct kiln_error *err)
{
    float share = 0;
    struct kt_scope *s = kt_scope_new(kt_device_of(a->scope));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to compare pictures");
    /* The root of sum |a - b|^2 / sum |b|^2, and the latter is the number of positions. */
    kt_to_host_f32(s, kt_relative_difference(s, a->unit, b->unit), &share, 1);
    int code = kt_scope_check(s, err);
    kt_scope_free(s);
    *ret = (double)share * (double)share;
    return code;
}

void kiln_features_free(struct kiln_features *features)
{
    if (!features)
        return;
    kt_scope_free(features->scope);
    free(features);
}
