/* why.c - `kiln why JOB`: why it waits, or where it is.
 *
 * The reasons are collected in the order in which they bind: a job that may not run yet, a fleet
 * that cannot run anything, then the rule of the scheduler that holds it, with an estimate of when
 * it begins; the leading scheduler is asked for that.  If it does not answer, the line that the job
 * stands in is told from the ledger and the heartbeats.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/blocked.h"
#include "scheduler/cli/fleet/control.h"
#include "scheduler/cli/fleet/roster.h"
#include "scheduler/holds.h"
#include "schemas/clock.h"
#include "storage/ledger/ledger.h"

struct why {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    struct kiln_roster roster;
    struct kiln_holds holds;
    json_t *reasons;
    json_t *facts;
};

static void because(struct why *why, const char *fmt, ...) KILN_PRINTF(2, 3);
/* Adds one reason: a whole sentence for people. */
static void because(struct why *why, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    json_array_append_new(why->reasons, json_string(text));
}

/* Somebody has it: who, since when, and whether that worker still says so. */
static void explain_assigned(struct why *why, const struct kiln_job_row *row)
{
    const struct kiln_roster_worker *worker = kiln_roster_find(&why->roster, row->worker);
    char since[32];
    kiln_seconds_text((double)(kiln_wall_ms() - row->assigned_ms) / 1e3, since, sizeof since);
    because(why, "%s has had it for %s, attempt %u", row->worker, since, row->job.attempt);
    if (!worker || !worker->live) {
        because(why,
                "that worker's heartbeat is gone: the scheduler takes the job back when the "
                "lease of %g s is over",
                kiln_config_number(why->cli->config, KILN_KEY_LEASE_S));
        return;
    }
    bool held = false;
    for (uint32_t i = 0; i < worker->beat.held_count; i++)
        held = held || strcmp(worker->beat.held[i], row->assignment) == 0;
    if (!held)
        because(why,
                "the worker does not name its assignment any more: it is about to be reported, "
                "or taken back");
    else if (worker->beat.steps)
        because(why, "the worker is at step %u of %u of its running batch", worker->beat.step,
                worker->beat.steps);
    else
        because(why, "the worker holds it and works before or after the steps (loading, decoding, "
                     "uploading)");
}

/* What stands between a waiting job and any worker at all; false if nothing does. */
static bool explain_fleet(struct why *why, const char *model, bool led)
{
    if (!led)
        because(why,
                "no scheduler leads pool %s: start kiln-scheduler (`kiln up` for a stack of your "
                "own)",
                kiln_pool(why->cli));
    char text[512];
    bool workers = !kiln_blocked_by_workers(&why->roster, kiln_pool(why->cli), text, sizeof text);
    const char *lacks = workers ? kiln_blocked_by_model(&why->roster, model) : text;
    if (!workers)
        because(why, "%s", text);
    else if (lacks)
        because(why, "it asks for model '%s', which %s: `kiln workers --json`", model, lacks);
    return !led || lacks;
}

/* Nothing is in its way but other jobs: how many, and whether anybody is warm for it. */
static int explain_line(struct why *why, const struct kiln_job_row *row, struct kiln_error *err)
{
    uint64_t all = 0, group = 0;
    int rc = kiln_ledger_ahead(why->ledger, kiln_pool(why->cli), row->job.id, &all, &group, err);
    if (rc)
        return rc;
    size_t room = 0, warm = 0;
    char set[KILN_LORA_SET_MAX];
    kiln_lora_set_text(row->job.loras, row->job.lora_count, set, sizeof set);
    for (size_t i = 0; i < why->roster.count; i++) {
        const struct kiln_roster_worker *worker = &why->roster.at[i];
        room +=
            kiln_serves(worker, row->job.model) && worker->beat.room > 0 && !worker->beat.draining;
        warm += worker->live && worker->beat.width == row->job.width &&
                worker->beat.height == row->job.height && strcmp(worker->beat.lora_set, set) == 0;
    }
    json_object_set_new(why->facts, "ahead", json_integer((json_int_t)all));
    json_object_set_new(why->facts, "ahead_in_group", json_integer((json_int_t)group));
    because(why,
            "%llu jobs that came before it wait, %llu of them in its group (%ux%u, %u steps, "
            "loras %s)",
            (unsigned long long)all, (unsigned long long)group, row->job.width, row->job.height,
            row->job.steps, set[0] ? set : "none");
    if (room == 0)
        because(why, "all %zu live workers have as many batches as they take", why->roster.live);
    else
        because(why, "%zu of %zu live workers would take a batch: it goes out within moments", room,
                why->roster.live);
    if (warm == 0 && why->roster.live > 0)
        because(why,
                "no worker has its group at hand; one switches when that pays or the wait is due");
    return 0;
}

/* What the leader says: the rule that holds it, its place, when it will begin.  False: nobody has
 * answered, or it does not wait there (any more). */
