/* watch.h - how idle devices are while a bench keeps the queue full. */
#ifndef KILN_BENCH_WATCH_H
#define KILN_BENCH_WATCH_H

#include "scheduler/bench/bench.h"

/* Shares of the time between the first batch that ended in a full queue and the last one that did,
 * all workers together, in which their devices did not compute by their own clocks.  Negative: no
 * two batches ended in it. */
struct kiln_bench_idle {
    double of_all;
    double in_hand; /* of the time in which the workers had something to draw */
};

/* jobs: of the batch that is going to be sent.  The queue is full until they have all come and been
 * given out: idle devices before that are the queue's fault, later they have nothing left to do. */
struct kiln_bench_watch;
int kiln_bench_watch_open(struct kiln_bench *bench, uint64_t jobs, struct kiln_bench_watch **ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
kiln_bench_look kiln_bench_watch_look;                                         /* arg: the watch */
struct kiln_bench_idle kiln_bench_watch_close(struct kiln_bench_watch *watch); /* accepts NULL */

/* null for what was not seen */
json_t *kiln_bench_share_json(double share);

#endif
