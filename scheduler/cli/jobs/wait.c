/* wait.c - `kiln wait`: until a batch is whole and every job of it has ended. */
#include <inttypes.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/batch_wait.h"
#include "scheduler/cli/jobs/makespan.h"
#include "schemas/limits.h"
#include "schemas/names.h"

#define TIMEOUT_MAX_S (366L * 24 * 3600)

/* What happened, and what to do about failures. */
static void say_result(struct kiln_cli *cli, const char *batch,
                       const struct kiln_progress *progress, double seconds)
{
    const uint64_t *at = progress->jobs.at;
    kiln_say(cli,
             "batch %s: %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64 " cancelled (waited %s)",
             batch, at[KILN_JOB_DONE], at[KILN_JOB_FAILED], at[KILN_JOB_CANCELLED],
             KILN_SECONDS(seconds));
    if (progress->removed)
        kiln_say(cli, "      `kiln gc` has removed the rows of %s",
                 KILN_COUNT(progress->removed, "cancelled job"));
    if (progress->refused)
        kiln_say(cli,
                 "      %s refused: `kiln show %s` says why; correct the file and enqueue it again",
                 KILN_COUNT(progress->refused, "job"), batch);
    if (at[KILN_JOB_FAILED])
        kiln_say(cli, "      why: kiln errors --batch %s; to retry: kiln retry --batch %s", batch,
                 batch);
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
    if (!cli->json)
        return status;
    const char *result = rc                                                      ? "timeout"
                         : kiln_batch_status(&progress) == 0                     ? "done"
                         : progress.jobs.at[KILN_JOB_FAILED] || progress.refused ? "failed"
                                                                                 : "cancelled";
    int printed = kiln_print_json(
        cli,
        json_pack("{s:s, s:s, s:b, s:o, s:I, s:I, s:f, s:o?}", "batch", batch, "result", result,
                  "whole", (int)progress.whole, "jobs", kiln_counts_json(&progress.jobs), "removed",
                  (json_int_t)progress.removed, "refused", (json_int_t)progress.refused, "seconds",
                  seconds, "effort", rc ? NULL : kiln_makespan_json(cli, batch)));
    return status ? status : printed;
}
