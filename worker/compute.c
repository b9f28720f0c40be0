/* compute.c - the thread that owns the engine: one batch after the other.
 *
 * Before a batch it asks the ledger which jobs are still this worker's: what was cancelled or taken
 * back while waiting is not drawn.  If the ledger does not answer it draws all the same, since the
 * attempt number fences the commit and idle hardware helps nobody.
 *
 * An assignment is of one size, step count and LoRA set.  Guidance, kind and trajectory may differ
 * inside it; the engine takes them per call, so the jobs run in as few calls as there are kinds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/log.h"
#include "schemas/metrics.h"
#include "storage/ledger.h"
#include "worker/lora_paths.h"
#include "worker/outage.h"
#include "worker/worker.h"

#define DEVICE_FAILURES_MAX 3 /* batches in a row; a broken device does not heal by itself */

struct compute {
    struct kiln_worker *worker;
    struct kiln_ledger *ledger; /* NULL until the first try to open it worked */
    struct kiln_outage ledger_outage;
    uint32_t device_failures;     /* in a row */
    bool wanted[KILN_ASSIGN_MAX]; /* jobs of the batch in hand that are still to be drawn */
    struct kiln_lora_paths loras;
};

/* The jobs of one engine call. */
struct call {
    uint32_t index[KILN_ASSIGN_MAX];
    DiffusionZItem items[KILN_ASSIGN_MAX];
    DiffusionZOutput outputs[KILN_ASSIGN_MAX];
    DiffusionZTimes times;
    uint32_t count;
    double started_ms;
};

static void ask_ledger(struct compute *compute, const struct kiln_assignment *assignment,
                       bool *ret_ours)
{
    struct kiln_error err;
    int code = 0;
    for (uint32_t i = 0; i < assignment->job_count; i++)
        ret_ours[i] = true;
    if (!compute->ledger) {
        char name[KILN_NAME_MAX + 32];
        snprintf(name, sizeof name, "kiln-worker %s compute", compute->worker->id);
        code = kiln_ledger_open(compute->worker->config, name, &compute->ledger, &err);
    }
    if (code == 0)
        code = kiln_ledger_still_ours(compute->ledger, assignment->jobs, assignment->job_count,
                                      ret_ours, &err);
    if (code == 0) {
        kiln_outage_over(&compute->ledger_outage);
        return;
    }
    (void)kiln_outage_fail(&compute->ledger_outage, &err);
    for (uint32_t i = 0; i < assignment->job_count; i++)
        ret_ours[i] = true;
}

/* Ends the jobs that are not to be drawn; returns how many are. */
static uint32_t sort_out(struct compute *compute, struct kiln_holding *holding)
{
    bool ours[KILN_ASSIGN_MAX];
    uint32_t wanted = 0, count = holding->assignment.job_count;
    ask_ledger(compute, &holding->assignment, ours);
    for (uint32_t i = 0; i < count; i++) {
        enum kiln_stop why = kiln_holding_stop(holding, i);
        if (why == KILN_STOP_NONE && !ours[i])
            why = KILN_STOP_DROPPED;
        compute->wanted[i] = why == KILN_STOP_NONE;
        wanted += compute->wanted[i];
    }
    /* Ending the last job may free the holding, so the wanted ones must be known before. */
    for (uint32_t i = 0; i < count; i++)
        if (!compute->wanted[i]) {
            enum kiln_stop why = kiln_holding_stop(holding, i);
            kiln_worker_end(compute->worker, holding, i,
                            why == KILN_STOP_NONE ? KILN_STOP_DROPPED : why);
        }
    return wanted;
}

static bool same_call(const struct kiln_job *a, const struct kiln_job *b)
{
    return a->guidance == b->guidance && a->kind == b->kind &&
           (a->latents == KILN_LATENTS_TRAJECTORY) == (b->latents == KILN_LATENTS_TRAJECTORY);
}

