/* collector.c - the thread that waits for the calls which the compute thread has begun, and passes
 * their pictures on.
 *
 * Calls end in the order in which they began.  A call's time, from which the scheduler learns and
 * which tenants pay for, is how long it kept the device busy: from its begin, or from the end of
 * the call before if that was later.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"
#include "worker/stages/call.h"
#include "worker/state/worker.h"

#define DEVICE_FAILURES_MAX 3 /* calls in a row without a picture */

struct collector {
    struct kiln_worker *worker;
    uint32_t device_failures; /* in a row */
    uint64_t failed_job;      /* the first job of the last call that counted; 0: none */
    uint64_t rendered_pixels; /* of the largest picture so far */
    double ended_ms;          /* the last call */
};

/* Passes one output to the encoders, or to the committer if it failed. */
static void pass_on(struct kiln_worker *worker, struct kiln_call *call,
                    const DiffusionZTimes *times, uint32_t i)
{
    DiffusionZOutput *output = &call->outputs[i];
    struct kiln_picture *picture;
    while (!(picture = kiln_picture_new(call->flight, call->index[i])))
        kiln_worker_pause(worker, 100);
    /* The engine measures a call; each picture counts an equal share. */
    double share = 1.0 / call->count, waited = call->started_ms - picture->flight->received_ms;
    if (picture->job->created_ms > 0)
        waited = (double)(kiln_wall_ms() - picture->job->created_ms) -
                 (kiln_monotonic_ms() - call->started_ms);
    picture->wait_ms = waited > 0 ? waited : 0;
    picture->text_ms = times->text_ms * share;
    picture->denoise_ms = times->denoise_ms * share;
    picture->decode_ms = times->decode_ms * share;
    picture->mode = call->mode;
    if (call->donors[i] > 1) {
        picture->mode.combine = (enum kiln_combine)call->items[i].combine;
        picture->mode.donors = call->donors[i];
    }
    picture->denoise_ms += call->wasted_ms[i];
    picture->fallback = call->fallbacks[i];
    picture->wasted = call->wasted[i];
    picture->steps = call->steps;
    picture->forwards = call->forwards + call->wasted[i];
    picture->start_sigma = call->start_sigma;
    picture->own_forwards = call->wasted[i] ? call->forwards : call->own_forwards;
    picture->own_sigmas = call->own_sigmas;
    picture->noise = call->noise;
    picture->coarse_width = call->coarse_width;
    picture->coarse_height = call->coarse_height;
    picture->middle_width = call->middle_width;
    picture->middle_height = call->middle_height;
    picture->lora_files_known = call->lora_files_known;
    memcpy(picture->lora_files, call->lora_files, sizeof picture->lora_files);
    if (output->error_code == 0 && call->lora_err.code == 0) {
        picture->output = *output;
        kiln_worker_pass(worker->rendered, picture);
        return;
    }
    enum kiln_stop why = kiln_flight_stop(call->flight, call->index[i]);
    if ((output->error_code == KILN_CANCELLED || output->start_refused) && why != KILN_STOP_NONE)
        kiln_picture_stop(picture, why);
    else if (output->error_code == 0)
        kiln_picture_fail(picture, call->lora_err.code, call->lora_err.text);
    else
        kiln_picture_fail(picture, output->error_code,
                          output->error_msg ? output->error_msg : "no reason was given");
    worker->engine->release(output);
    kiln_worker_pass(worker->outcomes, picture);
}

/* The items that were given up after their first step, as a portion that the compute thread renders
 * in full; NULL if there are none.  Their errors are freed. */
