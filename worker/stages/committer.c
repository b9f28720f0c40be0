/* committer.c - a thread that writes into the ledger how each job ended.
 *
 * One transaction a picture, fenced by the attempt number: if the job has been assigned to another
 * worker meanwhile, nothing is written, and the result is dropped and logged.  Pictures that have
 * queued up share one round trip and one flush of the server's log, each in a transaction of its
 * own. During an outage of the ledger the group is retried and later pictures wait in their queue.
 * The ledger answers a repeated commit like the first one.
 */
#include <inttypes.h>
#include <stdio.h>

#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"
#include "storage/daemon/outage.h"
#include "storage/daemon/stopwatch.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/read.h"
#include "worker/state/worker.h"

#define GROUP_MAX 32 /* pictures of one round trip; more would make the first of them wait */

struct committer {
    struct kiln_worker *worker;
    struct kiln_ledger *ledger; /* NULL until the first try to open it worked */
    struct kiln_outage outage;
};

/* The rows of one picture; the texts are borrowed from it and from the worker. */
static void fill_commit(const struct kiln_worker *worker, const struct kiln_picture *picture,
                        struct kiln_commit_object objects[KILN_PICTURE_OBJECTS_MAX],
                        struct kiln_commit *ret)
{
    for (uint32_t i = 0; i < picture->object_count; i++) {
        const struct kiln_picture_object *object = &picture->objects[i];
        objects[i] = (struct kiln_commit_object){
            .role = object->role,
            .key = object->key,
            .sha256 = object->sha256,
            .bytes = object->size,
            .width = object->width,
            .height = object->height,
            .content_type = object->content_type,
        };
    }
    *ret = (struct kiln_commit){
        .job = picture->job,
        .worker = worker->id,
        .assignment = picture->flight->assignment.id,
        .model_hash = worker->engine->model_hash,
        .model_name = worker->engine->model_name,
        .objects = objects,
        .object_count = picture->object_count,
        .sigma =
            picture->latent_states > 0 ? picture->latent_sigmas[picture->latent_states - 1] : 0,
        .latent_sigmas = picture->latent_sigmas,
        .latent_encoding = picture->latent_encoding,
        .latent_states = picture->latent_states,
        .latent_channels = picture->latent_channels,
        .lora_files = picture->lora_files_known ? picture->lora_files : NULL,
        .mode = picture->mode,
        .start = picture->start[0] ? picture->start : NULL,
        .fallback = kiln_fallback_name(picture->fallback),
        .forwards =
            picture->mode.kind == KILN_MODE_EXACT && picture->wasted == 0 ? 0 : picture->forwards,
        .start_sigma = picture->start_sigma,
        .own_forwards = picture->own_forwards,
        .wait_ms = picture->wait_ms,
        .text_ms = picture->text_ms,
        .denoise_ms = picture->denoise_ms,
        .decode_ms = picture->decode_ms,
        .encode_ms = picture->encode_ms,
        .upload_ms = picture->upload_ms,
    };
}

static int ledger_fails(struct committer *committer, const struct kiln_error *err)
{
    kiln_board_trouble(&committer->worker->board, KILN_PEER_LEDGER, err);
    return kiln_outage_fail(&committer->outage, err);
}

static void ledger_answers(struct committer *committer)
{
    kiln_health_heard(KILN_PEER_LEDGER);
    if (kiln_outage_is(&committer->outage))
        kiln_board_trouble(&committer->worker->board, KILN_PEER_LEDGER, NULL);
    kiln_outage_over(&committer->outage);
}

static int open_ledger(struct committer *committer, struct kiln_error *err)
{
    char name[KILN_NAME_MAX + 32];
    if (committer->ledger)
        return 0;
    snprintf(name, sizeof name, "kiln-worker %s commit", committer->worker->id);
    return kiln_ledger_open(committer->worker->config, name, &committer->ledger, err);
}

/* What a picture saved that the cache chose a donor for; its seconds as `kiln usage` counts them.
 */
