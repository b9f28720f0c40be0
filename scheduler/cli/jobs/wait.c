/* wait.c - `kiln wait`: until a batch is whole and all its jobs have ended; and its makespan. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/batch_wait.h"
#include "scheduler/cli/jobs/makespan.h"
#include "scheduler/cli/jobs/on_done.h"
#include "scheduler/policy/bounds.h"
#include "schemas/limits.h"
#include "schemas/names.h"
#include "schemas/room.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/makespan.h"
#include "storage/webhook/webhook.h"

#define TIMEOUT_MAX_S (366L * 24 * 3600)

/* --- the makespan of a batch against the lower bound for the workers that rendered it -----------
 *
 * The bound is for this batch alone on those workers.  A fleet that also served other batches, or
 * that waited for lines to come in, rightly took longer.  The bound counts only the seconds of the
 * attempts that made the pictures.  Loading a LoRA set counts as 0 s: the ledger does not have
 * that time, the set may have been in host memory, or resident from an earlier batch.
 */

struct sets {
    struct kiln_bound_set *at;
    size_t count, room;
};

static int add_set(void *arg, const struct kiln_makespan_set *set, struct kiln_error *err)
{
    struct sets *sets = arg;
    struct kiln_bound_set *at = kiln_room(sets->at, sets->count, &sets->room, sizeof *at);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the LoRA sets of a batch");
    sets->at = at;
    sets->at[sets->count++] = (struct kiln_bound_set){
        .work_s = set->work_s, .longest_s = set->longest_s, .resident = set->lora_set[0] == '\0'};
    return 0;
}

json_t *kiln_makespan_json(struct kiln_cli *cli, const char *batch)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_makespan makespan;
    struct kiln_error err;
    struct sets sets = {0};
    json_t *value = NULL;
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc == 0)
        rc = kiln_ledger_makespan(ledger, kiln_pool(cli), batch, &makespan, add_set, &sets, &err);
    if (rc == 0 && makespan.pictures > 0) {
        double makespan_s = (double)(makespan.ended_ms - makespan.began_ms) / 1000;
        struct kiln_bound bound =
            kiln_bound_of(sets.at, sets.count, kiln_bound_fleet_of(makespan.workers));
        /* The real schedule took makespan_s, so the bound cannot be larger.  It can seem so because
         * workers use their own clocks and the ledger that of the database. */
        double bound_s = fmin(bound.makespan_s, fmax(makespan_s, 0));
        value =
            json_pack("{s:f, s:f, s:f, s:I, s:I, s:i}", "makespan_s", makespan_s, "lower_bound_s",
                      bound_s, "ratio", bound_s > 0 ? makespan_s / bound_s : 1.0, "switches",
                      (json_int_t)makespan.switches, "switches_min", (json_int_t)bound.switches,
                      "workers", (int)makespan.workers);
    }
    free(sets.at);
    kiln_ledger_close(ledger);
    return value;
}

void kiln_say_makespan(struct kiln_cli *cli, const char *batch)
{
    json_t *makespan = kiln_makespan_json(cli, batch);
    if (!makespan)
        return;
    uint64_t workers = (uint64_t)json_integer_value(json_object_get(makespan, "workers"));
    uint64_t switches = (uint64_t)json_integer_value(json_object_get(makespan, "switches"));
    kiln_say(cli, "      rendered in %s on %s (lower bound %s); %s (minimum %lld)",
             KILN_SECONDS(json_number_value(json_object_get(makespan, "makespan_s"))),
             KILN_COUNT(workers, "worker"),
             KILN_SECONDS(json_number_value(json_object_get(makespan, "lower_bound_s"))),
             KILN_COUNT(switches, "LoRA switch"),
             (long long)json_integer_value(json_object_get(makespan, "switches_min")));
    json_decref(makespan);
}

/* --- the verb --------------------------------------------------------------------------------- */

