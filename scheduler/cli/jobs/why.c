/* why.c - `kiln why JOB|BATCH`: why it waits, or where it is.
 *
 * Of a batch: the troubles that every view prints, or that there are none.  Of a job the reasons
 * come in order of importance: the job may not run yet; the fleet cannot run it; the rule of the
 * scheduler that it waits for, with an estimate of its start.  The leading scheduler answers the
 * last.  If it does not, the ledger and the heartbeats give the job's place in line.  Without Redis
 * it prints what the ledger knows, and the exit status says so.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/control.h"
#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/fleet/trouble.h"
#include "scheduler/pauses.h"
#include "schemas/clock.h"
#include "schemas/reuse/class.h"
#include "schemas/route.h"
#include "storage/ledger/ledger.h"

struct why {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    struct kiln_roster roster; /* read for jobs that have not ended */
    int bus_status;            /* not 0: Redis does not answer, and nothing is known of workers */
    struct kiln_pauses pauses;
    json_t *reasons;
    json_t *facts;
};

static void because(struct why *why, const char *fmt, ...) KILN_PRINTF(2, 3);
/* Adds one reason, a whole sentence. */
static void because(struct why *why, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    json_array_append_new(why->reasons, json_string(text));
}

/* Reads the heartbeats; false, and says so, if Redis does not answer. */
static bool read_roster(struct why *why)
{
    struct kiln_error err;
    if (kiln_roster_load(why->cli, &why->roster, &err) == 0)
        return true;
    why->bus_status = kiln_report(why->cli, &err);
    because(why, "unknown while Redis is down: what its worker does, and what it waits for");
    return false;
}

/* Which worker has it, since when, and whether its heartbeat still names the assignment. */
static void explain_assigned(struct why *why, const struct kiln_job_row *row)
{
    because(why, "assigned to worker %s %s ago, attempt %u", row->worker,
            KILN_SECONDS((double)(kiln_wall_ms() - row->assigned_ms) / 1e3), row->job.attempt);
    if (!read_roster(why))
        return;
    const struct kiln_roster_worker *worker = kiln_roster_find(&why->roster, row->worker);
    if (!worker || !worker->live) {
        because(why,
                "the worker sends no heartbeats: the scheduler requeues the job when its lease of "
                "%g s ends",
                kiln_config_number(why->cli->config, KILN_KEY_LEASE_S));
        return;
    }
    bool listed = false;
    for (uint32_t i = 0; i < worker->beat.held_count; i++)
        listed = listed || strcmp(worker->beat.held[i], row->assignment) == 0;
    if (!listed)
        because(why, "the worker no longer lists the assignment: its result is about to arrive, or "
                     "the job will be requeued");
    else if (worker->beat.steps)
        because(why, "the worker is at step %u of %u of its running batch", worker->beat.step,
                worker->beat.steps);
    else
        because(why, "the worker is loading, decoding or uploading");
    char trouble[KILN_ERROR_TEXT_MAX];
    if (kiln_worker_trouble_text(worker, trouble, sizeof trouble)[0])
        because(why,
                "%s; it tries again, and gives the job to another worker that is able, or returns "
                "it after hold_s (%g s)",
                trouble, kiln_config_number(why->cli->config, KILN_KEY_HOLD_S));
}

/* What is in the way of every job, or of those that need this model; true if it stops them all. */
static bool explain_fleet(struct why *why, const char *model, bool led)
{
    struct kiln_needed needed = {.count = 0};
    struct kiln_troubles troubles;
    bool stops = false;
    kiln_needed_add(&needed, model ? model : "");
    kiln_troubles_find(&(struct kiln_trouble_facts){.pool = kiln_pool(why->cli),
                                                    .led = led,
                                                    .roster = &why->roster,
                                                    .needed = &needed,
                                                    .lease_s = kiln_config_number(why->cli->config,
                                                                                  KILN_KEY_LEASE_S),
                                                    .now_ms = kiln_wall_ms()},
                       &troubles);
    for (size_t i = 0; i < troubles.count; i++) {
        because(why, "%s; %s", troubles.at[i].text, troubles.at[i].next);
        stops = stops || troubles.at[i].stops;
    }
    return stops;
}