static void count_reuse(const struct kiln_picture *picture)
{
    const double saved = picture->own_forwards - picture->forwards;
    if (!picture->job->donor.job)
        return;
    kiln_metric_add(KILN_METRIC_REUSES, picture->fallback, 1);
    if (picture->wasted > 0) {
        kiln_metric_observe(KILN_METRIC_WASTED_STEPS, 0, picture->wasted);
        return;
    }
    if (picture->own_forwards <= 0 || picture->forwards <= 0)
        return;
    kiln_metric_observe(KILN_METRIC_SAVED_STEPS, 0, saved);
    kiln_metric_observe(KILN_METRIC_SAVED_SECONDS, 0,
                        picture->denoise_ms * saved / picture->forwards / 1e3);
}

/* Commits rendered pictures, at most GROUP_MAX, and counts what the stages took; ret_ours[i]:
 * picture i was still ours. */
static int commit(struct committer *committer, struct kiln_picture *const *pictures, size_t count,
                  bool *ret_ours, struct kiln_error *err)
{
    struct kiln_commit_object objects[GROUP_MAX][KILN_PICTURE_OBJECTS_MAX];
    struct kiln_commit rows[GROUP_MAX];
    for (size_t i = 0; i < count; i++)
        fill_commit(committer->worker, pictures[i], objects[i], &rows[i]);
    int code = open_ledger(committer, err);
    int64_t started = kiln_stopwatch_start();
    code = code ? code : kiln_ledger_commit_many(committer->ledger, rows, count, ret_ours, err);
    for (size_t i = 0; i < count && code == 0; i++) {
        const struct kiln_picture *picture = pictures[i];
        const double stages_ms[] = {
            [KILN_STAGE_WAIT] = picture->wait_ms,
            [KILN_STAGE_TEXT] = picture->text_ms,
            [KILN_STAGE_DENOISE] = picture->denoise_ms,
            [KILN_STAGE_DECODE] = picture->decode_ms,
            [KILN_STAGE_ENCODE] = picture->encode_ms,
            [KILN_STAGE_UPLOAD] = picture->upload_ms,
            [KILN_STAGE_COMMIT] = kiln_stopwatch_s(started) * 1e3,
        };
        for (uint32_t s = 0; s < sizeof stages_ms / sizeof stages_ms[0] && ret_ours[i]; s++)
            kiln_metric_observe(KILN_METRIC_STAGE_SECONDS, s, stages_ms[s] / 1e3);
        if (ret_ours[i])
            count_reuse(picture);
    }
    return code;
}

/* Writes the outcome once.  Of a job without a picture the ledger decides whether it is queued
 * again or has failed; *ret_kind is the event that tells. */
static int write_outcome(struct committer *committer, struct kiln_picture *picture,
                         enum kiln_event_kind *ret_kind, bool *ret_ours, struct kiln_error *err)
{
    int state = -1;
    if (picture->outcome == KILN_OUTCOME_RENDERED) {
        *ret_kind = KILN_EVENT_DONE;
        return commit(committer, &picture, 1, ret_ours, err);
    }
    struct kiln_return row = {
        .id = picture->job->id,
        .attempt = picture->job->attempt,
        .code = picture->code,
        .reason = picture->reason,
        .final = picture->final,
    };
    int code = open_ledger(committer, err);
    code = code ? code : kiln_ledger_return(committer->ledger, &row, 1, &state, err);
    *ret_kind = state == KILN_JOB_FAILED ? KILN_EVENT_FAILED : KILN_EVENT_RETURNED;
    *ret_ours = state >= 0;
    return code;
}

/* Counts, logs and reports how one job ended; neither log nor event names the prompt.  Not ours:
 * the ledger has moved on, and the result is dropped. */
