/* many.c - the features of several prompts: in one pass (packed.c) if the encoder is packed, else
 * one prompt after the other (encoder.c).
 */
#include "pipeline/text/encoder_parts.h"

void kiln_text_encoder_run_many(const struct kiln_text_encoder *te, struct kt_scope *s,
                                const struct kiln_prompt_ids *prompts, size_t n,
                                struct kiln_graph_cache *graphs, kt *ret_features,
                                struct kiln_error *ret_unrecorded)
{
    if (ret_unrecorded)
        *ret_unrecorded = (struct kiln_error){.code = 0};
    for (size_t i = 0; i < n; i++)
        ret_features[i] = NULL;
    if (te->packed) {
        kiln_text_packed_run(te, s, prompts, n, graphs, ret_features, ret_unrecorded);
        return;
    }
    for (size_t i = 0; i < n; i++)
        ret_features[i] = kiln_text_encoder_run(te, s, prompts[i].ids, prompts[i].count);
}
