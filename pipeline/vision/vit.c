/* vit.c - see vit.h. */
#include "pipeline/vision/vit.h"

#include <stdio.h>
#include <stdlib.h>

#include "pipeline/weights/weights.h"

#define PREFIX "vit."

struct norm {
    kt gain, bias;
};

struct linear {
    kt weight, bias; /* bias may be NULL */
};

struct layer {
    struct norm before, after;
    struct linear qkv, out, inner, outer;
};

struct kiln_vit {
    struct kiln_vision_config config;
    struct linear patches, classes;
    kt class_token, positions; /* [1][width], [1 + patches][width] */
    struct norm norm;
    struct layer layers[];
};

/* --- loading ---------------------------------------------------------------------------------- */

static void load_norm(struct kiln_weights *w, const char *prefix, const char *name, int64_t n,
                      struct norm *ret)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    kiln_weights_gain(w, &ret->gain, prefix, full, n);
    snprintf(full, sizeof full, "%s.bias", name);
    kiln_weights_vector(w, &ret->bias, prefix, full, n);
}

static void load_linear(struct kiln_weights *w, const char *prefix, const char *module,
                        int64_t rows, int64_t cols, struct linear *ret)
{
    char bias[64];
    snprintf(bias, sizeof bias, "%s.bias", module);
    kiln_weights_linear(w, &ret->weight, prefix, module, rows, cols);
    kiln_weights_vector(w, &ret->bias, prefix, bias, rows);
}

static void load_layer(struct kiln_weights *w, const struct kiln_vision_config *c, int index,
                       struct layer *l)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, PREFIX "encoder.layer.%d.", index);
    const struct kiln_pack qkv = {.modules = {"attention.attention.query",
                                              "attention.attention.key",
                                              "attention.attention.value"},
                                  .rows = {c->width, c->width, c->width}};
    load_norm(w, prefix, "layernorm_before", c->width, &l->before);
    kiln_weights_pack(w, &l->qkv.weight, prefix, &qkv, c->width);
    if (c->qkv_bias)
        kiln_weights_pack_bias(w, &l->qkv.bias, prefix, &qkv);
    load_linear(w, prefix, "attention.output.dense", c->width, c->width, &l->out);
    load_norm(w, prefix, "layernorm_after", c->width, &l->after);
    load_linear(w, prefix, "intermediate.dense", c->inner, c->width, &l->inner);
    load_linear(w, prefix, "output.dense", c->width, c->inner, &l->outer);
}

static int load(struct kiln_vit *vit, const char *dir, struct kt_scope *scope,
                struct kiln_error *err)
{
    static const char projection[] = "patch_embeddings.projection";
    const struct kiln_vision_config *c = &vit->config;
    const int64_t along = c->side / c->patch;
    const int64_t patch[2] = {c->width, (int64_t)KILN_VISION_CHANNELS * c->patch * c->patch};
    struct kiln_weights *w;
    kt filter = NULL;
    int rc = kiln_weights_open(dir, PREFIX "embeddings.cls_token", scope, KT_F32, NULL, &w, err);
    if (rc)
        return rc;
    kiln_weights_rows(w, &vit->class_token, PREFIX "embeddings.", "cls_token", 1, c->width);
    kiln_weights_rows(w, &vit->positions, PREFIX "embeddings.", "position_embeddings",
                      1 + along * along, c->width);
    kiln_weights_conv(w, &filter, PREFIX "embeddings.", projection, c->width, KILN_VISION_CHANNELS,
                      c->patch);
    kiln_weights_vector(w, &vit->patches.bias, PREFIX "embeddings.",
                        "patch_embeddings.projection.bias", c->width);
    for (int i = 0; i < c->layers; i++)
        load_layer(w, c, i, &vit->layers[i]);
    load_norm(w, PREFIX, "layernorm", c->width, &vit->norm);
    load_linear(w, "", "classifier", c->labels, c->width, &vit->classes);
    kiln_weights_ignore(w, PREFIX "pooler.");
    rc = kiln_weights_close(w, err);
    if (rc)
        return rc;
    vit->patches.weight = kt_reshape(scope, filter, 2, patch);
    return kt_scope_check(scope, err);
}

