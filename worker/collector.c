/* collector.c - the thread that waits for what the compute thread has begun, and hands pictures on.
 *
 * Calls end in the order in which they began.  A batch's time, which the scheduler learns from, is
 * what it kept the device busy for: from its beginning or the end of the one before it, whichever
 * was later.
 */
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/log.h"
#include "schemas/metrics.h"
#include "worker/call.h"
#include "worker/outage.h"
#include "worker/worker.h"

#define DEVICE_FAILURES_MAX 3 /* batches in a row that could not begin; less than a lost device */

struct collector {
    struct kiln_worker *worker;
    uint32_t device_failures; /* in a row */
    double ended_ms;          /* the last call */
};

/* The engine's times are of the whole call; a picture counts its share. */
static void note_times(struct kiln_picture *picture, const struct kiln_call *call,
                       const DiffusionZTimes *times)
{
    double share = 1.0 / call->count, waited = call->started_ms - picture->holding->received_ms;
    if (picture->job->created_ms > 0)
        waited = (double)(kiln_wall_ms() - picture->job->created_ms) -
                 (kiln_monotonic_ms() - call->started_ms);
    picture->wait_ms = waited > 0 ? waited : 0;
    picture->text_ms = times->text_ms * share;
    picture->denoise_ms = times->denoise_ms * share;
    picture->decode_ms = times->decode_ms * share;
}

/* Sends one output on its way: to the encoders, or to the committer if it came to nothing. */
static void hand_over(struct kiln_worker *worker, struct kiln_call *call,
                      const DiffusionZTimes *times, uint32_t i)
{
    DiffusionZOutput *output = &call->outputs[i];
    struct kiln_picture *picture;
    while (!(picture = kiln_picture_new(call->holding, call->index[i])))
        kiln_worker_pause(worker, 100);
    note_times(picture, call, times);
    if (output->error_code == 0) {
        picture->drawn = *output;
        kiln_worker_pass(worker->drawn, picture);
        return;
    }
    enum kiln_stop why = kiln_holding_stop(call->holding, call->index[i]);
    if (output->error_code == KILN_CANCELLED && why != KILN_STOP_NONE)
        kiln_picture_stop(picture, why);
    else
        kiln_picture_fail(picture, output->error_code,
                          output->error_msg ? output->error_msg : "no reason was given");
    worker->engine->release(output);
    kiln_worker_pass(worker->outcomes, picture);
}

/* Nothing came of the call: every job gets the same error.  An engine whose batch had begun says
 * that its device failed as a whole only when it has asked the device again and found it lost: one
 * more batch would only use up tries of more jobs, so the worker ends at once.  The try of this
 * call's jobs counts, since one of them may be what takes devices down. */
static void fail_call(struct collector *collector, struct kiln_call *call, bool begun)
{
    const struct kiln_error *err = &call->err;
    kiln_log(KILN_LOG_ERROR, "batch_failed",
             kiln_f("assignment", "%s", call->holding->assignment.id),
             kiln_f("code", "%s", kiln_code_name(err->code)), kiln_f("error", "%s", err->text));
    for (uint32_t i = 0; i < call->count; i++) {
        call->outputs[i] = (DiffusionZOutput){.error_code = err->code};
        call->outputs[i].error_msg = strdup(err->text);
    }
    if (err->code != KILN_DEVICE || (++collector->device_failures < DEVICE_FAILURES_MAX && !begun))
        return;
    kiln_log(KILN_LOG_ERROR, "device_given_up",
             kiln_f("batches", "%u", collector->device_failures));
    kiln_worker_give_up(collector->worker, err);
}

static void count_sources(const DiffusionZTimes *times)
{
    if (times->lora_from != DIFFUSIONZ_LORA_KEPT)
        kiln_metric_add(KILN_METRIC_LORA_SETS,
                        times->lora_from == DIFFUSIONZ_LORA_READY ? KILN_LORA_WAS_READY
                                                                  : KILN_LORA_WAS_READ,
                        1);
    kiln_metric_add(KILN_METRIC_TEXTS, KILN_TEXT_WAS_READY, (uint64_t)times->texts_ready);
    kiln_metric_add(KILN_METRIC_TEXTS, KILN_TEXT_WAS_ENCODED, (uint64_t)times->texts_encoded);
}

/* Adds the call to the times of its holding, which are read when its last job is settled. */
static void count_time(struct collector *collector, struct kiln_call *call,
                       const DiffusionZTimes *times)
{
    double now = kiln_monotonic_ms();
    double since = call->started_ms > collector->ended_ms ? call->started_ms : collector->ended_ms;
    call->holding->switch_ms += times->lora_ms;
    call->holding->compute_ms += now - since > times->lora_ms ? now - since - times->lora_ms : 0;
    collector->ended_ms = now;
    if (!call->last)
        return;
    kiln_metric_add(KILN_METRIC_BATCHES, 0, 1);
    kiln_log(KILN_LOG_DEBUG, "batch_drawn",
             kiln_f("assignment", "%s", call->holding->assignment.id),
             kiln_f("ms", "%.1f", call->holding->compute_ms + call->holding->switch_ms));
}

static void finish_call(struct collector *collector, struct kiln_call *call)
{
    struct kiln_worker *worker = collector->worker;
    DiffusionZTimes times = {0};
    const bool begun = call->run != NULL;
    int code = call->err.code;
    if (begun)
        code = worker->engine->finish(call->run, &times, &call->err);
    kiln_board_drawn(&worker->board, &call->step, times.lora_ms, times.device_ms);
    count_time(collector, call, &times);
    if (code == 0) {
        collector->device_failures = 0;
        count_sources(&times);
    } else {
        fail_call(collector, call, begun);
    }
    const bool last = call->last; /* its holding may go with the last job */
    for (uint32_t i = 0; i < call->count; i++)
        hand_over(worker, call, &times, i);
    free(call);
    if (last)
        kiln_board_settle(&worker->board);
    kiln_board_kick(&worker->board);
}

void *kiln_collector(void *arg)
{
    struct collector collector = {.worker = arg};
    struct kiln_worker *worker = arg;
    for (;;) {
        void *call;
        size_t count;
        int code = kiln_queue_pop(worker->asked, &call, 1, &count, 1000);
        if (code == KILN_CANCELLED)
            break;
        if (code == 0)
            finish_call(&collector, call);
    }
    kiln_queue_close(worker->drawn);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
