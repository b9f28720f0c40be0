/* cpu.h - the processor time that each process of a stack took between two moments.
 *
 * On a machine with other work a rate says little, but the processor time of a job still does.
 */
#ifndef KILN_BENCH_CPU_H
#define KILN_BENCH_CPU_H

#include "scheduler/cli/stack/stack.h"

enum kiln_bench_part {
    KILN_BENCH_CLIENT, /* this process */
    KILN_BENCH_REDIS,
    KILN_BENCH_POSTGRES, /* with its children */
    KILN_BENCH_SCHEDULER,
    KILN_BENCH_WORKER,
    KILN_BENCH_PARTS
};

struct kiln_bench_cpu {
    double seconds[KILN_BENCH_PARTS];
    pid_t fleet; /* set before the start: the process of the simulated workers; 0: worker-0 */
};

/* The sum of a figure over a process and its children; `of` returns 0 for a process that has gone
 * and else sets its parent. */
double kiln_bench_family(pid_t head, double (*of)(pid_t pid, pid_t *ret_parent));

void kiln_bench_cpu_start(struct kiln_bench_cpu *cpu, const struct kiln_stack *stack);
/* Leaves the seconds since the start. */
void kiln_bench_cpu_stop(struct kiln_bench_cpu *cpu, const struct kiln_stack *stack);

/* One line on stdout: microseconds a job, by process and in all. */
void kiln_bench_cpu_print(const struct kiln_bench_cpu *cpu, long jobs);
json_t *kiln_bench_cpu_json(const struct kiln_bench_cpu *cpu, long jobs);

#endif
