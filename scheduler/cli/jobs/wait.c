/* wait.c - `kiln wait`: until a batch is whole and every job of it has ended.
 *
 * The ledger is asked, not the events: it alone knows, and one question reads a handful of rows.
 * An enqueue that did not wait for its receipt may be ahead of the ledger.  So an unknown batch
 * gets a grace, longer as long as intake still has something to read; and one that looks finished
 * is believed once intake has been seen empty, or after the same grace on a bus that never is.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/output/progress.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/blocked.h"
#include "scheduler/cli/jobs/effort.h"
#include "schemas/limits.h"
#include "schemas/names.h"
#include "schemas/wire.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"

#define UNKNOWN_GRACE_S 5.0
#define TAKEN_IN_S 60.0 /* a first entry that intake has not read by then is taken for a slip */
#define TEND_EVERY_S 2.0
#define LACK_AFTER_S 2.0 /* a batch of a second is not asked what it lacks */
#define TIMEOUT_MAX_S (366L * 24 * 3600)

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_no)
{
    interrupted = signal_no;
}

int kiln_batch_status(const struct kiln_progress *progress)
{
    const uint64_t *at = progress->jobs.at;
    return at[KILN_JOB_FAILED] || at[KILN_JOB_CANCELLED] || progress->refused ? 1 : 0;
}

/* Whether intake still has entries that may bring the batch. */
static bool intake_busy(struct kiln_cli *cli)
{
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    char key[256];
    uint64_t length = 0;
    kiln_wire_key(key, sizeof key, kiln_pool(cli), "intake", NULL);
    if (kiln_open_bus(cli, &bus, &err) == 0 && kiln_bus_length(bus, key, &length, &err) != 0)
        length = 0;
    kiln_bus_close(bus);
    return length > 0;
}

/* Whole first: a batch that is still coming in may look finished for a moment. */
static bool finished(const struct kiln_progress *progress)
{
    return progress->whole && progress->jobs.at[KILN_JOB_QUEUED] == 0 &&
           progress->jobs.at[KILN_JOB_ASSIGNED] == 0;
}

/* The total grows while the batch comes in; the bar may then go back. */
static void draw(struct kiln_bar *bar, const struct kiln_progress *progress, double now_s)
{
    const uint64_t *at = progress->jobs.at;
    uint64_t over = at[KILN_JOB_DONE] + at[KILN_JOB_FAILED] + at[KILN_JOB_CANCELLED];
    uint64_t known = over + at[KILN_JOB_QUEUED] + at[KILN_JOB_ASSIGNED];
    kiln_bar_draw(bar, known, over, at[KILN_JOB_FAILED], at[KILN_JOB_CANCELLED], now_s);
}

/* Often at first, for batches of a second; then four times a second. */
static double pause_for(double waited_s)
{
    return waited_s < 2 ? 0.05 : 0.25;
}

struct waiting {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    const char *batch;
    double start_s, tended_s, timeout_s;
    bool drained; /* intake was empty once since start_s: what was sent before is in the ledger */
    kiln_wait_tend *tend;
    void *arg;
    struct kiln_bar bar;
    struct kiln_blocked_said lack;
};

/* Whether the ledger has what was sent before this wait began; entries leave intake after the
 * ledger's commit, so ask this first and the ledger then. */
static bool all_in(struct waiting *w)
{
    w->drained = w->drained || kiln_now_s() - w->start_s >= UNKNOWN_GRACE_S || !intake_busy(w->cli);
    return w->drained;
}

/* One look at the batch; *ret_over: it has ended. */
static int wait_step(struct waiting *w, struct kiln_progress *progress, bool *ret_over,
                     struct kiln_error *err)
{
    bool drained = all_in(w);
    int rc = kiln_ledger_progress(w->ledger, kiln_pool(w->cli), w->batch, progress, err);
    double now = kiln_now_s();
    if (rc == KILN_NOT_FOUND && (now - w->start_s < UNKNOWN_GRACE_S || intake_busy(w->cli)))
        rc = 0;
    else if (rc == KILN_NOT_FOUND)
        rc = kiln_check_batch(w->cli, w->ledger, w->batch, err);
    else if (rc == 0)
        draw(&w->bar, progress, now);
    *ret_over = progress->created_ms && finished(progress) && drained;
    if (rc || *ret_over)
        return rc;
    if (interrupted)
        return kiln_fail(err, KILN_CANCELLED, "interrupted; batch %s goes on", w->batch);
    bool time_up = w->timeout_s >= 0 && now - w->start_s >= w->timeout_s;
    if (time_up && !progress->created_ms)
        return kiln_fail(err, KILN_TIMEOUT, "there is no batch '%s' (yet)", w->batch);
    if (time_up)
        return kiln_fail(err, KILN_TIMEOUT, "batch %s was not finished within %.0f s; it goes on",
                         w->batch, w->timeout_s);
    if (progress->jobs.at[KILN_JOB_QUEUED])
        kiln_blocked_say(w->cli, w->ledger, w->batch, &w->bar, &w->lack);
    if (w->tend && now - w->tended_s >= TEND_EVERY_S) {
        rc = w->tend(w->arg, err);
        w->tended_s = kiln_now_s();
    }
    return rc;
}

