/* engine_run.c - one batch: LoRAs, text, then item by item noise, steps and decode; see engine.h.
 *
 * Every item has a scope of its own.  What goes wrong in it (a tensor too large, numbers that are
 * no longer finite, a cancel) ends that item; the others go on.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/downscale.h"
#include "pipeline/engine_parts.h"

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void kiln_run_lap(struct kiln_run *r, double *stage)
{
    double now = now_ms();
    *stage += now - r->since_ms;
    r->since_ms = now;
}

/* --- ends of an item -------------------------------------------------------------------------- */

static void drop_results(DiffusionZOutput *out)
{
    free(out->rgb);
    free(out->latent);
    free(out->trajectory);
    free(out->sigmas);
    for (int i = 0; i < DIFFUSIONZ_SMALLER_MAX; i++) {
        free(out->smaller[i]);
        out->smaller[i] = NULL;
    }
    out->rgb = NULL;
    out->latent = out->trajectory = NULL;
    out->sigmas = NULL;
}

/* Lets go of all that the item holds but its results. */
static void release(struct kiln_item *item)
{
    for (int i = 0; i < KILN_FETCHES; i++)
        kt_fetch_free(item->fetches[i]);
    memset(item->fetches, 0, sizeof item->fetches);
    kt_scope_free(item->scope);
    item->scope = NULL;
}

void kiln_item_end(struct kiln_item *item, const struct kiln_error *err)
{
    if (item->ended)
        return;
    item->ended = true;
    drop_results(item->out);
    item->out->error_code = err->code;
    item->out->error_msg = strdup(err->text);
    release(item);
}

bool kiln_item_alive(struct kiln_item *item)
{
    struct kiln_error err;
    if (item->ended)
        return false;
    if (kt_scope_check(item->scope, &err))
        kiln_item_end(item, &err);
    else if (item->in->cancel && __atomic_load_n(item->in->cancel, __ATOMIC_ACQUIRE)) {
        kiln_fail(&err, KILN_CANCELLED, "cancelled on request");
        kiln_item_end(item, &err);
    }
    return !item->ended;
}

static size_t latent_values(const struct kiln_run *r)
{
    return (size_t)(r->e->config.transformer.channels * r->height * r->width);
}

bool kiln_run_smaller(const struct kiln_run *r, int i, uint32_t *ret_width, uint32_t *ret_height)
{
    const DiffusionZBatch *b = r->batch;
    return !b->skip_decode && i < b->smaller_count &&
           kiln_downscale_fit((uint32_t)b->width, (uint32_t)b->height, (uint32_t)b->smaller[i],
                              ret_width, ret_height);
}

/* Memory of the results that are wanted, or false with the item ended. */
static bool allocate(const struct kiln_run *r, struct kiln_item *item)
{
    const DiffusionZBatch *b = r->batch;
    DiffusionZOutput *out = item->out;
    size_t n = latent_values(r), steps = (size_t)b->num_steps;
    bool ok = (out->latent = malloc(n * sizeof *out->latent)) != NULL;
    if (!b->skip_decode)
        ok = (out->rgb = malloc((size_t)b->width * (size_t)b->height * 3)) != NULL && ok;
    for (int i = 0; i < DIFFUSIONZ_SMALLER_MAX; i++) {
        uint32_t w, h;
        if (kiln_run_smaller(r, i, &w, &h))
            ok = (out->smaller[i] = malloc((size_t)w * h * 3)) != NULL && ok;
    }
    if (b->keep_trajectory) {
        ok = (out->trajectory = malloc(steps * n * sizeof *out->trajectory)) != NULL && ok;
        ok = (out->sigmas = malloc(steps * sizeof *out->sigmas)) != NULL && ok;
    }
    if (ok)
        return true;
    struct kiln_error err;
    kiln_fail(&err, KILN_NO_MEMORY, "no memory for a picture of %d x %d", b->width, b->height);
    kiln_item_end(item, &err);
    return false;
}

/* --- time ------------------------------------------------------------------------------------- */

static void drop_times(struct kiln_engine *e)
{
    kt_scope_free(e->times_scope);
    e->times = e->strides = NULL;
    e->times_scope = NULL;
}

/* Makes the engine's tables those of this schedule. */
static int prepare_times(struct kiln_run *r, struct kiln_error *err)
{
    struct kiln_engine *e = r->e;
    int steps = r->batch->num_steps;
    if (e->times && e->times_steps == steps)
        return 0;
    drop_times(e);
    e->times_scope = kt_scope_new(e->device);
    e->times = kiln_time_table(e->transformer, e->times_scope, r->schedule.times, steps);
    e->strides =
        kt_from_host(e->times_scope, r->schedule.strides, KT_F32, KT_F32, 1, (int64_t[]){steps});
    e->times_steps = steps;
    int code = kt_scope_check(e->times_scope, err);
    if (code)
        drop_times(e);
    return code;
}

/* --- results ---------------------------------------------------------------------------------- */

/* Whether all that was asked for the item is there. */
static bool is_ready(const struct kiln_run *r, const struct kiln_item *item)
{
    if (item->ended || !item->scope || item->steps_done < r->batch->num_steps)
        return false;
    for (int i = 0; i < KILN_FETCHES; i++)
        if (item->fetches[i] && !kt_fetch_arrived(item->fetches[i]))
            return false;
    return item->fetches[KILN_FETCH_LATENT] != NULL;
}

