/* compute.c - the thread that owns the engine and begins one batch after another.
 *
 * Before a batch it asks the ledger which jobs are still this worker's; jobs that were cancelled or
 * taken back while they waited are not rendered.  If the ledger does not answer, all are rendered:
 * the attempt number fences the commit, and an idle device helps nobody.
 *
 * An assignment has one size, number of steps, mode and LoRA set.  Guidance, kind and trajectory
 * may differ and are arguments of a call, and so is the step at which jobs begin that have donors:
 * the jobs run in as few calls of the engine as there are kinds.  A donor for which a call would
 * take longer than it saves is left (worker/engine/call_times.h).  A call that has begun belongs to
 * the collector: while it ends, the next one begins.
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

/* Batches that follow each other sooner use the same memory again.  Mapping it anew costs less than
 * pictures of 256 px differ by in time; at 1024 px it is up to an eighth of a picture, once
 * (kernels/LAB.md). */
#define IDLE_MS 1000
#define CHECKED_MS 5 /* between looks for portions that come again */

struct compute {
    struct kiln_worker *worker;
    struct kiln_ledger *ledger; /* NULL until the first try to open it worked */
    struct kiln_outage ledger_outage;
    bool wanted[KILN_ASSIGN_MAX]; /* of the portion's jobs: still to be rendered */
    struct kiln_lora_paths loras;
    int32_t smaller[KILN_PICTURE_SMALLER]; /* longest sides */
    bool idle; /* nothing has come for IDLE_MS, and the engine has returned its unused memory */
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

/* Ends a job that cannot begin, because it has no start. */
static void fail_job(struct compute *compute, struct kiln_flight *flight,
                     const struct kiln_portion_job *job)
{
    struct kiln_picture *picture;
    while (!(picture = kiln_picture_new(flight, job->index)))
        kiln_worker_pause(compute->worker, 100); /* memory comes back, or the process is killed */
    kiln_picture_fail(picture, job->code, job->reason);
    picture->final = job->final;
    kiln_worker_pass(compute->worker->outcomes, picture);
}

/* Ends the jobs that are not to be rendered; returns how many are left. */
static uint32_t sort_out(struct compute *compute, const struct kiln_portion *portion)
{
    struct kiln_flight *flight = portion->flight;
    bool ours[KILN_ASSIGN_MAX];
    enum kiln_stop stops[KILN_ASSIGN_MAX];
    uint32_t wanted = 0;
    ask_ledger(compute, &flight->assignment, ours);
    for (uint32_t i = 0; i < portion->job_count; i++) {
        const struct kiln_portion_job *job = &portion->jobs[i];
        stops[i] = kiln_flight_stop(flight, job->index);
        if (stops[i] == KILN_STOP_NONE && !ours[job->index])
            stops[i] = KILN_STOP_DROPPED;
        compute->wanted[i] = stops[i] == KILN_STOP_NONE && job->code == 0;
        wanted += compute->wanted[i];
    }
    /* Ending the last job may free the flight, so the wanted ones must be known first. */
    for (uint32_t i = 0; i < portion->job_count; i++)
        if (stops[i] != KILN_STOP_NONE)
            kiln_worker_end_job(compute->worker, flight, portion->jobs[i].index, stops[i]);
        else if (!compute->wanted[i])
            fail_job(compute, flight, &portion->jobs[i]);
    return wanted;
}

/* The step at which a job of a portion begins because the cache chose its start; 0: it does not. */
static uint32_t reused_from(const struct kiln_portion *portion, uint32_t i)
{
    const struct kiln_portion_job *job = &portion->jobs[i];
    const struct kiln_donor *donor = &portion->flight->assignment.jobs[job->index].donor;
    return job->start >= 0 && donor->job ? donor->step : 0;
}

/* Whether that is one of the small steps of a run that stays coarse first. */
static bool reused_coarse(const struct kiln_portion *portion, uint32_t i)
{
    return reused_from(portion, i) > 0 &&
           portion->flight->assignment.jobs[portion->jobs[i].index].donor.coarse;
}

static bool same_call(const struct kiln_job *a, const struct kiln_job *b)
{
    return a->guidance == b->guidance && a->kind == b->kind &&
           (a->latents == KILN_LATENTS_TRAJECTORY) == (b->latents == KILN_LATENTS_TRAJECTORY);
}

/* Lets jobs run in full whose donors would save no time here. */
static void leave_slow_donors(struct compute *compute, struct kiln_portion *portion)
{
    const struct kiln_assignment *assignment = &portion->flight->assignment;
    const struct kiln_job *first = NULL; /* with a donor */
    uint32_t pictures[KILN_STEPS_MAX] = {0};
    struct kiln_call_kind kind;
    for (uint32_t i = 0; i < portion->job_count && !first; i++)
        if (compute->wanted[i] && reused_from(portion, i) > 0)
            first = &assignment->jobs[portion->jobs[i].index];
    if (!first || !kiln_call_kind_of(assignment, first, &kind))
        return;
    for (uint32_t i = 0; i < portion->job_count; i++)
        if (compute->wanted[i] && same_call(first, &assignment->jobs[portion->jobs[i].index]))
            pictures[reused_from(portion, i)]++;
    if (!kiln_call_times_sort_out(compute->worker->call_times, &kind, pictures))
        return;
    for (uint32_t i = 0; i < portion->job_count; i++)
        if (compute->wanted[i] && pictures[reused_from(portion, i)] == 0) {
            portion->jobs[i].start = -1;
            portion->jobs[i].fallback = KILN_FALLBACK_SLOWER;
        }
}

/* Lets a run from a donor be given up if its first step changes more or less than the first steps
 * of runs that come out right, where the card says how much that is of runs from one donor. */
static void set_bounds(const struct compute *compute, struct kiln_call *call,
                       const struct kiln_job *job, bool enlarged, DiffusionZItem *item)
{
    double bounds[2];
    const struct kiln_card_reuse *reuse = &compute->worker->engine->card.reuse;
    struct kiln_card_reuse_run run = {.class = (enum kiln_reuse_class)job->donor.hit,
                                      .depth = call->reused_from,
                                      .width = job->width,
                                      .height = job->height};
    if (call->reused_from == 0 || !item->start_latent || item->more_count > 0 ||
        !kiln_card_reuse_table_of(reuse, job, enlarged, call->reused_coarse, &run.table) ||
        !kiln_card_reuse_bounds(reuse, &run, bounds))
        return;
    item->change_least = bounds[0];
    item->change_most = bounds[1];
    call->checked = true;
}

/* Lets the last item begin from several latents, in the way of the setting. */
static void set_more(const struct compute *compute, struct kiln_call *call,
                     const struct kiln_start *start)
{
    DiffusionZItem *item = &call->items[call->count];
    if (start->more_count == 0)
        return;
    item->more_latents = (const float *const *)start->more;
    item->more_count = (int32_t)start->more_count;
    _Static_assert(
        DIFFUSIONZ_TREE == (int)KILN_COMBINE_TREE && DIFFUSIONZ_SLERP == (int)KILN_COMBINE_SLERP &&
            DIFFUSIONZ_LERP == (int)KILN_COMBINE_LERP && DIFFUSIONZ_STARTS_MAX == KILN_COMBINE_MAX,
        "the engine's numbers");
    item->combine =
        kiln_combine_by_name(kiln_config_text(compute->worker->config, KILN_KEY_COMBINE));
    call->donors[call->count] = 1 + start->more_count;
}

/* The next wanted jobs that can share a call of the engine. */
static struct kiln_call *next_call(struct compute *compute, const struct kiln_portion *portion)
{
    struct kiln_flight *flight = portion->flight;
    const struct kiln_job *jobs = flight->assignment.jobs;
    struct kiln_call *call;
    while (!(call = calloc(1, sizeof *call)))
        kiln_worker_pause(compute->worker, 100); /* memory comes back, or the process is killed */
    call->flight = flight;
    for (uint32_t i = 0; i < portion->job_count; i++) {
        const uint32_t index = portion->jobs[i].index;
        const int32_t start = portion->jobs[i].start;
        if (!compute->wanted[i] ||
            (call->count > 0 && (!same_call(&jobs[call->index[0]], &jobs[index]) ||
                                 call->reused_from != reused_from(portion, i) ||
                                 call->reused_coarse != reused_coarse(portion, i))))
            continue;
        call->reused_from = reused_from(portion, i);
        call->reused_coarse = reused_coarse(portion, i);
        call->fallbacks[call->count] = portion->jobs[i].fallback;
        call->wasted[call->count] = portion->jobs[i].wasted;
        call->wasted_ms[call->count] = portion->jobs[i].wasted_ms;
        compute->wanted[i] = false;
        call->index[call->count] = index;
        call->items[call->count] = (DiffusionZItem){
            .prompt = kiln_job_drawn(&jobs[index]),
            .negative_prompt = jobs[index].negative_prompt,
            .seed = jobs[index].seed,
            .cancel = &flight->stops[index],
            .start_latent = start < 0 ? NULL : portion->starts[start].latent,
            .start_rgb = start < 0 ? NULL : portion->starts[start].rgb,
            .start_prompt = start < 0 ? NULL : portion->starts[start].prompt,
            .start_mask = start < 0 ? NULL : portion->starts[start].mask,
            .variety = jobs[index].mode.variety,
        };
        if (start >= 0)
            set_more(compute, call, &portion->starts[start]);
        set_bounds(compute, call, &jobs[index], start >= 0 && portion->starts[start].enlarged,
                   &call->items[call->count++]);
    }
    return call;
}

/* Begins one call of the engine; its starts are the caller's again afterwards.  A worker with
 * another model than the job's is an error in its settings, so the job may run elsewhere. */
static int begin_call(struct compute *compute, struct kiln_call *call)
{
    const struct kiln_assignment *assignment = &call->flight->assignment;
    const struct kiln_job *job = &assignment->jobs[call->index[0]];
    struct kiln_renderer *engine = compute->worker->engine;
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
        .progress = &call->step,
        .smaller = compute->smaller,
        .smaller_count = KILN_PICTURE_SMALLER,
    };
    int code = 0;
    call->started_ms = kiln_monotonic_ms();
    if (!kiln_renderer_renders(engine, assignment->model))
        code = kiln_fail(&call->err, KILN_UNAVAILABLE, "this worker renders with model %s, not %s",
                         engine->model_name, assignment->model);
    /* The engine reads the LoRA files while it begins.  If their hashes are equal before and after,
     * it has rendered with these. */
    char after[KILN_LORA_FILES_MAX];
    const bool known = kiln_lora_files_text(&compute->loras, assignment, call->lora_files);
    code = code ? code : kiln_lora_files_check(assignment, call->lora_files, &call->err);
    code = code ? code : kiln_call_set_mode(call, engine, &batch);
    kiln_board_call_begun(&compute->worker->board, &call->step, call->steps,
                          (uint32_t)(batch.coarse_steps - batch.coarse_skip),
                          (uint32_t)batch.middle_steps);
    if (code != 0)
        return code;
    code = engine->begin(engine, &batch, call->outputs, &call->run, &call->err);
    if (code != 0)
        kiln_lora_files_name(&compute->loras, assignment, &call->err);
    call->lora_files_known = known && kiln_lora_files_text(&compute->loras, assignment, after) &&
                             strcmp(after, call->lora_files) == 0;
    if (!call->lora_files_known && kiln_lora_files_check(assignment, "", &call->lora_err) != 0)
        kiln_log(KILN_LOG_WARNING, "lora_exchanged", kiln_f("error", "%s", call->lora_err.text));
    return code;
}

