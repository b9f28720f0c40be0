/* encoder.h - token ids to the features the transformer reads: Qwen3, of which the residual
 * stream before the last layer is taken (hidden_states[-2]); the last layer, the final norm and
 * the head are never loaded.
 *
 * With 8-bit weights a sixteenth of the layers stays plain at either end: the first ones raise the
 * few huge values on which the others lean, and what the last ones round is in the result.
 *
 * Prompts are encoded one by one and unpadded: attention is causal, so that padding behind a
 * prompt could not change it anyway.
 */
#ifndef KILN_TEXT_ENCODER_H
#define KILN_TEXT_ENCODER_H

#include "pipeline/model/config.h"
#include "pipeline/torch/tensor.h"

struct kiln_fp8_cache;
struct kiln_graph_cache;
struct kiln_text_encoder;

/* dir: the folder text_encoder, or NULL for random weights.  The weights live in scope, which must
 * outlive the encoder.  dtype KT_E4M3: bf16, with quantised rows for the layers' matrices, from the
 * cache where it has them (it may be NULL). */
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
/* The features of several prompts, each the bits that kiln_text_encoder_run gives for it alone.
 * graphs, unless it is NULL, keeps recordings of short passes of this encoder, and of no other,
 * for scopes of the main lane; a replay gives the same bits.  ret_features[n]: in s, NULL with the
 * scope's error set if it fails.  A pass that could not be recorded is computed, which is no
 * failure: *ret_unrecorded, unless it is NULL, says which and why, with code 0 if there was none.
 */
void kiln_text_encoder_run_many(const struct kiln_text_encoder *te, struct kt_scope *s,
                                const struct kiln_prompt_ids *prompts, size_t n,
                                struct kiln_graph_cache *graphs, kt *ret_features,
                                struct kiln_error *ret_unrecorded);

#endif