static struct kiln_portion *take_refused(struct kiln_worker *worker, struct kiln_call *call,
                                         const DiffusionZTimes *times)
{
    struct kiln_portion *again = NULL;
    for (uint32_t i = 0; i < call->count; i++) {
        DiffusionZOutput *output = &call->outputs[i];
        if (!output->start_refused ||
            kiln_flight_stop(call->flight, call->index[i]) != KILN_STOP_NONE)
            continue;
        while (!again && !(again = kiln_portion_new(call->flight)))
            kiln_worker_pause(worker, 100); /* memory comes back, or the process is killed */
        struct kiln_portion_job *job = kiln_portion_add(again, call->index[i], -1);
        job->fallback = KILN_FALLBACK_UNLIKE;
        job->wasted = kiln_call_begun_forwards(call, worker->engine, (uint32_t)output->wasted);
        /* A call's time is divided by its items, and an item's by the cost of its steps. */
        job->wasted_ms = times->denoise_ms / call->count *
                         (call->forwards > 0 ? job->wasted / call->forwards : 0);
        kiln_log(KILN_LOG_INFO, "donor_refused",
                 kiln_f("job", "%" PRIu64, call->flight->assignment.jobs[call->index[i]].id),
                 kiln_f("change", "%.4g", output->change),
                 kiln_f("wasted_steps", "%.3g", job->wasted));
    }
    return again;
}

/* Whether take_refused has taken the item. */
static bool is_taken(const struct kiln_portion *again, uint32_t index)
{
    for (uint32_t i = 0; again && i < again->job_count; i++)
        if (again->jobs[i].index == index)
            return true;
    return false;
}

static uint64_t pixels_of(const struct kiln_call *call)
{
    return (uint64_t)call->flight->assignment.width * call->flight->assignment.height;
}

/* Whether the device made the item fail.  A lack of memory counts only if a picture of this size
 * has been rendered before and no LoRAs need memory. */
static bool is_of_device(const struct collector *collector, const struct kiln_call *call,
                         const DiffusionZOutput *output)
{
    if (output->error_code == KILN_NO_MEMORY)
        return pixels_of(call) <= collector->rendered_pixels &&
               call->flight->assignment.lora_count == 0;
    return output->error_code == KILN_DEVICE;
}

/* Ends the worker when its device no longer renders.  If a whole batch that had begun fails with
 * KILN_DEVICE, the engine has probed the device and found it lost.  Another batch would use up
 * tries of more jobs, so the worker ends at once and passes on the pictures that it has.  The try
 * counts for every job of the call, since one of them may crash devices.  Otherwise
 * DEVICE_FAILURES_MAX calls in a row must fail, every item with a device error.  A job that returns
 * and fails again does not count twice: the job may be at fault. */
static void judge_device(struct collector *collector, const struct kiln_call *call, bool begun)
{
    const DiffusionZOutput *of_device = NULL;
    const bool lost = begun && call->err.code == KILN_DEVICE;
    struct kiln_error why = call->err;
    uint32_t count = 0;
    for (uint32_t i = 0; i < call->count && !lost; i++) {
        const DiffusionZOutput *output = &call->outputs[i];
        if (output->error_code == 0) {
            collector->device_failures = 0;
            collector->failed_job = 0;
            if (pixels_of(call) > collector->rendered_pixels)
                collector->rendered_pixels = pixels_of(call);
            return;
        }
        if (is_of_device(collector, call, output)) {
            of_device = output;
            count++;
        }
    }
    const uint64_t job = call->flight->assignment.jobs[call->index[0]].id;
    if (!lost && count < call->count)
        return; /* bad input or cancelled: no evidence about the device */
    if (call->err.code == 0 && job == collector->failed_job)
        return;
    collector->failed_job = job;
    if (++collector->device_failures < DEVICE_FAILURES_MAX && !lost)
        return;
    if (!lost)
        kiln_fail(&why, of_device->error_code, "%s",
                  of_device->error_msg ? of_device->error_msg : "no reason was given");
    kiln_log(KILN_LOG_ERROR, "device_given_up", kiln_f("batches", "%u", collector->device_failures),
             kiln_f("code", "%s", kiln_code_name(why.code)));
    kiln_worker_fail(collector->worker, &why);
}

/* The engine measures from a call's begin, when the device may still be at the call before: the
 * stages of a call take its own time together, at most.  own_ms: without loading LoRAs. */
static void count_once(DiffusionZTimes *times, double own_ms)
{
    const double all_ms = times->text_ms + times->denoise_ms + times->decode_ms;
    const double share = all_ms > own_ms ? own_ms / all_ms : 1;
    times->text_ms *= share;
    times->denoise_ms *= share;
    times->decode_ms *= share;
}

/* What the call took, if all of it came out and it is of the kind that may begin from stored
 * latents. */
