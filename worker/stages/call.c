/* call.c - the mode of a call, as arguments of the engine; see call.h. */
#include "worker/stages/call.h"

#include <string.h>

#include "worker/engine/batch_mode.h"

/* What the job's mode means here.  COARSE_AUTO where it does not fit is exact: so are cached
 * latents and trajectories. */
static struct kiln_mode own_mode(const struct kiln_call *call, const struct kiln_renderer *engine)
{
    const struct kiln_assignment *assignment = &call->flight->assignment;
    const struct kiln_job *job = &assignment->jobs[call->index[0]];
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

static uint32_t least(uint32_t a, int32_t b)
{
    return a < (uint32_t)b ? a : (uint32_t)b;
}

/* The cost of the first so many steps, in steps at full size. */
static double cost(const DiffusionZBatch *batch, uint32_t steps)
{
    const double full = (double)batch->width * batch->height;
    const double small = (double)batch->coarse_width * batch->coarse_height;
    const double middle = (double)batch->middle_width * batch->middle_height;
    const uint32_t at_small = least(steps, batch->coarse_steps - batch->coarse_skip);
    const uint32_t at_middle = least(steps - at_small, batch->middle_steps);
    return steps - at_small * (1 - small / full) - at_middle * (1 - middle / full);
}

/* Fills the batch's fields for the mode; automatic: a mode that finds no small size is exact. */
static bool set_mode(const struct kiln_renderer *engine, bool automatic, struct kiln_mode *mode,
                     DiffusionZBatch *batch)
{
    const struct kiln_model_card *card = &engine->card;
    if (kiln_batch_set_mode(batch, mode, card->coarse_sizes, card->coarse_size_count))
        return true;
    if (automatic)
        *mode = (struct kiln_mode){.kind = KILN_MODE_EXACT, .variety = mode->variety};
    return automatic;
}

/* What the batch would cost without its donors; no fields for its mode are filled yet. */
static double own_cost(const struct kiln_renderer *engine, struct kiln_mode mode,
                       const DiffusionZBatch *batch)
{
    DiffusionZBatch own = *batch;
    (void)set_mode(engine, true, &mode, &own);
    return cost(&own, (uint32_t)engine->forwards(engine, &own));
}

int kiln_call_set_mode(struct kiln_call *call, const struct kiln_renderer *engine,
                       DiffusionZBatch *batch)
{
    const bool automatic = call->flight->assignment.mode.kind == KILN_MODE_COARSE_AUTO;
    call->mode = own_mode(call, engine);
    if (call->reused_from > 0) {
        call->own_forwards = own_cost(engine, call->mode, batch);
        if (call->reused_coarse &&
            (call->mode.kind != KILN_MODE_COARSE || call->reused_from >= call->mode.small))
            return kiln_fail(&call->err, KILN_INTERNAL,
                             "a run that is not coarse first has a start for its small steps");
        call->mode = kiln_mode_begun_at(&call->mode, call->reused_from, call->reused_coarse);
    }
    if (!set_mode(engine, automatic, &call->mode, batch))
        return kiln_fail(&call->err, KILN_UNSUPPORTED,
                         "coarse: " KILN_MODEL_CARD " of model %s lists no small size for %dx%d",
                         engine->model_name, batch->width, batch->height);
    int code =
        kiln_batch_set_steps(batch, &engine->card, engine->model_dir, &call->own_steps, &call->err);
    if (code != 0)
        return code;
    call->own_sigmas = batch->sigmas != NULL;
    call->noise = engine->card.noise;
    call->coarse_width = (uint32_t)batch->coarse_width;
    call->coarse_height = (uint32_t)batch->coarse_height;
    call->middle_width = (uint32_t)batch->middle_width;
    call->middle_height = (uint32_t)batch->middle_height;
    call->steps = (uint32_t)engine->forwards(engine, batch);
    call->forwards = cost(batch, call->steps);
    if (kiln_mode_starts(&call->mode) || call->mode.reused)
        (void)kiln_mode_sigma(engine->start_sigma(engine, batch), &call->start_sigma);
    return 0;
}

double kiln_call_begun_forwards(const struct kiln_call *call, const struct kiln_renderer *engine,
                                uint32_t begun)
{
    const struct kiln_assignment *assignment = &call->flight->assignment;
    DiffusionZBatch batch = {.width = (int32_t)assignment->width,
                             .height = (int32_t)assignment->height};
    struct kiln_mode mode = call->mode;
    (void)set_mode(engine, true, &mode, &batch);
    return cost(&batch, begun);
}

bool kiln_call_kind_of(const struct kiln_assignment *assignment, const struct kiln_job *job,
                       struct kiln_call_kind *ret)
{
    *ret = (struct kiln_call_kind){.width = assignment->width,
                                   .height = assignment->height,
                                   .steps = assignment->steps,
                                   .loras = assignment->lora_count};
    kiln_mode_text(&assignment->mode, ret->mode);
    return job->guidance == 0 && job->kind == KILN_KIND_IMAGE &&
           job->latents != KILN_LATENTS_TRAJECTORY;
}
