/* batch_wait.c - waiting for a batch of jobs.
 *
 * It asks the ledger, not the events on the bus: only the ledger knows, and one question reads a
 * handful of rows.  An enqueue call that did not wait for its receipt may be ahead of the ledger.
 * So an unknown batch gets a grace period, extended while the intake stream has entries.  A batch
 * that looks finished is believed once the intake stream was seen empty, or after that period.
 */
#include "scheduler/cli/fleet/batch_wait.h"

#include <signal.h>

#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/fleet/trouble.h"
#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/source.h"

#define UNKNOWN_GRACE_S 5.0
#define TAKEN_IN_S 60.0 /* a batch that intake has not read by then probably does not exist */
#define TEND_EVERY_S 2.0
/* A batch that takes a second needs no explanation. */
#define TROUBLE_AFTER_S (KILN_TROUBLE_LOOK_MS / 1e3)

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_no)
{
    interrupted = signal_no;
}

int kiln_batch_status(const struct kiln_progress *progress)
{
    const uint64_t *at = progress->jobs.at, *gone = progress->gone.at;
    return at[KILN_JOB_FAILED] > gone[KILN_JOB_FAILED] ||
                   at[KILN_JOB_CANCELLED] > gone[KILN_JOB_CANCELLED] || progress->refused
               ? 1
               : 0;
}

/* Whether the intake stream has entries that may belong to the batch. */
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

/* A batch that is still coming in may look finished for a moment, so it must be whole. */
static bool finished(const struct kiln_progress *progress)
{
    return progress->whole && progress->jobs.at[KILN_JOB_QUEUED] == 0 &&
           progress->jobs.at[KILN_JOB_ASSIGNED] == 0;
}

/* Seconds until the next look: short at first, for batches that take a second. */
static double pause_for(double waited_s)
{
    return waited_s < 2 ? 0.05 : 0.25;
}

struct waiting {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    const char *batch;
    double start_s, tended_s, timeout_s;
    bool drained; /* the intake stream was empty since start_s: older entries are in the ledger */
    kiln_wait_tend *tend;
    void *arg;
    struct kiln_bar bar;
    struct kiln_troubles_said said;
};

/* Whether the ledger has every entry sent before this wait began.  Entries leave the stream after
 * the ledger's commit, so ask this before the ledger. */
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
    const uint64_t *at = progress->jobs.at;
    int rc = kiln_ledger_progress(w->ledger, kiln_pool(w->cli), w->batch, progress, err);
    double now = kiln_now_s();
    if (rc == KILN_NOT_FOUND && (now - w->start_s < UNKNOWN_GRACE_S || intake_busy(w->cli)))
        rc = 0;
    else if (rc == KILN_NOT_FOUND)
        rc = kiln_check_batch(w->cli, w->ledger, w->batch, err);
    else if (rc == 0) { /* the total grows while the batch comes in, so the bar may go back */
        uint64_t ended = at[KILN_JOB_DONE] + at[KILN_JOB_FAILED] + at[KILN_JOB_CANCELLED];
        kiln_bar_draw(&w->bar, ended + at[KILN_JOB_QUEUED] + at[KILN_JOB_ASSIGNED], ended,
                      at[KILN_JOB_FAILED], at[KILN_JOB_CANCELLED], now);
    }
    *ret_over = progress->created_ms && finished(progress) && drained;
    if (*ret_over && rc == 0)
        rc = kiln_ledger_gone_counts(w->ledger, kiln_pool(w->cli), w->batch, &progress->gone, err);
    if (rc || *ret_over)
        return rc;
    if (interrupted)
        return kiln_fail(err, KILN_CANCELLED, "interrupted; batch %s continues", w->batch);
    bool time_up = w->timeout_s >= 0 && now - w->start_s >= w->timeout_s;
    if (time_up && !progress->created_ms)
        return kiln_fail(err, KILN_TIMEOUT, "batch '%s' does not exist (yet)", w->batch);
    if (time_up)
        return kiln_fail(err, KILN_TIMEOUT, "batch %s did not end within %.0f s; it continues",
                         w->batch, w->timeout_s);
    kiln_troubles_say(w->cli, w->ledger, w->batch, &w->bar, &w->said);
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
    w.said.due_s = w.start_s + TROUBLE_AFTER_S;
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
    bool warned = false;
    int rc = kiln_open_reader(cli, &w.ledger, err);
    while (rc == 0) {
        bool busy = intake_busy(cli);
        rc = kiln_ledger_progress(w.ledger, kiln_pool(cli), batch, &progress, err);
        if (rc == 0 && (!finished(&progress) || all_in(&w)))
            break;
        if (rc == KILN_NOT_FOUND && busy && !warned)
            kiln_say(cli, "batch %s is not in the ledger yet; looking for it in the intake stream",
                     batch);
        warned = warned || rc;
        if (rc == KILN_NOT_FOUND && busy && kiln_now_s() - w.start_s >= TROUBLE_AFTER_S)
            kiln_troubles_say(cli, w.ledger, batch, &w.bar, &w.said);
        if (rc == KILN_NOT_FOUND)
            rc = busy && kiln_now_s() - w.start_s < TAKEN_IN_S
                     ? 0
                     : kiln_check_batch(cli, w.ledger, batch, err);
        kiln_sleep_s(rc ? 0 : pause_for(kiln_now_s() - w.start_s));
    }
    kiln_ledger_close(w.ledger);
    return rc;
}