/* The queued jobs before it, the workers with room, and the holders of its set. */
static int explain_line(struct why *why, const struct kiln_job_row *row, struct kiln_error *err)
{
    uint64_t all = 0, group = 0;
    int rc = kiln_ledger_ahead(why->ledger, kiln_pool(why->cli), row->job.id, &all, &group, err);
    if (rc)
        return rc;
    size_t room = 0, warm = 0;
    char set[KILN_LORA_SET_MAX], mode[KILN_MODE_MAX];
    kiln_mode_text(&row->job.mode, mode);
    kiln_lora_set_key(row->job.loras, row->job.lora_count, set, sizeof set);
    for (size_t i = 0; i < why->roster.count; i++) {
        const struct kiln_roster_worker *worker = &why->roster.at[i];
        room +=
            kiln_serves(worker, row->job.model) && worker->beat.room > 0 && !worker->beat.draining;
        warm += worker->live && worker->beat.width == row->job.width &&
                worker->beat.height == row->job.height && strcmp(worker->beat.lora_set, set) == 0;
    }
    json_object_set_new(why->facts, "ahead", json_integer((json_int_t)all));
    json_object_set_new(why->facts, "ahead_in_group", json_integer((json_int_t)group));
    because(why, "%s before it, %" PRIu64 " of them in its group (%ux%u, %u steps, loras %s, %s)",
            KILN_COUNT(all, "queued job"), group, row->job.width, row->job.height, row->job.steps,
            set[0] ? set : "none", kiln_mode_shown(mode));
    if (room == 0)
        because(why, "0 of %s with room for another batch",
                KILN_COUNT(why->roster.live, "live worker"));
    else
        because(why, "%zu of %s with room for another batch: it will be assigned soon", room,
                KILN_COUNT(why->roster.live, "live worker"));
    if (warm == 0 && why->roster.live > 0)
        because(why, "no worker has its LoRA set and size resident; one will switch when that pays "
                     "off, or when the job is due");
    return 0;
}

/* The answer of the leading scheduler: the rule it waits for, its place, its estimated start.
 * False: no answer, or the job no longer waits there. */
static bool explain_rule(struct why *why, uint64_t job)
{
    struct kiln_error err;
    json_t *answer;

    if (kiln_query(why->cli, (struct kiln_control){.job = job}, &answer, &err)) {
        kiln_say(why->cli, "the scheduler did not answer: %s", err.text);
        return false;
    }
    if (!json_is_true(json_object_get(answer, "waits"))) {
        json_decref(answer);
        return false;
    }
    static const char *const copied[] = {"hold",    "place", "of",    "holders",
                                         "start_s", "low_s", "high_s"};
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        json_object_set(why->facts, copied[i], json_object_get(answer, copied[i]));
    because(why, "%s", json_string_value(json_object_get(answer, "text")));
    because(why, "place %lld of %lld in its group's queue",
            (long long)json_integer_value(json_object_get(answer, "place")),
            (long long)json_integer_value(json_object_get(answer, "of")));
    if (json_is_number(json_object_get(answer, "start_s")))
        because(why, "it should start in about %s (between %s and %s)",
                KILN_SECONDS(json_number_value(json_object_get(answer, "start_s"))),
                KILN_SECONDS(json_number_value(json_object_get(answer, "low_s"))),
                KILN_SECONDS(json_number_value(json_object_get(answer, "high_s"))));
    json_decref(answer);
    return true;
}

/* The pause, window or quota that it matches; false if there is none. */
static bool explain_pause(struct why *why, const struct kiln_job_row *row)
{
    char set[KILN_LORA_SET_MAX], mode[KILN_MODE_MAX], text[KILN_PAUSE_NAME_MAX + 512];
    kiln_mode_text(&row->job.mode, mode);
    kiln_lora_set_key(row->job.loras, row->job.lora_count, set, sizeof set);
    const struct kiln_policy_job job = {.batch_id = row->job.batch_id,
                                        .model = row->job.model ? row->job.model : "",
                                        .lora_set = set,
                                        .tenant = row->job.tenant ? row->job.tenant : "",
                                        .width = row->job.width,
                                        .height = row->job.height,
                                        .steps = row->job.steps,
                                        .mode = mode,
                                        .priority = row->job.priority};
    const struct kiln_pause *pause = kiln_pauses_find(&why->pauses, &job);
    if (!pause)
        return false;
    kiln_pause_text(pause, text, sizeof text);
    json_object_set_new(why->facts, "hold", json_string(kiln_scope_name(pause->scope)));
    because(why, "%s", text);
    return true;
}

