/* queue.c - the queue through one real worker.
 *
 * First without workers: from the first line sent to the last job in the ledger, and once more with
 * loras "auto", chosen among a hundred.  Then with a worker that renders test cards: from the first
 * line to the last job committed, once for jobs that store a latent and once for jobs that store
 * pictures too.  Scheduler, encoding, store and ledger are real.  The jobs are the smallest that
 * Kiln accepts, because the bench measures the queue and not libwebp.  The processor time of each
 * process (cpu.c) is the cost of a job even on a machine that is busy with other work.
 */
#include <stdio.h>
#include <unistd.h>

#include "scheduler/bench/watch.h"

static int measure(struct kiln_bench *bench, struct kiln_bench_run *run, struct kiln_error *err)
{
    struct kiln_bench_watch *watch = NULL;
    bool renders = kiln_bench_renders(run->load);
    int rc = kiln_bench_lines(bench, run->load, run->jobs, err);
    if (rc == 0 && renders)
        rc = kiln_bench_watch_open(bench, (uint64_t)run->jobs, &watch, err);
    if (rc == 0)
        rc = kiln_bench_measure(bench, run, renders ? kiln_bench_watch_look : NULL, watch, err);
    run->idle = kiln_bench_watch_close(watch).of_all;
    return rc;
}

static void print_measured(const struct kiln_bench *bench, const struct kiln_bench_run *run,
                           const char *name, const char *how)
{
    kiln_bench_print_rate(bench, name, run->jobs, run->seconds, how);
    if (bench->cli->json)
        return;
    kiln_bench_cpu_print(&run->cpu, run->jobs);
    if (run->idle >= 0)
        printf("%-16s %10.1f %%   of the time the device waited for the queue\n", "",
               100 * run->idle);
}

static json_t *run_json(const struct kiln_bench_run *run)
{
    return json_pack(
        "{s:s, s:I, s:f, s:f, s:o, s:o}", "jobs_of", run->batch, "jobs", (json_int_t)run->jobs,
        "seconds", run->seconds, "jobs_per_s", (double)run->jobs / run->seconds, "cpu_us_per_job",
        kiln_bench_cpu_json(&run->cpu, run->jobs), "idle_share", kiln_bench_share_json(run->idle));
}

int kiln_bench_queue(struct kiln_bench *bench, struct kiln_error *err)
{
    long through = bench->lines / 10;
    struct kiln_bench_run rows[] = {
        {.batch = "intake", .load = KILN_BENCH_INTAKE, .jobs = bench->lines},
        {.batch = "auto", .load = KILN_BENCH_AUTO, .jobs = bench->lines},
        {.batch = "latents", .load = KILN_BENCH_LATENTS, .jobs = through},
        {.batch = "pictures", .load = KILN_BENCH_PICTURES, .jobs = through}};
    int rc = kiln_stack_up(&bench->own, bench->dir, 0, &bench->stack, err);
    rc = rc ? rc : measure(bench, &rows[0], err);
    rc = rc ? rc : kiln_bench_loras(bench, err);
    rc = rc ? rc : measure(bench, &rows[1], err);
    rc = rc ? rc : kiln_bench_forget(bench, "intake", err); /* both now: vacuum follows */
    rc = rc ? rc : kiln_bench_forget(bench, "auto", err);
    if (rc)
        return rc;
    kiln_say(bench->cli, "servers and store in %s; below a rate: processor time a job", bench->dir);
    print_measured(bench, &rows[0], "intake jobs", "first line to last row in Postgres");
    print_measured(bench, &rows[1], "auto jobs", "the same with loras \"auto\", of 100 LoRAs");
    rc = kiln_stack_up(&bench->own, bench->dir, 1, &bench->stack, err);
    rc = rc ? rc : measure(bench, &rows[2], err);
    if (rc)
        return rc;
    print_measured(bench, &rows[2], "latent jobs",
                   "end to end, one worker, engine testcard (no model), 64 px, a latent file each");
    rc = measure(bench, &rows[3], err);
    if (rc)
        return rc;
    print_measured(bench, &rows[3], "picture jobs", "the same with a WebP picture each");
    if (!bench->cli->json)
        return 0;
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        json_array_append_new(list, run_json(&rows[i]));
    (void)kiln_print_json(bench->cli, json_pack("{s:s, s:s, s:o, s:I}", "bench", "queue", "engine",
                                                "testcard", "measured", list, "cores",
                                                (json_int_t)sysconf(_SC_NPROCESSORS_ONLN)));
    return 0;
}
