/* scale.c - `kiln bench queue --jobs N --workers W`: the whole queue without rendering.
 *
 * Redis and Postgres (fsync on), the scheduler with its policy and the client are real.  The
 * workers are simulated (fleet.h): they commit the rows of a picture and its latent at once, so
 * that the queue alone is the limit.  The clock runs from the first line sent to the last job
 * committed; intake, policy, assignment and commit overlap.  The report also has the memory of the
 * processes over the run and the final size of the ledger's tables.
 */
#include <stdio.h>
#include <unistd.h>

#include "scheduler/bench/bench.h"
#include "scheduler/bench/fleet.h"
#include "scheduler/bench/memory.h"

#define TABLE_DELAY_S 1.5 /* Postgres updates its counts of rows at most this much later */

static int print(struct kiln_bench *bench, const struct kiln_bench_run *run,
                 const struct kiln_bench_memory *memory, struct kiln_error *err)
{
    char how[160];
    if (bench->cli->json) {
        json_t *tables = json_array();
        int rc = kiln_bench_tables(bench, run->jobs, tables, err);
        (void)kiln_print_json(bench->cli,
                              json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:o, s:o, s:o, s:I}",
                                        "bench", "queue", "workers", "simulated", "worker_count",
                                        (json_int_t)bench->workers, "jobs", (json_int_t)run->jobs,
                                        "seconds", run->seconds, "jobs_per_s",
                                        (double)run->jobs / run->seconds, "cpu_us_per_job",
                                        kiln_bench_cpu_json(&run->cpu, run->jobs), "memory_bytes",
                                        kiln_bench_memory_json(memory), "tables", tables, "cores",
                                        (json_int_t)sysconf(_SC_NPROCESSORS_ONLN)));
        return rc;
    }
    snprintf(
        how, sizeof how,
        "first line to last commit, %ld simulated workers that render nothing, 8 groups, up to "
        "%lld jobs an assignment",
        bench->workers, (long long)kiln_config_int(bench->own.config, KILN_KEY_BATCH_MAX));
    kiln_bench_print_rate(bench, "queue jobs", run->jobs, run->seconds, how);
    kiln_bench_cpu_print(&run->cpu, run->jobs);
    kiln_bench_memory_print(memory);
    return kiln_bench_tables(bench, run->jobs, NULL, err);
}

int kiln_bench_scale(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_bench_run run = {.batch = "scale", .load = KILN_BENCH_MIXED, .jobs = bench->jobs};
    struct kiln_bench_memory memory;
    struct kiln_error end;
    int rc = kiln_stack_up(&bench->own, bench->dir, 0, &bench->stack, err);
    rc = rc ? rc : kiln_bench_lines(bench, run.load, run.jobs, err);
    rc = rc ? rc : kiln_bench_fleet_start(bench->own.config, bench->workers, &run.cpu.fleet, err);
    if (rc)
        return rc;
    kiln_say(bench->cli, "servers in %s; below a rate: processor time a job", bench->dir);
    kiln_bench_memory_start(&memory, &bench->stack, run.cpu.fleet, (uint64_t)run.jobs);
    rc = kiln_bench_measure(bench, &run, kiln_bench_memory_look, &memory, err);
    int stopped = kiln_bench_fleet_stop(run.cpu.fleet, rc ? &end : err);
    if (rc || stopped)
        return rc ? rc : stopped;
    kiln_sleep_s(TABLE_DELAY_S);
    return print(bench, &run, &memory, err);
}
