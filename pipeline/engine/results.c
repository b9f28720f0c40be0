/* results.c - stores the results of items; and the second half of a batch, which waits for the
 * last.
 *
 * In a worker the second half runs on a thread of its own, while the engine's thread is at the next
 * batch.  So kiln_engine_finish touches only the run, its fetches, and the device's clock, which
 * has a lock; and, after a device error, a new scope that checks whether the device still answers.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline/engine/parts.h"

/* Whether all results of the item have arrived. */
static bool is_ready(const struct kiln_run *r, const struct kiln_item *item)
{
    if (item->ended || !item->scope || item->steps_done < r->steps)
        return false;
    for (int i = 0; i < KILN_FETCHES; i++)
        if (item->fetches[i] && !kt_fetch_arrived(item->fetches[i]))
            return false;
    return item->fetches[KILN_FETCH_LATENT] != NULL;
}

/* Waits for the item's fetches and copies them to its output. */
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
    const struct kiln_phase *full = kiln_run_full(r);
    for (const struct kiln_phase *p = r->phases; out->sigmas && p <= full; p++)
        for (int step = 0; step < p->schedule.steps; step++)
            out->sigmas[p->row + step] = (double)p->schedule.sigmas[step];
    out->latent_channels = r->e->config.transformer.channels;
    out->latent_height = (int32_t)full->height;
    out->latent_width = (int32_t)full->width;
    kiln_item_release(item);
}

void kiln_run_collect(struct kiln_run *r)
{
    for (int i = 0; i < r->batch->item_count; i++)
        if (is_ready(r, &r->items[i]))
            collect(r, &r->items[i]);
}

/* KILN_DEVICE if an item has failed with a device error and the device does not answer. */
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
    kiln_steps_drain(r);
    kiln_run_lap(r, &r->times.denoise_ms);
    for (int i = 0; i < r->batch->item_count; i++)
        if (!r->items[i].ended && r->items[i].scope)
            collect(r, &r->items[i]);
    for (int i = 0; i < r->batch->item_count; i++)
        r->outputs[i].wasted = r->outputs[i].start_refused ? r->items[i].steps_seen : 0;
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
        kiln_outputs_release(outputs, count);
    return code;
}