static void report(struct committer *committer, const struct kiln_picture *picture,
                   enum kiln_event_kind kind, bool ours)
{
    static const struct {
        const char *name;
        enum kiln_job_end end;
    } kinds[] = {
        [KILN_EVENT_DONE] = {"job_done", KILN_END_DONE},
        [KILN_EVENT_FAILED] = {"job_failed", KILN_END_FAILED},
        [KILN_EVENT_RETURNED] = {"job_returned", KILN_END_RETURNED},
        [KILN_EVENT_CANCELLED] = {"job_cancelled", KILN_END_CANCELLED},
    };
    enum kiln_level level = KILN_LOG_DEBUG;
    kiln_metric_add(KILN_METRIC_JOBS_ENDED, ours ? kinds[kind].end : KILN_END_DROPPED, 1);
    if (!ours) {
        kiln_log(KILN_LOG_WARNING, "result_dropped", kiln_f("job", "%" PRIu64, picture->job->id),
                 kiln_f("attempt", "%u", picture->job->attempt),
                 kiln_f("why", "the ledger has moved on: another attempt, cancelled or done"));
        return;
    }
    struct kiln_event event = {
        .kind = kind,
        .job = picture->job->id,
        .attempt = picture->job->attempt,
        .code = picture->code,
    };
    snprintf(event.assignment, sizeof event.assignment, "%s", picture->flight->assignment.id);
    kiln_worker_report(committer->worker, &event);
    if (kind == KILN_EVENT_DONE || kind == KILN_EVENT_FAILED)
        kiln_board_count(&committer->worker->board, kind == KILN_EVENT_DONE);
    if (kind == KILN_EVENT_FAILED) {
        kiln_metric_add(KILN_METRIC_FAILURES, (uint32_t)picture->code, 1);
        level = KILN_LOG_WARNING;
    } else if (kind == KILN_EVENT_RETURNED && picture->code != 0) {
        kiln_metric_add(KILN_METRIC_RETRIES, (uint32_t)picture->code, 1);
        level = KILN_LOG_INFO;
    }
    kiln_log(level, kinds[kind].name, kiln_f("job", "%" PRIu64, picture->job->id),
             kiln_f("attempt", "%u", picture->job->attempt),
             kiln_f("code", "%s", kiln_code_name(picture->code)),
             kiln_f("reason", "%s", picture->reason));
}

/* Retries until the ledger has the outcome, or the worker no longer waits for that. */
static void record(struct committer *committer, struct kiln_picture *picture)
{
    enum kiln_event_kind kind = KILN_EVENT_CANCELLED;
    struct kiln_error err;
    bool ours = true;
    int code;
    if (picture->outcome == KILN_OUTCOME_GONE) {
        report(committer, picture, kind, picture->code == KILN_CANCELLED);
        return;
    }
    while ((code = write_outcome(committer, picture, &kind, &ours, &err)) != 0) {
        if (kiln_code_retry(code) == KILN_RETRY_NEVER) {
            kiln_log(KILN_LOG_ERROR, "commit_refused", kiln_f("job", "%" PRIu64, picture->job->id),
                     kiln_f("code", "%s", kiln_code_name(code)), kiln_f("error", "%s", err.text));
            if (picture->outcome != KILN_OUTCOME_RENDERED)
                return; /* its lease returns it */
            kiln_picture_fail(picture, code, err.text);
            picture->final = code == KILN_BAD_INPUT; /* else this program may be at fault */
            continue;
        }
        int wait_ms = ledger_fails(committer, &err);
        if (kiln_worker_drain(committer->worker) == KILN_DRAIN_ABANDON)
            return;
        kiln_worker_pause(committer->worker, wait_ms);
    }
    ledger_answers(committer);
    report(committer, picture, kind, ours);
}

/* Commits several rendered pictures in one round trip; true when each has its answer.  False: one
 * is refused, or the worker no longer waits for the ledger; each is then recorded alone. */
