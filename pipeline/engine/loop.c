/* loop.c - the steps of a group, and the decodes of its items beside the steps of the next.
 *
 * The host is always KILN_STEPS_AHEAD steps in front of a GPU: behind every step the mark of its
 * latent comes back by itself, and its arrival is how the end of the step is seen.  On the CPU it
 * arrives at once, and the same code is a plain loop.
 *
 *     main lane   noise  step 0 .. step n-1 | noise  step 0 ...
 *     side lane                             | decode, all sizes and latent on their way to the host
 *
 * Memory that is not enough is no failure yet: what can be done without (graphs, work side by side)
 * is given back, and the operation is asked for again.  A group that does not fit then comes again
 * in smaller ones; the size of a picture alone is remembered as one that has to do without from the
 * start.  A decode that does not fit then is done in strips, and in ever lower ones, whose pixels
 * may differ by a rounding.
 */
#include <stdarg.h>
#include <stdio.h>

#include "pipeline/engine/parts.h"

/* --- steps that have ended -------------------------------------------------------------------- */

/* All items' steps together, as steps of the batch; what has ended early has done its own. */
static void show_progress(struct kiln_run *r)
{
    const DiffusionZBatch *b = r->batch;
    int done = 0;
    for (int i = 0; i < b->item_count; i++)
        done += r->items[i].ended ? b->num_steps : r->items[i].steps_done;
    if (done / b->item_count > r->progress)
        r->progress = done / b->item_count; /* steps may come again, where a group is split */
    if (b->progress)
        __atomic_store_n(b->progress, r->progress, __ATOMIC_RELEASE);
}

/* Notes how a step has ended for an item; mark: whether its latent is not finite any more. */
static void take_item_step(const struct kiln_run *r, struct kiln_item *item, int step, bool mark)
{
    struct kiln_error err;
    if (mark) {
        kiln_fail(&err, KILN_NOT_FINITE, "non-finite latent at step %d of %d%s", step + 1,
                  r->batch->num_steps, r->loras);
        kiln_item_end(item, &err);
    }
    item->steps_done = step + 1;
}

/* Waits for the oldest step ahead and notes how it has ended. */
static void take_step(struct kiln_run *r)
{
    const struct kiln_group *group = &r->ahead[0].group;
    struct kt_fetch *bad = r->ahead[0].bad;
    struct kiln_error err;
    size_t bytes;
    const int code = kt_fetch_wait(bad, &err);
    const int32_t *marks = code ? NULL : kt_fetch_data(bad, &bytes);
    if (code)
        kiln_group_end(group, &err);
    for (int i = 0; i < group->count; i++)
        take_item_step(r, group->items[i], r->ahead[0].step, marks && marks[i]);
    kt_fetch_free(bad);
    r->ahead_count--;
    for (int i = 0; i < r->ahead_count; i++)
        r->ahead[i] = r->ahead[i + 1];
    show_progress(r);
}

bool kiln_loop_is_denoising(const struct kiln_run *r)
{
    return r->ahead_count > 0 && !kt_fetch_arrived(r->ahead[r->ahead_count - 1].bad);
}

void kiln_loop_drain(struct kiln_run *r)
{
    while (r->ahead_count > 0)
        take_step(r);
    show_progress(r);
}

/* Notes what the engine does without from now on, after the size of the batch. */
KILN_PRINTF(2, 3) static void note(const struct kiln_run *r, const char *fmt, ...)
{
    char *text = r->e->note;
    size_t size = sizeof r->e->note;
    int used = snprintf(text, size, "%d x %d: ", r->batch->width, r->batch->height);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + used, size - (size_t)used, fmt, args);
    va_end(args);
}

/* --- memory ----------------------------------------------------------------------------------- */

static int64_t pixels_of(const struct kiln_run *r)
{
    return r->height * r->width;
}

bool kiln_loop_is_tight(const struct kiln_run *r)
{
    return r->e->tight_pixels != 0 && pixels_of(r) >= r->e->tight_pixels;
}

void kiln_loop_let_go(struct kiln_run *r, bool all)
{
    struct kt_scope *s = kt_scope_new(r->e->device);
    kiln_loop_drain(r);
    kt_wait(s); /* they may be in use: graphs of smaller shapes, where this one has none */
    if (all)
        kiln_graph_cache_clear(r->e->graphs);
    else
        kiln_graph_cache_stale(r->e->graphs);
    kt_device_trim(r->e->device);
    kt_scope_free(s);
}

