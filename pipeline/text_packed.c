/* text_packed.c - several prompts through the text encoder; see text_encoder.h. */
#include "pipeline/text_encoder.h"

void kiln_text_encoder_run_many(const struct kiln_text_encoder *te, struct kt_scope *s,
                                const struct kiln_prompt_ids *prompts, size_t n, kt *ret_features)
{
    for (size_t i = 0; i < n; i++)
        ret_features[i] = kiln_text_encoder_run(te, s, prompts[i].ids, prompts[i].count);
}