/* Takes the next jobs that can share an engine call; false when none is left. */
static bool next_call(struct compute *compute, struct kiln_holding *holding, struct call *call)
{
    const struct kiln_job *jobs = holding->assignment.jobs;
    memset(call, 0, sizeof *call);
    for (uint32_t i = 0; i < holding->assignment.job_count; i++) {
        if (!compute->wanted[i] || (call->count > 0 && !same_call(&jobs[call->index[0]], &jobs[i])))
            continue;
        compute->wanted[i] = false;
        call->index[call->count] = i;
        call->items[call->count++] = (DiffusionZItem){
            .prompt = jobs[i].prompt,
            .negative_prompt = jobs[i].negative_prompt,
            .seed = jobs[i].seed,
            .cancel = &holding->stops[i],
        };
    }
    return call->count > 0;
}

/* One call of the engine.  A worker with another model than the job's is a mistake of the settings,
 * not of the job: the job may go elsewhere. */
static int run_call(struct compute *compute, const struct kiln_holding *holding, struct call *call,
                    struct kiln_error *err)
{
    const struct kiln_assignment *assignment = &holding->assignment;
    const struct kiln_job *job = &assignment->jobs[call->index[0]];
    struct kiln_engine *engine = compute->worker->engine;
    DiffusionZBatch batch = {
        .items = call->items,
        .item_count = (int32_t)call->count,
        .width = (int32_t)assignment->width,
        .height = (int32_t)assignment->height,
        .num_steps = (int32_t)assignment->steps,
        .guidance_scale = (float)job->guidance,
        .loras = compute->loras.loras,
        .lora_count = compute->loras.count,
        .keep_trajectory = job->latents == KILN_LATENTS_TRAJECTORY,
        .skip_decode = job->kind == KILN_KIND_LATENT_CACHE,
        .progress = &compute->worker->board.step,
        .smaller = kiln_picture_smaller,
        .smaller_count = KILN_PICTURE_SMALLER,
    };
    if (assignment->model[0] && !engine->draws_any_model &&
        strcmp(assignment->model, engine->model_name) != 0)
        return kiln_fail(err, KILN_UNAVAILABLE, "this worker draws with model %s, not %s",
                         engine->model_name, assignment->model);
    call->started_ms = kiln_monotonic_ms();
    kiln_board_draw(&compute->worker->board);
    int code = engine->run(engine, &batch, call->outputs, &call->times, err);
    if (code == 0 && call->times.lora_from != DIFFUSIONZ_LORA_KEPT)
        kiln_metric_add(KILN_METRIC_LORA_SETS,
                        call->times.lora_from == DIFFUSIONZ_LORA_READY ? KILN_LORA_WAS_READY
                                                                       : KILN_LORA_WAS_READ,
                        1);
    if (code == 0) {
        kiln_metric_add(KILN_METRIC_TEXTS, KILN_TEXT_WAS_READY, (uint64_t)call->times.texts_ready);
        kiln_metric_add(KILN_METRIC_TEXTS, KILN_TEXT_WAS_ENCODED,
                        (uint64_t)call->times.texts_encoded);
    }
    kiln_board_drawn(&compute->worker->board, code == 0 ? call->times.lora_ms : 0,
                     code == 0 ? call->times.device_ms : 0);
    return code;
}

/* The engine's times are of the whole call; a picture counts its share. */
static void note_times(struct kiln_picture *picture, const struct call *call)
{
    double share = 1.0 / call->count, waited = call->started_ms - picture->holding->received_ms;
    if (picture->job->created_ms > 0)
        waited = (double)(kiln_wall_ms() - picture->job->created_ms) -
                 (kiln_monotonic_ms() - call->started_ms);
    picture->wait_ms = waited > 0 ? waited : 0;
    picture->text_ms = call->times.text_ms * share;
    picture->denoise_ms = call->times.denoise_ms * share;
    picture->decode_ms = call->times.decode_ms * share;
}

/* Sends one output on its way: to the encoders, or to the committer if it came to nothing. */
static void hand_over(struct compute *compute, struct kiln_holding *holding, struct call *call,
                      uint32_t i)
{
    struct kiln_worker *worker = compute->worker;
    DiffusionZOutput *output = &call->outputs[i];
    struct kiln_picture *picture;
    while (!(picture = kiln_picture_new(holding, call->index[i])))
        kiln_worker_pause(worker, 100);
    note_times(picture, call);
    if (output->error_code == 0) {
        picture->drawn = *output;
        kiln_worker_pass(worker->drawn, picture);
        return;
    }
    enum kiln_stop why = kiln_holding_stop(holding, call->index[i]);
    if (output->error_code == KILN_CANCELLED && why != KILN_STOP_NONE)
        kiln_picture_stop(picture, why);
    else
        kiln_picture_fail(picture, output->error_code,
                          output->error_msg ? output->error_msg : "no reason was given");
    worker->engine->release(output);
    kiln_worker_pass(worker->outcomes, picture);
}