static bool record_together(struct committer *committer, struct kiln_picture *const *pictures,
                            size_t count)
{
    bool ours[GROUP_MAX] = {false};
    struct kiln_error err;
    int code;
    while ((code = commit(committer, pictures, count, ours, &err)) != 0) {
        if (kiln_code_retry(code) == KILN_RETRY_NEVER ||
            kiln_worker_drain(committer->worker) == KILN_DRAIN_ABANDON)
            return false;
        kiln_worker_pause(committer->worker, ledger_fails(committer, &err));
    }
    ledger_answers(committer);
    for (size_t i = 0; i < count; i++)
        report(committer, pictures[i], KILN_EVENT_DONE, ours[i]);
    return true;
}

/* The job is finished here; the last one of an assignment reports that as finished. */
static void settle(struct kiln_worker *worker, struct kiln_picture *picture)
{
    struct kiln_flight *flight = picture->flight;
    uint32_t index = picture->index;
    kiln_picture_free(picture);
    if (!kiln_flights_settle(&worker->flights, flight, index))
        return;
    struct kiln_event event = {
        .kind = KILN_EVENT_FINISHED,
        .compute_ms = flight->compute_ms,
        .switch_ms = flight->switch_ms,
        .fetch_ms = flight->fetch_ms,
    };
    snprintf(event.assignment, sizeof event.assignment, "%s", flight->assignment.id);
    kiln_log(KILN_LOG_INFO, "assignment_finished", kiln_f("assignment", "%s", event.assignment),
             kiln_f("jobs", "%u", flight->assignment.job_count),
             kiln_f("compute_ms", "%.1f", event.compute_ms),
             kiln_f("switch_ms", "%.1f", event.switch_ms),
             kiln_f("fetch_ms", "%.1f", event.fetch_ms));
    kiln_worker_report(worker, &event);
    kiln_flight_free(flight);
    kiln_board_kick(&worker->board);
}

/* Records and settles one group from the queue, rendered pictures first. */
static void take_group(struct committer *committer, struct kiln_picture **pictures, size_t count)
{
    size_t rendered = 0;
    for (size_t i = 0; i < count; i++) {
        struct kiln_picture *picture = pictures[i];
        if (picture->outcome != KILN_OUTCOME_RENDERED)
            continue;
        pictures[i] = pictures[rendered];
        pictures[rendered++] = picture;
    }
    bool recorded = rendered > 1 && record_together(committer, pictures, rendered);
    for (size_t i = 0; i < count; i++) {
        if (!recorded || i >= rendered)
            record(committer, pictures[i]);
        settle(committer->worker, pictures[i]);
    }
}

/* While nothing is to be committed: does the ledger answer? */
static void probe(struct committer *committer)
{
    char version[64];
    int64_t now_ms;
    struct kiln_error err;
    if (!kiln_worker_may_probe(committer->worker, KILN_PEER_LEDGER,
                               kiln_outage_is(&committer->outage)))
        return;
    int code = open_ledger(committer, &err);
    code =
        code ? code : kiln_ledger_clock(committer->ledger, &now_ms, version, sizeof version, &err);
    if (code == 0)
        kiln_health_heard(KILN_PEER_LEDGER);
}

void *kiln_committer(void *arg)
{
    struct kiln_worker *worker = arg;
    struct committer committer = {
        .worker = worker,
        .outage = {KILN_OUTAGE_OF("ledger"), .effect = "finished pictures wait for their commit",
                   .sharing = &worker->ledgers_away},
    };
    for (;;) {
        struct kiln_picture *group[GROUP_MAX];
        size_t count;
        int code = kiln_queue_pop(worker->outcomes, (void **)group, GROUP_MAX, &count, 1000);
        if (code == KILN_CANCELLED)
            break;
        if (code == 0)
            take_group(&committer, group, count);
        else
            probe(&committer);
    }
    kiln_ledger_close(committer.ledger);
    if (atomic_fetch_sub(&worker->committers, 1) == 1) {
        kiln_queue_close(worker->reports);
        atomic_store(&worker->settled, true);
    }
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
