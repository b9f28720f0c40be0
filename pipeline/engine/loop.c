/* loop.c - the steps of a group, beside the decodes of the group before (decode.c).
 *
 * The host stays KILN_STEPS_QUEUED_MAX steps ahead of a GPU.  Each step copies a flag to the host
 * that says whether its latent is finite; the flag's arrival marks the end of the step.  On the CPU
 * the flag arrives at once, and the same code is a plain loop.
 *
 *     main stream   start  step 0 .. step n-1 | start  step 0 ...
 *     side stream                             | decode, copies of all sizes and the latent
 */
#include "pipeline/engine/parts.h"

static void make_buffers(const struct kiln_run *r, struct kiln_shape_plan *plan)
{
    const struct kiln_transformer_config *c = &r->e->config.transformer;
    const struct kiln_shape *shape = &plan->shape;
    enum kt_dtype dtype = r->e->dtype;
    struct kt_scope *s = plan->scope;
    int64_t h = r->phase->height / c->patch, w = r->phase->width / c->patch,
            pad = kiln_pad_rows(h * w);
    const int64_t n = shape->items, columns = kiln_residual_columns(r->set->transformer);
    plan->latent =
        kt_zeros(s, KT_F32, 4, (int64_t[]){n, c->channels, r->phase->height, r->phase->width});
    plan->caption = kt_zeros(s, dtype, 2, (int64_t[]){n * shape->caption_rows, columns});
    plan->rope = kiln_rope_joint(s, c, h, w, pad, shape->caption_rows);
    if (shape->negative_rows > 0) {
        plan->negative = kt_zeros(s, dtype, 2, (int64_t[]){n * shape->negative_rows, columns});
        plan->negative_rope = kiln_rope_joint(s, c, h, w, pad, shape->negative_rows);
    }
    plan->modulation = kt_zeros(s, KT_F32, 2, (int64_t[]){1, kiln_time_width(r->set->transformer)});
    plan->stride = kt_zeros(s, KT_F32, 1, (int64_t[]){n});
    plan->bad = kt_zeros(s, KT_I32, 1, (int64_t[]){n});
}

/* The plan of the group's shape with its buffers, or NULL with the group abandoned. */
static struct kiln_shape_plan *plan_for(struct kiln_run *r, const struct kiln_group *group)
{
    struct kiln_graph_cache *graphs = r->e->graphs;
    const struct kiln_item *item = group->items[0];
    const struct kiln_shape shape = {.items = group->count,
                                     .height = r->phase->height,
                                     .width = r->phase->width,
                                     .caption_rows = kt_size(kiln_phase_caption(r, item), 0),
                                     .negative_rows = kt_size(item->negative, 0),
                                     .guidance = item->negative ? r->batch->guidance_scale : 0,
                                     .set = r->phase->weights.set,
                                     .arrangement = kiln_loras_arrangement(r->set->loras)};
    struct kiln_error err;
    for (int attempt = 0; attempt < 2; attempt++) {
        struct kiln_shape_plan *plan = kiln_graph_cache_get(graphs, &shape);
        if (plan->scope && !plan->latent)
            make_buffers(r, plan);
        int code = kt_scope_check(plan->scope, &err);
        if (code == 0)
            return plan;
        kiln_memory_release(r, true);
        if (code != KILN_NO_MEMORY)
            break;
    }
    kiln_memory_abandon(r, group, &err);
    return NULL;
}

/* The i'th item's part of a buffer, a view. */
static kt latent_of(const struct kiln_shape_plan *plan, struct kt_scope *s, int i)
{
    const int64_t shape[3] = {kt_size(plan->latent, 1), kt_size(plan->latent, 2),
                              kt_size(plan->latent, 3)};
    return kt_reshape(s, kt_narrow(s, plan->latent, 0, i, 1), 3, shape);
}

/* Copies the item's caption into its part of a buffer for all items. */
static void put_caption(struct kt_scope *s, kt buffer, int i, kt caption)
{
    const int64_t rows = kt_size(caption, 0);
    kt_copy_into(s, kt_narrow(s, buffer, 0, i * rows, rows), caption);
}