/* The same, and remembers the size of a picture that is alone. */
static void make_room(struct kiln_run *r, const struct kiln_group *group,
                      const struct kiln_error *err)
{
    if (group->count == 1 && !kiln_loop_is_tight(r)) {
        r->e->tight_pixels = pixels_of(r);
        note(r,
             "pictures of this size and larger are drawn without graphs and decoded with "
             "nothing beside them: %s",
             err->text);
    }
    kiln_loop_let_go(r, false);
}

/* Something that is asked of the device for a group, in a scope of its own. */
typedef void ask_fn(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                    void *arg);

static int ask_once(struct kiln_run *r, const struct kiln_group *group, bool side, ask_fn *fn,
                    void *arg, struct kiln_error *err)
{
    struct kt_scope *base = kt_scope_new(r->e->device);
    struct kt_scope *s = side ? kt_scope_side(base) : kt_scope_child(base);
    int piece = kt_clock_begin(r->e->clock, side);
    fn(r, s, group, arg);
    kt_clock_end(r->e->clock, piece);
    int code = kt_scope_check(s, err);
    kt_scope_free(s);
    kt_scope_free(base);
    return code;
}

/* Asks, and asks again with more room where that was short.  side: in the side lane. */
static int ask_twice(struct kiln_run *r, const struct kiln_group *group, bool side, ask_fn *fn,
                     void *arg, struct kiln_error *err)
{
    int code = ask_once(r, group, side, fn, arg, err);
    if (code != KILN_NO_MEMORY)
        return code;
    make_room(r, group, err);
    return kiln_group_alive(group) ? ask_once(r, group, side, fn, arg, err) : 0;
}

/* What has failed is the failure of all items, but for memory: then several come again as fewer. */
static void give_up(struct kiln_run *r, const struct kiln_group *group,
                    const struct kiln_error *err)
{
    if (err->code != KILN_NO_MEMORY || group->count == 1) {
        kiln_group_end(group, err);
        return;
    }
    note(r, "fewer than %d such pictures are drawn together from now on: %s", group->count,
         err->text);
    kiln_loop_let_go(r, true);
    kiln_group_split(r, group);
}

/* Asks for a part of the group's steps in the main lane; false where it has been given up. */
static bool ask(struct kiln_run *r, const struct kiln_group *group, ask_fn *fn, void *arg)
{
    struct kiln_error err;
    if (ask_twice(r, group, false, fn, arg, &err) == 0)
        return true;
    give_up(r, group, &err);
    return false;
}

/* --- the steps of a group --------------------------------------------------------------------- */

static void make_buffers(const struct kiln_run *r, struct kiln_shape_plan *plan)
{
    const struct kiln_transformer_config *c = &r->e->config.transformer;
    const struct kiln_shape *shape = &plan->shape;
    enum kt_dtype dtype = r->e->dtype;
    struct kt_scope *s = plan->scope;
    int64_t h = r->height / c->patch, w = r->width / c->patch, pad = kiln_pad_rows(h * w);
    const int64_t n = shape->items, columns = kiln_stream_columns(r->e->transformer);
    plan->latent = kt_zeros(s, KT_F32, 4, (int64_t[]){n, c->channels, r->height, r->width});
    plan->caption = kt_zeros(s, dtype, 2, (int64_t[]){n * shape->caption_rows, columns});
    plan->rope = kiln_rope_joint(s, c, h, w, pad, shape->caption_rows);
    if (shape->negative_rows > 0) {
        plan->negative = kt_zeros(s, dtype, 2, (int64_t[]){n * shape->negative_rows, columns});
        plan->negative_rope = kiln_rope_joint(s, c, h, w, pad, shape->negative_rows);
    }
    plan->modulation = kt_zeros(s, KT_F32, 2, (int64_t[]){1, kiln_time_width(r->e->transformer)});
    plan->stride = kt_zeros(s, KT_F32, 1, (int64_t[]){n});
    plan->bad = kt_zeros(s, KT_I32, 1, (int64_t[]){n});
}

/* The plan of the group's shape with its buffers, or NULL with the group given up. */
static struct kiln_shape_plan *plan_for(struct kiln_run *r, const struct kiln_group *group)
{
    struct kiln_graph_cache *graphs = r->e->graphs;
    const struct kiln_item *item = group->items[0];
    const struct kiln_shape shape = {.items = group->count,
                                     .height = r->height,
                                     .width = r->width,
                                     .caption_rows = kt_size(item->caption, 0),
                                     .negative_rows = kt_size(item->negative, 0),
                                     .guidance = item->negative ? r->batch->guidance_scale : 0,
                                     .arrangement = kiln_loras_arrangement(r->e->loras)};
    struct kiln_error err;
    for (int attempt = 0; attempt < 2; attempt++) {
        struct kiln_shape_plan *plan = kiln_graph_cache_get(graphs, &shape);
        if (plan->scope && !plan->latent)
            make_buffers(r, plan);
        int code = kt_scope_check(plan->scope, &err);
        if (code == 0)
            return plan;
        kiln_loop_let_go(r, true);
        if (code != KILN_NO_MEMORY)
            break;
    }
    give_up(r, group, &err);
    return NULL;
}

