/* vae_load.c - the autoencoder's tensors by name and shape; see vae_parts.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/model/vae_parts.h"
#include "pipeline/torch/load.h"
#include "pipeline/weights/weights.h"

#define NAME_SIZE 160

/* A position in the network: the file, and the prefix of names there. */
struct place {
    struct kiln_weights *w;
    char prefix[NAME_SIZE];
};

static struct place inside(const struct place *outer, const char *name, int index)
{
    struct place p = {.w = outer->w};
    if (index < 0)
        snprintf(p.prefix, sizeof p.prefix, "%.100s%s.", outer->prefix, name);
    else
        snprintf(p.prefix, sizeof p.prefix, "%.100s%s.%d.", outer->prefix, name, index);
    return p;
}

static void load_bias(const struct place *at, const char *name, const char *what, int64_t n,
                      kt *slot)
{
    char full[NAME_SIZE];
    snprintf(full, sizeof full, "%s.%s", name, what);
    kiln_weights_vector(at->w, slot, at->prefix, full, n);
}

static void load_conv(const struct place *at, const char *name, int64_t out, int64_t in,
                      int64_t kernel, struct kiln_vae_layer *l)
{
    kiln_weights_conv(at->w, &l->weight, at->prefix, name, out, in, kernel);
    load_bias(at, name, "bias", out, &l->bias);
}

static void load_norm(const struct place *at, const char *name, int64_t n, struct kiln_vae_layer *l)
{
    load_bias(at, name, "weight", n, &l->weight);
    load_bias(at, name, "bias", n, &l->bias);
}

static void load_residual(const struct place *at, int64_t in, int64_t out,
                          struct kiln_vae_residual *r)
{
    load_norm(at, "norm1", in, &r->norm1);
    load_conv(at, "conv1", out, in, 3, &r->conv1);
    load_norm(at, "norm2", out, &r->norm2);
    load_conv(at, "conv2", out, out, 3, &r->conv2);
    if (in != out)
        load_conv(at, "conv_shortcut", out, in, 1, &r->shortcut);
}

static void load_mid(const struct place *half, const struct kiln_vae_config *c,
                     struct kiln_vae_half *h)
{
    int64_t n = c->channels[c->levels - 1];
    struct place mid = inside(half, "mid_block", -1);
    for (int i = 0; i < 2; i++) {
        struct place at = inside(&mid, "resnets", i);
        load_residual(&at, n, n, &h->mid[i]);
    }
    if (c->mid_attention) {
        struct place at = inside(&mid, "attentions", 0);
        struct kiln_vae_attention *a = &h->attention;
        const struct kiln_pack qkv = {.modules = {"to_q", "to_k", "to_v"}, .rows = {n, n, n}};
        load_norm(&at, "group_norm", n, &a->norm);
        kiln_weights_pack(at.w, &a->qkv.weight, at.prefix, &qkv, n);
        kiln_weights_pack_bias(at.w, &a->qkv.bias, at.prefix, &qkv);
        kiln_weights_linear(at.w, &a->out.weight, at.prefix, "to_out.0", n, n);
        load_bias(&at, "to_out.0", "bias", n, &a->out.bias);
    }
}

/* One level: `count` residuals, the first of which changes the width, then the resampling. */
static int load_level(const struct place *at, int64_t in, int64_t out, int count,
                      const char *resample, struct kiln_vae_level *l, struct kiln_error *err)
{
    l->residuals = calloc((size_t)count, sizeof *l->residuals);
    if (!l->residuals)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the autoencoder");
    l->count = count;
    for (int i = 0; i < count; i++) {
        struct place r = inside(at, "resnets", i);
        load_residual(&r, i ? out : in, out, &l->residuals[i]);
    }
    if (resample) {
        struct place r = inside(at, resample, 0);
        load_conv(&r, "conv", out, out, 3, &l->resample);
    }
    return 0;
}

static int load_half(struct kiln_weights *w, struct kiln_vae *vae, bool encoder,
                     struct kiln_error *err)
{
    const struct kiln_vae_config *c = &vae->config;
    struct kiln_vae_half *h = encoder ? &vae->encoder : &vae->decoder;
    struct place root = {.w = w}, half = inside(&root, encoder ? "encoder" : "decoder", -1);
    const int64_t latent = (encoder ? 2 : 1) * c->latent_channels; /* mean and log-variance */
    int64_t in = c->channels[encoder ? 0 : c->levels - 1];
    if (encoder ? c->quant_conv : c->post_quant_conv)
        load_conv(&root, encoder ? "quant_conv" : "post_quant_conv", latent, latent, 1, &h->quant);
    load_conv(&half, "conv_in", in, encoder ? c->image_channels : latent, 3, &h->in);
    load_mid(&half, c, h);
    for (int i = 0; i < c->levels; i++) {
        int64_t out = c->channels[encoder ? i : c->levels - 1 - i];
        struct place at = inside(&half, encoder ? "down_blocks" : "up_blocks", i);
        const char *resample = i + 1 == c->levels ? NULL : encoder ? "downsamplers" : "upsamplers";
        int code =
            load_level(&at, in, out, c->layers_per_block + !encoder, resample, &h->levels[i], err);
        if (code)
            return code;
        in = out;
    }
    load_norm(&half, "conv_norm_out", in, &h->norm_out);
    load_conv(&half, "conv_out", encoder ? latent : c->image_channels, in, 3, &h->out);
    return 0;
}