/* Copies the items' starts and captions into the buffers. */
static void fill_buffers(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                         void *arg)
{
    struct kiln_shape_plan *plan = arg;
    for (int i = 0; i < group->count; i++) {
        const struct kiln_item *item = group->items[i];
        if (item->ended)
            continue;
        kt_copy_into(s, latent_of(plan, s, i), kiln_start_state(r, s, item));
        put_caption(s, plan->caption, i, kiln_phase_caption(r, item));
        if (plan->negative)
            put_caption(s, plan->negative, i, item->negative);
    }
    kt_copy_into(s, plan->bad, kt_zeros(s, KT_I32, 1, (int64_t[]){plan->shape.items}));
}

/* The captions of items with variety change from step to step.  A difference of two prompts is that
 * of the prompts as they are. */
static void put_varied(const struct kiln_run *r, struct kt_scope *s,
                       const struct kiln_shape_plan *plan, const struct kiln_group *group, int step)
{
    const bool difference =
        r->phase->result == KILN_RESULT_BEFORE || r->phase->result == KILN_RESULT_AFTER;
    for (int i = 0; i < group->count && !difference; i++) {
        const struct kiln_item *item = group->items[i];
        if (item->ended || !item->feature_noise)
            continue;
        kt caption = kiln_variety_caption(r, s, item, step);
        if (caption)
            put_caption(s, plan->caption, i, caption);
    }
}

struct step_work {
    const struct kiln_run *r;
    const struct kiln_shape_plan *plan;
};

static void run_step(struct kt_scope *s, const void *arg)
{
    const struct step_work *work = arg;
    const struct kiln_shape_plan *plan = work->plan;
    const struct kiln_step step = {.forward = {.items = plan->shape.items,
                                               .latent = plan->latent,
                                               .caption = plan->caption,
                                               .rope = plan->rope,
                                               .modulation = plan->modulation},
                                   .negative = plan->negative,
                                   .negative_rope = plan->negative_rope,
                                   .guidance = (double)plan->shape.guidance,
                                   .stride = plan->stride,
                                   .bad = plan->bad};
    kiln_sampler_step(work->r->set->transformer, s, &step);
}

/* Records the plan's step.  On failure later steps are computed: slower, with the same bits. */
static void record(const struct kiln_run *r, struct kiln_shape_plan *plan)
{
    const struct step_work work = {r, plan};
    struct kiln_error err;
    kt_device_trim(r->e->device); /* the graph needs activations of its own */
    if (kiln_graph_cache_record(r->e->graphs, plan, run_step, &work, &err)) {
        kiln_run_note(r, "steps of this size and larger are not recorded as graphs: %s", err.text);
        kt_device_trim(r->e->device);
    }
}

struct step_args {
    struct kiln_shape_plan *plan;
    int step;
    bool queued;             /* the step is queued; a second try must not repeat it */
    struct kt_fetch *change; /* of a first step, until it is with the queued ones */
    bool checked;            /* it is such a step */
    int settled;             /* items with noise and mask after it */
};

/* After a step, replaces what the items renew of their noise, and what their masks keep; false,
 * with the scope failed, if that has to be tried again. */
static bool settle(const struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                   struct step_args *args)
{
    const float sigma = r->phase->schedule.sigmas[args->step + 1];
    struct kiln_error err;
    const bool renews = kiln_renews(r, args->step);
    for (; args->settled < group->count; args->settled++) {
        const struct kiln_item *item = group->items[args->settled];
        if (item->ended || !(renews || item->mask))
            continue;
        kt state = latent_of(args->plan, s, args->settled);
        kt next = renews ? kiln_renew(r, s, item, state, args->step) : state;
        if (item->mask)
            next = kiln_mask_apply(s, item, next, sigma);
        kt_copy_into(s, state, next);
        if (kt_scope_check(s, &err))
            return false;
    }
    return true;
}

/* Whether the phase is one of the smaller sizes of a run that is coarse first. */
static bool is_small(const struct kiln_run *r)
{
    const struct kiln_phase *full = kiln_run_full(r);
    return kiln_run_pixels(r) < full->height * full->width;
}

/* Queues a step, what follows for its items, and the copies of its flags and, after a first step,
 * of what it has changed. */
