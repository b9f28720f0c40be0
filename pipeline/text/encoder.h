/* encoder.h - token ids to the features that the transformer reads: the residual stream of Qwen3
 * before its last layer (hidden_states[-2]).  The last layer, the final norm and the head are not
 * loaded.
 *
 * With 8-bit weights, a sixteenth of the layers at either end stays plain: the first layers make
 * the few huge values that later ones depend on, and rounding in the last ones goes into the
 * result.
 *
 * Prompts are not padded: attention is causal, so padding behind a prompt would not change it.
 */
#ifndef KILN_TEXT_ENCODER_H
#define KILN_TEXT_ENCODER_H

#include "pipeline/model/config.h"
#include "pipeline/torch/tensor.h"

struct kiln_fp8_cache;
struct kiln_graph_cache;
struct kiln_text_encoder;

/* dir: the folder text_encoder, or NULL for random weights.  The weights live in scope, which must
 * outlive the encoder.  dtype KT_E4M3: bf16, with the layers' matrices as quantised rows, from the
 * cache (may be NULL) if it has them. */
int kiln_text_encoder_load(const char *dir, const struct kiln_text_config *config,
                           struct kt_scope *scope, enum kt_dtype dtype,
                           struct kiln_fp8_cache *cache, struct kiln_text_encoder **ret,
                           struct kiln_error *err) KILN_MUST_CHECK;
void kiln_text_encoder_free(struct kiln_text_encoder *te); /* accepts NULL */

/* [count, width]; NULL with the scope's error set if it fails. */
kt kiln_text_encoder_run(const struct kiln_text_encoder *te, struct kt_scope *s, const int32_t *ids,
                         size_t count);

/* Token ids of one prompt, lent for the call; count > 0. */
struct kiln_prompt_ids {
    const int32_t *ids;
    size_t count;
};
/* The features of several prompts, each with the bits that kiln_text_encoder_run gives: in one pass
 * if the encoder is packed, else one after the other.  ret_features[n]: in s, NULL with the scope's
 * error set on failure.  graphs: NULL, or keeps the graphs of short passes, of this encoder alone
 * and for scopes of the main stream; a replay gives the same bits.  A pass that cannot be recorded
 * is computed; *ret_unrecorded, unless NULL, then says which and why (code 0: none). */
void kiln_text_encoder_run_many(const struct kiln_text_encoder *te, struct kt_scope *s,
                                const struct kiln_prompt_ids *prompts, size_t n,
                                struct kiln_graph_cache *graphs, kt *ret_features,
                                struct kiln_error *ret_unrecorded);

#endif
