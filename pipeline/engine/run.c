/* run.c - the first half of a batch, which queues all work: LoRAs, text, then start and
 * steps of each group, phase by phase, and its decode; see engine.h.
 *
 * Every item has a scope of its own.  An error in it (no memory, values that are not finite, a
 * cancel) ends that item; the others go on.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline/engine/parts.h"
#include "schemas/clock.h"

/* The times and strides of all phases, one after the other. */
static void list_steps(const struct kiln_run *r, struct kiln_time_key *key)
{
    *key = (struct kiln_time_key){.steps = r->steps};
    for (int p = 0; p < r->phase_count; p++) {
        const struct kiln_schedule *of = &r->phases[p].schedule;
        const int row = r->phases[p].row;
        memcpy(key->times + row, of->times, (size_t)of->steps * sizeof *of->times);
        memcpy(key->strides + row, of->strides, (size_t)of->steps * sizeof *of->strides);
    }
}

/* Makes the items, each with memory for its results and its own start. */
static void prepare_items(struct kiln_run *r)
{
    const DiffusionZBatch *b = r->batch;
    const struct kiln_phase *full = kiln_run_full(r);
    const int64_t states[4] = {r->steps, r->e->config.transformer.channels, full->height,
                               full->width};
    memset(r->outputs, 0, (size_t)b->item_count * sizeof *r->outputs);
    for (int i = 0; i < b->item_count; i++) {
        struct kiln_item *item = &r->items[i];
        *item = (struct kiln_item){.in = &b->items[i], .out = &r->outputs[i]};
        item->scope = kt_scope_new(r->e->device);
        if (kiln_item_alive(item) && kiln_item_allocate(r, item) && b->keep_trajectory)
            item->trajectory = kt_zeros(item->scope, KT_F32, 4, states);
        kiln_start_take(r, item);
    }
}

/* Goes over to the weight set of a phase, loads its LoRAs, and makes the table that depends on
 * both. */
static int load(struct kiln_run *r, const struct kiln_phase *phase, struct kiln_error *err)
{
    struct kiln_lora_use uses[KILN_LORA_STACK_MAX];
    struct kiln_time_key key;
    const size_t count = kiln_phase_loras(phase, r->batch, r->under, uses);
    r->set = &r->e->sets[phase->weights.set];
    int code = kiln_engine_loras(r->set, uses, count, err);
    list_steps(r, &key);
    return code ? code : kiln_engine_times(r->set, &key, err);
}

/* The same; without memory, which graphs of earlier batches may occupy, frees them and tries
 * again. */
static int enter(struct kiln_run *r, const struct kiln_phase *phase, struct kiln_error *err)
{
    int code = load(r, phase, err);
    if (code == KILN_NO_MEMORY) {
        kiln_memory_release(r, true);
        code = load(r, phase, err);
    }
    kiln_run_lap(r, &r->times.lora_ms);
    return code;
}

/* Goes over to the weights of a later phase; without them no item can go on. */
static void change_weights(struct kiln_run *r, const struct kiln_phase *phase)
{
    struct kiln_error err;
    if (enter(r, phase, &err) == 0) {
        kiln_text_renew(r);
        kiln_run_lap(r, &r->times.text_ms);
        return;
    }
    for (int i = 0; i < r->batch->item_count; i++)
        if (kiln_item_alive(&r->items[i]))
            kiln_item_end(&r->items[i], &err);
}

/* Queues the steps of all items at the phase's size, group by group, and their decodes after the
 * last phase. */
static void queue_phase(struct kiln_run *r, const struct kiln_phase *phase)
{
    struct kiln_group group;
    r->phase = phase;
    for (int i = 0; i < r->batch->item_count; i++)
        r->items[i].begun = false;
    while (kiln_group_next(r, &group)) {
        kiln_loop_denoise(r, &group);
        kiln_run_lap(r, &r->times.denoise_ms);
        if (phase != kiln_run_full(r))
            continue;
        for (int i = 0; i < group.count; i++)
            if (group.items[i]->begun && kiln_item_alive(group.items[i]))
                kiln_decode_item(r, group.items[i]);
        kiln_run_collect(r); /* while the device works */
        kiln_run_lap(r, kiln_steps_under_way(r) ? &r->times.denoise_ms : &r->times.decode_ms);
    }
}

static void queue_items(struct kiln_run *r)
{
    prepare_items(r);
    kiln_text_prepare(r);
    for (int i = 0; i < r->phase_count; i++) {
        if (i > 0 && !kiln_phase_same_weights(&r->phases[i], &r->phases[i - 1]))
            change_weights(r, &r->phases[i]);
        queue_phase(r, &r->phases[i]);
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

int kiln_engine_begin(struct kiln_engine *e, const DiffusionZBatch *batch,
                      const struct kiln_lora_use *under, DiffusionZOutput *outputs,
                      struct kiln_run **ret, struct kiln_error *err)
{
    int code = kiln_engine_check(e, batch, err);
    code = code ? code : kiln_engine_check_starts(batch, err);
    if (code)
        return code;
    struct kiln_run *r = calloc(1, sizeof *r);
    if (!r)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a batch");
    r->e = e;
    r->copy = *batch;
    r->batch = &r->copy;
    r->under = under;
    r->outputs = outputs;
    r->phase_count = kiln_phases_fill(e, batch, r->phases);
    r->phase = kiln_run_full(r);
    r->steps = r->phase->row + r->phase->schedule.steps;
    r->since_ms = kiln_monotonic_ms();
    kt_threads_set(e->threads);
    kiln_run_name_loras(r);
    code = enter(r, &r->phases[0], err);
    r->times.lora_from = (int32_t)kiln_loras_source(r->set->loras);
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
