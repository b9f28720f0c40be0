/* commands.h - how long an operator's commands take on a long queue. */
#ifndef KILN_BENCH_COMMANDS_H
#define KILN_BENCH_COMMANDS_H

#include "scheduler/bench/bench.h"

enum { KILN_BENCH_COMMANDS = 5 };

struct kiln_bench_commands {
    double best_s[KILN_BENCH_COMMANDS]; /* from the start of kiln to its end */
    uint64_t scheduler_bytes;           /* resident, with the whole queue in its memory */
};

/* Runs each command as its user would; the last one cancels the rest of the batch.  job: one that
 * is queued. */
int kiln_bench_commands_run(struct kiln_bench *bench, const char *batch, uint64_t job,
                            struct kiln_bench_commands *ret,
                            struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bench_commands_print(const struct kiln_bench_commands *measured);
json_t *kiln_bench_commands_json(const struct kiln_bench_commands *measured);

#endif
