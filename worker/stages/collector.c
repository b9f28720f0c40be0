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
#include "worker/stages/call.h"
#include "worker/state/worker.h"

#define DEVICE_FAILURES_MAX 3 /* calls in a row of which nothing came out */

struct collector {
    struct kiln_worker *worker;
    uint32_t device_failures; /* in a row */
    uint64_t failed_job;      /* the first of the last call that counted among them; 0: none */
    uint64_t drawn_pixels;    /* of the largest picture that came out */
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
    picture->lora_files_known = call->lora_files_known;
    memcpy(picture->lora_files, call->lora_files, sizeof picture->lora_files);
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

static void log_failure(const struct kiln_call *call)
{
    const struct kiln_error *err = &call->err;
    kiln_log(KILN_LOG_ERROR, "batch_failed",
             kiln_f("assignment", "%s", call->holding->assignment.id),
             kiln_f("code", "%s", kiln_code_name(err->code)), kiln_f("error", "%s", err->text));
}

/* Nothing of the call began: every job gets the same error. */
static void fail_call(struct kiln_call *call)
{
    const struct kiln_error *err = &call->err;
    for (uint32_t i = 0; i < call->count; i++) {
        call->outputs[i] = (DiffusionZOutput){.error_code = err->code};
        call->outputs[i].error_msg = strdup(err->text);
    }
}

static uint64_t pixels_of(const struct kiln_call *call)
{
    return (uint64_t)call->holding->assignment.width * call->holding->assignment.height;
}

/* Whether the item failed of the device and not of itself.  Memory that is short for a picture says
 * so only where as large a one has come out and no LoRAs want any. */
static bool is_of_device(const struct collector *collector, const struct kiln_call *call,
                         const DiffusionZOutput *output)
{
    if (output->error_code == KILN_NO_MEMORY)
        return pixels_of(call) <= collector->drawn_pixels &&
               call->holding->assignment.lora_count == 0;
    return output->error_code == KILN_DEVICE;
}

static void give_up(const struct collector *collector, const struct kiln_error *why)
{
    kiln_log(KILN_LOG_ERROR, "device_given_up", kiln_f("batches", "%u", collector->device_failures),
             kiln_f("code", "%s", kiln_code_name(why->code)));
    kiln_worker_give_up(collector->worker, why);
}

/* Gives the device up when nothing comes out of it any more.  An engine whose batch had begun says
 * that its device failed as a whole only when it has asked the device again and found it lost: one
 * more batch would only use up tries of more jobs, so the worker ends at once, and hands on what
 * had come before.  The try of the call's other jobs counts, since one of them may be what takes
 * devices down.  Without that it takes several calls in a row in which every item failed of the
 * device; a job that comes back and fails again says no more than the first time: it may be the
 * job. */
static void judge_device(struct collector *collector, const struct kiln_call *call, bool begun)
{
    const DiffusionZOutput *of_device = NULL;
    uint32_t count = 0;
    if (begun && call->err.code == KILN_DEVICE) {
        collector->device_failures++;
        give_up(collector, &call->err);
        return;
    }
    for (uint32_t i = 0; i < call->count; i++) {
        const DiffusionZOutput *output = &call->outputs[i];
        if (output->error_code == 0) {
            collector->device_failures = 0;
            collector->failed_job = 0;
            if (pixels_of(call) > collector->drawn_pixels)
                collector->drawn_pixels = pixels_of(call);
            return;
        }
        if (is_of_device(collector, call, output)) {
            of_device = output;
            count++;
        }
    }
    if (count < call->count)
        return; /* bad input or cancelled: that says nothing of the device */
    const uint64_t job = call->holding->assignment.jobs[call->index[0]].id;
    if (call->err.code == 0 && job == collector->failed_job)
        return;
    collector->failed_job = job;
    if (++collector->device_failures < DEVICE_FAILURES_MAX)
        return;
    struct kiln_error why;
    kiln_fail(&why, of_device->error_code, "%s",
              of_device->error_msg ? of_device->error_msg : "no reason was given");
    give_up(collector, &why);
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
    if (code == 0)
        count_sources(&times);
    else
        log_failure(call);
    if (code != 0 && !begun)
        fail_call(call);
    judge_device(collector, call, begun);
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