/* Begins all calls of a portion.  The collector may have freed the flight once the last call of its
 * last portion has begun. */
static void run_portion(struct compute *compute, struct kiln_portion *portion, uint32_t wanted)
{
    struct kiln_worker *worker = compute->worker;
    struct kiln_flight *flight = portion->flight;
    char lora_set[KILN_LORA_SET_MAX];
    bool in_place = false; /* the LoRA set, once a call has begun */
    kiln_lora_set_key(flight->assignment.loras, flight->assignment.lora_count, lora_set,
                      sizeof lora_set);
    kiln_lora_paths_fill(&compute->loras, worker->config, flight);
    /* The next assignment stays in its queue: only this thread pops. */
    const struct kiln_portion *next = kiln_queue_front(worker->ready);
    if (next && next->flight != flight)
        kiln_worker_prefetch(worker, next->flight);
    kiln_board_begin(&worker->board, &flight->assignment);
    kiln_board_kick(&worker->board);
    leave_slow_donors(compute, portion);
    while (wanted > 0) {
        struct kiln_call *call = next_call(compute, portion);
        wanted -= call->count;
        call->last = wanted == 0 && portion->last;
        if (call->checked)
            atomic_fetch_add(&worker->checked, 1);
        in_place = begin_call(compute, call) == 0 || in_place;
        /* The queue has a place for the first call.  For others the collector makes one, since each
         * call has a time limit. */
        while (kiln_queue_push(worker->asked, call, 1, 1000) == KILN_TIMEOUT)
            continue;
    }
    kiln_board_end(&worker->board, in_place ? lora_set : NULL);
}