/* What happened, and what to do about failures. */
static void say_result(struct kiln_cli *cli, const char *batch,
                       const struct kiln_progress *progress, double seconds)
{
    const uint64_t *at = progress->jobs.at;
    const uint64_t gone = kiln_counts_total(&progress->gone);
    kiln_say(cli,
             "batch %s: %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64 " cancelled (waited %s)",
             batch, at[KILN_JOB_DONE], at[KILN_JOB_FAILED], at[KILN_JOB_CANCELLED],
             KILN_SECONDS(seconds));
    if (gone)
        kiln_say(cli, "      %s %s gone from the file, which the exit code leaves out",
                 KILN_COUNT(gone, "job"), gone == 1 ? "is" : "are");
    if (progress->removed)
        kiln_say(cli, "      `kiln gc` has removed the rows of %s",
                 KILN_COUNT(progress->removed, "cancelled job"));
    if (progress->refused)
        kiln_say(cli,
                 "      %s refused: `kiln show %s` says why; correct the file and enqueue it again",
                 KILN_COUNT(progress->refused, "job"), batch);
    /* A number alone is a job. */
    const char *option = batch[strspn(batch, "0123456789")] ? "" : "--batch ";
    if (at[KILN_JOB_FAILED])
        kiln_say(cli, "      why: kiln errors %s; to retry: kiln retry %s%s", batch, option, batch);
}

int kiln_verb_wait(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_progress progress;
    long timeout;
    int status = kiln_arg_int(cli, args, "timeout", 0, TIMEOUT_MAX_S, -1, &timeout);
    if (status)
        return status;
    const char *batch = args->rest[0];
    if (!kiln_name_valid(batch, strlen(batch), KILN_BATCH_NAME_MAX))
        return kiln_usage(cli,
                          "'%.64s' is not the name of a batch: a name has up to %d " KILN_NAME_RULE,
                          batch, KILN_BATCH_NAME_MAX);
    const char *on_done = kiln_arg(args, "on-done");
    if (on_done && kiln_webhook_is_url(on_done))
        return kiln_usage(cli,
                          "--on-done: wait runs a command; `kiln enqueue --on-done URL` has the "
                          "scheduler tell a URL");
    double start = kiln_now_s();
    int rc = kiln_wait_batch(cli, batch, (double)timeout, NULL, NULL, &progress, &err);
    double seconds = kiln_now_s() - start;
    if (rc && rc != KILN_TIMEOUT)
        return rc == KILN_CANCELLED ? (kiln_warn(cli, "%s", err.text), 130)
                                    : kiln_report(cli, &err);
    if (rc == KILN_TIMEOUT)
        kiln_warn(cli, "%s", err.text);
    else
        say_result(cli, batch, &progress, seconds);
    if (rc == 0 && !cli->json)
        kiln_say_makespan(cli, batch);
    status = rc == KILN_TIMEOUT ? EX_TEMPFAIL : kiln_batch_status(&progress);
    bool ended = rc == 0;
    if (!cli->json)
        return ended ? kiln_on_done_run(cli, on_done, batch, &progress, status) : status;
    bool failed = progress.jobs.at[KILN_JOB_FAILED] > progress.gone.at[KILN_JOB_FAILED];
    const char *result = rc                                  ? "timeout"
                         : kiln_batch_status(&progress) == 0 ? "done"
                         : failed || progress.refused        ? "failed"
                                                             : "cancelled";
    int printed = kiln_print_json(
        cli,
        json_pack("{s:s, s:s, s:b, s:o, s:I, s:I, s:I, s:f, s:o?}", "batch", batch, "result",
                  result, "whole", (int)progress.whole, "jobs", kiln_counts_json(&progress.jobs),
                  "gone", (json_int_t)kiln_counts_total(&progress.gone), "removed",
                  (json_int_t)progress.removed, "refused", (json_int_t)progress.refused, "seconds",
                  seconds, "effort", rc ? NULL : kiln_makespan_json(cli, batch)));
    status = status ? status : printed;
    return ended ? kiln_on_done_run(cli, on_done, batch, &progress, status) : status;
}
