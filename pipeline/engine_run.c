/* engine_run.c - one batch: LoRAs, text, noise, steps, decode; see engine.h.
 *
 * Every item has a scope of its own.  What goes wrong in it (a tensor too large, numbers that are
 * no longer finite, a cancel) ends that item; the others go on.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pipeline/engine.h"

/* An item under way. */
struct item {
    const DiffusionZItem *in;
    DiffusionZOutput *out;
    struct kt_scope *scope;
    kt latent, caption, negative; /* negative NULL: no guidance */
    struct kiln_rope rope, negative_rope;
    bool ended;
};

struct run {
    struct kiln_engine *e;
    const DiffusionZBatch *batch;
    struct kiln_schedule schedule;
    struct item items[KILN_ASSIGN_MAX];
    int64_t height, width; /* of the latent */
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* --- ends of an item -------------------------------------------------------------------------- */

static void drop_results(DiffusionZOutput *out)
{
    free(out->rgb);
    free(out->latent);
    free(out->trajectory);
    free(out->sigmas);
    out->rgb = NULL;
    out->latent = out->trajectory = NULL;
    out->sigmas = NULL;
}

static void end_item(struct item *item, const struct kiln_error *err)
{
    item->ended = true;
    drop_results(item->out);
    item->out->error_code = err->code;
    item->out->error_msg = strdup(err->text);
    kt_scope_free(item->scope);
    item->scope = NULL;
}

/* Ends the item if its scope has failed or its flag is up; says whether it is still alive. */
static bool alive(struct item *item)
{
    struct kiln_error err;
    if (item->ended)
        return false;
    if (kt_scope_check(item->scope, &err))
        end_item(item, &err);
    else if (item->in->cancel && __atomic_load_n(item->in->cancel, __ATOMIC_ACQUIRE)) {
        kiln_fail(&err, KILN_CANCELLED, "cancelled on request");
        end_item(item, &err);
    }
    return !item->ended;
}

static size_t latent_values(const struct run *r)
{
    return (size_t)(r->e->config.transformer.channels * r->height * r->width);
}

/* Memory of the results that are wanted, or false with the item ended. */
static bool allocate(const struct run *r, struct item *item)
{
    const DiffusionZBatch *b = r->batch;
    DiffusionZOutput *out = item->out;
    size_t n = latent_values(r), steps = (size_t)b->num_steps;
    bool ok = (out->latent = malloc(n * sizeof *out->latent)) != NULL;
    if (!b->skip_decode)
        ok = (out->rgb = malloc((size_t)b->width * (size_t)b->height * 3)) != NULL && ok;
    if (b->keep_trajectory) {
        ok = (out->trajectory = malloc(steps * n * sizeof *out->trajectory)) != NULL && ok;
        ok = (out->sigmas = malloc(steps * sizeof *out->sigmas)) != NULL && ok;
    }
    if (ok)
        return true;
    struct kiln_error err;
    kiln_fail(&err, KILN_NO_MEMORY, "no memory for a picture of %d x %d", b->width, b->height);
    end_item(item, &err);
    return false;
}

/* --- text ------------------------------------------------------------------------------------- */

static kt features_of(struct kiln_engine *e, struct kt_scope *s, const char *prompt)
{
    size_t len = strlen(prompt), count;
    kt features = kiln_feature_cache_get(e->features, s, prompt, len);
    if (features)
        return features;
    int32_t *ids;
    struct kiln_error err;
    if (kiln_tokenizer_encode(e->tokenizer, prompt, len, false, &ids, &count, &err)) {
        kt_scope_fail(s, &err);
        return NULL;
    }
    features = kiln_text_encoder_run(e->text_encoder, s, ids, count);
    free(ids);
    kiln_feature_cache_put(e->features, prompt, len, e->device, features);
    return features;
}

/* The refined caption of a prompt and the angles that go with its length. */
static kt prepare_caption(const struct run *r, struct kt_scope *s, const char *prompt,
                          struct kiln_rope *ret_rope)
{
    const struct kiln_transformer_config *c = &r->e->config.transformer;
    struct kt_scope *inner = kt_scope_child(s);
    kt caption =
        kt_keep(s, kiln_caption(r->e->transformer, inner, features_of(r->e, inner, prompt)));
    kt_scope_free(inner);
    int64_t h = r->height / c->patch, w = r->width / c->patch;
    *ret_rope = kiln_rope_joint(s, c, h, w, kiln_pad_rows(h * w), kt_size(caption, 0));
    return caption;
}

static const char *negative_of(const struct item *item)
{
    return item->in->negative_prompt ? item->in->negative_prompt : "";
}

/* Finds an earlier item with the same text, whose caption and angles are then shared. */
static const struct item *same_text(const struct run *r, int index)
{
    const struct item *item = &r->items[index];
    for (int i = 0; i < index; i++) {
        const struct item *other = &r->items[i];
        if (!other->ended && strcmp(other->in->prompt, item->in->prompt) == 0 &&
            strcmp(negative_of(other), negative_of(item)) == 0)
            return other;
    }
    return NULL;
}

static struct kiln_rope keep_rope(struct kt_scope *s, struct kiln_rope rope)
{
    return (struct kiln_rope){kt_keep(s, rope.cos), kt_keep(s, rope.sin)};
}

static void prepare_text(struct run *r, int index)
{
    struct item *item = &r->items[index];
    const struct item *other = same_text(r, index);
    bool guided = r->batch->guidance_scale > 0;
    if (other) {
        item->caption = kt_keep(item->scope, other->caption);
        item->rope = keep_rope(item->scope, other->rope);
        item->negative = kt_keep(item->scope, other->negative);
        item->negative_rope = keep_rope(item->scope, other->negative_rope);
        return;
    }
    item->caption = prepare_caption(r, item->scope, item->in->prompt, &item->rope);
    if (guided)
        item->negative = prepare_caption(r, item->scope, negative_of(item), &item->negative_rope);
}

/* --- steps ------------------------------------------------------------------------------------ */

static void drop_times(struct kiln_engine *e)
{
    kiln_time_table_free(e->times);
    kt_scope_free(e->times_scope);
    e->times = NULL;
    e->times_scope = NULL;
}

/* Makes the engine's time table the one of this schedule. */
static int prepare_times(struct run *r, struct kiln_error *err)
{
    struct kiln_engine *e = r->e;
    int steps = r->batch->num_steps;
    if (e->times && e->times_steps == steps)
        return 0;
    drop_times(e);
    e->times_scope = kt_scope_new(e->device);
    e->times = kiln_time_table_new(e->transformer, e->times_scope, r->schedule.times, steps);
    e->times_steps = steps;
    int code = kt_scope_check(e->times_scope, err);
    if (code)
        drop_times(e);
    return code;
}

static void step_item(const struct run *r, struct item *item, int step)
{
    struct kt_scope *s = kt_scope_child(item->scope);
    struct kiln_forward forward = {.latent = item->latent,
                                   .caption = item->caption,
                                   .rope = item->rope,
                                   .times = r->e->times,
                                   .step = step};
    if (item->out->trajectory)
        kt_to_host_f32(s, item->latent, item->out->trajectory + (size_t)step * latent_values(r),
                       latent_values(r));
    kt output = kiln_transformer_run(r->e->transformer, s, &forward);
    if (item->negative) {
        forward.caption = item->negative;
        forward.rope = item->negative_rope;
        kt without = kiln_transformer_run(r->e->transformer, s, &forward);
        output = kiln_guide(s, output, without, r->batch->guidance_scale);
    }
    kt next = kt_keep(item->scope, kiln_euler_step(s, &r->schedule, step, item->latent, output));
    kt_scope_free(s);
    kt_drop(item->scope, item->latent);
    item->latent = next;
}

static void run_steps(struct run *r)
{
    const DiffusionZBatch *b = r->batch;
    for (int step = 0; step < b->num_steps; step++) {
        for (int i = 0; i < b->item_count; i++)
            if (alive(&r->items[i]))
                step_item(r, &r->items[i], step);
        if (b->progress)
            __atomic_store_n(b->progress, step + 1, __ATOMIC_RELEASE);
    }
}

/* A GPU is still at work when the last operation has been asked for. */
static void wait_for_items(struct run *r)
{
    for (int i = 0; i < r->batch->item_count; i++)
        if (alive(&r->items[i]))
            kt_wait(r->items[i].scope);
}

/* --- results ---------------------------------------------------------------------------------- */

static void finish_item(const struct run *r, struct item *item)
{
    DiffusionZOutput *out = item->out;
    if (!kt_all_finite(item->scope, item->latent)) {
        struct kiln_error err;
        if (!kt_scope_check(item->scope, &err))
            kiln_fail(&err, KILN_DEVICE, "the latent holds values that are not finite numbers");
        end_item(item, &err);
        return;
    }
    kt_to_host_f32(item->scope, item->latent, out->latent, latent_values(r));
    if (out->rgb)
        kt_to_rgb8(item->scope, kiln_vae_decode(r->e->vae, item->scope, item->latent), out->rgb);
    for (int step = 0; out->sigmas && step < r->schedule.steps; step++)
        out->sigmas[step] = (double)r->schedule.sigmas[step];
    if (alive(item)) {
        out->latent_channels = r->e->config.transformer.channels;
        out->latent_height = (int32_t)r->height;
        out->latent_width = (int32_t)r->width;
        kt_scope_free(item->scope);
        item->scope = NULL;
    }
}

static void start_items(struct run *r, DiffusionZOutput *outputs)
{
    const int64_t shape[3] = {r->e->config.transformer.channels, r->height, r->width};
    for (int i = 0; i < r->batch->item_count; i++) {
        struct item *item = &r->items[i];
        *item = (struct item){.in = &r->batch->items[i], .out = &outputs[i]};
        item->scope = kt_scope_new(r->e->device);
        if (alive(item) && allocate(r, item)) {
            item->latent = kt_randn(item->scope, item->in->seed, 3, shape);
            prepare_text(r, i);
            (void)alive(item);
        }
    }
}

int kiln_engine_loras(struct kiln_engine *e, const struct kiln_lora_use *uses, size_t count,
                      struct kiln_error *err)
{
    bool changed = false;
    int code = kiln_loras_set(e->loras, uses, count, &changed, err);
    if (changed)
        drop_times(e); /* the time table holds products of the weights */
    return code;
}

static int set_loras(struct kiln_engine *e, const DiffusionZBatch *b,
                     const struct kiln_lora_use *under, struct kiln_error *err)
{
    struct kiln_lora_use uses[KILN_LORA_SET_MAX];
    size_t count = 0;
    if (under)
        uses[count++] = *under;
    for (int i = 0; i < b->lora_count; i++)
        uses[count++] = (struct kiln_lora_use){b->loras[i].path, b->loras[i].weight};
    return kiln_engine_loras(e, uses, count, err);
}

int kiln_engine_run(struct kiln_engine *e, const DiffusionZBatch *batch,
                    const struct kiln_lora_use *under, DiffusionZOutput *outputs,
                    DiffusionZTimes *ret_times, struct kiln_error *err)
{
    int code = kiln_engine_check(e, batch, err);
    if (code)
        return code;
    kt_threads_set(e->threads);
    double at[5] = {now_ms()};
    code = set_loras(e, batch, under, err);
    at[1] = now_ms();
    struct run *r = code ? NULL : calloc(1, sizeof *r);
    if (!r)
        return code ? code : kiln_fail(err, KILN_NO_MEMORY, "no memory for a batch");
    r->e = e;
    r->batch = batch;
    r->height = batch->height / e->config.vae.factor;
    r->width = batch->width / e->config.vae.factor;
    kiln_schedule_fill(&r->schedule, &e->config.sampler, batch->num_steps);
    code = prepare_times(r, err);
    if (code) {
        free(r);
        return code;
    }
    memset(outputs, 0, (size_t)batch->item_count * sizeof *outputs);
    start_items(r, outputs);
    wait_for_items(r);
    at[2] = now_ms();
    run_steps(r);
    wait_for_items(r);
    at[3] = now_ms();
    for (int i = 0; i < batch->item_count; i++)
        if (alive(&r->items[i]))
            finish_item(r, &r->items[i]);
    at[4] = now_ms();
    if (ret_times)
        *ret_times = (DiffusionZTimes){at[1] - at[0], at[2] - at[1], at[3] - at[2], at[4] - at[3]};
    free(r);
    return 0;
}
