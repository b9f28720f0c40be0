/* bench.c - `kiln bench enqueue` and `kiln bench queue`: the queue's speed, measured on real
 * servers.
 *
 * enqueue: a generated file of job lines through the code of `kiln enqueue` into a private Redis
 * with an append-only file, fsync every second; one thread here, one in Redis.
 * queue: a private stack.  First without workers: from the first line sent to the last job in the
 * ledger.  Then with a worker whose engine returns a test card at once: from the first line to the
 * last job committed, once for jobs that store a latent and once for jobs that store pictures too;
 * scheduler, encoding, store and ledger are real.  The jobs are the smallest that Kiln takes: the
 * queue is measured, not libwebp.  Processor time by process (bench_cpu.c) says what a job costs on
 * a machine that is busy with something else.
 * Both take a temporary directory and remove it; when a bench fails the logs stay.
 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/cli/bench_cpu.h"
#include "scheduler/cli/enqueue.h"
#include "scheduler/cli/orders.h"
#include "scheduler/cli/progress.h"
#include "scheduler/cli/stack.h"
#include "scheduler/cli/verbs.h"
#include "storage/ledger.h"

#define LIMIT_S 600.0
#define BATCH_MAX "64" /* jobs of an assignment: small ones come in large batches */

struct bench {
    struct kiln_cli *cli; /* the one of the user: messages, --json */
    struct kiln_cli own;  /* with the settings of the private stack */
    struct kiln_stack stack;
    char dir[PATH_MAX], file[PATH_MAX];
    long lines;
};

/* What is sent: the end of each line. */
enum load { INTAKE, LATENTS, PICTURES };
static const char *const load_fields[] = {
    [INTAKE] = "\"width\":256,\"height\":256,\"steps\":8,\"latents\":\"final\"",
    [LATENTS] = "\"width\":64,\"height\":64,\"steps\":8,\"kind\":\"latent-cache\"",
    [PICTURES] = "\"width\":64,\"height\":64,\"steps\":8,\"latents\":\"final\"",
};

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int bench_open(struct bench *bench, struct kiln_error *err)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(bench->dir, sizeof bench->dir, "%.*s/kiln-bench.XXXXXX", PATH_MAX - 64,
             temporary && temporary[0] ? temporary : "/tmp");
    if (!mkdtemp(bench->dir) || chmod(bench->dir, 0711) != 0) /* Postgres' user passes through */
        return kiln_fail(err, KILN_IO, "make %s: %s", bench->dir, strerror(errno));
    bench->own = *bench->cli;
    bench->own.quiet = true;
    bench->own.progress = false;
    bench->own.config_path = NULL;
    bench->own.config = kiln_config_new();
    if (!bench->own.config)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the settings");
    int rc = kiln_config_set(bench->own.config, "engine", "testcard", "bench", err);
    return rc ? rc : kiln_config_set(bench->own.config, "batch_max", BATCH_MAX, "bench", err);
}

/* What is left when something failed: the logs, and where they are. */
static int remove_all_but_logs(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    if (strstr(path, "/log/"))
        return 0;
    (void)remove(path); /* the directories above the logs are not empty, and stay */
    return 0;
}

static void bench_close(struct bench *bench, bool failed)
{
    if (bench->stack.dir[0])
        (void)kiln_stack_down(&bench->stack, &bench->own);
    kiln_stack_close(&bench->stack);
    kiln_config_free(bench->own.config);
    free(bench->own.config_path);
    if (strncmp(bench->stack.data, bench->dir, strlen(bench->dir)) != 0 && bench->stack.data[0]) {
        *strrchr(bench->stack.data, '/') = '\0'; /* the side directory */
        nftw(bench->stack.data, remove_entry, 32, FTW_DEPTH | FTW_PHYS);
    }
    nftw(bench->dir, failed ? remove_all_but_logs : remove_entry, 32, FTW_DEPTH | FTW_PHYS);
    if (failed && access(bench->dir, F_OK) == 0)
        kiln_warn(bench->cli, "the logs of the bench stay in %s/log", bench->dir);
}

/* Lines of the length of real ones, all different. */
static int write_lines(struct bench *bench, enum load load, long lines, struct kiln_error *err)
{
    static const char *const colors[] = {"red", "blue", "green", "yellow", "violet"};
    static const char *const shapes[] = {"circle", "star", "square", "triangle"};
    kiln_join(bench->file, bench->dir, "jobs.jsonl");
    FILE *file = fopen(bench->file, "we");
    for (long i = 0; file && i < lines; i++)
        fprintf(file,
                "{\"custom_id\":\"line-%ld\",\"prompt\":\"%s %s above a %s %s on a wide plain at "
                "sunset, number %ld, with a long soft shadow\",\"seed\":%ld,%s}\n",
                i, colors[i % 5], shapes[i % 4], colors[i / 5 % 5], shapes[i / 4 % 4], i, i * 7919,
                load_fields[load]);
    bool ok = file && !ferror(file);
    ok = file && fclose(file) == 0 && ok;
    return ok ? 0
              : kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s", bench->file,
                          strerror(errno));
}

