/* transformer_parts.h - the transformer's structs, shared by its loader and its arithmetic. */
#ifndef KILN_TRANSFORMER_PARTS_H
#define KILN_TRANSFORMER_PARTS_H

#include "pipeline/model/linear.h"
#include "pipeline/model/transformer.h"

struct kiln_block {
    kt norm_attention_in, norm_attention_out, norm_ffn_in, norm_ffn_out; /* fp32 */
    kt q_norm, k_norm;
    struct kiln_linear_layer qkv, out, gate_up, down;
    kt modulation, modulation_bias; /* NULL in the context refiner */
};

/* Sinusoid of a time to the values that modulate the blocks: in, SiLU, out. */
struct kiln_time_embedder {
    kt in, in_bias, out, out_bias;
};

struct kiln_transformer {
    struct kiln_transformer_config config;
    enum kt_dtype dtype;
    /* Of the residual stream: the width, plus tails; no tails in FP8, which rounds more than they
     * save. */
    int64_t residual_columns;
    kt embed, embed_bias, image_pad;
    kt caption_norm, caption, caption_bias, caption_pad;
    struct kiln_time_embedder time;
    struct kiln_time_embedder target; /* t_embedder_2; all NULL in most models */
    kt final, final_bias, final_modulation, final_modulation_bias;
    /* refiner_layers of noise, as many of context, then layers joint ones */
    struct kiln_block blocks[];
};

static inline const struct kiln_block *kiln_noise_block(const struct kiln_transformer *t, int i)
{
    return &t->blocks[i];
}
static inline const struct kiln_block *kiln_context_block(const struct kiln_transformer *t, int i)
{
    return &t->blocks[t->config.refiner_layers + i];
}
static inline const struct kiln_block *kiln_joint_block(const struct kiln_transformer *t, int i)
{
    return &t->blocks[2 * t->config.refiner_layers + i];
}

/* The image branch alone: patches embedded, padded, through the noise refiner. */
kt kiln_image_tokens(const struct kiln_transformer *t, struct kt_scope *s,
                     const struct kiln_forward *args);

#endif
