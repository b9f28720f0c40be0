/* run.c - the first half of a batch, which queues all work: LoRAs, text, then start, steps and
 * decode of each group; see engine.h.
 *
 * Every item has a scope of its own.  An error in it (no memory, values that are not finite, a
 * cancel) ends that item; the others go on.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline/engine/parts.h"
#include "schemas/clock.h"

static void drop_time_table(struct kiln_engine *e)
{
    kt_scope_free(e->times_scope);
    e->times = e->strides = NULL;
    e->times_scope = NULL;
}

/* Makes the engine's time table and strides for this schedule, unless it has them. */
static int prepare_time_table(struct kiln_run *r, struct kiln_error *err)
{
    struct kiln_engine *e = r->e;
    int steps = r->batch->num_steps;
    if (e->times && e->times_steps == steps)
        return 0;
    drop_time_table(e);
    e->times_scope = kt_scope_new(e->device);
    e->times = kiln_time_table(e->transformer, e->times_scope, r->schedule.times, steps);
    e->strides =
        kt_from_host(e->times_scope, r->schedule.strides, KT_F32, KT_F32, 1, (int64_t[]){steps});
    e->times_steps = steps;
    int code = kt_scope_check(e->times_scope, err);
    if (code)
        drop_time_table(e);
    return code;
}

static void queue_items(struct kiln_run *r)
{
    const DiffusionZBatch *b = r->batch;
    const int64_t states[4] = {b->num_steps, r->e->config.transformer.channels, r->height,
                               r->width};
    struct kiln_group group;
    memset(r->outputs, 0, (size_t)b->item_count * sizeof *r->outputs);
    for (int i = 0; i < b->item_count; i++) {
        struct kiln_item *item = &r->items[i];
        *item = (struct kiln_item){.in = &b->items[i], .out = &r->outputs[i]};
        item->scope = kt_scope_new(r->e->device);
        if (kiln_item_alive(item) && kiln_item_allocate(r, item) && b->keep_trajectory)
            item->trajectory = kt_zeros(item->scope, KT_F32, 4, states);
    }
    kiln_text_prepare(r);
    while (kiln_group_next(r, &group)) {
        kiln_loop_denoise(r, &group);
        kiln_run_lap(r, &r->times.denoise_ms);
        for (int i = 0; i < group.count; i++)
            if (group.items[i]->begun && kiln_item_alive(group.items[i]))
                kiln_decode_item(r, group.items[i]);
        kiln_run_collect(r); /* while the device works */
        kiln_run_lap(r, kiln_steps_under_way(r) ? &r->times.denoise_ms : &r->times.decode_ms);
    }
    kiln_text_wait(r); /* in case no item came to its steps */
    kiln_text_encode_prefetched(r);
    kiln_run_lap(r, kiln_steps_under_way(r) ? &r->times.denoise_ms : &r->times.text_ms);
    if (!r->new_shape)
        return;
    /* Computed steps, and libraries that search for their fastest kernels, leave unused memory. */
    kiln_steps_drain(r);
    kiln_run_lap(r, &r->times.denoise_ms);
    kt_device_trim(r->e->device);
    kiln_run_lap(r, &r->times.decode_ms);
}

int kiln_engine_loras(struct kiln_engine *e, const struct kiln_lora_use *uses, size_t count,
                      struct kiln_error *err)
{
    bool changed = false;
    kt_threads_set(e->threads); /* merging on the CPU uses this thread's operations */
    int code = kiln_loras_set(e->loras, uses, count, &changed, err);
    if (changed)
        drop_time_table(e); /* the time table holds products of the weights */
    return code;
}

/* Loads what the whole batch needs: LoRAs and the tables of the schedule. */
static int prepare(struct kiln_run *r, const struct kiln_lora_use *under, struct kiln_error *err)
{
    const DiffusionZBatch *b = r->batch;
    struct kiln_lora_use uses[KILN_LORA_STACK_MAX];
    size_t count = 0;
    if (under)
        uses[count++] = *under;
    for (int i = 0; i < b->lora_count; i++)
        uses[count++] = (struct kiln_lora_use){b->loras[i].path, b->loras[i].weight};
    int code = kiln_engine_loras(r->e, uses, count, err);
    if (!code)
        kiln_run_name_loras(r, uses, count);
    kiln_run_lap(r, &r->times.lora_ms);
    r->times.lora_from = (int32_t)kiln_loras_source(r->e->loras);
    return code ? code : prepare_time_table(r, err);
}

int kiln_engine_begin(struct kiln_engine *e, const DiffusionZBatch *batch,
                      const struct kiln_lora_use *under, DiffusionZOutput *outputs,
                      struct kiln_run **ret, struct kiln_error *err)
{
    int code = kiln_engine_check(e, batch, err);
    code = code ? code : kiln_engine_check_starts(batch, err);
    if (!code && batch->start != DIFFUSIONZ_FROM_NOISE)
        code = kiln_fail(err, KILN_UNSUPPORTED, "this engine begins from noise alone");
    if (code)
        return code;
    struct kiln_run *r = calloc(1, sizeof *r);
    if (!r)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a batch");
    r->e = e;
    r->copy = *batch;
    r->batch = &r->copy;
    r->outputs = outputs;
    r->height = batch->height / e->config.vae.factor;
    r->width = batch->width / e->config.vae.factor;
    r->since_ms = kiln_monotonic_ms();
    kiln_schedule_fill(&r->schedule, &e->config.sampler, batch->num_steps);
    kt_threads_set(e->threads);
    code = prepare(r, under, err);
    if (code == KILN_NO_MEMORY) { /* which graphs of earlier batches may occupy */
        kiln_memory_release(r, true);
        code = prepare(r, under, err);
    }
    if (code) {
        free(r);
        return code;
    }
    queue_items(r);
    *ret = r;
    return 0;
}

int kiln_engine_run(struct kiln_engine *e, const DiffusionZBatch *batch,
                    const struct kiln_lora_use *under, DiffusionZOutput *outputs,
                    DiffusionZTimes *ret_times, struct kiln_error *err)
{
    struct kiln_run *r;
    int code = kiln_engine_begin(e, batch, under, outputs, &r, err);
    return code ? code : kiln_engine_finish_whole(r, ret_times, err);
}
