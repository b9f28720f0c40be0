/* compute.c - the thread that owns the engine and begins one batch after another.
 *
 * Before a batch it asks the ledger which jobs are still this worker's; jobs that were cancelled or
 * taken back while they waited are not rendered.  If the ledger does not answer, all are rendered:
 * the attempt number fences the commit, and an idle device helps nobody.
 *
 * An assignment has one size, number of steps and LoRA set.  Guidance, kind and trajectory may
 * differ and are arguments of a call, so the jobs run in as few calls of the engine as there are
 * kinds.  A call that has begun belongs to the collector: while it ends, the next one begins.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "storage/daemon/outage.h"
#include "storage/ledger/ledger.h"
#include "worker/stages/call.h"
#include "worker/stages/lora_files.h"
#include "worker/stages/prefetch.h"
#include "worker/state/worker.h"

struct compute {
    struct kiln_worker *worker;
    struct kiln_ledger *ledger; /* NULL until the first try to open it worked */
    struct kiln_outage ledger_outage;
    bool wanted[KILN_ASSIGN_MAX]; /* jobs of the current batch that are still to be rendered */
    struct kiln_lora_paths loras;
    int32_t smaller[KILN_PICTURE_SMALLER]; /* longest sides */
};

/* Fills ret_ours; during an outage of the ledger all jobs count as ours. */
static void ask_ledger(struct compute *compute, const struct kiln_assignment *assignment,
                       bool *ret_ours)
{
    char name[KILN_NAME_MAX + 32];
    struct kiln_error err;
    int code = 0;
    snprintf(name, sizeof name, "kiln-worker %s compute", compute->worker->id);
    if (!compute->ledger)
        code = kiln_ledger_open(compute->worker->config, name, &compute->ledger, &err);
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

/* Ends the jobs that are not to be rendered; returns how many are left. */
static uint32_t sort_out(struct compute *compute, struct kiln_flight *flight)
{
    bool ours[KILN_ASSIGN_MAX];
    uint32_t wanted = 0, count = flight->assignment.job_count;
    ask_ledger(compute, &flight->assignment, ours);
    for (uint32_t i = 0; i < count; i++) {
        enum kiln_stop why = kiln_flight_stop(flight, i);
        if (why == KILN_STOP_NONE && !ours[i])
            why = KILN_STOP_DROPPED;
        compute->wanted[i] = why == KILN_STOP_NONE;
        wanted += compute->wanted[i];
    }
    /* Ending the last job may free the flight, so the wanted ones must be known first. */
    for (uint32_t i = 0; i < count; i++)
        if (!compute->wanted[i]) {
            enum kiln_stop why = kiln_flight_stop(flight, i);
            kiln_worker_end_job(compute->worker, flight, i,
                                why == KILN_STOP_NONE ? KILN_STOP_DROPPED : why);
        }
    return wanted;
}

static bool same_call(const struct kiln_job *a, const struct kiln_job *b)
{
    return a->guidance == b->guidance && a->kind == b->kind &&
           (a->latents == KILN_LATENTS_TRAJECTORY) == (b->latents == KILN_LATENTS_TRAJECTORY);
}

/* The next wanted jobs that can share a call of the engine. */
static struct kiln_call *next_call(struct compute *compute, struct kiln_flight *flight)
{
    const struct kiln_job *jobs = flight->assignment.jobs;
    struct kiln_call *call;
    while (!(call = calloc(1, sizeof *call)))
        kiln_worker_pause(compute->worker, 100); /* memory comes back, or the process is killed */
    call->flight = flight;
    for (uint32_t i = 0; i < flight->assignment.job_count; i++) {
        if (!compute->wanted[i] || (call->count > 0 && !same_call(&jobs[call->index[0]], &jobs[i])))
            continue;
        compute->wanted[i] = false;
        call->index[call->count] = i;
        call->items[call->count++] = (DiffusionZItem){
            .prompt = jobs[i].prompt,
            .negative_prompt = jobs[i].negative_prompt,
            .seed = jobs[i].seed,
            .cancel = &flight->stops[i],
        };
    }
    return call;
}

/* Begins one call of the engine.  A worker with another model than the job's is an error in its
 * settings, so the job may run elsewhere. */
static int begin_call(struct compute *compute, struct kiln_call *call)
{
    const struct kiln_assignment *assignment = &call->flight->assignment;
    const struct kiln_job *job = &assignment->jobs[call->index[0]];
    struct kiln_renderer *engine = compute->worker->engine;
    const DiffusionZBatch batch = {
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
        .progress = &call->step,
        .smaller = compute->smaller,
        .smaller_count = KILN_PICTURE_SMALLER,
    };
    call->started_ms = kiln_monotonic_ms();
    kiln_board_call_begun(&compute->worker->board, &call->step);
    if (assignment->model[0] && !engine->renders_any_model &&
        strcmp(assignment->model, engine->model_name) != 0)
        return kiln_fail(&call->err, KILN_UNAVAILABLE, "this worker renders with model %s, not %s",
                         engine->model_name, assignment->model);
    /* The engine reads the LoRA files while it begins.  If their hashes are equal before and after,
     * it has rendered with these. */
    char after[KILN_LORA_FILES_MAX];
    bool known = kiln_lora_files_text(&compute->loras, assignment, call->lora_files);
    int code = engine->begin(engine, &batch, call->outputs, &call->run, &call->err);
    call->lora_files_known = known && kiln_lora_files_text(&compute->loras, assignment, after) &&
                             strcmp(after, call->lora_files) == 0;
    return code;
}

/* Begins all calls of a flight, which the collector may have freed once the last has begun. */
static void run_flight(struct compute *compute, struct kiln_flight *flight, uint32_t wanted)
{
    struct kiln_worker *worker = compute->worker;
    char lora_set[KILN_LORA_SET_MAX];
    bool in_place = false; /* the LoRA set, once a call has begun */
    kiln_lora_set_text(flight->assignment.loras, flight->assignment.lora_count, lora_set,
                       sizeof lora_set);
    kiln_lora_paths_fill(&compute->loras, worker->config, &flight->assignment);
    /* The next assignment stays in its queue: only this thread pops. */
    const struct kiln_flight *next = kiln_queue_front(worker->ready);
    if (next)
        kiln_worker_prefetch(worker, &next->assignment);
    kiln_board_begin(&worker->board, &flight->assignment);
    kiln_board_kick(&worker->board);
    while (wanted > 0) {
        struct kiln_call *call = next_call(compute, flight);
        wanted -= call->count;
        call->last = wanted == 0;
        in_place = begin_call(compute, call) == 0 || in_place;
        /* The queue has a place for the first call.  For others the collector makes one, since each
         * call has a time limit. */
        while (kiln_queue_push(worker->asked, call, 1, 1000) == KILN_TIMEOUT)
            continue;
    }
    kiln_board_end(&worker->board, in_place ? lora_set : NULL);
}

void *kiln_compute(void *arg)
{
    struct compute compute = {
        .worker = arg,
        .ledger_outage = {KILN_OUTAGE_OF("ledger"), .effect = "rendering without asking it first"},
    };
    struct kiln_worker *worker = arg;
    for (int i = 0; i < KILN_PICTURE_SMALLER; i++)
        compute.smaller[i] = (int32_t)kiln_stored_sizes[i + 1].longest;
    for (;;) {
        void *item;
        size_t count;
        if (kiln_worker_drain(worker) == KILN_DRAIN_NO && !kiln_worker_may_begin(worker, 500))
            continue;
        int code = kiln_queue_pop(worker->ready, &item, 1, &count, 1000);
        if (code == KILN_CANCELLED)
            break;
        if (code != 0)
            continue;
        uint32_t wanted = 0;
        if (kiln_worker_drain(worker) != KILN_DRAIN_NO)
            kiln_worker_return(worker, item);
        else
            wanted = sort_out(&compute, item); /* 0: the flight may be freed already */
        if (wanted > 0)
            run_flight(&compute, item, wanted);
        else
            kiln_board_settle(&worker->board);
        kiln_board_kick(&worker->board);
    }
    kiln_ledger_close(compute.ledger);
    kiln_queue_close(worker->asked);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
