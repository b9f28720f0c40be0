/* memory.h - the memory of a stack's processes over a run, and the size of its ledger. */
#ifndef KILN_BENCH_MEMORY_H
#define KILN_BENCH_MEMORY_H

#include "scheduler/bench/bench.h"

#define KILN_BENCH_SAMPLES 11

struct kiln_bench_memory {
    const struct kiln_stack *stack;
    pid_t fleet; /* the process of the simulated workers */
    uint64_t total;
    int count; /* samples taken: at the start, then whenever another tenth is done */
    struct {
        uint64_t done;
        uint64_t bytes[KILN_BENCH_PARTS]; /* 0 for the client */
    } at[KILN_BENCH_SAMPLES];
    uint64_t peak[KILN_BENCH_PARTS];
    double looked_s;
};

void kiln_bench_memory_start(struct kiln_bench_memory *memory, const struct kiln_stack *stack,
                             pid_t fleet, uint64_t total);
kiln_bench_look kiln_bench_memory_look; /* arg: the memory */
void kiln_bench_memory_print(const struct kiln_bench_memory *memory);
json_t *kiln_bench_memory_json(const struct kiln_bench_memory *memory);

/* The ledger's tables: bytes, bytes a job, share of updates that touched no index.  Appended to the
 * list, or printed if it is NULL. */
int kiln_bench_tables(struct kiln_bench *bench, long jobs, json_t *list,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