static void queue_step(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                       void *arg)
{
    struct step_args *args = arg;
    struct kiln_shape_plan *plan = args->plan;
    const int64_t items = plan->shape.items, one[2] = {1, 1};
    const int row = r->phase->row + args->step;
    kt before[KILN_GROUP_MAX];
    struct kiln_error err;
    if (!args->queued) {
        const bool changes =
            args->step == 0 && kiln_change_before(r, s, group, plan->latent, before);
        for (int i = 0; i < group->count; i++) {
            kt trajectory = group->items[i]->trajectory; /* NULL: not wanted, or ended */
            if (trajectory)
                kt_copy_into(s, kt_narrow(s, trajectory, 0, row, 1),
                             kt_narrow(s, plan->latent, 0, i, 1));
        }
        put_varied(r, s, plan, group, args->step);
        kt_copy_into(s, plan->modulation, kt_narrow(s, r->set->times, 0, row, 1));
        kt stride = kt_reshape(s, kt_narrow(s, r->set->strides, 0, row, 1), 2, one);
        kt_copy_into(s, plan->stride, kt_reshape(s, kt_repeat_rows(s, stride, items), 1, &items));
        if (!kiln_memory_is_tight(r) && kiln_graph_cache_should_record(r->e->graphs, plan))
            record(r, plan);
        const bool computed = !plan->graph;
        if (!is_small(r))
            kt_span_end(r->e->hand_over);
        if (computed)
            run_step(s, &(struct step_work){r, plan});
        else
            kt_graph_replay(plan->graph, s);
        if (kt_scope_check(s, &err))
            return;
        args->queued = true;
        if (changes)
            args->change = kiln_change_fetch(r, group, plan->latent, before);
        args->checked = changes;
        r->new_shape = r->new_shape || !plan->warm;
        if (computed)
            kiln_graph_cache_warm(plan);
    }
    if (!settle(r, s, group, args))
        return;
    struct kt_fetch *bad = kt_fetch_start(s, plan->bad);
    if (!bad)
        return;
    r->queued[r->queued_count].group = *group;
    r->queued[r->queued_count].step = row;
    r->queued[r->queued_count].change = args->change;
    r->queued[r->queued_count++].bad = bad;
    args->change = NULL;
}

/* Only if there is memory for all: a group that is split starts again from what its items had. */
static void keep_latents(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                         void *arg)
{
    kt copies[KILN_GROUP_MAX];
    struct kiln_error err;
    for (int i = 0; i < group->count; i++)
        copies[i] = group->items[i]->ended
                        ? NULL
                        : kiln_start_result(r, s, group->items[i], latent_of(arg, s, i));
    if (kt_scope_check(s, &err))
        return;
    for (int i = 0; i < group->count; i++) {
        struct kiln_item *item = group->items[i];
        if (item->ended)
            continue;
        kiln_start_keep(r, item, copies[i]);
        if (r->phase != kiln_run_full(r))
            continue;
        kt_drop(item->scope, item->noise);
        item->noise = NULL;
    }
}

void kiln_loop_denoise(struct kiln_run *r, const struct kiln_group *group)
{
    for (int i = 0; i < group->count; i++)
        group->items[i]->begun = true;
    struct kiln_shape_plan *plan = plan_for(r, group);
    bool whole = plan && kiln_memory_try_group(r, group, fill_buffers, plan);
    kiln_text_wait(r);
    const int steps = r->phase->schedule.steps, busy = steps < 2 ? steps - 1 : 1;
    for (int step = 0; step < steps && whole && kiln_group_alive(group); step++) {
        if (r->queued_count == KILN_STEPS_QUEUED_MAX)
            kiln_steps_take(r);
        struct step_args args = {.plan = plan, .step = step};
        if (kiln_group_alive(group))
            whole = kiln_memory_try_group(r, group, queue_step, &args);
        kt_fetch_free(args.change); /* of a step that failed */
        while (args.checked && r->queued_count > 0 && kt_fetch_arrived(r->queued[0].bad))
            kiln_steps_take(r); /* before another step, where that waits for nothing */
        if (step == busy && whole)
            kiln_start_prepare_noise(r, group);
    }
    if (is_small(r))
        kt_span_begin(r->e->hand_over);
    if (whole && kiln_group_alive(group))
        kiln_memory_try_group(r, group, keep_latents, plan);
}