/* Sends the file as one batch; the time it took on the clock and on the processor. */
static int send(struct bench *bench, const char *batch, long lines, double *ret_s,
                double *ret_cpu_s, struct kiln_error *err)
{
    struct kiln_enqueue_request request = {.file = bench->file, .batch = batch, .no_wait = true};
    struct kiln_enqueue_result result;
    double start = kiln_now_s();
    clock_t cpu = clock();
    int status = kiln_enqueue(&bench->own, &request, &result);
    *ret_s = kiln_now_s() - start;
    *ret_cpu_s = (double)(clock() - cpu) / CLOCKS_PER_SEC;
    bool whole = status == 0 && result.sent == (uint64_t)lines;
    uint64_t sent = result.sent;
    kiln_enqueue_release(&result);
    return whole ? 0
                 : kiln_fail(err, KILN_INTERNAL, "enqueue sent %llu of %ld lines, status %d",
                             (unsigned long long)sent, lines, status);
}

static void print_rate(const struct bench *bench, const char *name, long count, double seconds,
                       const char *how)
{
    if (!bench->cli->json)
        printf("%-16s %10.0f /s   %ld in %.2f s; %s; %ld cores\n", name, (double)count / seconds,
               count, seconds, how, sysconf(_SC_NPROCESSORS_ONLN));
}

/* --- enqueue
 * ---------------------------------------------------------------------------------------- */

static int bench_enqueue(struct bench *bench, struct kiln_error *err)
{
    bool changed;
    double seconds = 0, cpu_s = 0;
    int rc = write_lines(bench, INTAKE, bench->lines, err);
    if (rc == 0)
        rc = kiln_stack_open(&bench->stack, bench->dir, true, err);
    if (rc == 0)
        rc = kiln_stack_configure(&bench->stack, &bench->own, &changed, err);
    if (rc == 0)
        rc = kiln_stack_redis(&bench->stack, &bench->own, err);
    if (rc == 0)
        rc = send(bench, "bench", bench->lines, &seconds, &cpu_s, err);
    if (rc)
        return rc;
    print_rate(bench, "enqueue lines", bench->lines, seconds,
               "checked, expanded, pipelined into Redis, AOF everysec");
    if (!bench->cli->json)
        printf("%-16s %10.0f /s   of processor time of this process\n", "",
               (double)bench->lines / cpu_s);
    if (bench->cli->json)
        (void)kiln_print_json(
            bench->cli, json_pack("{s:s, s:I, s:f, s:f, s:f, s:I}", "bench", "enqueue", "lines",
                                  (json_int_t)bench->lines, "seconds", seconds, "lines_per_s",
                                  (double)bench->lines / seconds, "cpu_seconds", cpu_s, "cores",
                                  (json_int_t)sysconf(_SC_NPROCESSORS_ONLN)));
    return 0;
}

/* --- queue
 * -------------------------------------------------------------------------------------------- */

/* Waits until the batch has `count` jobs in the ledger, or that many pictures. */
static int wait_count(struct bench *bench, const char *batch, uint64_t count, bool done,
                      struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_progress progress;
    const char *pool = kiln_pool(&bench->own);
    double until = kiln_now_s() + LIMIT_S;
    uint64_t reached = 0;
    int rc = kiln_open_ledger(&bench->own, &ledger, err);
    while (rc == 0 && reached < count) {
        rc = kiln_ledger_progress(ledger, pool, batch, &progress, err);
        if (rc == KILN_NOT_FOUND)
            rc = 0;
        else if (rc == 0)
            reached = done ? progress.jobs.at[KILN_JOB_DONE] : progress.accepted;
        if (rc == 0 && progress.jobs.at[KILN_JOB_FAILED] && done)
            rc = kiln_fail(err, KILN_INTERNAL, "jobs of the bench failed");
        if (rc == 0 && kiln_now_s() > until)
            rc = kiln_fail(err, KILN_TIMEOUT, "%llu of %llu jobs within %.0f s",
                           (unsigned long long)reached, (unsigned long long)count, LIMIT_S);
        kiln_sleep_s(0.02);
    }
    kiln_ledger_close(ledger);
    return rc;
}

/* One measurement: the clock from the first line to the last job, and what it cost. */
struct measured {
    const char *batch;
    enum load load;
    long jobs;
    double seconds;
    struct kiln_bench_cpu cpu;
};

