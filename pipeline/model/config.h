/* config.h - the sizes of a model, from its config.json files.
 *
 * Nothing about a checkpoint is written into the code: widths, heads, layers, axes and channels
 * come from here, and the loader compares the shape of every tensor with them.  An option that
 * would change the arithmetic in a way that Kiln does not support is refused by name, never
 * ignored.
 */
#ifndef KILN_MODEL_CONFIG_H
#define KILN_MODEL_CONFIG_H

#include <stdbool.h>

#include "schemas/error.h"

#define KILN_VAE_LEVELS_MAX 8
#define KILN_ROPE_AXES 3

struct kiln_text_config { /* text_encoder/config.json, class Qwen3 */
    int vocab, width, layers, heads, kv_heads, head_dim, ffn;
    double norm_eps, rope_theta;
    bool bias; /* attention_bias: on q, k, v and o */
};

struct kiln_transformer_config { /* transformer/config.json, class ZImageTransformer2DModel */
    int channels, patch, width, layers, refiner_layers, heads, caption_width;
    int axes[KILN_ROPE_AXES]; /* rotated dimensions of a head: sequence, height, width */
    double norm_eps, rope_theta, time_scale;
    bool qk_norm;
    /* Derived. */
    int head_dim, ffn, time_width;
};

struct kiln_vae_config { /* vae/config.json, class AutoencoderKL */
    int image_channels, latent_channels, levels, layers_per_block, groups;
    int channels[KILN_VAE_LEVELS_MAX];
    double scaling, shift;
    bool mid_attention, quant_conv, post_quant_conv;
    int factor; /* pixels of a latent's side: 2^(levels-1) */
};

struct kiln_sampler_config { /* scheduler/scheduler_config.json, flow-match Euler */
    int train_steps;
    double shift;
};

struct kiln_model_config {
    struct kiln_text_config text;
    struct kiln_transformer_config transformer;
    struct kiln_vae_config vae;
    struct kiln_sampler_config sampler;
};

/* Reads the configs of a model directory in the diffusers layout and checks that its parts fit
 * together.  KILN_NOT_FOUND for a missing file, KILN_BAD_INPUT for a missing or impossible value,
 * KILN_UNSUPPORTED for an unsupported option; the text names file and key. */
int kiln_model_config_read(const char *dir, struct kiln_model_config *ret,
                           struct kiln_error *err) KILN_MUST_CHECK;
/* Whether the transformer in another folder of the directory has the sizes of the first one: the
 * same errors, and KILN_BAD_INPUT for a value that differs, with its key. */
int kiln_model_config_same(const char *dir, const char *folder,
                           const struct kiln_transformer_config *first,
                           struct kiln_error *err) KILN_MUST_CHECK;

#endif
