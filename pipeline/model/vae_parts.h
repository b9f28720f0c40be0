/* vae_parts.h - the autoencoder's inside, shared by its loader and its arithmetic. */
#ifndef KILN_VAE_PARTS_H
#define KILN_VAE_PARTS_H

#include "pipeline/model/vae.h"

struct kiln_vae_layer { /* a convolution or a norm */
    kt weight, bias;
    kt lift; /* of a norm: what its operand lacks, by channel; NULL: nothing */
};

struct kiln_vae_residual {
    struct kiln_vae_layer norm1, conv1, norm2, conv2, shortcut; /* shortcut NULL: the identity */
};

struct kiln_vae_attention {
    struct kiln_vae_layer norm, qkv, out; /* norm.weight NULL: the config has none */
};

struct kiln_vae_level {
    struct kiln_vae_residual *residuals;
    int count;
    struct kiln_vae_layer resample; /* NULL in the last level */
};

/* Encoder or decoder. */
struct kiln_vae_half {
    struct kiln_vae_layer in, norm_out, out;
    struct kiln_vae_residual mid[2];
    struct kiln_vae_attention attention;
    struct kiln_vae_level levels[KILN_VAE_LEVELS_MAX];
    struct kiln_vae_layer quant; /* 1x1 beside the latent; NULL: none */
};

struct kiln_vae {
    struct kiln_vae_config config;
    enum kt_dtype dtype;
    bool has_encoder;
    struct kiln_vae_half decoder, encoder;
};

#define KILN_VAE_NORM_EPS 1e-6

/* --- vae_layers.c ----------------------------------------------------------------------------- */
/* Convolution by a layer, stride 1, the same padding all around; plus `add` unless that is NULL. */
kt kiln_vae_conv(struct kt_scope *s, kt x, const struct kiln_vae_layer *l, int pad, kt add);
/* Twice the size, then the layer's 3x3 convolution, or the two as one; x is let go. */
kt kiln_vae_upsample(struct kt_scope *s, kt x, const struct kiln_vae_layer *l);
struct kt_norm kiln_vae_norm(const struct kiln_vae *vae, const struct kiln_vae_layer *l, bool silu);
/* Changes x: norm and SiLU of it, in its place. */
void kiln_vae_norm_over(const struct kiln_vae *vae, struct kt_scope *s, kt x,
                        const struct kiln_vae_layer *l);
/* Whether the layer is of kiln_vae_join_upsampling(). */
bool kiln_vae_is_joined(const struct kiln_vae_layer *l);

/* --- vae_strips.c ----------------------------------------------------------------------------- */
/* The decoder's last level and what follows it: x is the picture at half the size, in scope s, and
 * let go.  Window of so many rows. */
kt kiln_vae_last_level(const struct kiln_vae *vae, struct kt_scope *s, kt x, int rows);
/* Pictures from this size on, in bytes of one activation, get narrower in their own memory on a
 * GPU, strip by strip: results beside them would be the most of a decode. */
#define KILN_VAE_WIDE_BYTES ((size_t)400 << 20)
#define KILN_VAE_WIDE_ROWS 128
/* Whether the residual makes of so many channels a half or less, so that two of its results have
 * room where its operand was. */
bool kiln_vae_halves(const struct kiln_vae_residual *r, int64_t channels);
/* Such a residual, in the memory of x and of one result, with windows of so many rows, two at
 * least, of another.  x is of kt_take(), and let go. */
kt kiln_vae_halving_residual(const struct kiln_vae *vae, struct kt_scope *s,
                             const struct kiln_vae_residual *r, kt x, int rows);

/* --- vae_load.c ------------------------------------------------------------------------------- */
/* Makes one layer of each upsampling in the decoder and its convolution, with a weight of
 * kt_upsample_weight() and no bias: the residual behind it makes up for that.  The loader does it
 * where it is quicker, in bf16 on a GPU. */
void kiln_vae_join_upsampling(struct kiln_vae *vae, struct kt_scope *s);

#endif
