/* progress.h - the progress bar on stderr, and the wait that it shows.
 *
 * On a terminal one line is drawn over and over: bar, counts, rate, time left, failures and
 * cancelled jobs so far.
 * Elsewhere (a log, a pipe) a plain line is written whenever another tenth is done, and at least
 * every half minute.  With -q nothing at all.
 */
#ifndef KILN_CLI_PROGRESS_H
#define KILN_CLI_PROGRESS_H

#include "scheduler/cli/core/cli.h"
#include "storage/ledger/read/read.h"

#define KILN_BAR_SAMPLES 64

struct kiln_bar {
    const struct kiln_cli *cli;
    const char *what; /* "drawing" */
    double started_s, drawn_s, said_s;
    struct {
        double at_s;
        uint64_t finished;
    } sample[KILN_BAR_SAMPLES]; /* a ring: the last 30 s */
    unsigned samples;
    int said_tenths;
    bool open; /* a line without its end is on the terminal */
};

void kiln_bar_init(struct kiln_bar *bar, const struct kiln_cli *cli, const char *what);
/* total 0: not known yet.  finished counts those that failed or were cancelled too. */
void kiln_bar_draw(struct kiln_bar *bar, uint64_t total, uint64_t finished, uint64_t failed,
                   uint64_t cancelled, double now_s);
void kiln_bar_end(struct kiln_bar *bar); /* leaves the cursor on a fresh line */
/* Finished a second over the last half minute; 0 while unknown. */
double kiln_bar_rate(const struct kiln_bar *bar, double now_s);

/* Called every few seconds of a wait; an error of it ends the wait. */
typedef int kiln_wait_tend(void *arg, struct kiln_error *err);

/* Waits until the batch is whole and finished or timeout_s has passed (negative: never); an unknown
 * batch gets a short grace.  tend may be NULL.  *ret_progress is the last state seen.
 * 0 finished, KILN_TIMEOUT, KILN_NOT_FOUND, KILN_CANCELLED after Ctrl-C, or an error of the ledger.
 */
int kiln_wait_batch(struct kiln_cli *cli, const char *batch, double timeout_s, kiln_wait_tend *tend,
                    void *arg, struct kiln_progress *ret_progress,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Waits until the ledger knows a batch that intake may still have to read: one that was sent a
 * moment ago is there, and one that looks finished has all that was sent to it (5 s at most for
 * that).  KILN_NOT_FOUND, with the nearest names, once nothing in intake can bring it or after a
 * minute. */
int kiln_wait_taken_in(struct kiln_cli *cli, const char *batch,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The exit status of a batch that has ended: 0 all done, 1 some failed, cancelled or refused. */
int kiln_batch_status(const struct kiln_progress *progress);
/* {"queued":..., ...} */
json_t *kiln_counts_json(const struct kiln_counts *counts);

#endif