/* Pauses and backoff come first: nothing else matters before they end. */
static int explain_queued(struct why *why, const struct kiln_job_row *row, struct kiln_error *err)
{
    bool led = false;

    int rc = kiln_ledger_led(why->ledger, kiln_pool(why->cli), &led, err);
    if (rc)
        return rc;
    rc = kiln_ledger_pauses(why->ledger, kiln_pool(why->cli), false, kiln_pauses_keep, &why->pauses,
                            err);
    if (rc || explain_pause(why, row))
        return rc;
    int64_t now_ms = kiln_wall_ms();
    if (row->not_before_ms > now_ms)
        because(why, "its last attempt failed (%s); the next may start in %s",
                row->error ? row->error : "no reason kept",
                KILN_SECONDS((double)(row->not_before_ms - now_ms) / 1e3));
    if (!read_roster(why) || explain_fleet(why, row->job.model, led) ||
        explain_rule(why, row->job.id))
        return 0;
    return explain_line(why, row, err);
}

/* What the job was made from, and of that what it starts from. */
static void explain_parent(struct why *why, const struct kiln_job *job)
{
    if (job->parent)
        because(why, "it was made from job %" PRIu64 "%s", job->parent,
                job->init_job == job->parent ? " and starts from its latent" : "");
    if (job->init_job && job->init_job != job->parent)
        because(why, "it starts from the latent of job %" PRIu64, job->init_job);
}

/* Whether the cache gave its run a latent to begin from. */
static void explain_donor(struct why *why, const struct kiln_job_row *row)
{
    const struct kiln_donor *donor = &row->job.donor;
    char saving[KILN_MODE_SAVING_MAX], reason[128];
    if (kiln_row_reused(row))
        because(why, "its run began from the latent of job %" PRIu64 " (%s) %s", donor->job,
                kiln_reuse_class_name((enum kiln_reuse_class)donor->hit),
                kiln_mode_saving(row->rendered_mode, row->start_sigma, row->own_forwards,
                                 row->forwards, saving, sizeof saving));
    else if (donor->job)
        because(why,
                "the latent of job %" PRIu64 " was chosen for its run, which began from noise "
                "because that latent %s",
                donor->job,
                kiln_reuse_fallback(row->fallback, kiln_row_wasted(row), reason, sizeof reason));
}

/* What loras "auto" chose. */
static void explain_route(struct why *why, const struct kiln_job *job)
{
    struct kiln_text words = {0};
    kiln_route_words(job, &words);
    if (words.at)
        because(why, "%s", words.at);
    kiln_text_release(&words);
}

static int explain_state(struct why *why, const struct kiln_job_row *row, struct kiln_error *err)
{
    switch (row->job.state) {
    case KILN_JOB_QUEUED:
        return explain_queued(why, row, err);
    case KILN_JOB_ASSIGNED:
        explain_assigned(why, row);
        break;
    case KILN_JOB_DONE:
        because(why, "rendered by worker %s, %s after it was enqueued", row->worker,
                KILN_SECONDS((double)(row->finished_ms - row->created_ms) / 1e3));
        break;
    case KILN_JOB_FAILED:
        because(why, "failed at try %u: %s", row->tries, row->error ? row->error : "?");
        because(why, "%s  To retry: kiln retry %" PRIu64, kiln_code_sentence(row->error_code),
                row->job.id);
        break;
    default:
        because(why, "cancelled; to queue it again: kiln retry %" PRIu64, row->job.id);
    }
    return 0;
}

static int explain(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct why *why = arg;
    const uint64_t parent = row->job.parent;
    why->facts = json_pack("{s:I, s:s, s:o}", "job", (json_int_t)row->job.id, "state",
                           kiln_job_state_name(row->job.state), "parent",
                           parent ? json_integer((json_int_t)parent) : json_null());
    int rc = explain_state(why, row, err);
    if (rc == 0)
        explain_donor(why, row);
    if (rc == 0)
        explain_parent(why, &row->job);
    if (rc == 0)
        explain_route(why, &row->job);
    return rc;
}