/* Nothing of the call ran: every job gets the same error. */
static void fail_call(struct compute *compute, struct kiln_holding *holding, struct call *call,
                      const struct kiln_error *err)
{
    kiln_log(KILN_LOG_ERROR, "batch_failed", kiln_f("assignment", "%s", holding->assignment.id),
             kiln_f("code", "%s", kiln_code_name(err->code)), kiln_f("error", "%s", err->text));
    for (uint32_t i = 0; i < call->count; i++) {
        call->outputs[i].error_code = err->code;
        call->outputs[i].error_msg = strdup(err->text);
        hand_over(compute, holding, call, i);
    }
    if (err->code != KILN_DEVICE || ++compute->device_failures < DEVICE_FAILURES_MAX)
        return;
    kiln_log(KILN_LOG_ERROR, "device_given_up", kiln_f("batches", "%u", compute->device_failures));
    atomic_store(&compute->worker->failure, KILN_DEVICE);
}

static void run_holding(struct compute *compute, struct kiln_holding *holding)
{
    struct kiln_worker *worker = compute->worker;
    struct kiln_assignment *assignment = &holding->assignment;
    char lora_set[KILN_LORA_SET_MAX], id[KILN_WIRE_ID_MAX + 1];
    struct call *call = malloc(sizeof *call); /* too big for a thread's stack to be sure of */
    struct kiln_error err;
    if (!call) {
        kiln_worker_hand_back(worker, holding);
        return;
    }
    uint32_t wanted = sort_out(compute, holding);
    if (wanted == 0) {
        free(call);
        return; /* the holding may be gone already */
    }
    bool in_place = false; /* its LoRA set, once a call has run */
    double start = kiln_monotonic_ms();
    memcpy(id, assignment->id, sizeof id);
    kiln_lora_set_text(assignment->loras, assignment->lora_count, lora_set, sizeof lora_set);
    kiln_lora_paths_fill(&compute->loras, worker->config, assignment);
    kiln_board_begin(&worker->board, assignment);
    kiln_board_kick(&worker->board);
    while (wanted > 0 && next_call(compute, holding, call)) {
        int code = run_call(compute, holding, call, &err);
        wanted -= call->count;
        holding->switch_ms += code == 0 ? call->times.lora_ms : 0;
        holding->compute_ms = kiln_monotonic_ms() - start - holding->switch_ms;
        if (code != 0) {
            fail_call(compute, holding, call, &err);
            continue;
        }
        in_place = true;
        compute->device_failures = 0;
        for (uint32_t i = 0; i < call->count; i++)
            hand_over(compute, holding, call, i);
    }
    kiln_board_end(&worker->board, in_place ? lora_set : NULL);
    kiln_metric_add(KILN_METRIC_BATCHES, 0, 1);
    kiln_log(KILN_LOG_DEBUG, "batch_drawn", kiln_f("assignment", "%s", id),
             kiln_f("ms", "%.1f", kiln_monotonic_ms() - start));
    free(call);
}

void *kiln_compute(void *arg)
{
    struct compute compute = {
        .worker = arg,
        .ledger_outage = {.what = "ledger", .effect = "drawing without asking it first"},
    };
    struct kiln_worker *worker = arg;
    for (;;) {
        void *item;
        size_t count;
        int code = kiln_queue_pop(worker->ready, &item, 1, &count, 1000);
        if (code == KILN_CANCELLED)
            break;
        if (code != 0)
            continue;
        if (kiln_worker_drain(worker) != KILN_DRAIN_NO)
            kiln_worker_hand_back(worker, item);
        else
            run_holding(&compute, item);
        kiln_board_settle(&worker->board);
        kiln_board_kick(&worker->board);
    }
    kiln_ledger_close(compute.ledger);
    kiln_queue_close(worker->drawn);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