/* The i'th item's part of a buffer: views. */
static kt latent_of(const struct kiln_shape_plan *plan, struct kt_scope *s, int i)
{
    const int64_t shape[3] = {kt_size(plan->latent, 1), kt_size(plan->latent, 2),
                              kt_size(plan->latent, 3)};
    return kt_reshape(s, kt_narrow(s, plan->latent, 0, i, 1), 3, shape);
}

static kt caption_of(struct kt_scope *s, kt buffer, int i, int64_t rows)
{
    return kt_narrow(s, buffer, 0, i * rows, rows);
}

/* Puts what is the items' own into the buffers. */
static void fill_buffers(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                         void *arg)
{
    struct kiln_shape_plan *plan = arg;
    const struct kiln_shape *of = &plan->shape;
    const int64_t shape[3] = {r->e->config.transformer.channels, r->height, r->width};
    for (int i = 0; i < group->count; i++) {
        const struct kiln_item *item = group->items[i];
        if (item->ended)
            continue;
        kt_copy_into(s, latent_of(plan, s, i), kt_randn(s, item->in->seed, 3, shape));
        kt_copy_into(s, caption_of(s, plan->caption, i, of->caption_rows), item->caption);
        if (plan->negative)
            kt_copy_into(s, caption_of(s, plan->negative, i, of->negative_rows), item->negative);
    }
    kt_copy_into(s, plan->bad, kt_zeros(s, KT_I32, 1, (int64_t[]){of->items}));
}

/* What a step is computed or recorded from. */
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
    kiln_sampler_step(work->r->e->transformer, s, &step);
}

/* Records the plan's step.  What cannot be recorded is computed without: slower, and the same. */
static void record(const struct kiln_run *r, struct kiln_shape_plan *plan)
{
    const struct step_work work = {r, plan};
    struct kiln_error err;
    kt_device_trim(r->e->device); /* a graph has memory of its own: not twice the activations */
    if (kiln_graph_cache_record(r->e->graphs, plan, run_step, &work, &err)) {
        note(r, "steps of this size and larger are not recorded as graphs: %s", err.text);
        kt_device_trim(r->e->device);
    }
}

struct step_args {
    struct kiln_shape_plan *plan;
    int step;
    bool taken; /* the latents are those behind the step: it must not be asked for again */
};

/* The states before the step, of the items that keep them. */
static void keep_states(struct kt_scope *s, const struct kiln_group *group,
                        const struct step_args *args)
{
    for (int i = 0; i < group->count; i++) {
        kt trajectory = group->items[i]->trajectory; /* NULL: not wanted, or the item has ended */
        if (trajectory)
            kt_copy_into(s, kt_narrow(s, trajectory, 0, args->step, 1),
                         kt_narrow(s, args->plan->latent, 0, i, 1));
    }
}

static void ask_latents(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                        struct step_args *args)
{
    struct kiln_shape_plan *plan = args->plan;
    const int64_t items = plan->shape.items, one[2] = {1, 1};
    struct kiln_error err;
    keep_states(s, group, args);
    kt_copy_into(s, plan->modulation, kt_narrow(s, r->e->times, 0, args->step, 1));
    kt stride = kt_reshape(s, kt_narrow(s, r->e->strides, 0, args->step, 1), 2, one);
    kt_copy_into(s, plan->stride, kt_reshape(s, kt_repeat_rows(s, stride, items), 1, &items));
    if (!kiln_loop_is_tight(r) && kiln_graph_cache_wants(r->e->graphs, plan))
        record(r, plan);
    bool computed = !plan->graph;
    if (computed)
        run_step(s, &(struct step_work){r, plan});
    else
        kt_graph_replay(plan->graph, s);
    args->taken = kt_scope_check(s, &err) == 0;
    if (!args->taken)
        return;
    r->fresh = r->fresh || !plan->warm;
    if (computed)
        kiln_graph_cache_warm(plan);
}

/* A step, and the mark of its latents on its way back. */
static void ask_step(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                     void *arg)
{
    struct step_args *args = arg;
    if (!args->taken)
        ask_latents(r, s, group, args);
    struct kt_fetch *bad = kt_fetch_start(s, args->plan->bad);
    if (!bad)
        return;
    r->ahead[r->ahead_count].group = *group;
    r->ahead[r->ahead_count].step = args->step;
    r->ahead[r->ahead_count++].bad = bad;
}

