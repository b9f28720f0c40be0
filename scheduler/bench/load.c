/* load.c - the batches that a bench sends to its private stack; see bench.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/bench/bench.h"
#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/fleet/control.h"
#include "scheduler/cli/jobs/enqueue/enqueue.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/lora/change.h"

/* A wait ends after LIMIT_S, or after SLOWEST_JOB_S a job if that is longer. */
#define LIMIT_S 600.0
#define SLOWEST_JOB_S 0.005

#define LOOKS 100 /* LoRAs that "auto" chooses among */

static const char *const load_fields[] = {
    [KILN_BENCH_INTAKE] = "\"width\":256,\"height\":256,\"steps\":8,\"latents\":\"final\"",
    [KILN_BENCH_AUTO] = "\"width\":256,\"height\":256,\"steps\":8,\"loras\":\"auto\"",
    [KILN_BENCH_LATENTS] = "\"width\":64,\"height\":64,\"steps\":8,\"kind\":\"latent-cache\"",
    [KILN_BENCH_PICTURES] = "\"width\":64,\"height\":64,\"steps\":8,\"latents\":\"final\"",
    [KILN_BENCH_SLOW] = "\"width\":64,\"height\":64,\"steps\":2,\"latents\":\"none\"",
};

/* Eight groups of usual sizes. */
static const char *const mixed_fields[8] = {
    "\"width\":1024,\"height\":1024,\"steps\":8", "\"width\":1344,\"height\":768,\"steps\":8",
    "\"width\":768,\"height\":1344,\"steps\":8",  "\"width\":1152,\"height\":896,\"steps\":8",
    "\"width\":512,\"height\":512,\"steps\":8",   "\"width\":1024,\"height\":1024,\"steps\":4",
    "\"width\":1344,\"height\":768,\"steps\":4",  "\"width\":512,\"height\":512,\"steps\":4",
};

int kiln_bench_set(struct kiln_bench *bench, const char *name, const char *value,
                   struct kiln_error *err)
{
    return kiln_config_set(bench->own.config, name, value, "bench", err);
}

FILE *kiln_bench_file(struct kiln_bench *bench)
{
    return fopen(kiln_join(bench->file, bench->dir, "jobs.jsonl"), "we");
}

int kiln_bench_file_close(const struct kiln_bench *bench, FILE *file, struct kiln_error *err)
{
    bool ok = file && !ferror(file);
    ok = file && fclose(file) == 0 && ok;
    return ok ? 0
              : kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s", bench->file,
                          strerror(errno));
}

bool kiln_bench_renders(enum kiln_bench_load load)
{
    return load != KILN_BENCH_INTAKE && load != KILN_BENCH_AUTO;
}

/* Lines as long as real ones, all different.  With loras "auto" every other one asks for a look. */
int kiln_bench_lines(struct kiln_bench *bench, enum kiln_bench_load load, long lines,
                     struct kiln_error *err)
{
    static const char *const colors[] = {"red", "blue", "green", "yellow", "violet"};
    static const char *const shapes[] = {"circle", "star", "square", "triangle"};
    FILE *file = kiln_bench_file(bench);
    for (long i = 0; file && i < lines; i++) {
        char more[32] = "";
        if (load == KILN_BENCH_SLOW)
            snprintf(more, sizeof more, " @step_ms=1000");
        if (load == KILN_BENCH_AUTO && i % 2)
            snprintf(more, sizeof more, ", look%ld style", i / 2 % LOOKS);
        fprintf(file,
                "{\"custom_id\":\"line-%ld\",\"prompt\":\"%s %s above a %s %s on a wide plain at "
                "sunset, number %ld, with a long soft shadow%s\",\"seed\":%ld,%s}\n",
                i, colors[i % 5], shapes[i % 4], colors[i / 5 % 5], shapes[i / 4 % 4], i, more,
                i * 7919, load == KILN_BENCH_MIXED ? mixed_fields[i % 8] : load_fields[load]);
    }
    return kiln_bench_file_close(bench, file, err);
}

int kiln_bench_loras(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    int rc = kiln_open_ledger(&bench->own, &ledger, err);
    for (int i = 0; i < LOOKS && rc == 0; i++) {
        struct kiln_lora_file_facts file = {.bytes = 1, .strength = -1};
        char name[32], entry[256];
        uint64_t version;
        snprintf(file.sha256, sizeof file.sha256, "%064x", i);
        snprintf(name, sizeof name, "look%d", i);
        snprintf(entry, sizeof entry,
                 "{\"name\":\"%s\",\"triggers\":[\"%s style\"],\"positive\":[\"pale light of "
                 "look %d\"],\"description\":\"soft edges, warm light and old paper, %d\"}",
                 name, name, i, i);
        rc = kiln_lora_change(ledger, kiln_pool(&bench->own),
                              &(struct kiln_lora_change){.name = name,
                                                         .tenant = "",
                                                         .file = &file,
                                                         .new_file = true,
                                                         .enabled = true,
                                                         .routable = true,
                                                         .who = "bench",
                                                         .entry = entry},
                              &version, err);
    }
    kiln_ledger_close(ledger);
    return rc;
}

