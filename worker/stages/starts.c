/* starts.c - the thread that looks up what jobs need, before their batch begins: the LoRA files
 * that are not on this machine, and what runs start from.
 *
 * An assignment without starts whose LoRAs are here passes through.  LoRAs are fetched into the
 * disk cache, and stay there while the assignment is in flight.  Of one with starts the ledger is
 * asked once where the latents are; then each start is fetched once, however many jobs share it.
 * With another mask it is another start.  The next assignment is looked up while one is rendered,
 * and no more than that: the queue behind this thread has room for the starts of one portion, so at
 * most three portions are in memory.
 *
 * A donor, a start that the cache chose, is tried once: if it is gone, damaged, does not fit or is
 * not there at once, its jobs begin from noise.  For early steps it is softened, and for the small
 * ones of a coarse run shrunk.
 *
 * A start that is gone, damaged or of another model fails its jobs alone; a LoRA that is damaged in
 * the store fails those of the assignment.  If the store does not have the LoRA, the jobs return:
 * another worker may have it in its lora_dir or cache.  That counts as a try.  While the store or
 * the ledger is away the look-up waits, for at most hold_s, and assignments that need neither
 * overtake it. After that the jobs return to the queue.  A worker that ends looks nothing up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/text/utf8.h"
#include "storage/daemon/outage.h"
#include "storage/ledger/ledger.h"
#include "worker/stages/combine.h"
#include "worker/stages/lora_files.h"
#include "worker/stages/prefetch.h"
#include "worker/stages/start_load.h"
#include "worker/state/worker.h"

struct starts {
    struct kiln_worker *worker;
    struct kiln_store *store;   /* NULL until the first try to open it worked */
    struct kiln_ledger *ledger; /* likewise */
    struct kiln_outage store_outage, ledger_outage;
    struct kiln_flight *later[KILN_HEARTBEAT_HELD_MAX]; /* that need a server; arrived meanwhile */
    uint32_t later_count;
};

/* The look-up of one assignment. */
struct look {
    struct starts *starts;
    struct kiln_flight *flight;
    struct kiln_start_want want;
    struct kiln_mode own; /* of jobs like those with donors; with a LoRA none has a small one */
    struct kiln_picture_size small; /* of their first steps, if they are coarse first */
    struct kiln_latent_row *rows;   /* [job_count]; of jobs without init_job empty */
    char **prompts;                 /* [job_count], of these jobs; NULLs unless edits want them */
    bool taken[KILN_ASSIGN_MAX];    /* into a portion */
    bool loras_missing;             /* so no job of it can begin */
    bool answers;                   /* the store, to the last request */
    bool donors_away;               /* it gave one too late: the others are not waited for */
    double until_ms;                /* the end of its patience; 0: no server was away yet */
};

/* --- passing on ------------------------------------------------------------------------------- */

static struct kiln_portion *new_portion(struct kiln_worker *worker, struct kiln_flight *flight)
{
    struct kiln_portion *portion;
    while (!(portion = kiln_portion_new(flight)))
        kiln_worker_pause(worker, 100); /* memory comes back, or the process is killed */
    return portion;
}

/* Passes a portion on; waits until the compute thread has room for its starts. */
static void pass(struct kiln_worker *worker, struct kiln_portion *portion)
{
    int code;
    if (kiln_queue_length(worker->ready) == 0) /* else the compute thread does it later */
        kiln_worker_prefetch(worker, portion->flight);
    while ((code = kiln_queue_push(worker->ready, portion, portion->bytes + 1, 1000)) ==
           KILN_TIMEOUT)
        continue;
    if (code != 0) { /* closed: the worker ends */
        if (portion->last)
            kiln_board_settle(&worker->board);
        kiln_worker_return(worker, portion, KILN_STOP_DRAINED);
        kiln_portion_free(portion);
    }
    kiln_board_kick(&worker->board);
}

/* The whole assignment as one portion, without starts. */
static void pass_whole(struct kiln_worker *worker, struct kiln_flight *flight)
{
    struct kiln_portion *portion = new_portion(worker, flight);
    for (uint32_t i = 0; i < flight->assignment.job_count; i++)
        kiln_portion_add(portion, i, -1);
    portion->first = portion->last = true;
    pass(worker, portion);
}

