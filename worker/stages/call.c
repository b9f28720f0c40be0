/* call.c - the mode of a call, as arguments of the engine; see call.h. */
#include "worker/stages/call.h"

#include "schemas/job/coarse.h"

/* COARSE_AUTO where it does not fit is exact: so are cached latents and trajectories. */
static struct kiln_mode decide(const struct kiln_call *call, const struct kiln_renderer *engine)
{
    const struct kiln_assignment *assignment = &call->flight->assignment;
    const struct kiln_job *job = &assignment->jobs[call->index[0]];
    const bool fits =
        job->kind != KILN_KIND_LATENT_CACHE && job->latents != KILN_LATENTS_TRAJECTORY;
    if (assignment->mode.kind == KILN_MODE_COARSE_AUTO && !fits)
        return (struct kiln_mode){.kind = KILN_MODE_EXACT};
    return kiln_model_card_mode(&engine->card, &assignment->mode, assignment->width,
                                assignment->height, assignment->steps, job->guidance);
}

/* Fills the batch for coarse first; false if the model has no small size for this one. */
static bool set_coarse(const struct kiln_mode *mode, const struct kiln_renderer *engine,
                       DiffusionZBatch *batch)
{
    const struct kiln_picture_size full = {(uint32_t)batch->width, (uint32_t)batch->height};
    struct kiln_picture_size small;
    if (!kiln_coarse_size(full, engine->card.coarse_sizes, engine->card.coarse_size_count, &small))
        return false;
    batch->coarse_steps = (int32_t)mode->small;
    batch->coarse_width = (int32_t)small.width;
    batch->coarse_height = (int32_t)small.height;
    batch->start = DIFFUSIONZ_FROM_SIGMA;
    batch->start_sigma = mode->sigma;
    batch->rest_steps = (int32_t)mode->full;
    return true;
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
    switch (call->mode.kind) {
    case KILN_MODE_COARSE:
        if (set_coarse(&call->mode, engine, batch))
            break;
        if (!automatic)
            return kiln_fail(&call->err, KILN_UNSUPPORTED,
                             "coarse: " KILN_MODEL_CARD
                             " of model %s lists no small size for %dx%d",
                             engine->model_name, batch->width, batch->height);
        call->mode = (struct kiln_mode){.kind = KILN_MODE_EXACT};
        break;
    case KILN_MODE_START_STEP:
        batch->start = DIFFUSIONZ_FROM_STEP;
        batch->start_step = (int32_t)call->mode.step;
        break;
    case KILN_MODE_START_SIGMA:
        batch->start = DIFFUSIONZ_FROM_SIGMA;
        batch->start_sigma = call->mode.sigma;
        break;
    case KILN_MODE_EXACT:
    case KILN_MODE_COARSE_AUTO: /* decided above */
        break;
    }
    call->coarse_width = (uint32_t)batch->coarse_width;
    call->coarse_height = (uint32_t)batch->coarse_height;
    call->steps = (uint32_t)engine->forwards(engine, batch);
    call->forwards = cost(batch, call->steps);
    return 0;
}
