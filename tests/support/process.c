/* process.c - see process.h. */
#include "tests/support/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "tests/support/stack_postgres.h"

#define LOG_MAX (8 << 20)
#define POLL_MS 10

bool kiln_test_built(const char *name, char *out, size_t size)
{
    const char *build = getenv("BUILD"), *source = getenv("KILN_SOURCE");
    bool whole = build && (build[0] == '/' || !source);
    if (build)
        snprintf(out, size, "%s%s%s/%s", whole ? "" : source, whole ? "" : "/", build, name);
    return build != NULL;
}

/* --- starting -------------------------------------------------------------------------------- */

/* The parent may have ended before the signal was asked for. */
static void end_with(pid_t parent, int death)
{
    prctl(PR_SET_PDEATHSIG, death);
    if (getppid() != parent)
        _exit(1);
}

pid_t kiln_test_fork(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        kiln_test_die("fork failed");
    if (pid == 0)
        end_with(parent, SIGKILL);
    return pid;
}

pid_t kiln_test_spawn(const char *const *argv, const char *log, int death, void (*prepare)(void))
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        kiln_test_die("fork failed");
    if (pid > 0)
        return pid;
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644), in = open("/dev/null", O_RDONLY);
    dup2(in, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    if (prepare)
        prepare();
    end_with(parent, death); /* last: a change of user takes the signal back */
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

void kiln_test_launch(struct kiln_test_process *process, const char **argv, const char *log)
{
    char program[512];
    if (!kiln_test_built(argv[0], program, sizeof program))
        kiln_test_die("BUILD names the build directory; run this by tests/run.sh");
    argv[0] = program;
    *process = (struct kiln_test_process){0};
    snprintf(process->log, sizeof process->log, "%s", log);
    FILE *before = fopen(log, "re");
    if (before) {
        fseek(before, 0, SEEK_END);
        process->log_from = ftell(before);
        fclose(before);
    }
    process->pid = kiln_test_spawn(argv, log, SIGKILL, NULL);
}

/* --- watching -------------------------------------------------------------------------------- */

int kiln_test_await_end(struct kiln_test_process *process, double limit_s)
{
    double until = kiln_test_now_s() + limit_s;
    while (process->pid > 0) {
        int status;
        if (waitpid(process->pid, &status, WNOHANG) == process->pid) {
            process->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (kiln_test_now_s() > until)
            break;
        kiln_test_sleep_ms(POLL_MS);
    }
    return -1;
}

int kiln_test_said(const struct kiln_test_process *process, const char *text)
{
    int count = 0;
    char *all = malloc(LOG_MAX);
    FILE *file = fopen(process->log, "re");
    if (all && file && fseek(file, process->log_from, SEEK_SET) == 0) {
        all[fread(all, 1, LOG_MAX - 1, file)] = '\0';
        for (const char *at = all; (at = strstr(at, text)) != NULL; at += strlen(text))
            count++;
    }
    if (file)
        fclose(file);
    free(all);
    return count;
}

/* Leaves the exit status for who awaits it. */
static bool has_ended(const struct kiln_test_process *process)
{
    siginfo_t info = {0};
    return process->pid > 0 &&
           waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == process->pid;
}

bool kiln_test_hears(const struct kiln_test_process *process, const char *text, double limit_s)
{
    double until = kiln_test_now_s() + limit_s;
    while (kiln_test_said(process, text) == 0) {
        if (kiln_test_now_s() > until || has_ended(process))
            return kiln_test_said(process, text) > 0; /* its last words */
        kiln_test_sleep_ms(POLL_MS);
    }
    return true;
}

double kiln_test_now_s(void)
{
    return kiln_monotonic_ms() / 1e3;
}

void kiln_test_sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}