/* Makes a residual add x_bias to its operand: in its norm, and, summed in fp32, in the bias of its
 * shortcut. */
static void add_operand_bias(struct kiln_vae_residual *r, struct kt_scope *s, kt x_bias)
{
    kt *bias = r->shortcut.weight ? &r->shortcut.bias : &r->conv2.bias;
    struct kt_scope *inner = kt_scope_child(s);
    const int64_t out = kt_size(*bias, 0), in = kt_size(x_bias, 0);
    kt sum = kt_to(inner, *bias, KT_F32), more = kt_to(inner, x_bias, KT_F32);
    if (r->shortcut.weight) {
        kt weight = kt_reshape(inner, r->shortcut.weight, 2, (int64_t[]){out, in});
        more = kt_reshape(inner, more, 2, (int64_t[]){1, in});
        more = kt_linear(inner, more, kt_to(inner, weight, KT_F32), NULL);
        more = kt_reshape(inner, more, 1, &out);
    }
    sum = kt_keep(s, kt_to(inner, kt_add(inner, sum, more), kt_dtype_of(x_bias)));
    kt_scope_free(inner);
    kt_drop(s, *bias);
    *bias = sum;
    r->norm1.x_bias = x_bias;
}

void kiln_vae_join_upsampling(struct kiln_vae *vae, struct kt_scope *s)
{
    struct kiln_vae_level *levels = vae->decoder.levels;
    for (int i = 0; i + 1 < vae->config.levels; i++) {
        struct kiln_vae_layer *l = &levels[i].resample;
        kt weight = kt_upsample_weight(s, l->weight);
        kt_drop(s, l->weight);
        add_operand_bias(&levels[i + 1].residuals[0], s, l->bias);
        *l = (struct kiln_vae_layer){.weight = weight};
    }
}

int kiln_vae_load(const char *dir, const struct kiln_vae_config *config, struct kt_scope *scope,
                  enum kt_dtype dtype, struct kiln_vae **ret, struct kiln_error *err)
{
    struct kiln_weights *w;
    int code = kiln_weights_open(dir, "decoder.conv_in.weight", scope, dtype, NULL, &w, err);
    if (code)
        return code;
    struct kiln_vae *vae = calloc(1, sizeof *vae);
    if (!vae || (dir && !(vae->dir = strdup(dir)))) {
        (void)!kiln_weights_close(w, NULL);
        free(vae);
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for the autoencoder",
                         dir ? dir : "random weights");
    }
    vae->config = *config;
    vae->dtype = dtype;
    vae->device = kt_device_of(scope);
    code = load_half(w, vae, false, err);
    kiln_weights_ignore(w, "encoder.");
    kiln_weights_ignore(w, "quant_conv.");
    int closed = kiln_weights_close(w, code ? NULL : err);
    code = code ? code : closed;
    if (!code && vae->device != KT_CPU && dtype == KT_BF16) {
        kiln_vae_join_upsampling(vae, scope);
        code = kt_scope_check(scope, err);
    }
    if (code) {
        kiln_vae_free(vae);
        return code;
    }
    *ret = vae;
    return 0;
}

static void free_half(struct kiln_vae_half *h)
{
    for (int i = 0; i < KILN_VAE_LEVELS_MAX; i++)
        free(h->levels[i].residuals);
    *h = (struct kiln_vae_half){0};
}

static int load_encoder(struct kiln_vae *vae, struct kt_scope *scope, struct kiln_error *err)
{
    struct kiln_weights *w;
    int code =
        kiln_weights_open(vae->dir, "decoder.conv_in.weight", scope, vae->dtype, NULL, &w, err);
    if (code)
        return code;
    if (!kiln_weights_has(w, "encoder.conv_in.weight"))
        code =
            kiln_fail(err, KILN_UNSUPPORTED,
                      "%s: there is no encoder (tensor encoder.conv_in.weight is missing), so no "
                      "run of this model can start from a picture",
                      vae->dir);
    code = code ? code : load_half(w, vae, true, err);
    kiln_weights_ignore(w, "decoder.");
    kiln_weights_ignore(w, "post_quant_conv.");
    int closed = kiln_weights_close(w, code ? NULL : err);
    return code ? code : closed;
}

int kiln_vae_need_encoder(struct kiln_vae *vae, struct kiln_error *err)
{
    if (vae->encoder_weights)
        return 0;
    struct kt_scope *scope = kt_scope_new(vae->device);
    if (!scope)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for the encoder",
                         vae->dir ? vae->dir : "random weights");
    int code = load_encoder(vae, scope, err);
    if (code) {
        free_half(&vae->encoder);
        kt_scope_free(scope);
        return code;
    }
    vae->encoder_weights = scope;
    return 0;
}

void kiln_vae_free(struct kiln_vae *vae)
{
    if (!vae)
        return;
    free_half(&vae->decoder);
    free_half(&vae->encoder);
    kt_scope_free(vae->encoder_weights);
    free(vae->dir);
    free(vae);
}
