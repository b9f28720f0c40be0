/* events.c - `kiln events`: every move of a job as a line, once or continuously.
 *
 * --follow asks the ledger twice a second, not the bus: the ledger has every move, even those made
 * during an outage of Redis.  Between two questions it polls stdout, so that it ends when its
 * reader has gone even if nothing happens, and at once on a signal.  During an outage of Postgres
 * it waits.
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/times.h"
#include "scheduler/cli/core/verbs.h"
#include "schemas/clock.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/ops.h"

#define POLL_MS 500
#define LOOK_BACK_MS (3600 * 1000) /* without a job, a batch or --since */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_no)
{
    interrupted = signal_no;
}

static int list_event(void *arg, const struct kiln_event_row *event, struct kiln_error *err)
{
    struct kiln_listing *listing = arg;
    struct kiln_text *line = &listing->line;
    const struct kiln_move_row *move = &event->move;
    const char *from = kiln_job_state_name((enum kiln_job_state)move->was);
    const char *to = kiln_job_state_name((enum kiln_job_state)move->state);
    const char *code = move->code ? kiln_code_name(move->code) : NULL;
    char at[64];
    if (listing->cli->json) {
        kiln_json_put(line,
                      "{event:u at:t job:u batch:s from:s to:s attempt:i worker:s code:s "
                      "reason:s}\n",
                      event->id, move->at_ms, event->job, event->batch, from, to, move->attempt,
                      move->worker, code, move->reason);
    } else {
        kiln_text_printf(line, "%s  job %" PRIu64 "  %s -> %s  attempt %u  %s%s%s%s%s%s",
                         kiln_time_text(move->at_ms, at, sizeof at), event->job, from, to,
                         move->attempt, event->batch, move->worker ? "  " : "",
                         move->worker ? move->worker : "", code ? "  " : "", code ? code : "",
                         move->reason ? ": " : "");
        kiln_text_safe(line, move->reason ? move->reason : "");
        kiln_text_puts(line, "\n");
    }
    return kiln_listing_put(listing, err);
}

static int follow(struct kiln_cli *cli, struct kiln_ledger *ledger,
                  const struct kiln_event_filter *filter, struct kiln_event_tail *tail,
                  struct kiln_listing *listing, struct kiln_error *err)
{
    bool warned = false, gone = false;
    for (const int signals[] = {SIGINT, SIGTERM}, *at = signals; at < signals + 2; at++)
        sigaction(*at, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    while (!interrupted && !gone) {
        int rc = kiln_ledger_tail(ledger, kiln_pool(cli), filter, tail, list_event, listing, err);
        if (rc && (rc == KILN_CANCELLED || !kiln_code_retryable(rc)))
            return rc;
        if (rc && !warned)
            kiln_warn(cli, "%s; trying again", err->text);
        warned = rc != 0;
        /* Waits for the next question; an error on the pipe means that its reader has gone. */
        struct pollfd out = {.fd = STDOUT_FILENO};
        gone = fflush(stdout) != 0 ||
               (poll(&out, 1, POLL_MS) > 0 && (out.revents & (POLLERR | POLLNVAL)));
    }
    return 0;
}

int kiln_verb_events(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    struct kiln_listing listing = {.cli = cli, .none = "no events"};
    struct kiln_event_filter filter = {0};
    int64_t since_ms, now_ms; /* now_ms: where following begins without --since */
    char version[32];
    struct kiln_target what;
    int status = kiln_arg_target(cli, args, 0, &what);
    const char *job = kiln_arg(args, "job");
    if (status == 0 && job && (what.job || what.batch))
        return kiln_usage(cli, "name a job or a batch, not both");
    if (status == 0 && job)
        status = kiln_arg_job(cli, job, &what.job);
    filter.job = what.job;
    int64_t fallback_ms = what.job || what.batch ? 0 : kiln_wall_ms() - LOOK_BACK_MS;
    if (status == 0)
        status = kiln_arg_limit(cli, args, &listing.left);
    if (status == 0)
        status = kiln_arg_since(cli, args, fallback_ms, &since_ms);
    if (status)
        return status;
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc == 0)
        rc = kiln_ledger_clock(ledger, &now_ms, version, sizeof version, &err);
    if (rc == 0 && what.job)
        rc = kiln_check_job(cli, ledger, what.job, &err);
    if (rc == 0 && what.batch)
        rc = kiln_check_batch(cli, ledger, what.batch, &err);
    if (rc == 0 && what.batch)
        rc = kiln_ledger_batch_id(ledger, kiln_pool(cli), what.batch, &filter.batch_id, &err);
    if (rc == 0 && kiln_arg(args, "follow")) {
        struct kiln_event_tail tail = {.since_ms = kiln_arg(args, "since") ? since_ms : now_ms};
        listing.none = NULL;
        rc = follow(cli, ledger, &filter, &tail, &listing, &err);
    } else if (rc == 0) {
        rc = kiln_ledger_events(ledger, kiln_pool(cli), &filter, since_ms, list_event, &listing,
                                &err);
    }
    kiln_ledger_close(ledger);
    return kiln_listing_end(&listing, rc, &err);
}
