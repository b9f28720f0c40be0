/* phases.c - the phases of a batch: at which size and through which sigmas its items go.
 *
 * A run has one phase; coarse first has two, or three with a third level.  The small phase takes
 * the first sigmas of the schedule and strides from the last of them to 0 at once: that step ends
 * at x - sigma * dx/dsigma, which is the prediction of the clean latent.  So the hand-over
 * (start.c) finds a clean latent, as every start is, and no phase needs a step of its own kind.
 * The middle phase takes the sigmas that follow in the same way.  The predictions of an edit by
 * difference are such phases, too: a schedule of one step, at the size of the pictures.
 *
 * Where the model has other weights for other steps, LoRAs or a transformer, a phase is divided:
 * its parts go on from each other's states, and between them the weights change once for all items.
 * Which weights a step has depends on its noise level alone, so that a run that starts in the
 * middle, or walks the rest of the levels in steps of its own, has those that were trained for
 * them.
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

/* The phases that have been listed. */
struct list {
    const struct kiln_engine *e;
    const DiffusionZBatch *batch;
    struct kiln_schedule whole; /* of the batch: all steps, from noise */
    struct kiln_phase *phases;
    int count, row;
};

/* The weights of a step at this noise level: those of the last step of the schedule that is not
 * below it. */
static struct kiln_step_weights weights_at(const struct list *list, float sigma)
{
    const DiffusionZBatch *b = list->batch;
    struct kiln_step_weights ret = {.loras = 0};
    int step = 0;
    while (step + 1 < list->whole.steps &&
           (double)list->whole.sigmas[step + 1] >= (double)sigma - KILN_SIGMA_MARGIN)
        step++;
    for (int i = 0; i < b->step_lora_count; i++)
        if (step >= b->step_loras[i].first && step < b->step_loras[i].end)
            ret.loras |= UINT32_C(1) << i;
    for (int i = 0; i < b->step_transformer_count; i++)
        if (step >= b->step_transformers[i].first && step < b->step_transformers[i].end)
            ret.set = kiln_engine_set(list->e, b->step_transformers[i].folder);
    return ret;
}

static bool same_weights(struct kiln_step_weights a, struct kiln_step_weights b)
{
    return a.loras == b.loras && a.set == b.set;
}

bool kiln_phase_same_weights(const struct kiln_phase *a, const struct kiln_phase *b)
{
    return same_weights(a->weights, b->weights);
}

/* Adds a phase, divided where its weights change. */
static void add(struct list *list, const struct kiln_phase *whole)
{
    const float *sigmas = whole->schedule.sigmas;
    const int steps = whole->schedule.steps;
    for (int first = 0, count = 1; first < steps; first += count, count = 1) {
        const struct kiln_step_weights weights = weights_at(list, sigmas[first]);
        while (first + count < steps &&
               same_weights(weights_at(list, sigmas[first + count]), weights))
            count++;
        struct kiln_phase *part = &list->phases[list->count++];
        *part = *whole;
        kiln_schedule_part(&part->schedule, first, count);
        kiln_schedule_renew(&part->schedule, list->e->renewed);
        part->weights = weights;
        part->row = list->row;
        list->row += count;
        if (first + count < steps)
            part->result = KILN_RESULT_STATE;
    }
}

/* Adds `count` steps of the schedule, from step `first` on, that end with a prediction at a smaller
 * size; none if count is 0. */
static void add_smaller(struct list *list, int first, int count, int width, int height)
{
    const struct kiln_model_config *config = &list->e->config;
    struct kiln_phase phase = {.schedule = list->whole,
                               .height = height / config->vae.factor,
                               .width = width / config->vae.factor};
    if (count == 0)
        return;
    kiln_schedule_skip(&phase.schedule, &config->sampler, first);
    kiln_schedule_cut(&phase.schedule, &config->sampler, count);
    add(list, &phase);
}

int kiln_phases_fill(const struct kiln_engine *e, const DiffusionZBatch *b,
                     struct kiln_phase ret[KILN_PHASES_MAX])
{
    const int factor = e->config.vae.factor;
    struct list list = {.e = e, .batch = b, .phases = ret};
    struct kiln_phase phase = {.height = b->height / factor, .width = b->width / factor};
    fill(&list.whole, &e->config.sampler, b);
    add_smaller(&list, b->coarse_skip, b->coarse_steps - b->coarse_skip, b->coarse_width,
                b->coarse_height);
    add_smaller(&list, b->coarse_steps, b->middle_steps, b->middle_width, b->middle_height);
    for (int result = KILN_RESULT_BEFORE; b->by_difference && result <= KILN_RESULT_AFTER;
         result++) {
        phase.result = (enum kiln_phase_result)result;
        kiln_schedule_fill(&phase.schedule, &e->config.sampler, 1);
        add(&list, &phase);
    }
    phase.result = KILN_RESULT_LATENT;
    phase.schedule = schedule_of(&e->config.sampler, b);
    add(&list, &phase);
    return list.count;
}

double kiln_phases_start_sigma(const struct kiln_engine *e, const DiffusionZBatch *b)
{
    struct kiln_schedule whole;
    if (b->coarse_skip == 0)
        return (double)schedule_of(&e->config.sampler, b).sigmas[0];
    fill(&whole, &e->config.sampler, b);
    return (double)whole.sigmas[b->coarse_skip];
}

kt kiln_phase_caption(const struct kiln_run *r, const struct kiln_item *item)
{
    return r->phase->result == KILN_RESULT_BEFORE ? item->start_caption : item->caption;
}

const struct kiln_phase *kiln_run_full(const struct kiln_run *r)
{
    return &r->phases[r->phase_count - 1];
}