/* --- a batch ---------------------------------------------------------------------------------- */

/* What is in the way of its jobs that have not ended. */
static int explain_waiting(struct why *why, const char *batch, const uint64_t *jobs,
                           struct kiln_error *err)
{
    struct kiln_troubles troubles;
    int rc = kiln_troubles_look(why->cli, why->ledger, batch, &troubles, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < troubles.count; i++)
        because(why, "%s; %s", troubles.at[i].text, troubles.at[i].next);
    if (troubles.count == 0)
        because(why,
                "nothing stands in the way: %" PRIu64 " queued, %" PRIu64
                " assigned to workers; `kiln why JOB` explains one job",
                jobs[KILN_JOB_QUEUED], jobs[KILN_JOB_ASSIGNED]);
    return 0;
}

static int explain_batch(struct why *why, const char *batch, struct kiln_error *err)
{
    struct kiln_progress progress;
    int rc = kiln_check_batch(why->cli, why->ledger, batch, err);
    if (rc == 0)
        rc = kiln_ledger_progress(why->ledger, kiln_pool(why->cli), batch, &progress, err);
    if (rc)
        return rc;
    const uint64_t *jobs = progress.jobs.at;
    bool waits = jobs[KILN_JOB_QUEUED] + jobs[KILN_JOB_ASSIGNED] > 0 || !progress.whole;
    why->facts = json_pack("{s:s, s:s, s:o}", "batch", batch, "state",
                           !progress.whole ? "coming in"
                           : waits         ? "active"
                                           : "ended",
                           "jobs", kiln_counts_json(&progress.jobs));
    if (waits)
        rc = explain_waiting(why, batch, jobs, err);
    else
        because(why, "no job waits: %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64 " cancelled",
                jobs[KILN_JOB_DONE], jobs[KILN_JOB_FAILED], jobs[KILN_JOB_CANCELLED]);
    if (rc == 0 && jobs[KILN_JOB_FAILED])
        because(why, "`kiln errors %s` says why %s failed", batch,
                KILN_COUNT(jobs[KILN_JOB_FAILED], "job"));
    return rc;
}

static int print_why(struct why *why, const char *batch)
{
    if (why->cli->json) {
        json_object_set(why->facts, "reasons", why->reasons);
        return kiln_print_json(why->cli, json_incref(why->facts));
    }
    const char *state = json_string_value(json_object_get(why->facts, "state"));
    if (batch)
        kiln_print_fit(why->cli, 4, "batch %s %s %s", batch,
                       strcmp(state, "ended") == 0 ? "has" : "is", state);
    else
        printf("job %lld is %s\n",
               (long long)json_integer_value(json_object_get(why->facts, "job")), state);
    size_t i;
    json_t *reason;
    json_array_foreach(why->reasons, i, reason)
        kiln_print_fit(why->cli, 4, "  - %s", json_string_value(reason));
    return 0;
}

int kiln_verb_why(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_target what;
    int status = kiln_arg_target(cli, args, 0, &what);
    if (status)
        return status;
    if (!what.job && !what.batch)
        return kiln_usage(cli, "name a job or a batch: kiln why 17, kiln why sketches");
    struct why why = {.cli = cli, .reasons = json_array()};
    int rc = kiln_open_reader(cli, &why.ledger, &err);
    if (rc == 0 && what.job)
        rc = kiln_no_job(cli, why.ledger, what.job,
                         kiln_ledger_job(why.ledger, kiln_pool(cli), what.job, explain, &why, &err),
                         &err);
    else if (rc == 0)
        rc = explain_batch(&why, what.batch, &err);
    status = rc ? kiln_report(cli, &err) : print_why(&why, what.batch);
    status = status ? status : why.bus_status;
    json_decref(why.reasons);
    json_decref(why.facts);
    kiln_roster_release(&why.roster);
    kiln_pauses_release(&why.pauses);
    kiln_ledger_close(why.ledger);
    return status;
}