static int measure(struct bench *bench, struct measured *measured, struct kiln_error *err)
{
    double sending, cpu_s;
    int rc = write_lines(bench, measured->load, measured->jobs, err);
    if (rc)
        return rc;
    kiln_bench_cpu_start(&measured->cpu, &bench->stack);
    double start = kiln_now_s();
    rc = send(bench, measured->batch, measured->jobs, &sending, &cpu_s, err);
    if (rc == 0)
        rc = wait_count(bench, measured->batch, (uint64_t)measured->jobs, measured->load != INTAKE,
                        err);
    measured->seconds = kiln_now_s() - start;
    kiln_bench_cpu_stop(&measured->cpu, &bench->stack);
    return rc;
}

/* Cancels what the first half left waiting, and tells the scheduler. */
static int forget_batch(struct bench *bench, const char *batch, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    uint64_t count;
    int rc = kiln_open_ledger(&bench->own, &ledger, err);
    if (rc == 0)
        rc = kiln_ledger_cancel(ledger, kiln_pool(&bench->own), 0, batch, &count, err);
    kiln_ledger_close(ledger);
    struct kiln_order order = {.kind = KILN_ORDER_CANCEL_BATCH, .recorded = true};
    snprintf(order.id, sizeof order.id, "%s", batch);
    return rc ? rc : kiln_send_order(&bench->own, &order, err);
}

static void print_measured(const struct bench *bench, const struct measured *measured,
                           const char *name, const char *how)
{
    print_rate(bench, name, measured->jobs, measured->seconds, how);
    if (!bench->cli->json)
        kiln_bench_cpu_print(&measured->cpu, measured->jobs);
}

static json_t *measured_json(const struct measured *measured)
{
    return json_pack("{s:s, s:I, s:f, s:f, s:o}", "jobs_of", measured->batch, "jobs",
                     (json_int_t)measured->jobs, "seconds", measured->seconds, "jobs_per_s",
                     (double)measured->jobs / measured->seconds, "cpu_us_per_job",
                     kiln_bench_cpu_json(&measured->cpu, measured->jobs));
}

static int bench_queue(struct bench *bench, struct kiln_error *err)
{
    long through = bench->lines / 10;
    struct measured rows[] = {{.batch = "intake", .load = INTAKE, .jobs = bench->lines},
                              {.batch = "latents", .load = LATENTS, .jobs = through},
                              {.batch = "pictures", .load = PICTURES, .jobs = through}};
    int rc = kiln_stack_up(&bench->own, bench->dir, -1, &bench->stack, err);
    if (rc == 0)
        rc = measure(bench, &rows[0], err);
    if (rc == 0)
        rc = forget_batch(bench, "intake", err);
    if (rc)
        return rc;
    kiln_say(bench->cli, "servers and store in %s; below a rate: processor time a job", bench->dir);
    print_measured(bench, &rows[0], "intake jobs", "first line to last row in Postgres");
    rc = kiln_stack_up(&bench->own, bench->dir, 1, &bench->stack, err);
    if (rc == 0)
        rc = measure(bench, &rows[1], err);
    if (rc)
        return rc;
    print_measured(bench, &rows[1], "latent jobs",
                   "end to end, one worker, engine testcard (no model), 64 px, a latent file each");
    rc = measure(bench, &rows[2], err);
    if (rc)
        return rc;
    print_measured(bench, &rows[2], "picture jobs", "the same with a WebP picture each");
    if (!bench->cli->json)
        return 0;
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        json_array_append_new(list, measured_json(&rows[i]));
    (void)kiln_print_json(bench->cli, json_pack("{s:s, s:s, s:o, s:I}", "bench", "queue", "engine",
                                                "testcard", "measured", list, "cores",
                                                (json_int_t)sysconf(_SC_NPROCESSORS_ONLN)));
    return 0;
}

int kiln_verb_bench(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct bench bench = {.cli = cli, .stack.lock_fd = -1};
    int status = kiln_args_parse(cli, argc, argv, 1, 1, &args);
    if (status)
        return status;
    bool queue = strcmp(args.rest[0], "queue") == 0;
    if (!queue && strcmp(args.rest[0], "enqueue") != 0)
        return kiln_usage(cli, "there are `kiln bench enqueue` and `kiln bench queue`");
    status =
        kiln_arg_int(cli, &args, "lines", 1000, 10000000, queue ? 100000 : 500000, &bench.lines);
    if (status)
        return status;
    int rc = bench_open(&bench, &err);
    if (rc == 0)
        rc = queue ? bench_queue(&bench, &err) : bench_enqueue(&bench, &err);
    if (rc)
        status = kiln_report(cli, &err);
    bench_close(&bench, rc != 0);
    return status;
}
