/* bench_watch.h - how idle devices are while a bench keeps the queue full. */
#ifndef KILN_CLI_BENCH_WATCH_H
#define KILN_CLI_BENCH_WATCH_H

#include "scheduler/cli/bench.h"

/* Shares of the time between the first batch that ended in a full queue and the last one that did,
 * all workers together, in which their devices did not compute by their own clocks.  Negative: no
 * two batches ended in it. */
struct kiln_bench_idle {
    double of_all;
    double in_hand; /* of the time in which the workers had something to draw */
};

/* jobs: of the batch that is going to be sent; in_hands: what of them workers may have been given
 * and not done.  While more than that is left the queue is full. */
struct kiln_bench_watch;
int kiln_bench_watch_open(struct kiln_bench *bench, uint64_t jobs, uint64_t in_hands,
                          struct kiln_bench_watch **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bench_watch_look(void *watch, uint64_t done); /* a kiln_bench_look */
struct kiln_bench_idle kiln_bench_watch_close(struct kiln_bench_watch *watch); /* accepts NULL */

/* null for what was not seen */
json_t *kiln_bench_share_json(double share);

#endif