int kiln_vit_load(const char *dir, const struct kiln_vision_config *config, struct kt_scope *scope,
                  struct kiln_vit **ret, struct kiln_error *err)
{
    struct kiln_vit *vit = calloc(1, sizeof *vit + (size_t)config->layers * sizeof vit->layers[0]);
    if (!vit)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for the classifier", dir);
    vit->config = *config;
    int rc = load(vit, dir, scope, err);
    if (rc)
        kiln_vit_free(vit);
    else
        *ret = vit;
    return rc;
}

void kiln_vit_free(struct kiln_vit *vit)
{
    free(vit);
}

/* --- running ---------------------------------------------------------------------------------- */

/* Patches line by line; the values of a patch by channel, line and column, as a convolution's
 * weight has them. */
static void cut_patches(const struct kiln_vision_config *c, const uint8_t *rgb, float *out)
{
    const int along = c->side / c->patch;
    for (int at = 0; at < along * along; at++)
        for (int channel = 0; channel < KILN_VISION_CHANNELS; channel++)
            for (int y = 0; y < c->patch; y++)
                for (int x = 0; x < c->patch; x++) {
                    const int line = at / along * c->patch + y, column = at % along * c->patch + x;
                    const uint8_t value =
                        rgb[(line * c->side + column) * KILN_VISION_CHANNELS + channel];
                    *out++ =
                        (float)((value * c->rescale - c->mean[channel]) / c->deviation[channel]);
                }
}

static kt norm(struct kt_scope *s, kt x, const struct norm *n, double eps)
{
    return kt_add(s, kt_layer_norm_scale(s, x, eps, n->gain), n->bias);
}

static kt linear(struct kt_scope *s, kt x, const struct linear *l)
{
    return kt_linear(s, x, l->weight, l->bias);
}

static kt run_layer(const struct kiln_vision_config *c, const struct layer *l, struct kt_scope *s,
                    kt x)
{
    kt h = norm(s, x, &l->before, c->norm_eps);
    const struct kt_attention_args attention = {.qkv = linear(s, h, &l->qkv),
                                                .heads = c->heads,
                                                .kv_heads = c->heads,
                                                .head_dim = c->width / c->heads};
    x = kt_add(s, x, linear(s, kt_attention(s, &attention), &l->out));
    h = norm(s, x, &l->after, c->norm_eps);
    return kt_add(s, x, linear(s, kt_gelu(s, linear(s, h, &l->inner)), &l->outer));
}

static kt run(const struct kiln_vit *vit, struct kt_scope *s, kt patches)
{
    const struct kiln_vision_config *c = &vit->config;
    const kt rows[2] = {vit->class_token, linear(s, patches, &vit->patches)};
    kt x = kt_add(s, kt_cat(s, rows, 2, 0), vit->positions);
    for (int i = 0; i < c->layers; i++) {
        struct kt_scope *inner = kt_scope_child(s);
        kt next = kt_keep(s, run_layer(c, &vit->layers[i], inner, x));
        kt_scope_free(inner);
        kt_drop(s, x);
        x = next;
    }
    return linear(s, norm(s, kt_narrow(s, x, 0, 0, 1), &vit->norm, c->norm_eps), &vit->classes);
}

int kiln_vit_run(const struct kiln_vit *vit, const uint8_t *rgb, float *logits,
                 struct kiln_error *err)
{
    const struct kiln_vision_config *c = &vit->config;
    const int64_t along = c->side / c->patch;
    const int64_t shape[2] = {along * along, (int64_t)KILN_VISION_CHANNELS * c->patch * c->patch};
    float *patches = malloc((size_t)(shape[0] * shape[1]) * sizeof *patches);
    struct kt_scope *s = kt_scope_new(KT_CPU);
    if (!patches || !s) {
        free(patches);
        kt_scope_free(s);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to classify a picture");
    }
    cut_patches(c, rgb, patches);
    kt x = run(vit, s, kt_from_host(s, patches, KT_F32, KT_F32, 2, shape));
    kt_to_host_f32(s, x, logits, (size_t)c->labels);
    int rc = kt_scope_check(s, err);
    kt_scope_free(s);
    free(patches);
    return rc;
}
