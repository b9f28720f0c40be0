/* vae_parts.h - the autoencoder's structs and layers, shared by its files. */
#ifndef KILN_VAE_PARTS_H
#define KILN_VAE_PARTS_H

#include "pipeline/model/vae.h"

struct kiln_vae_layer { /* a convolution or a norm */
    kt weight, bias;
    kt x_bias; /* of a norm: [C], added to its operand; NULL: nothing */
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
    char *dir; /* NULL: random weights */
    struct kiln_vae_half decoder, encoder;
    struct kt_scope *encoder_weights; /* NULL: not loaded */
    int device;
};

#define KILN_VAE_NORM_EPS 1e-6

/* --- vae_layers.c ----------------------------------------------------------------------------- */
/* Convolution by a layer, stride 1, the same padding all around; plus `add` unless that is NULL. */
kt kiln_vae_conv(struct kt_scope *s, kt x, const struct kiln_vae_layer *l, int pad, kt add);
/* Upsampling to twice the size and the layer's 3x3 convolution; frees x. */
kt kiln_vae_upsample(struct kt_scope *s, kt x, const struct kiln_vae_layer *l);
struct kt_norm kiln_vae_norm(const struct kiln_vae *vae, const struct kiln_vae_layer *l, bool silu);
/* Changes x: norm and SiLU in place. */
void kiln_vae_norm_over(const struct kiln_vae *vae, struct kt_scope *s, kt x,
                        const struct kiln_vae_layer *l);
/* Whether the layer includes the upsampling (kiln_vae_join_upsampling). */
bool kiln_vae_is_joined(const struct kiln_vae_layer *l);

/* --- vae_strips.c ----------------------------------------------------------------------------- */
/* The decoder's last level and the output convolution, in strips of so many rows.  x, in scope s,
 * is the picture at half the size; it is freed. */
kt kiln_vae_last_level(const struct kiln_vae *vae, struct kt_scope *s, kt x, int rows);
/* The encoder's input convolution and first level in strips of so many rows, an even number. */
kt kiln_vae_first_level(const struct kiln_vae *vae, struct kt_scope *s, kt picture, int rows);
/* From this size on, in bytes of one activation, a residual that halves the channels runs in its
 * operand's memory on a GPU; otherwise it would be the peak of the decode. */
#define KILN_VAE_WIDE_BYTES ((size_t)400 << 20)
#define KILN_VAE_WIDE_ROWS 128
/* Whether the residual reduces so many channels to a half or less, so that two results fit into its
 * operand's memory. */
bool kiln_vae_halves(const struct kiln_vae_residual *r, int64_t channels);
/* Such a residual, in the memory of x, one result and a window of so many rows (two at least).  x
 * comes from kt_unshare() and is freed. */
kt kiln_vae_halving_residual(const struct kiln_vae *vae, struct kt_scope *s,
                             const struct kiln_vae_residual *r, kt x, int rows);

/* --- vae_load.c ------------------------------------------------------------------------------- */
/* Joins each upsampling of the decoder and its convolution into one layer, with a weight of
 * kt_upsample_weight() and no bias: the residual behind it adds the bias.  The loader does this
 * where it is faster, in bf16 on a GPU. */
void kiln_vae_join_upsampling(struct kiln_vae *vae, struct kt_scope *s);

#endif