/* Takes over what the item has fetched, once it has arrived. */
static void collect(const struct kiln_run *r, struct kiln_item *item)
{
    DiffusionZOutput *out = item->out;
    void *targets[KILN_FETCHES] = {
        [KILN_FETCH_LATENT] = out->latent,
        [KILN_FETCH_TRAJECTORY] = out->trajectory,
        [KILN_FETCH_PIXELS] = out->rgb,
    };
    for (int i = 0; i < DIFFUSIONZ_SMALLER_MAX; i++)
        targets[KILN_FETCH_SMALLER + i] = out->smaller[i];
    struct kiln_error err;
    for (int i = 0; i < KILN_FETCHES; i++) {
        struct kt_fetch *fetch = item->fetches[i];
        if (!fetch)
            continue;
        if (kt_fetch_wait(fetch, &err)) {
            kiln_item_end(item, &err);
            return;
        }
        size_t bytes;
        const void *data = kt_fetch_data(fetch, &bytes);
        memcpy(targets[i], data, bytes);
    }
    for (int step = 0; out->sigmas && step < r->schedule.steps; step++)
        out->sigmas[step] = (double)r->schedule.sigmas[step];
    out->latent_channels = r->e->config.transformer.channels;
    out->latent_height = (int32_t)r->height;
    out->latent_width = (int32_t)r->width;
    release(item);
}

/* The room for the state before every step, if it is wanted. */
static kt trajectory_for(const struct kiln_run *r, struct kt_scope *s)
{
    const int64_t shape[4] = {r->batch->num_steps, r->e->config.transformer.channels, r->height,
                              r->width};
    return r->batch->keep_trajectory ? kt_zeros(s, KT_F32, 4, shape) : NULL;
}

static void start_items(struct kiln_run *r, DiffusionZOutput *outputs)
{
    memset(outputs, 0, (size_t)r->batch->item_count * sizeof *outputs);
    for (int i = 0; i < r->batch->item_count; i++) {
        struct kiln_item *item = &r->items[i];
        *item = (struct kiln_item){.in = &r->batch->items[i], .out = &outputs[i]};
        item->scope = kt_scope_new(r->e->device);
        if (kiln_item_alive(item) && allocate(r, item))
            item->trajectory = trajectory_for(r, item->scope);
    }
}

static void run_items(struct kiln_run *r, DiffusionZOutput *outputs)
{
    start_items(r, outputs);
    kiln_text_prepare(r);
    for (int i = 0; i < r->batch->item_count; i++) {
        struct kiln_item *item = &r->items[i];
        if (!kiln_item_alive(item))
            continue;
        kiln_loop_denoise(r, item);
        kiln_run_lap(r, &r->times.denoise_ms);
        if (kiln_item_alive(item))
            kiln_loop_results(r, item);
        for (int earlier = 0; earlier < i; earlier++) /* while the device is at work */
            if (is_ready(r, &r->items[earlier]))
                collect(r, &r->items[earlier]);
        kiln_run_lap(r, kiln_loop_is_denoising(r) ? &r->times.denoise_ms : &r->times.decode_ms);
    }
    kiln_text_wait(r); /* where no item came as far as its steps */
    kiln_text_ahead(r);
    kiln_run_lap(r, kiln_loop_is_denoising(r) ? &r->times.denoise_ms : &r->times.text_ms);
    kiln_loop_drain(r);
    kiln_run_lap(r, &r->times.denoise_ms);
    for (int i = 0; i < r->batch->item_count; i++)
        if (!r->items[i].ended && r->items[i].scope)
            collect(r, &r->items[i]);
    /* Computed steps and libraries that look for their fastest kernels leave much memory behind
     * that graphs and later pictures have no use for. */
    if (r->fresh)
        kt_device_trim(r->e->device);
    kiln_run_lap(r, &r->times.decode_ms);
}

/* Where an item has failed of its device: whether the device still answers. */
static int check_device(const struct kiln_run *r, const DiffusionZOutput *outputs,
                        struct kiln_error *err)
{
    bool failed = false;
    for (int i = 0; i < r->batch->item_count; i++)
        failed = failed || outputs[i].error_code == KILN_DEVICE;
    if (!failed || r->e->device == KT_CPU)
        return 0;
    struct kiln_error reason;
    struct kt_scope *s = kt_scope_new(r->e->device);
    struct kt_fetch *answer = kt_fetch_start(s, kt_zeros(s, KT_F32, 1, (int64_t[]){1}));
    int code = answer ? kt_fetch_wait(answer, &reason) : kt_scope_check(s, &reason);
    kt_fetch_free(answer);
    kt_scope_free(s);
    if (code == 0 || code == KILN_NO_MEMORY)
        return 0;
    return kiln_fail(err, KILN_DEVICE, "device cuda:%d is lost: %s", r->e->device, reason.text);
}

/* --- a batch ---------------------------------------------------------------------------------- */

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
    struct kiln_run *r = calloc(1, sizeof *r);
    if (!r)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a batch");
    kt_threads_set(e->threads);
    r->e = e;
    r->batch = batch;
    r->height = batch->height / e->config.vae.factor;
    r->width = batch->width / e->config.vae.factor;
    r->since_ms = now_ms();
    kiln_schedule_fill(&r->schedule, &e->config.sampler, batch->num_steps);
    code = set_loras(e, batch, under, err);
    kiln_run_lap(r, &r->times.lora_ms);
    r->times.lora_from = (int32_t)kiln_loras_from(e->loras);
    code = code ? code : prepare_times(r, err);
    if (!code) {
        run_items(r, outputs);
        code = check_device(r, outputs, err);
        if (code)
            diffusionz_release_outputs(outputs, batch->item_count);
    }
    r->times.device_ms = kt_clock_take(e->clock);
    if (ret_times && !code)
        *ret_times = r->times;
    free(r);
    return code;
}