static bool has_starts(const struct starts *starts, const struct kiln_flight *flight)
{
    bool any = kiln_mode_starts(&flight->assignment.mode);
    for (uint32_t i = 0; i < flight->assignment.job_count; i++)
        any = any || flight->assignment.jobs[i].donor.job != 0;
    /* A worker with another model than the job's does not begin it. */
    return any && kiln_renderer_renders(starts->worker->engine, flight->assignment.model);
}

/* Whether its LoRAs are here, or it is not begun here anyway. */
static bool has_loras(const struct starts *starts, struct kiln_flight *flight)
{
    const struct kiln_worker *worker = starts->worker;
    return !kiln_renderer_renders(worker->engine, flight->assignment.model) ||
           kiln_lora_files_here(worker->config, worker->lora_disk, flight);
}

static bool needs_server(const struct starts *starts, struct kiln_flight *flight)
{
    return has_starts(starts, flight) || !has_loras(starts, flight);
}

/* Passes on what arrived while a server is away, if it needs no server. */
static void let_overtake(struct starts *starts)
{
    void *item;
    size_t count;
    while (kiln_queue_pop(starts->worker->arrived, &item, 1, &count, 0) == 0) {
        if (needs_server(starts, item))
            starts->later[starts->later_count++] = item; /* no more than that are in flight */
        else
            pass_whole(starts->worker, item);
    }
}

/* --- waiting for a server --------------------------------------------------------------------- */

static bool ends(const struct look *look)
{
    return kiln_worker_drain(look->starts->worker) != KILN_DRAIN_NO;
}

