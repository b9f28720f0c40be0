/* results.c - how the items of a batch end: with what they were wanted for, or with an
 * error; and the second half of a batch, which waits for the last of them.
 *
 * That half has its own thread in a worker, while the engine's is at the next batch already.  So
 * from kiln_engine_finish on nothing is touched but the run itself, the device's clock, which has
 * its own lock, and results that are on their way; and, where an item has failed of its device, a
 * scope made to ask whether that still answers.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/downscale.h"
#include "pipeline/engine/parts.h"

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
    item->caption = item->negative = item->latent = item->trajectory = NULL;
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

bool kiln_item_allocate(const struct kiln_run *r, struct kiln_item *item)
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
    int32_t bad = 0;
    void *targets[KILN_FETCHES] = {
        [KILN_FETCH_LATENT] = out->latent,
        [KILN_FETCH_TRAJECTORY] = out->trajectory,
        [KILN_FETCH_PIXELS] = out->rgb,
        [KILN_FETCH_BAD] = &bad,
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
    if (bad) {
        kiln_fail(&err, KILN_NOT_FINITE, "the decoded picture is not finite%s", r->loras);
        kiln_item_end(item, &err);
        return;
    }
    for (int step = 0; out->sigmas && step < r->schedule.steps; step++)
        out->sigmas[step] = (double)r->schedule.sigmas[step];
    out->latent_channels = r->e->config.transformer.channels;
    out->latent_height = (int32_t)r->height;
    out->latent_width = (int32_t)r->width;
    release(item);
}

void kiln_run_collect(struct kiln_run *r)
{
    for (int i = 0; i < r->batch->item_count; i++)
        if (is_ready(r, &r->items[i]))
            collect(r, &r->items[i]);
}

/* Where an item has failed of its device: whether the device still answers. */
static int check_device(const struct kiln_run *r, struct kiln_error *err)
{
    bool failed = false;
    for (int i = 0; i < r->batch->item_count; i++)
        failed = failed || r->outputs[i].error_code == KILN_DEVICE;
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

/* --- the second half -------------------------------------------------------------------------- */

int kiln_engine_finish(struct kiln_run *r, DiffusionZTimes *ret_times, struct kiln_error *err)
{
    kiln_loop_drain(r);
    kiln_run_lap(r, &r->times.denoise_ms);
    for (int i = 0; i < r->batch->item_count; i++)
        if (!r->items[i].ended && r->items[i].scope)
            collect(r, &r->items[i]);
    kiln_run_lap(r, &r->times.decode_ms);
    int code = check_device(r, err);
    r->times.device_ms = kt_clock_take(r->e->clock);
    if (ret_times)
        *ret_times = r->times;
    free(r);
    return code;
}

int kiln_engine_finish_whole(struct kiln_run *r, DiffusionZTimes *ret_times, struct kiln_error *err)
{
    DiffusionZOutput *outputs = r->outputs;
    const int32_t count = r->batch->item_count;
    int code = kiln_engine_finish(r, ret_times, err);
    if (code)
        diffusionz_release_outputs(outputs, count);
    return code;
}
