/* call.c - the mode of a call, as arguments of the engine; see call.h. */
#include "worker/stages/call.h"

#include <string.h>

#include "worker/engine/batch_mode.h"

/* COARSE_AUTO where it does not fit is exact: so are cached latents and trajectories. */
static struct kiln_mode decide(const struct kiln_call *call, const struct kiln_renderer *engine)
{
    const struct kiln_assignment *assignment = &call->flight->assignment;
    const struct kiln_job *job = &assignment->jobs[call->index[0]];
    if (call->reused_from > 0)
        return (struct kiln_mode){
            .kind = KILN_MODE_START_STEP, .step = call->reused_from, .reused = true};
    const bool fits =
        job->kind != KILN_KIND_LATENT_CACHE && job->latents != KILN_LATENTS_TRAJECTORY;
    if (assignment->mode.kind == KILN_MODE_COARSE_AUTO && !fits)
        return (struct kiln_mode){.kind = KILN_MODE_EXACT, .variety = assignment->mode.variety};
    const char *colon = strrchr(call->lora_files, ':'); /* before the hash of the last LoRA */
    const struct kiln_card_picture picture = {
        .width = assignment->width,
        .height = assignment->height,
        .steps = assignment->steps,
        .guidance = job->guidance,
        .lora_count = assignment->lora_count,
        .lora_sha256 = colon ? colon + 1 : NULL,
        .lora_scale = assignment->loras[0].scale,
    };
    return kiln_model_card_mode(&engine->card, &assignment->mode, &picture);
}

/* The cost of the steps, in steps at full size. */
static double cost(const DiffusionZBatch *batch, uint32_t steps)
{
    const double full = (double)batch->width * batch->height;
    const double small = (double)batch->coarse_width * batch->coarse_height;
    return steps - batch->coarse_steps * (1 - small / full);
}

int kiln_call_set_mode(struct kiln_call *call, const struct kiln_renderer *engine,
                       DiffusionZBatch *batch)
{
    const bool automatic = call->flight->assignment.mode.kind == KILN_MODE_COARSE_AUTO;
    call->mode = decide(call, engine);
    const struct kiln_model_card *card = &engine->card;
    if (!kiln_batch_set_mode(batch, &call->mode, card->coarse_sizes, card->coarse_size_count)) {
        if (!automatic)
            return kiln_fail(&call->err, KILN_UNSUPPORTED,
                             "coarse: " KILN_MODEL_CARD
                             " of model %s lists no small size for %dx%d",
                             engine->model_name, batch->width, batch->height);
        call->mode = (struct kiln_mode){.kind = KILN_MODE_EXACT, .variety = call->mode.variety};
    }
    int code = kiln_batch_set_steps(batch, card, engine->model_dir, &call->own_steps, &call->err);
    if (code != 0)
        return code;
    call->own_sigmas = batch->sigmas != NULL;
    call->coarse_width = (uint32_t)batch->coarse_width;
    call->coarse_height = (uint32_t)batch->coarse_height;
    call->steps = (uint32_t)engine->forwards(engine, batch);
    call->forwards = cost(batch, call->steps);
    return 0;
}
