/* scale.c - `kiln bench queue --jobs N --workers W`: the whole queue but the drawing.
 *
 * Real Redis and Postgres (fsync on), the real scheduler with its policy, the real client; the
 * workers are simulated (fleet.h): they take assignments and commit the rows of a picture and
 * its latent at once, so that the queue alone is the limit.  The clock runs from the first line
 * sent to the last job committed; intake, policy, assignment and commit overlap as they do in life.
 * After it, whether the memory stayed flat, and what the ledger's tables have grown to.
 */
#include <stdio.h>
#include <unistd.h>

#include "scheduler/bench/bench.h"
#include "scheduler/bench/fleet.h"
#include "scheduler/bench/memory.h"

#define TABLE_NEWS_S 1.5 /* the server's counts are told with this delay at most */

static int send_all_and_wait(struct kiln_bench *bench, struct kiln_bench_run *run,
                             struct kiln_bench_memory *memory, struct kiln_error *err)
{
    double sending, cpu_s;
    kiln_bench_cpu_start(&run->cpu, &bench->stack);
    double start = kiln_now_s();
    int rc = kiln_bench_send(bench, run->batch, run->jobs, &sending, &cpu_s, err);
    if (rc == 0)
        rc = kiln_bench_wait(bench, run->batch, (uint64_t)run->jobs, true, kiln_bench_memory_look,
                             memory, err);
    run->seconds = kiln_now_s() - start;
    kiln_bench_cpu_stop(&run->cpu, &bench->stack);
    return rc;
}

static int print(struct kiln_bench *bench, const struct kiln_bench_run *run,
                 const struct kiln_bench_memory *memory, struct kiln_error *err)
{
    char how[160];
    snprintf(how, sizeof how,
             "first line to last commit, %ld simulated workers that draw nothing, 8 groups, up to "
             "%lld jobs an assignment",
             bench->workers, (long long)kiln_config_int(bench->own.config, KILN_KEY_BATCH_MAX));
    kiln_bench_print_rate(bench, "queue jobs", run->jobs, run->seconds, how);
    kiln_bench_cpu_print(&run->cpu, run->jobs);
    kiln_bench_memory_print(memory);
    return kiln_bench_tables_print(bench, run->jobs, err);
}

static int print_json(struct kiln_bench *bench, const struct kiln_bench_run *run,
                      const struct kiln_bench_memory *memory, struct kiln_error *err)
{
    json_t *tables = NULL;
    int rc = kiln_bench_tables_json(bench, &tables, err);
    (void)kiln_print_json(
        bench->cli, json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:o, s:o, s:o, s:I}", "bench",
                              "queue", "workers", "simulated", "worker_count",
                              (json_int_t)bench->workers, "jobs", (json_int_t)run->jobs, "seconds",
                              run->seconds, "jobs_per_s", (double)run->jobs / run->seconds,
                              "cpu_us_per_job", kiln_bench_cpu_json(&run->cpu, run->jobs),
                              "memory_bytes", kiln_bench_memory_json(memory), "tables", tables,
                              "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN)));
    return rc;
}

int kiln_bench_scale(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_bench_run run = {.batch = "scale", .load = KILN_BENCH_MIXED, .jobs = bench->jobs};
    struct kiln_bench_memory memory;
    struct kiln_error end;
    int rc = kiln_stack_up(&bench->own, bench->dir, 0, &bench->stack, err);
    if (rc == 0)
        rc = kiln_bench_lines(bench, run.load, run.jobs, err);
    if (rc == 0)
        rc = kiln_bench_fleet_start(bench->own.config, bench->workers, &run.cpu.fleet, err);
    if (rc)
        return rc;
    kiln_say(bench->cli, "servers in %s; below a rate: processor time a job", bench->dir);
    kiln_bench_memory_start(&memory, &bench->stack, run.cpu.fleet, (uint64_t)run.jobs);
    rc = send_all_and_wait(bench, &run, &memory, err);
    int stopped = kiln_bench_fleet_stop(run.cpu.fleet, rc ? &end : err);
    if (rc || stopped)
        return rc ? rc : stopped;
    kiln_sleep_s(TABLE_NEWS_S);
    return bench->cli->json ? print_json(bench, &run, &memory, err)
                            : print(bench, &run, &memory, err);
}