static void learn(struct kiln_worker *worker, const struct kiln_call *call, double own_ms)
{
    const struct kiln_assignment *assignment = &call->flight->assignment;
    struct kiln_call_kind kind;
    for (uint32_t i = 0; i < call->count; i++)
        if (call->outputs[i].error_code != 0)
            return;
    if (kiln_call_kind_of(assignment, &assignment->jobs[call->index[0]], &kind))
        kiln_call_times_learn(worker->call_times, &kind, call->reused_from, call->count, own_ms);
}

static void finish_call(struct collector *collector, struct kiln_call *call)
{
    struct kiln_worker *worker = collector->worker;
    struct kiln_flight *flight = call->flight;
    DiffusionZTimes times = {0};
    const bool begun = call->run != NULL;
    int code = call->err.code;
    if (begun)
        code = worker->engine->finish(call->run, &times, &call->err);
    kiln_board_call_ended(&worker->board, &call->step, times.lora_ms, times.device_ms);
    /* The flight's times, which the committer reports with its last job. */
    double now = kiln_monotonic_ms();
    double since = call->started_ms > collector->ended_ms ? call->started_ms : collector->ended_ms;
    const double own_ms = now - since > times.lora_ms ? now - since - times.lora_ms : 0;
    flight->switch_ms += times.lora_ms;
    flight->compute_ms += own_ms;
    collector->ended_ms = now;
    count_once(&times, own_ms);
    if (code != 0)
        kiln_log(KILN_LOG_ERROR, "batch_failed", kiln_f("assignment", "%s", flight->assignment.id),
                 kiln_f("code", "%s", kiln_code_name(code)), kiln_f("error", "%s", call->err.text));
    if (code == 0 && begun)
        learn(worker, call, own_ms);
    if (code == 0 && times.lora_from != DIFFUSIONZ_LORA_KEPT)
        kiln_metric_add(
            KILN_METRIC_LORA_SETS,
            times.lora_from == DIFFUSIONZ_LORA_READY ? KILN_LORA_WAS_READY : KILN_LORA_WAS_READ, 1);
    if (code == 0) {
        kiln_metric_add(KILN_METRIC_TEXTS, KILN_TEXT_WAS_READY, (uint64_t)times.texts_ready);
        kiln_metric_add(KILN_METRIC_TEXTS, KILN_TEXT_WAS_ENCODED, (uint64_t)times.texts_encoded);
    }
    for (uint32_t i = 0; i < call->count && code != 0 && !begun; i++)
        call->outputs[i] =
            (DiffusionZOutput){.error_code = code, .error_msg = strdup(call->err.text)};
    judge_device(collector, call, begun);
    struct kiln_portion *again = begun ? take_refused(worker, call, &times) : NULL;
    if (again) { /* to be rendered by itself, whichever call of the flight is the last */
        again->last = true;
        kiln_board_want(&worker->board);
    }
    const bool last = call->last, checked = call->checked;
    if (last && call->fallbacks[0] != KILN_FALLBACK_UNLIKE) {
        kiln_metric_add(KILN_METRIC_BATCHES, 0, 1);
        char mode[KILN_MODE_MAX];
        kiln_mode_text(&call->mode, mode);
        kiln_log(KILN_LOG_DEBUG, "batch_drawn", kiln_f("assignment", "%s", flight->assignment.id),
                 kiln_f("mode", "%s", mode), kiln_f("steps", "%u", call->steps),
                 kiln_f("ms", "%.1f", flight->compute_ms + flight->switch_ms));
    }
    for (uint32_t i = 0; i < call->count; i++) /* the last job may free the flight */
        if (is_taken(again, call->index[i]))
            worker->engine->release(&call->outputs[i]);
        else
            pass_on(worker, call, &times, i);
    free(call);
    if (again && kiln_queue_push(worker->again, again, 1, 0) != 0) { /* never: it has room */
        kiln_worker_return(worker, again, KILN_STOP_DRAINED);
        kiln_portion_free(again);
        kiln_board_settle(&worker->board);
    }
    if (checked)
        atomic_fetch_sub(&worker->checked, 1);
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
    kiln_queue_close(worker->rendered);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
