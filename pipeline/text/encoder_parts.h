/* encoder_parts.h - the text encoder's inside, shared by its loader and its two ways to run.
 */
#ifndef KILN_TEXT_ENCODER_PARTS_H
#define KILN_TEXT_ENCODER_PARTS_H

#include "pipeline/model/rope.h"
#include "pipeline/text/encoder.h"

struct kiln_text_layer {
    struct kt_form form; /* how its matrices want their rows */
    kt norm_attention, norm_ffn, qkv, qkv_bias, q_norm, k_norm, out, out_bias, gate_up, down;
};

struct kiln_text_encoder {
    struct kiln_text_config config;
    /* The table of embeddings stays in host memory, and its rows are copied as they are needed:
     * a prompt reads some hundred of 151,936. */
    struct kt_scope *host;
    kt embed;
    bool packed;           /* in bf16 on a GPU: packed.c runs it */
    struct kiln_rope rope; /* of as many positions as a prompt has at most; only if packed */
    int count;             /* of the layers that are run: all but the last */
    struct kiln_text_layer layers[];
};

/* packed.c, under both ways to run: kiln_text_encoder_run_many for an encoder that is packed, with
 * ret_features all NULL and without a code in *ret_unrecorded beforehand. */
void kiln_text_packed_run(const struct kiln_text_encoder *te, struct kt_scope *s,
                          const struct kiln_prompt_ids *prompts, size_t n,
                          struct kiln_graph_cache *graphs, kt *ret_features,
                          struct kiln_error *ret_unrecorded);

#endif
