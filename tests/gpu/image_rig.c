/* image_rig.c - see image_rig.h. */
#include "tests/gpu/image_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/model/vae_parts.h"
#include "tests/gpu/gpu.h"
#include "tests/support/measure.h"

struct kiln_vae_config rig_vae_config(void)
{
    return (struct kiln_vae_config){.image_channels = 3,
                                    .latent_channels = 16,
                                    .levels = 4,
                                    .layers_per_block = 2,
                                    .groups = 32,
                                    .channels = {128, 256, 512, 512},
                                    .scaling = 0.3611,
                                    .shift = 0.1159,
                                    .mid_attention = true,
                                    .factor = 8};
}

struct kiln_text_config rig_text_config(void)
{
    return (struct kiln_text_config){.vocab = 151936,
                                     .width = 2560,
                                     .layers = 36,
                                     .heads = 32,
                                     .kv_heads = 8,
                                     .head_dim = 128,
                                     .ffn = 9728,
                                     .norm_eps = 1e-6,
                                     .rope_theta = 1e6};
}

struct kiln_vae *rig_vae(struct kt_scope *scope, const struct kiln_vae_config *config)
{
    struct kiln_vae *vae = NULL;
    struct kiln_error err;
    if (kiln_vae_load(NULL, config, scope, KT_BF16, &vae, &err) || kiln_vae_need_encoder(vae, &err))
        fail_msg("%s", err.text);
    return vae;
}

struct kiln_text_encoder *
rig_text_encoder(struct kt_scope *scope, const struct kiln_text_config *config, enum kt_dtype dtype)
{
    struct kiln_text_encoder *te = NULL;
    struct kiln_error err;
    if (kiln_text_encoder_load(NULL, config, scope, dtype, NULL, &te, &err))
        fail_msg("%s", err.text);
    return te;
}

/* --- the same weights in fp32 ----------------------------------------------------------------- */

static void widen(struct kt_scope *s, struct kiln_vae_layer *l)
{
    l->weight = l->weight ? kt_to(s, l->weight, KT_F32) : NULL;
    l->bias = l->bias ? kt_to(s, l->bias, KT_F32) : NULL;
    l->x_bias = l->x_bias ? kt_to(s, l->x_bias, KT_F32) : NULL;
}

static void widen_residual(struct kt_scope *s, struct kiln_vae_residual *r)
{
    struct kiln_vae_layer *layers[] = {&r->norm1, &r->conv1, &r->norm2, &r->conv2, &r->shortcut};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        widen(s, layers[i]);
}

static void widen_half(struct kt_scope *s, struct kiln_vae_half *h)
{
    struct kiln_vae_layer *layers[] = {&h->in,           &h->norm_out,       &h->out,
                                       &h->quant,        &h->attention.norm, &h->attention.qkv,
                                       &h->attention.out};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        widen(s, layers[i]);
    widen_residual(s, &h->mid[0]);
    widen_residual(s, &h->mid[1]);
    for (int i = 0; i < KILN_VAE_LEVELS_MAX; i++) {
        struct kiln_vae_level *l = &h->levels[i];
        const size_t bytes = (size_t)l->count * sizeof *l->residuals;
        const struct kiln_vae_residual *narrow = l->residuals;
        if (!narrow)
            continue;
        l->residuals = malloc(bytes);
        assert_non_null(l->residuals);
        memcpy(l->residuals, narrow, bytes);
        for (int j = 0; j < l->count; j++)
            widen_residual(s, &l->residuals[j]);
        widen(s, &l->resample);
    }
}

struct kiln_vae *rig_vae_wide(struct kt_scope *scope, const struct kiln_vae *vae)
{
    struct kiln_vae *wide = malloc(sizeof *wide);
    assert_non_null(wide);
    *wide = *vae;
    wide->dtype = KT_F32;
    wide->encoder_weights = NULL; /* vae owns the narrow ones */
    widen_half(scope, &wide->decoder);
    widen_half(scope, &wide->encoder);
    rig_check(scope);
    return wide;
}

/* --- values ----------------------------------------------------------------------------------- */

void rig_ids(int32_t *ids, size_t count, int vocab, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)((seed + i * 2654435761u) % (uint32_t)vocab);
}

kt rig_values(struct kt_scope *s, enum kt_dtype dtype, uint64_t seed, double size, int ndim,
              const int64_t *shape)
{
    kt x = kt_to(s, kt_affine(s, kt_randn(s, seed, ndim, shape), size, 0), KT_BF16);
    return dtype == KT_BF16 ? x : kt_to(s, x, dtype);
}

void rig_check(const struct kt_scope *s)
{
    struct kiln_error err;
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
}

float *rig_floats(struct kt_scope *s, kt x, size_t *ret_count)
{
    rig_check(s);
    size_t count = 1;
    for (int i = 0; i < 4; i++)
        count *= kt_size(x, i) ? (size_t)kt_size(x, i) : 1;
    float *out = malloc(count * sizeof *out);
    assert_non_null(out);
    kt_to_host_f32(s, x, out, count);
    rig_check(s);
    *ret_count = count;
    return out;
}

void rig_expect_same(struct kt_scope *s, kt got, kt want)
{
    size_t count[2];
    float *a = rig_floats(s, got, &count[0]), *b = rig_floats(s, want, &count[1]);
    assert_int_equal(count[0], count[1]);
    assert_memory_equal(a, b, count[0] * sizeof *a);
    free(a);
    free(b);
}

double rig_relative(const float *got, const float *want, size_t count)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += pow((double)got[i] - (double)want[i], 2);
        size += pow((double)want[i], 2);
    }
    return sqrt(error / fmax(size, 1e-30));
}

double rig_psnr(const float *got, const float *want, size_t count)
{
    double error = 0;
    for (size_t i = 0; i < count; i++)
        error += pow((double)got[i] - (double)want[i], 2);
    return test_decibels(2, error, count);
}

double rig_psnr_of_bytes(struct kt_scope *s, kt a, kt b)
{
    size_t count;
    float *x = rig_floats(s, kt_rgb8(s, a, NULL), &count),
          *y = rig_floats(s, kt_rgb8(s, b, NULL), &count);
    for (size_t i = 0; i < count; i++)
        x[i] /= 127.5f, y[i] /= 127.5f;
    double db = rig_psnr(x, y, count);
    free(x);
    free(y);
    return db;
}