int kiln_wait_batch(struct kiln_cli *cli, const char *batch, double timeout_s, kiln_wait_tend *tend,
                    void *arg, struct kiln_progress *ret, struct kiln_error *err)
{
    struct waiting w = {.cli = cli,
                        .batch = batch,
                        .start_s = kiln_now_s(),
                        .timeout_s = timeout_s,
                        .tend = tend,
                        .arg = arg};
    bool over = false;
    *ret = (struct kiln_progress){0};
    int rc = kiln_open_reader(cli, &w.ledger, err);
    if (rc)
        return rc;
    w.tended_s = w.start_s;
    w.lack.due_s = w.start_s + LACK_AFTER_S;
    kiln_bar_init(&w.bar, cli, batch);
    interrupted = 0;
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    sigaction(SIGINT, &action, &before);
    while ((rc = wait_step(&w, ret, &over, err)) == 0 && !over)
        kiln_sleep_s(pause_for(kiln_now_s() - w.start_s));
    sigaction(SIGINT, &before, NULL);
    kiln_bar_end(&w.bar);
    kiln_ledger_close(w.ledger);
    return rc;
}

int kiln_wait_taken_in(struct kiln_cli *cli, const char *batch, struct kiln_error *err)
{
    struct waiting w = {.cli = cli, .batch = batch, .start_s = kiln_now_s()};
    struct kiln_progress progress;
    bool told = false;
    int rc = kiln_open_reader(cli, &w.ledger, err);
    while (rc == 0) {
        bool busy = intake_busy(cli);
        rc = kiln_ledger_progress(w.ledger, kiln_pool(cli), batch, &progress, err);
        if (rc == 0 && (!finished(&progress) || all_in(&w)))
            break;
        if (rc == KILN_NOT_FOUND && busy && !told)
            kiln_say(cli, "batch %s is not in the ledger yet; the intake stream may hold it",
                     batch);
        told = told || rc;
        if (rc == KILN_NOT_FOUND)
            rc = busy && kiln_now_s() - w.start_s < TAKEN_IN_S
                     ? 0
                     : kiln_check_batch(cli, w.ledger, batch, err);
        kiln_sleep_s(rc ? 0 : pause_for(kiln_now_s() - w.start_s));
    }
    kiln_ledger_close(w.ledger);
    return rc;
}

/* The one word of --json; "cancelled" where nothing worse has happened. */
static const char *result_word(const struct kiln_progress *progress)
{
    if (kiln_batch_status(progress) == 0)
        return "done";
    return progress->jobs.at[KILN_JOB_FAILED] || progress->refused ? "failed" : "cancelled";
}

/* What happened, and for failures the two commands that come next. */
static void say_result(struct kiln_cli *cli, const char *batch,
                       const struct kiln_progress *progress, double seconds)
{
    const uint64_t *at = progress->jobs.at;
    char took[32];
    kiln_say(cli, "batch %s: %llu done, %llu failed, %llu cancelled in %s", batch,
             (unsigned long long)at[KILN_JOB_DONE], (unsigned long long)at[KILN_JOB_FAILED],
             (unsigned long long)at[KILN_JOB_CANCELLED],
             kiln_seconds_text(seconds, took, sizeof took));
    if (progress->removed)
        kiln_say(cli, "      `kiln gc` has taken the rows of %llu of the cancelled",
                 (unsigned long long)progress->removed);
    if (progress->refused)
        kiln_say(cli,
                 "      %llu lines were refused by intake: kiln show %s; sent again, those that "
                 "come in count no more",
                 (unsigned long long)progress->refused, batch);
    if (at[KILN_JOB_FAILED])
        kiln_say(cli,
                 "      why: kiln jobs --batch %s --state failed; again: kiln retry --batch %s",
                 batch, batch);
}

int kiln_verb_wait(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct kiln_progress progress;
    long timeout;
    int status = kiln_args_parse(cli, argc, argv, 1, 1, &args);
    if (status == 0)
        status = kiln_arg_int(cli, &args, "timeout", 0, TIMEOUT_MAX_S, -1, &timeout);
    if (status)
        return status;
    const char *batch = args.rest[0];
    if (!kiln_name_valid(batch, strlen(batch), KILN_BATCH_NAME_MAX))
        return kiln_usage(cli, "'%.64s' is no name of a batch: it has up to %d " KILN_NAME_RULE,
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
        kiln_say_effort(cli, batch);
    status = rc == KILN_TIMEOUT ? EX_TEMPFAIL : kiln_batch_status(&progress);
    if (!cli->json)
        return status;
    int printed = kiln_print_json(
        cli, json_pack("{s:s, s:s, s:b, s:o, s:I, s:I, s:f, s:o?}", "batch", batch, "result",
                       rc ? "timeout" : result_word(&progress), "whole", (int)progress.whole,
                       "jobs", kiln_counts_json(&progress.jobs), "removed",
                       (json_int_t)progress.removed, "refused", (json_int_t)progress.refused,
                       "seconds", seconds, "effort", rc ? NULL : kiln_effort_json(cli, batch)));
    return status ? status : printed;
}
