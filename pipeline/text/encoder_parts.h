/* encoder_parts.h - the text encoder's structs, shared by encoder.c and packed.c. */
#ifndef KILN_TEXT_ENCODER_PARTS_H
#define KILN_TEXT_ENCODER_PARTS_H

#include "pipeline/model/rope.h"
#include "pipeline/text/encoder.h"

struct kiln_text_layer {
    struct kt_form form; /* form of the rows for its matrices */
    kt norm_attention, norm_ffn, qkv, qkv_bias, q_norm, k_norm, out, out_bias, gate_up, down;
};

struct kiln_text_encoder {
    struct kiln_text_config config;
    /* The embeddings stay in host memory; a prompt copies some hundred of 151,936 rows. */
    struct kt_scope *host;
    kt embed;
    bool packed;           /* in bf16 on a GPU: packed.c runs it */
    struct kiln_rope rope; /* for KILN_TOKENS_MAX positions; only if packed */
    int count;             /* of layers: all but the last */
    struct kiln_text_layer layers[];
};

/* packed.c: kiln_text_encoder_run_many for a packed encoder; ret_features are NULL, and
 * *ret_unrecorded has code 0, before the call. */
void kiln_text_packed_run(const struct kiln_text_encoder *te, struct kt_scope *s,
                          const struct kiln_prompt_ids *prompts, size_t n,
                          struct kiln_graph_cache *graphs, kt *ret_features,
                          struct kiln_error *ret_unrecorded);

#endif