int kiln_bench_send(struct kiln_bench *bench, const char *batch, long lines, double *ret_s,
                    double *ret_cpu_s, struct kiln_error *err)
{
    struct kiln_enqueue_request request = {.file = bench->file, .batch = batch, .no_wait = true};
    struct kiln_enqueue_result result;
    double start = kiln_now_s();
    clock_t cpu = clock();
    int status = kiln_enqueue(&bench->own, &request, &result);
    if (ret_s)
        *ret_s = kiln_now_s() - start;
    if (ret_cpu_s)
        *ret_cpu_s = (double)(clock() - cpu) / CLOCKS_PER_SEC;
    bool whole = status == 0 && result.sent == (uint64_t)lines;
    uint64_t sent = result.sent;
    kiln_enqueue_release(&result);
    return whole ? 0
                 : kiln_fail(err, KILN_INTERNAL, "enqueue sent %llu of %ld lines, status %d",
                             (unsigned long long)sent, lines, status);
}

/* Makes the error of the first failed job that of the bench, which ends the list. */
static int fail_with(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    (void)arg;
    return kiln_fail(err, KILN_INTERNAL,
                     "jobs of the bench failed; the first is job %llu, attempt %u, on %s: %s",
                     (unsigned long long)row->job.id, row->job.attempt, row->worker,
                     row->error ? row->error : "no reason given");
}

int kiln_bench_wait(struct kiln_bench *bench, const char *batch, uint64_t count, bool done,
                    kiln_bench_look *look, void *arg, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_progress progress = {0}; /* the batch may not be there yet */
    const char *pool = kiln_pool(&bench->own);
    double limit_s =
        (double)count * SLOWEST_JOB_S > LIMIT_S ? (double)count * SLOWEST_JOB_S : LIMIT_S;
    double until = kiln_now_s() + limit_s;
    uint64_t reached = 0;
    int rc = kiln_open_ledger(&bench->own, &ledger, err);
    while (rc == 0 && reached < count) {
        rc = kiln_ledger_progress(ledger, pool, batch, &progress, err);
        if (rc == KILN_NOT_FOUND)
            rc = 0;
        else if (rc == 0)
            reached = done ? progress.jobs.at[KILN_JOB_DONE] : progress.accepted;
        if (rc == 0 && progress.jobs.at[KILN_JOB_FAILED] && done)
            rc = kiln_ledger_jobs(ledger, pool, batch, KILN_JOB_FAILED, fail_with, NULL, err);
        if (rc == 0 && kiln_now_s() > until)
            rc = kiln_fail(err, KILN_TIMEOUT, "%llu of %llu jobs within %.0f s",
                           (unsigned long long)reached, (unsigned long long)count, limit_s);
        if (look)
            look(arg, &progress);
        kiln_sleep_s(0.02);
    }
    kiln_ledger_close(ledger);
    return rc;
}

int kiln_bench_measure(struct kiln_bench *bench, struct kiln_bench_run *run, kiln_bench_look *look,
                       void *arg, struct kiln_error *err)
{
    bool done = kiln_bench_renders(run->load);
    kiln_bench_cpu_start(&run->cpu, &bench->stack);
    double start = kiln_now_s();
    int rc = kiln_bench_send(bench, run->batch, run->jobs, NULL, NULL, err);
    rc = rc ? rc : kiln_bench_wait(bench, run->batch, (uint64_t)run->jobs, done, look, arg, err);
    run->seconds = kiln_now_s() - start;
    kiln_bench_cpu_stop(&run->cpu, &bench->stack);
    return rc;
}

int kiln_bench_forget(struct kiln_bench *bench, const char *batch, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    uint64_t count;
    int rc = kiln_open_ledger(&bench->own, &ledger, err);
    rc = rc ? rc : kiln_cancel_batch(&bench->own, ledger, batch, &count, err);
    kiln_ledger_close(ledger);
    return rc;
}

void kiln_bench_print_rate(const struct kiln_bench *bench, const char *name, long count,
                           double seconds, const char *how)
{
    if (!bench->cli->json)
        printf("%-16s %10.0f /s   %ld in %.2f s; %s; %ld cores\n", name, (double)count / seconds,
               count, seconds, how, sysconf(_SC_NPROCESSORS_ONLN));
}