static bool explain_rule(struct why *why, uint64_t job)
{
    struct kiln_error err;
    json_t *answer;
    char start[32], low[32], high[32];
    if (kiln_query(why->cli, job, &answer, &err)) {
        kiln_say(why->cli, "the scheduler could not be asked: %s", err.text);
        return false;
    }
    if (!json_is_true(json_object_get(answer, "waits"))) {
        json_decref(answer);
        return false;
    }
    static const char *const told[] = {"hold",    "place", "of",    "holders",
                                       "start_s", "low_s", "high_s"};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        json_object_set(why->facts, told[i], json_object_get(answer, told[i]));
    because(why, "%s", json_string_value(json_object_get(answer, "text")));
    because(why, "place %lld of %lld in its group's queue",
            (long long)json_integer_value(json_object_get(answer, "place")),
            (long long)json_integer_value(json_object_get(answer, "of")));
    if (json_is_number(json_object_get(answer, "start_s")))
        because(
            why, "it should begin in about %s (between %s and %s)",
            kiln_seconds_text(json_number_value(json_object_get(answer, "start_s")), start,
                              sizeof start),
            kiln_seconds_text(json_number_value(json_object_get(answer, "low_s")), low, sizeof low),
            kiln_seconds_text(json_number_value(json_object_get(answer, "high_s")), high,
                              sizeof high));
    json_decref(answer);
    return true;
}

/* What holds it back by order of people or of the scheduler; false if nothing does. */
static bool explain_holds(struct why *why, const struct kiln_job_row *row)
{
    char set[KILN_LORA_SET_MAX], text[KILN_HOLD_NAME_MAX + 512];
    kiln_lora_set_text(row->job.loras, row->job.lora_count, set, sizeof set);
    const struct kiln_policy_job job = {.batch_id = row->job.batch_id,
                                        .model = row->job.model ? row->job.model : "",
                                        .lora_set = set,
                                        .tenant = row->job.tenant ? row->job.tenant : "",
                                        .width = row->job.width,
                                        .height = row->job.height,
                                        .steps = row->job.steps,
                                        .priority = row->job.priority};
    const struct kiln_hold *hold = kiln_holds_find(&why->holds, &job);
    if (!hold)
        return false;
    kiln_hold_text(hold, text, sizeof text);
    json_object_set_new(why->facts, "hold", json_string(kiln_scope_name(hold->scope)));
    because(why, "it is held: %s", text);
    return true;
}

/* Backoff first, since nothing else matters before it is over. */
static int explain_queued(struct why *why, const struct kiln_job_row *row, struct kiln_error *err)
{
    bool led = false;
    char left[32];
    int rc = kiln_ledger_led(why->ledger, kiln_pool(why->cli), &led, err);
    if (rc)
        return rc;
    rc = kiln_ledger_holds(why->ledger, kiln_pool(why->cli), false, kiln_holds_keep, &why->holds,
                           err);
    if (rc || explain_holds(why, row))
        return rc;
    int64_t now_ms = kiln_wall_ms();
    if (row->not_before_ms > now_ms)
        because(why, "its last attempt failed (%s); the next one may start in %s",
                row->error ? row->error : "no reason kept",
                kiln_seconds_text((double)(row->not_before_ms - now_ms) / 1e3, left, sizeof left));
    if (explain_fleet(why, row->job.model, led) || explain_rule(why, row->job.id))
        return 0;
    return explain_line(why, row, err);
}

/* One state, one kind of answer. */
static int explain(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct why *why = arg;
    char took[32];
    why->facts = json_pack("{s:I, s:s}", "job", (json_int_t)row->job.id, "state",
                           kiln_job_state_name(row->job.state));
    switch (row->job.state) {
    case KILN_JOB_QUEUED:
        return explain_queued(why, row, err);
    case KILN_JOB_ASSIGNED:
        explain_assigned(why, row);
        break;
    case KILN_JOB_DONE:
        because(why, "it is done, by %s, %s after it came in", row->worker,
                kiln_seconds_text((double)(row->finished_ms - row->created_ms) / 1e3, took,
                                  sizeof took));
        break;
    case KILN_JOB_FAILED:
        because(why, "it failed after %u tries: %s", row->tries, row->error ? row->error : "?");
        because(why, "%s `kiln retry %llu` queues it again", kiln_code_sentence(row->error_code),
                (unsigned long long)row->job.id);
        break;
    default:
        because(why, "it was cancelled; `kiln retry %llu` queues it again",
                (unsigned long long)row->job.id);
    }
    return 0;
}

static int print_why(struct why *why)
{
    if (why->cli->json) {
        json_object_set(why->facts, "reasons", why->reasons);
        return kiln_print_json(why->cli, json_incref(why->facts));
    }
    printf("job %lld is %s\n", (long long)json_integer_value(json_object_get(why->facts, "job")),
           json_string_value(json_object_get(why->facts, "state")));
    size_t i;
    json_t *reason;
    json_array_foreach(why->reasons, i, reason)
    {
        fputs("  - ", stdout);
        kiln_print_safe(json_string_value(reason));
        putchar('\n');
    }
    return 0;
}

int kiln_verb_why(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    uint64_t id;
    int status = kiln_args_parse(cli, argc, argv, 1, 1, &args);
    if (status == 0)
        status = kiln_arg_job(cli, args.rest[0], &id);
    if (status)
        return status;
    struct why why = {.cli = cli, .reasons = json_array()};
    int rc = kiln_open_reader(cli, &why.ledger, &err);
    if (rc == 0)
        rc = kiln_roster_load(cli, &why.roster, &err);
    if (rc == 0)
        rc = kiln_ledger_job(why.ledger, kiln_pool(cli), id, explain, &why, &err);
    status = rc ? kiln_report(cli, &err) : print_why(&why);
    json_decref(why.reasons);
    json_decref(why.facts);
    kiln_roster_release(&why.roster);
    kiln_holds_release(&why.holds);
    kiln_ledger_close(why.ledger);
    return status;
}
