/* batch_steps.c - see batch_steps.h. */
#include "worker/engine/batch_steps.h"

#include "schemas/limits.h"

int32_t kiln_batch_steps_usual(const char *dir)
{
    struct kiln_model_card card;
    struct kiln_error later;
    if (!dir || kiln_model_card_read(dir, &card, &later) || card.steps == 0)
        return KILN_STEPS_DEFAULT;
    return (int32_t)card.steps;
}

int kiln_batch_set_steps(DiffusionZBatch *batch, const struct kiln_model_card *card,
                         const char *dir, struct kiln_batch_steps *keep, struct kiln_error *err)
{
    batch->sigmas = kiln_model_card_sigmas(card, (uint32_t)batch->num_steps);
    if (card->weight_count == 0 || (uint32_t)batch->num_steps != card->steps)
        return 0;
    batch->step_lora_count = batch->step_transformer_count = 0;
    int code = kiln_card_weights_check(card, dir, err);
    if (code)
        return code;
    for (uint32_t i = 0; i < card->weight_count; i++) {
        const struct kiln_card_weights *w = &card->weights[i];
        if (w->transformer) {
            keep->transformers[batch->step_transformer_count++] =
                (DiffusionZStepTransformer){w->path, (int32_t)w->first, (int32_t)w->end};
            continue;
        }
        kiln_card_weights_path(w, dir, keep->paths[i]);
        keep->loras[batch->step_lora_count++] = (DiffusionZStepLora){
            {keep->paths[i], (float)w->scale}, (int32_t)w->first, (int32_t)w->end};
    }
    batch->step_loras = keep->loras;
    batch->step_transformers = keep->transformers;
    return 0;
}
