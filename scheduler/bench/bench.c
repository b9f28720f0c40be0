/* bench.c - `kiln bench`: the speed of the queue, measured on real servers.
 *
 * enqueue   a generated file of job lines through the code of `kiln enqueue` into a private Redis
 *           with an append-only file, fsync every second; one thread here, one in Redis.
 * queue     a private stack (queue.c); with --jobs at scale, through simulated workers (scale.c).
 * restart   a scheduler is started on a full queue (recovery.c).
 * recovery  a worker is killed in the middle of a batch (recovery.c).
 * fleet     real workers on 1, 2, ... devices (devices.c).
 * gallery   searches by words in the ledger of the settings, which stays as it is (gallery/).
 * gallery-load  all that a gallery has to do at once; adds pictures to that ledger (gallery/).
 * embed     texts through an embedder, no servers (embed.c).
 * policy    decisions alone, no servers (policy.c).
 * reuse     what the latent cache costs the scheduler, no servers (reuse.c).
 * teleport-stream  what the table of kiln.json saves on a stream of jobs, no servers (stream.c).
 * routing   labelled prompts and the LoRAs that they get, no servers (routing/).
 *
 * Each has a temporary directory and removes it; if a bench fails, the logs remain.  A bench runs
 * in a child process: its servers have sessions of their own, which Ctrl-C does not reach, and the
 * parent stops them however the bench ends.
 */
#include "scheduler/bench/bench.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define BATCH_MAX "64" /* jobs of an assignment unless --batch-max says otherwise */

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

/* After a failure the logs remain.  The directories above them are not empty, and stay. */
static int remove_all_but_logs(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    if (!strstr(path, "/log/"))
        (void)remove_entry(path, st, flag, ftw);
    return 0;
}

static int bench_open(struct kiln_bench *bench, struct kiln_error *err)
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
    int rc = kiln_bench_set(bench, "engine", "testcard", err);
    if (rc)
        return rc;
    bool given = strcmp(kiln_config_origin(bench->cli->config, KILN_KEY_BATCH_MAX), "default") != 0;
    const char *batch_max = kiln_config_text(bench->cli->config, KILN_KEY_BATCH_MAX);
    return kiln_bench_set(bench, "batch_max", given ? batch_max : BATCH_MAX, err);
}

static void bench_close(struct kiln_bench *bench, bool failed)
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

/* --- enqueue ---------------------------------------------------------------------------------- */

static int bench_enqueue(struct kiln_bench *bench, struct kiln_error *err)
{
    bool changed;
    double seconds = 0, cpu_s = 0;
    int rc = kiln_bench_lines(bench, KILN_BENCH_INTAKE, bench->lines, err);
    rc = rc ? rc : kiln_stack_open(&bench->stack, bench->dir, true, err);
    rc = rc ? rc : kiln_stack_configure(&bench->stack, &bench->own, &changed, err);
    rc = rc ? rc : kiln_stack_redis(&bench->stack, &bench->own, err);
    rc = rc ? rc : kiln_bench_send(bench, "bench", bench->lines, &seconds, &cpu_s, err);
    if (rc)
        return rc;
    kiln_bench_print_rate(bench, "enqueue lines", bench->lines, seconds,
                          "checked, expanded, pipelined into Redis, AOF everysec");
    if (!bench->cli->json)
        printf("%-16s %10.0f /s   of processor time of this process\n", "",
               (double)bench->lines / cpu_s);
    else
        (void)kiln_print_json(
            bench->cli, json_pack("{s:s, s:I, s:f, s:f, s:f, s:I}", "bench", "enqueue", "lines",
                                  (json_int_t)bench->lines, "seconds", seconds, "lines_per_s",
                                  (double)bench->lines / seconds, "cpu_seconds", cpu_s, "cores",
                                  (json_int_t)sysconf(_SC_NPROCESSORS_ONLN)));
    return 0;
}

/* --- the verb --------------------------------------------------------------------------------- */

struct kind {
    const char *name;
    int (*run)(struct kiln_bench *bench, struct kiln_error *err);
    long lines, jobs; /* when the option is not given */
    long workers, workers_max;
};
#define SERVED 64, KILN_BENCH_WORKERS_MAX
static const struct kind kinds[] = {
    {"enqueue", bench_enqueue, 500000, 0, SERVED},
    {"queue", kiln_bench_queue, 100000, 0, SERVED},
    {"restart", kiln_bench_restart, 0, 100000, SERVED},
    {"recovery", kiln_bench_recovery, 0, 8, SERVED},
    {"policy", kiln_bench_policy, 0, 1000000, 1000, KILN_BENCH_POLICY_WORKERS_MAX},
    {"fleet", kiln_bench_devices, 0, 48, SERVED},
    {"gallery", kiln_bench_gallery, 0, 2400, 2, 16},
    {"gallery-load", kiln_bench_gallery_load, 0, 60, SERVED},
    {"embed", kiln_bench_embed, 0, 300, SERVED},
    {"reuse", kiln_bench_reuse, 0, 100000, SERVED},
    {"teleport-stream", kiln_bench_teleport_stream, 0, 5000, SERVED},
    {"routing", kiln_bench_routing, 0, 0, SERVED},
};

