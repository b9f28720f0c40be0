/* asks.c - see asks.h.
 *
 * Each command is a process of its own, as it is for whoever types it: connecting to Postgres and
 * Redis is part of the time.  What can be asked again is asked three times, and the best counts.
 */
#include "scheduler/bench/asks.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler/bench/memory.h"
#include "scheduler/cli/core/paths.h"

#define REPEATS 3

static const struct {
    const char *name;
    const char *words[3];
    enum { NOTHING, JOB, BATCH } last; /* what is put behind the words */
    int repeats;
} asks[KILN_BENCH_ASKS] = {
    {"status", {"status"}, NOTHING, REPEATS},
    {"status --groups", {"status", "--groups"}, NOTHING, REPEATS},
    {"why JOB", {"why"}, JOB, REPEATS},
    {"cancel JOB", {"cancel"}, JOB, 1},
    {"cancel --batch", {"cancel", "--batch"}, BATCH, 1},
};

/* No setting of the user's environment counts here. */
static void become(const char *program, const char *const *argv)
{
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", *environment[] = {path, NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
        _exit(127);
    execve(program, (char *const *)argv, environment);
    _exit(127);
}

static int run(const char *program, const char *const *argv, double *ret_s, struct kiln_error *err)
{
    int status = 0;
    double start = kiln_now_s();
    pid_t pid = fork();
    if (pid == 0)
        become(program, argv);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return kiln_fail(err, KILN_NO_MEMORY, "kiln %s cannot be started: %m", argv[1]);
    *ret_s = kiln_now_s() - start;
    if (status != 0)
        return kiln_fail(err, KILN_INTERNAL, "kiln %s failed (status %d)", argv[1], status);
    return 0;
}

int kiln_bench_ask(struct kiln_bench *bench, const char *batch, uint64_t job,
                   struct kiln_bench_asks *ret, struct kiln_error *err)
{
    struct kiln_bench_memory memory;
    char id[24], program[PATH_MAX];
    kiln_join(program, bench->stack.bin, "kiln");
    int rc = 0;
    kiln_bench_memory_start(&memory, &bench->stack, 0, 1);
    *ret = (struct kiln_bench_asks){.scheduler_bytes = memory.at[0].bytes[KILN_BENCH_SCHEDULER]};
    snprintf(id, sizeof id, "%llu", (unsigned long long)job);
    for (int i = 0; i < KILN_BENCH_ASKS && rc == 0; i++) {
        const char *argv[8] = {"kiln"};
        int count = 1;
        for (int k = 0; k < 3 && asks[i].words[k]; k++)
            argv[count++] = asks[i].words[k];
        if (asks[i].last != NOTHING)
            argv[count++] = asks[i].last == JOB ? id : batch;
        argv[count++] = "--quiet";
        argv[count++] = "--config";
        argv[count++] = bench->stack.conf;
        for (int k = 0; k < asks[i].repeats && rc == 0; k++) {
            double took_s = 0;
            rc = run(program, argv, &took_s, err);
            if (rc == 0 && (k == 0 || took_s < ret->best_s[i]))
                ret->best_s[i] = took_s;
        }
    }
    return rc;
}

void kiln_bench_asks_print(const struct kiln_bench_asks *figures)
{
    printf("%-16s %10.0f MB   of kiln-scheduler, the whole queue in its memory\n", "",
           (double)figures->scheduler_bytes / 1048576.0);
    for (int i = 0; i < KILN_BENCH_ASKS; i++)
        printf("%-16s %10.2f s    kiln %s\n", "", figures->best_s[i], asks[i].name);
}

json_t *kiln_bench_asks_json(const struct kiln_bench_asks *figures)
{
    json_t *object = json_pack("{s:I}", "scheduler_bytes", (json_int_t)figures->scheduler_bytes);
    for (int i = 0; i < KILN_BENCH_ASKS; i++)
        json_object_set_new(object, asks[i].name, json_real(figures->best_s[i]));
    return object;
}
