/* phases.c - the phases of a batch: at which size and through which sigmas its items go.
 *
 * A run has one phase; coarse first has two.  The small phase takes the first sigmas of the
 * schedule and strides from the last of them to 0 at once: that step ends at x - sigma * dx/dsigma,
 * which is the prediction of the clean latent.  So the hand-over (start.c) finds a clean latent,
 * as every start is, and no phase needs a step of its own kind.  The predictions of an edit by
 * difference are such phases, too: a schedule of one step, at the size of the pictures.
 */
#include "pipeline/engine/parts.h"

static void fill(struct kiln_schedule *schedule, const struct kiln_sampler_config *config,
                 const DiffusionZBatch *b)
{
    if (b->sigmas)
        kiln_schedule_list(schedule, config, b->sigmas, b->num_steps);
    else
        kiln_schedule_fill(schedule, config, b->num_steps);
}

static struct kiln_schedule schedule_of(const struct kiln_sampler_config *config,
                                        const DiffusionZBatch *b)
{
    struct kiln_schedule schedule;
    if (b->start == DIFFUSIONZ_FROM_SIGMA && b->rest_steps > 0) {
        kiln_schedule_even(&schedule, config, b->start_sigma, b->rest_steps);
        return schedule;
    }
    fill(&schedule, config, b);
    if (b->start == DIFFUSIONZ_FROM_STEP)
        kiln_schedule_skip(&schedule, config, b->start_step);
    if (b->start == DIFFUSIONZ_FROM_SIGMA)
        kiln_schedule_from(&schedule, config, b->start_sigma);
    return schedule;
}

int kiln_phases_fill(const struct kiln_engine *e, const DiffusionZBatch *b,
                     struct kiln_phase ret[KILN_PHASES_MAX])
{
    const int factor = e->config.vae.factor;
    int count = 0;
    if (b->coarse_steps > 0) {
        struct kiln_phase *small = &ret[count++];
        *small = (struct kiln_phase){.height = b->coarse_height / factor,
                                     .width = b->coarse_width / factor};
        fill(&small->schedule, &e->config.sampler, b);
        kiln_schedule_cut(&small->schedule, &e->config.sampler, b->coarse_steps);
    }
    for (int result = KILN_RESULT_BEFORE; b->by_difference && result <= KILN_RESULT_AFTER;
         result++) {
        struct kiln_phase *one = &ret[count];
        *one = (struct kiln_phase){.height = b->height / factor,
                                   .width = b->width / factor,
                                   .row = count++,
                                   .result = (enum kiln_phase_result)result};
        kiln_schedule_fill(&one->schedule, &e->config.sampler, 1);
    }
    const struct kiln_phase *before = count > 0 ? &ret[count - 1] : NULL;
    ret[count] = (struct kiln_phase){.schedule = schedule_of(&e->config.sampler, b),
                                     .height = b->height / factor,
                                     .width = b->width / factor,
                                     .row = before ? before->row + before->schedule.steps : 0};
    return count + 1;
}

kt kiln_phase_caption(const struct kiln_run *r, const struct kiln_item *item)
{
    return r->phase->result == KILN_RESULT_BEFORE ? item->start_caption : item->caption;
}

const struct kiln_phase *kiln_run_full(const struct kiln_run *r)
{
    return &r->phases[r->phase_count - 1];
}
