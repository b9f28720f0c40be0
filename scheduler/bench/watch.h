/* watch.h - how idle devices are while a bench keeps the queue full. */
#ifndef KILN_BENCH_WATCH_H
#define KILN_BENCH_WATCH_H

#include "scheduler/bench/bench.h"

/* Shares of time in which devices did not compute, by their own clocks and for all workers
 * together: from the first to the last end of a batch while the queue was full.  Negative: fewer
 * than two batches ended in it. */
struct kiln_bench_idle {
    double of_all;
    double in_hand; /* of the time in which the workers had an assignment to run */
};

/* jobs: of the batch that will be sent.  The queue is full until all of them are in the ledger and
 * assigned.  A device that is idle before that waits for the queue; later it has no work left. */
struct kiln_bench_watch;
int kiln_bench_watch_open(struct kiln_bench *bench, uint64_t jobs, struct kiln_bench_watch **ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
kiln_bench_look kiln_bench_watch_look;                                         /* arg: the watch */
struct kiln_bench_idle kiln_bench_watch_close(struct kiln_bench_watch *watch); /* accepts NULL */

/* null for a negative share */
json_t *kiln_bench_share_json(double share);

#endif