static void keep_latents(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                         void *arg)
{
    (void)r;
    for (int i = 0; i < group->count; i++) {
        struct kiln_item *item = group->items[i];
        if (item->ended)
            continue;
        item->latent = kt_keep(item->scope, kt_copy(s, latent_of(arg, s, i)));
    }
}

void kiln_loop_denoise(struct kiln_run *r, const struct kiln_group *group)
{
    for (int i = 0; i < group->count; i++)
        group->items[i]->begun = true;
    struct kiln_shape_plan *plan = plan_for(r, group);
    bool whole = plan && ask(r, group, fill_buffers, plan);
    kiln_text_wait(r);
    for (int step = 0; step < r->batch->num_steps && whole && kiln_group_alive(group); step++) {
        if (r->ahead_count == KILN_STEPS_AHEAD)
            take_step(r);
        if (kiln_group_alive(group))
            whole = ask(r, group, ask_step, &(struct step_args){.plan = plan, .step = step});
    }
    if (whole && kiln_group_alive(group))
        ask(r, group, keep_latents, plan);
}

/* --- results ---------------------------------------------------------------------------------- */

/* Decodes the latent, in strips of so many rows unless that is 0, to bytes in all sizes. */
static void ask_pictures(struct kiln_run *r, struct kt_scope *s, kt latent, int rows, kt *sources)
{
    kt picture = rows ? kiln_vae_decode_strips(r->e->vae, s, latent, rows)
                      : kiln_vae_decode(r->e->vae, s, latent);
    kt bad = sources[KILN_FETCH_BAD] = kt_zeros(s, KT_I32, 1, (int64_t[]){1});
    kt pixels = sources[KILN_FETCH_PIXELS] = kt_rgb8(s, picture, bad);
    for (int i = 0; i < DIFFUSIONZ_SMALLER_MAX; i++) {
        struct kt_downscale to = {.width = (uint32_t)r->batch->width,
                                  .height = (uint32_t)r->batch->height};
        if (kiln_run_smaller(r, i, &to.out_width, &to.out_height))
            sources[KILN_FETCH_SMALLER + i] = kt_downscale(s, pixels, &to);
    }
}

static void ask_results(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *one,
                        void *arg)
{
    struct kiln_item *item = one->items[0];
    const int *rows = arg;
    kt_follow(s, item->scope);
    kt sources[KILN_FETCHES] = {
        [KILN_FETCH_LATENT] = item->latent, [KILN_FETCH_TRAJECTORY] = item->trajectory};
    if (!r->batch->skip_decode)
        ask_pictures(r, s, item->latent, *rows, sources);
    for (int i = 0; i < KILN_FETCHES; i++) {
        kt_fetch_free(item->fetches[i]);
        item->fetches[i] = sources[i] ? kt_fetch_start(s, sources[i]) : NULL;
    }
}

/* Rows of a strip in which a picture of this size is decoded; 0: it is decoded in one piece. */
static int strip_rows(const struct kiln_run *r)
{
    if (r->e->strip_pixels != 0 && pixels_of(r) >= r->e->strip_pixels)
        return r->e->strip_rows;
    return r->batch->width * r->batch->height > KILN_VAE_WHOLE_PIXELS ? KILN_VAE_STRIP_ROWS : 0;
}

/* What may still fit where that did not; 0: nothing. */
static int fewer_rows(int rows)
{
    if (rows == 0)
        return KILN_VAE_STRIP_ROWS;
    return rows > KILN_VAE_STRIP_ROWS_MIN ? rows / 2 : 0;
}

void kiln_loop_results(struct kiln_run *r, struct kiln_item *item)
{
    struct kiln_engine *e = r->e;
    const struct kiln_group one = {.items = {item}, .count = 1};
    if (kiln_loop_is_tight(r))
        kiln_loop_drain(r);
    if (!kiln_item_alive(item))
        return;
    struct kiln_error err;
    int rows = strip_rows(r);
    int code = ask_twice(r, &one, !kiln_loop_is_tight(r), ask_results, &rows, &err);
    while (code == KILN_NO_MEMORY && !item->ended && (rows = fewer_rows(rows)) != 0) {
        e->strip_pixels = pixels_of(r);
        e->strip_rows = rows;
        note(r, "pictures of this size and larger are decoded in strips of %d rows: %s", rows,
             err.text);
        code = ask_twice(r, &one, false, ask_results, &rows, &err);
    }
    if (code)
        kiln_item_end(item, &err);
}
