/* asks.h - what an operator's commands take while a queue waits. */
#ifndef KILN_BENCH_ASKS_H
#define KILN_BENCH_ASKS_H

#include "scheduler/bench/bench.h"

enum { KILN_BENCH_ASKS = 5 };

struct kiln_bench_asks {
    double best_s[KILN_BENCH_ASKS]; /* from the start of kiln to its end */
    uint64_t scheduler_bytes;       /* resident, with the whole queue in its memory */
};

/* Runs each command as its user would; the last one cancels the rest of the batch.  job: one that
 * waits. */
int kiln_bench_ask(struct kiln_bench *bench, const char *batch, uint64_t job,
                   struct kiln_bench_asks *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bench_asks_print(const struct kiln_bench_asks *asks);
json_t *kiln_bench_asks_json(const struct kiln_bench_asks *asks);

#endif
