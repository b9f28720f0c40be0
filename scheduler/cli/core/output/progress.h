/* progress.h - the progress bar on stderr, and counts as JSON.
 *
 * On a terminal one line is drawn over and over: bar, counts, rate, time left, failures and
 * cancelled jobs so far.  Elsewhere (a log, a pipe) a plain line is written whenever another tenth
 * is done, and at least every half minute.  With -q nothing at all.
 */
#ifndef KILN_CLI_PROGRESS_H
#define KILN_CLI_PROGRESS_H

#include "scheduler/cli/core/cli.h"
#include "storage/ledger/read/read.h"

#define KILN_BAR_SAMPLES 64

struct kiln_bar {
    const struct kiln_cli *cli;
    const char *what; /* "exporting" */
    double drawn_s, said_s;
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

/* {"queued":..., ...} */
json_t *kiln_counts_json(const struct kiln_counts *counts);
uint64_t kiln_counts_total(const struct kiln_counts *counts);

#endif
