/* commands.c - see commands.h.
 *
 * Each command is a process of its own, as for its user: connecting to Postgres and Redis is part
 * of the time.  Commands that change nothing run three times, and the shortest time counts.
 */
#include "scheduler/bench/commands.h"

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
    enum { NOTHING, JOB, BATCH } last; /* the argument after the words */
    int repeats;
} commands[KILN_BENCH_COMMANDS] = {
    {"status", {"status"}, NOTHING, REPEATS},
    {"status --groups", {"status", "--groups"}, NOTHING, REPEATS},
    {"why JOB", {"why"}, JOB, REPEATS},
    {"cancel JOB", {"cancel"}, JOB, 1},
    {"cancel BATCH", {"cancel", "--yes"}, BATCH, 1},
};

/* Runs kiln once, without any setting of the user's environment. */
static int run(const char *program, const char *const *argv, double *ret_s, struct kiln_error *err)
{
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", *environment[] = {path, NULL};
    int status = 0;
    double start = kiln_now_s();
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0)
            execve(program, (char *const *)argv, environment);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return kiln_fail(err, KILN_NO_MEMORY, "kiln %s cannot be started: %m", argv[4]);
    *ret_s = kiln_now_s() - start;
    if (status != 0)
        return kiln_fail(err, KILN_INTERNAL, "kiln %s failed (status %d)", argv[4], status);
    return 0;
}

int kiln_bench_commands_run(struct kiln_bench *bench, const char *batch, uint64_t job,
                            struct kiln_bench_commands *ret, struct kiln_error *err)
{
    struct kiln_bench_memory memory;
    char id[24], program[PATH_MAX];
    int rc = 0;
    kiln_join(program, bench->stack.bin, "kiln");
    kiln_bench_memory_start(&memory, &bench->stack, 0, 1);
    ret->scheduler_bytes = memory.at[0].bytes[KILN_BENCH_SCHEDULER];
    snprintf(id, sizeof id, "%llu", (unsigned long long)job);
    for (int i = 0; i < KILN_BENCH_COMMANDS && rc == 0; i++) {
        const char *argv[8] = {"kiln", "--quiet", "--config", bench->stack.conf};
        int count = 4;
        for (int k = 0; k < 3 && commands[i].words[k]; k++)
            argv[count++] = commands[i].words[k];
        if (commands[i].last != NOTHING)
            argv[count++] = commands[i].last == JOB ? id : batch;
        for (int k = 0; k < commands[i].repeats && rc == 0; k++) {
            double took_s = 0;
            rc = run(program, argv, &took_s, err);
            if (k == 0 || took_s < ret->best_s[i])
                ret->best_s[i] = took_s;
        }
    }
    return rc;
}

void kiln_bench_commands_print(const struct kiln_bench_commands *measured)
{
    printf("%-16s %10.0f MB   of kiln-scheduler, the whole queue in its memory\n", "",
           (double)measured->scheduler_bytes / 1048576.0);
    for (int i = 0; i < KILN_BENCH_COMMANDS; i++)
        printf("%-16s %10.2f s    kiln %s\n", "", measured->best_s[i], commands[i].name);
}

json_t *kiln_bench_commands_json(const struct kiln_bench_commands *measured)
{
    json_t *object = json_pack("{s:I}", "scheduler_bytes", (json_int_t)measured->scheduler_bytes);
    for (int i = 0; i < KILN_BENCH_COMMANDS; i++)
        json_object_set_new(object, commands[i].name, json_real(measured->best_s[i]));
    return object;
}