static bool same_key(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_start(const struct kiln_job *a, const struct kiln_job *b)
{
    return same_key(a->init_image, b->init_image) && same_key(a->init_mask, b->init_mask) &&
           a->init_job == b->init_job && a->donor.job == b->donor.job &&
           a->donor.step == b->donor.step && /* by which a donor is softened */
           a->donor.coarse == b->donor.coarse;
}

/* Whether somebody still wants the job of this number or one that starts from the same. */
static bool wanted(const struct look *look, uint32_t index)
{
    const struct kiln_job *jobs = look->flight->assignment.jobs;
    for (uint32_t i = index; i < look->flight->assignment.job_count; i++)
        if (!look->taken[i] && same_start(&jobs[index], &jobs[i]) &&
            kiln_flight_stop(look->flight, i) == KILN_STOP_NONE)
            return true;
    return false;
}

/* After a failure: waits and returns true if the same may succeed now. */
static bool again(struct look *look, struct kiln_outage *outage, const struct kiln_error *err)
{
    struct kiln_worker *worker = look->starts->worker;
    const double now = kiln_monotonic_ms();
    if (kiln_code_retry(err->code) != KILN_RETRY_LATER)
        return false;
    if (look->until_ms == 0)
        look->until_ms = now + kiln_board_settings(&worker->board).hold_s * 1e3;
    if (ends(look) || now >= look->until_ms)
        return false;
    kiln_worker_pause(worker, kiln_outage_fail(outage, err));
    let_overtake(look->starts);
    return !ends(look);
}

/* --- one start -------------------------------------------------------------------------------- */

static int try_rows(struct look *look, struct kiln_error *err)
{
    struct starts *starts = look->starts;
    const struct kiln_assignment *assignment = &look->flight->assignment;
    uint64_t ids[KILN_ASSIGN_MAX];
    char name[KILN_NAME_MAX + 32];
    int code = 0;
    for (uint32_t i = 0; i < assignment->job_count; i++)
        ids[i] = assignment->jobs[i].donor.job ? assignment->jobs[i].donor.job
                                               : assignment->jobs[i].init_job;
    snprintf(name, sizeof name, "kiln-worker %s starts", starts->worker->id);
    if (!starts->ledger)
        code = kiln_ledger_open(starts->worker->config, name, &starts->ledger, err);
    code = code ? code
                : kiln_ledger_latents(starts->ledger, starts->worker->pool, ids,
                                      assignment->job_count, look->rows, err);
    if (code || !assignment->mode.edited)
        return code;
    return kiln_ledger_prompts(starts->ledger, starts->worker->pool, ids, assignment->job_count,
                               look->prompts, err);
}

/* Where the latents of the whole assignment are. */
static int ask_rows(struct look *look, struct kiln_error *err)
{
    const bool donors = !kiln_mode_starts(&look->flight->assignment.mode);
    bool any = donors;
    int code;
    for (uint32_t i = 0; i < look->flight->assignment.job_count; i++)
        any = any || look->flight->assignment.jobs[i].init_job != 0;
    if (!any)
        return 0;
    while ((code = try_rows(look, err)) != 0)
        if (donors || !again(look, &look->starts->ledger_outage, err))
            return code;
    kiln_outage_over(&look->starts->ledger_outage);
    return 0;
}

/* The prompt that an edit's latent was rendered with; several jobs may share the start. */
static int take_prompt(struct look *look, uint32_t index, struct kiln_start *start,
                       struct kiln_error *err)
{
    const struct kiln_job *job = &look->flight->assignment.jobs[index];
    const struct kiln_latent_row *row = &look->rows[index];
    int code = 0;
    if (!look->prompts[index])
        code = kiln_fail(err, KILN_NOT_FOUND, "init_job %" PRIu64 ": there is no such job",
                         job->init_job);
    else if (row->width != job->width || row->height != job->height)
        code =
            kiln_fail(err, KILN_BAD_INPUT,
                      "init_job %" PRIu64 ": its latent is of %ux%u px and this job of %ux%u; an "
                      "edit keeps the size",
                      job->init_job, row->width, row->height, job->width, job->height);
    if (code)
        kiln_start_release(start);
    start->prompt = code ? NULL : look->prompts[index];
    look->prompts[index] = start->prompt ? NULL : look->prompts[index];
    return code;
}

/* A request to an S3 that is away takes its many tries, so it is asked first whether it answers. */
static int reach_store(struct look *look, struct kiln_error *err)
{
    struct starts *starts = look->starts;
    int code = 0;
    if (!starts->store)
        code = kiln_store_open(starts->worker->config, &starts->store, err);
    if (code == 0 && !look->answers)
        code = kiln_store_reach(starts->store, err);
    if (kiln_start_is_bad(
            code)) /* a store whose directory or bucket is missing has lost no start */
        code = err->code = KILN_UNAVAILABLE;
    look->answers = code == 0;
    return code;
}

/* After the last try for a start. */
static void heed_answer(const struct look *look)
{
    if (!look->answers)
        return;
    kiln_health_heard(KILN_PEER_STORE);
    kiln_outage_over(&look->starts->store_outage);
}

static int try_load(struct look *look, uint32_t index, struct kiln_start *ret,
                    struct kiln_error *err)
{
    int code = reach_store(look, err);
    code = code ? code
                : kiln_start_load(look->starts->store, &look->flight->assignment.jobs[index],
                                  &look->rows[index], &look->want, ret, err);
    if (code == 0 && look->flight->assignment.mode.edited)
        code = take_prompt(look, index, ret, err);
    look->answers = look->answers && (code == 0 || kiln_start_is_bad(code));
    return code;
}

static int load(struct look *look, uint32_t index, struct kiln_start *ret, struct kiln_error *err)
{
    int code;
    while ((code = try_load(look, index, ret, err)) != 0)
        if (!again(look, &look->starts->store_outage, err) || !wanted(look, index))
            break;
    heed_answer(look);
    return code;
}

/* --- LoRAs ------------------------------------------------------------------------------------ */

static int try_loras(struct look *look, struct kiln_error *err)
{
    const struct kiln_worker *worker = look->starts->worker;
    if (has_loras(look->starts, look->flight))
        return 0;
    int code = reach_store(look, err);
    if (code)
        return code;
    /* One try takes minutes if the line is slow; between tries the caller looks who still waits. */
    kiln_store_try_once(look->starts->store, true);
    code = kiln_lora_files_fetch(worker->config, worker->lora_disk, look->starts->store,
                                 look->flight, err);
    kiln_store_try_once(look->starts->store, false);
    look->answers = look->answers && (code == 0 || kiln_start_is_bad(code) || code == KILN_IO);
    return code;
}

static bool all_stopped(const struct kiln_flight *flight)
{
    for (uint32_t i = 0; i < flight->assignment.job_count; i++)
        if (kiln_flight_stop(flight, i) == KILN_STOP_NONE)
            return false;
    return true;
}

static int load_loras(struct look *look, struct kiln_error *err)
{
    int code;
    while ((code = try_loras(look, err)) != 0)
        if (!again(look, &look->starts->store_outage, err) || all_stopped(look->flight))
            break;
    heed_answer(look);
    return code;
}

/* --- donors ----------------------------------------------------------------------------------- */

static enum kiln_fallback fallback_of(int code)
{
    switch (code) {
    case 0:
        return KILN_FALLBACK_NONE;
    case KILN_NOT_FOUND:
        return KILN_FALLBACK_MISSING;
    case KILN_CORRUPT:
        return KILN_FALLBACK_DAMAGED;
    case KILN_BAD_INPUT:
        return KILN_FALLBACK_UNFIT;
    case KILN_UNSUPPORTED:
        return KILN_FALLBACK_ODD;
    default:
        return KILN_FALLBACK_AWAY;
    }
}

/* Makes of a donor's latents what the run begins from. */
static int prepare(const struct look *look, const struct kiln_donor *donor,
                   struct kiln_start *start, struct kiln_error *err)
{
    const struct kiln_picture_size full = {look->want.width, look->want.height};
    const uint32_t side =
        kiln_card_reuse_soften(&look->starts->worker->engine->card.reuse, donor->step);
    return kiln_donor_prepare(&look->want, donor->coarse ? look->small : full, side, start, err);
}

/* Whether a run of the job can begin at the donor's step. */
static bool fits_mode(const struct look *look, const struct kiln_donor *donor)
{
    return !donor->coarse || (look->own.kind == KILN_MODE_COARSE && donor->step < look->own.small &&
                              look->small.width);
}

/* One try for the latent of a job's donor.  code: what asking the ledger gave. */
static enum kiln_fallback load_donor(struct look *look, uint32_t index, int code,
                                     struct kiln_start *ret)
{
    struct starts *starts = look->starts;
    struct kiln_error err = {0};
    const struct kiln_donor *chosen = &look->flight->assignment.jobs[index].donor;
    const uint64_t donor = chosen->job;
    struct kiln_start_want want = look->want;
    want.small_donors = want.small_donors && !chosen->coarse;
    if (!kiln_donor_measured(starts->worker->engine, &look->flight->assignment.jobs[index],
                             &look->rows[index]))
        return KILN_FALLBACK_UNMEASURED;
    if (!fits_mode(look, chosen))
        return KILN_FALLBACK_UNFIT;
    if (code || look->donors_away)
        return KILN_FALLBACK_AWAY;
    int others = 0; /* what looking for more latents ended with */
    code = reach_store(look, &err);
    if (code == 0) {
        kiln_store_try_once(starts->store, true);
        code = kiln_donor_load(starts->store, &look->rows[index], &want, ret, &err);
        if (code == 0)
            others =
                kiln_combine_add(starts->worker, starts->ledger, starts->store, donor, &want, ret);
        kiln_store_try_once(starts->store, false);
        look->answers = others == 0 && (code == 0 || kiln_start_is_bad(code));
    }
    heed_answer(look);
    look->donors_away = others != 0 || fallback_of(code) == KILN_FALLBACK_AWAY;
    code = code ? code : prepare(look, chosen, ret, &err);
    if (code != 0)
        kiln_log(KILN_LOG_WARNING, "donor_unused", kiln_f("donor", "%" PRIu64, donor),
                 kiln_f("why", "%s", kiln_fallback_name(fallback_of(code))),
                 kiln_f("error", "%s", err.text));
    return fallback_of(code);
}

/* --- portions --------------------------------------------------------------------------------- */

/* Moves a job into the portion, and every other job that starts from the same. */
static void take(struct look *look, struct kiln_portion *portion, uint32_t index, int32_t start,
                 int code, const struct kiln_error *err)
{
    const struct kiln_assignment *assignment = &look->flight->assignment;
    for (uint32_t i = index; i < assignment->job_count; i++) {
        const struct kiln_job *job = &assignment->jobs[i];
        if (look->taken[i] || !same_start(&assignment->jobs[index], job))
            continue;
        look->taken[i] = true;
        struct kiln_portion_job *entry = kiln_portion_add(portion, i, start);
        if (code == 0 || kiln_flight_stop(look->flight, i) != KILN_STOP_NONE)
            continue;
        entry->code = code;
        entry->final = kiln_start_is_bad(code) && !(look->loras_missing && code == KILN_NOT_FOUND);
        kiln_utf8_copy(entry->reason, sizeof entry->reason, err->text);
        kiln_log(KILN_LOG_WARNING, look->loras_missing ? "lora_missing" : "start_missing",
                 kiln_f("job", "%" PRIu64, job->id), kiln_f("code", "%s", kiln_code_name(code)),
                 kiln_f("error", "%s", err->text));
    }
}

/* The next job that no portion has; job_count if there is none. */
static uint32_t next_job(const struct look *look)
{
    uint32_t i = 0;
    while (i < look->flight->assignment.job_count && look->taken[i])
        i++;
    return i;
}

/* All jobs, which have none of their LoRAs. */
static void fill_failed(struct look *look, struct kiln_portion *portion, int code,
                        const struct kiln_error *err)
{
    for (uint32_t i; (i = next_job(look)) < look->flight->assignment.job_count;)
        take(look, portion, i, -1, code, err);
}

/* A job of an assignment in which some have donors, and all that have the same donor or none. */
static void fill_donor(struct look *look, struct kiln_portion *portion, uint32_t index, int code)
{
    const struct kiln_job *jobs = look->flight->assignment.jobs;
    const uint32_t before = portion->job_count;
    struct kiln_start start = {0};
    enum kiln_fallback fallback = KILN_FALLBACK_NONE;
    int32_t at = -1;
    if (jobs[index].donor.job && !ends(look) && wanted(look, index))
        fallback = load_donor(look, index, code, &start);
    if (start.latent) {
        at = (int32_t)portion->start_count;
        portion->bytes += start.bytes;
        portion->starts[portion->start_count++] = start;
    }
    take(look, portion, index, at, 0, NULL);
    for (uint32_t i = before; i < portion->job_count; i++)
        portion->jobs[i].fallback = fallback;
}

/* Fills a portion with jobs whose starts are there, or which failed.  code, unseen: the ledger's
 * failure, for all jobs that start from another one. */
static void fill(struct look *look, struct kiln_portion *portion, int code,
                 const struct kiln_error *unseen)
{
    struct kiln_error why;
    const uint32_t count = look->flight->assignment.job_count;
    for (uint32_t i; (i = next_job(look)) < count && portion->bytes < KILN_PORTION_BYTES;) {
        struct kiln_start start = {0};
        if (!kiln_mode_starts(&look->flight->assignment.mode)) {
            fill_donor(look, portion, i, code);
            continue;
        }
        int failure = look->flight->assignment.jobs[i].init_image ? 0 : code;
        if (failure == 0 && !ends(look) && wanted(look, i)) /* else the compute thread ends it */
            failure = load(look, i, &start, &why);
        else
            why = *unseen;
        if (ends(look) || !(start.latent || start.rgb)) {
            take(look, portion, i, -1, ends(look) ? 0 : failure, &why);
            kiln_start_release(&start);
            continue;
        }
        portion->bytes += start.bytes;
        portion->starts[portion->start_count] = start;
        take(look, portion, i, (int32_t)portion->start_count++, 0, NULL);
    }
}

/* How jobs of the assignment are rendered, if they are like those with donors. */
static struct kiln_mode own_mode(const struct kiln_renderer *engine,
                                 const struct kiln_assignment *assignment)
{
    const struct kiln_card_picture picture = {
        .width = assignment->width, .height = assignment->height, .steps = assignment->steps};
    if (assignment->lora_count > 0)
        return (struct kiln_mode){.kind = KILN_MODE_EXACT};
    return kiln_model_card_mode(&engine->card, &assignment->mode, &picture);
}

static void look_up(struct starts *starts, struct kiln_flight *flight)
{
    struct kiln_worker *worker = starts->worker;
    const struct kiln_assignment *assignment = &flight->assignment;
    const uint32_t count = assignment->job_count;
    const struct kiln_mode own = own_mode(worker->engine, assignment);
    struct kiln_picture_size middle;
    char set[KILN_LORA_SET_MAX];
    kiln_lora_set_key(assignment->loras, assignment->lora_count, set, sizeof set);
    struct look look = {.starts = starts,
                        .flight = flight,
                        .own = own,
                        .want = {.width = assignment->width,
                                 .height = assignment->height,
                                 .model_hash = worker->engine->model_hash,
                                 .lora_set = set,
                                 .small_donors = own.kind == KILN_MODE_COARSE,
                                 .latent_channels = (uint32_t)worker->engine->latent_channels,
                                 .latent_factor = (uint32_t)worker->engine->latent_factor}};
    struct kiln_error err = {0};
    if (!kiln_coarse_sizes(&own, (struct kiln_picture_size){assignment->width, assignment->height},
                           worker->engine->card.coarse_sizes,
                           worker->engine->card.coarse_size_count, &look.small, &middle))
        look.small = (struct kiln_picture_size){0};
    while (!(look.rows = calloc(count, sizeof *look.rows)) ||
           !(look.prompts = calloc(count, sizeof *look.prompts))) {
        free(look.rows);
        kiln_worker_pause(worker, 100);
    }
    const int unloaded = load_loras(&look, &err);
    if (!unloaded && kiln_queue_length(worker->ready) == 0)
        kiln_worker_prefetch(worker, flight);
    int code = unloaded ? unloaded : has_starts(starts, flight) ? ask_rows(&look, &err) : 0;
    look.loras_missing = unloaded != 0;
    for (bool first = true, last = false; !last; first = false) {
        struct kiln_portion *portion = new_portion(worker, flight);
        if (unloaded)
            fill_failed(&look, portion, ends(&look) ? 0 : unloaded, &err);
        else
            fill(&look, portion, code, &err);
        portion->first = first;
        portion->last = last = next_job(&look) == count;
        pass(worker, portion); /* the last one may have freed the flight */
    }
    for (uint32_t i = 0; i < count; i++)
        free(look.prompts[i]);
    free(look.prompts);
    free(look.rows);
}

/* The flight that has waited longest, or NULL after a second without one; false at the end. */
static bool next_flight(struct starts *starts, struct kiln_flight **ret)
{
    void *item = NULL;
    size_t count;
    int code = 0;
    if (starts->later_count > 0) {
        item = starts->later[0];
        memmove(starts->later, starts->later + 1, --starts->later_count * sizeof starts->later[0]);
    } else {
        code = kiln_queue_pop(starts->worker->arrived, &item, 1, &count, 1000);
    }
    *ret = item;
    return code != KILN_CANCELLED;
}

void *kiln_starts(void *arg)
{
    struct kiln_worker *worker = arg;
    struct starts starts = {
        .worker = worker,
        /* Not shared with the uploaders: this thread asks nothing while no job has a start, so it
         * may not learn for long that the server is back. */
        .store_outage = {KILN_OUTAGE_OF("store"),
                         .effect = "jobs with a start or a new LoRA wait for it"},
        .ledger_outage = {KILN_OUTAGE_OF("ledger"), .effect = "jobs with a start wait for it"},
    };
    for (struct kiln_flight *flight; next_flight(&starts, &flight);) {
        if (!flight)
            continue;
        if (needs_server(&starts, flight))
            look_up(&starts, flight);
        else
            pass_whole(worker, flight);
    }
    kiln_store_close(starts.store);
    kiln_ledger_close(starts.ledger);
    kiln_queue_close(worker->ready);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