/* Waits for the child, or for a signal that ends both; then stops the servers of the child. */
static int watch_over(struct kiln_bench *bench, pid_t child, const sigset_t *ends)
{
    struct kiln_error err;
    int ended = 0, got = SIGCHLD;
    while (got == SIGCHLD && waitpid(child, &ended, WNOHANG) == 0)
        do
            got = sigwaitinfo(ends, NULL);
        while (got < 0 && errno == EINTR); /* after SIGSTOP and SIGCONT */
    if (got == SIGCHLD && WIFEXITED(ended)) {
        kiln_config_free(bench->own.config);
        return WEXITSTATUS(ended);
    }
    /* A signal of the terminal may reach the child first; any other end is a crash. */
    int by = got == SIGCHLD ? WTERMSIG(ended) : got;
    bool died = sigismember(ends, by) != 1;
    if (got != SIGCHLD) {
        kill(child, SIGKILL);
        waitpid(child, &ended, 0);
    }
    if (kiln_stack_open(&bench->stack, bench->dir, false, &err) != 0)
        kiln_warn(bench->cli, "%s", err.text);
    bench_close(bench, died);
    if (died)
        kiln_fail(&err, KILN_INTERNAL, "the bench died of signal %d, %s; its servers are stopped",
                  by, strsignal(by));
    else
        kiln_fail(&err, KILN_CANCELLED, "interrupted; the servers of the bench are stopped");
    return kiln_report(bench->cli, &err);
}

static int run_watched(struct kiln_bench *bench, const struct kind *kind)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    sigset_t ends, before; /* ends: what ends a command, unless this one ignores it, and SIGCHLD */
    struct kiln_error err;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&ends, signals[i]);
    }
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, no end of a child would be reported */
    sigprocmask(SIG_BLOCK, &ends, &before);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        kiln_fail(&err, KILN_NO_MEMORY, "the bench cannot be started: %s", strerror(errno));
        bench_close(bench, false);
        return kiln_report(bench->cli, &err);
    }
    if (child > 0)
        return watch_over(bench, child, &ends);
    sigprocmask(SIG_SETMASK, &before, NULL);
    bool scale = kind->run == kiln_bench_queue && bench->jobs > 0;
    int rc = scale ? kiln_bench_scale(bench, &err) : kind->run(bench, &err);
    int status = rc ? kiln_report(bench->cli, &err) : 0;
    bench_close(bench, rc != 0);
    return status;
}

int kiln_bench_verb(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_bench bench = {.cli = cli, .stack.lock_fd = -1};
    if (args->rest_count > 1) /* those of the model read their options */
        return kiln_bench_with_model(cli, args->rest_count - 1, args->rest + 1);
    int status;
    const struct kind *kind = kinds, *end = kinds + sizeof kinds / sizeof *kinds;
    while (kind < end && strcmp(kind->name, args->rest[0]) != 0)
        kind++;
    if (kind == end)
        return kiln_usage(
            cli, "there are `kiln bench` enqueue, queue, restart, recovery, policy, "
                 "fleet, gallery, gallery-load, embed, reuse, teleport-stream, routing, quality, "
                 "coarse, teleport, judge, captions and engine");
    if ((status = kiln_arg_int(cli, args, "lines", 1000, 10000000, kind->lines, &bench.lines)) ||
        (status = kiln_arg_int(cli, args, "jobs", 1, 10000000, kind->jobs, &bench.jobs)) ||
        (status = kiln_arg_int(cli, args, "workers", 1, kind->workers_max, kind->workers,
                               &bench.workers)) ||
        (status = kiln_arg_int(cli, args, "step-ms", 0, 60000, 10, &bench.step_ms)))
        return status;
    if ((status = kiln_arg_int(cli, args, "repeats", 0, 100, 30, &bench.repeats)) ||
        (status = kiln_arg_int(cli, args, "rewordings", 0, 100, 15, &bench.rewordings)))
        return status;
    if (bench.repeats + bench.rewordings > 100)
        return kiln_usage(cli, "--repeats %ld and --rewordings %ld: together at most 100",
                          bench.repeats, bench.rewordings);
    const char *mode = kiln_arg(args, "mode");
    if (mode && (!kiln_mode_parse(mode, &bench.mode) || kiln_mode_starts(&bench.mode)))
        return kiln_usage(cli, "--mode %s: expected coarse=auto or steps such as coarse=4+2", mode);
    bench.embedder = kiln_arg(args, "embedder");
    bench.apart = kiln_arg(args, "apart") != NULL;
    bench.set = kiln_arg(args, "set-dir");
    bench.fit = kiln_arg(args, "fit");
    bench.wrong = kiln_arg(args, "wrong");
    bench.devices = kiln_arg(args, "devices") ? kiln_arg(args, "devices") : "1,2";
    bench.sizes = kiln_arg(args, "sizes") ? kiln_arg(args, "sizes") : "512x512,768x512";
    bench.loras = kiln_arg(args, "loras") ? kiln_arg(args, "loras") : "";
    if (bench_open(&bench, &err) == 0)
        return run_watched(&bench, kind);
    bench_close(&bench, true);
    return kiln_report(cli, &err);
}