/* The next portion, those that come again first.  Codes as kiln_queue_pop; KILN_CANCELLED once no
 * more can come. */
static int next_portion(struct kiln_worker *worker, struct kiln_portion **ret)
{
    void *item;
    size_t count;
    const bool checked = atomic_load(&worker->checked) > 0; /* before the queue is looked at */
    int code = kiln_queue_pop(worker->again, &item, 1, &count, 0);
    if (code != 0)
        code = kiln_queue_pop(worker->ready, &item, 1, &count, checked ? CHECKED_MS : IDLE_MS);
    if (code == KILN_CANCELLED && checked) {
        kiln_worker_pause(worker, CHECKED_MS);
        code = KILN_TIMEOUT;
    }
    if (code == 0)
        *ret = item;
    return code;
}

static void rest(struct compute *compute)
{
    struct kiln_renderer *engine = compute->worker->engine;
    if (!compute->idle && engine->trim)
        engine->trim(engine);
    compute->idle = true;
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
        struct kiln_portion *portion;
        bool refused = kiln_board_refused(&worker->board, KILN_PEER_STORE, KILN_STORE_AWAY_MS);
        if (kiln_worker_drain(worker) == KILN_DRAIN_NO && !refused &&
            !kiln_worker_may_begin(worker, 500))
            continue;
        int code = next_portion(worker, &portion);
        if (code == KILN_CANCELLED)
            break;
        if (code != 0) {
            if (atomic_load(&worker->checked) == 0)
                rest(&compute);
            continue;
        }
        compute.idle = false;
        uint32_t wanted = 0;
        if (portion->first)
            atomic_fetch_sub(&worker->waiting, 1);
        if (kiln_worker_drain(worker) != KILN_DRAIN_NO)
            kiln_worker_return(worker, portion, KILN_STOP_DRAINED);
        else if (refused)
            kiln_worker_return(worker, portion, KILN_STOP_REFUSED);
        else
            wanted = sort_out(&compute, portion); /* 0: the flight may be freed already */
        if (wanted > 0)
            run_portion(&compute, portion, wanted);
        else if (portion->last)
            kiln_board_settle(&worker->board);
        kiln_portion_free(portion);
        kiln_board_kick(&worker->board);
    }
    kiln_ledger_close(compute.ledger);
    kiln_queue_close(worker->asked);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
