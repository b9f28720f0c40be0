/* on_done.c - see on_done.h. */
#include "scheduler/cli/jobs/on_done.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler/cli/core/programs.h"

static void tell(const char *name, const struct kiln_progress *progress, enum kiln_job_state state)
{
    const uint64_t jobs = progress->jobs.at[state], gone = progress->gone.at[state];
    char text[24];
    /* Counted one after the other: a retry in between leaves more gone jobs than jobs. */
    snprintf(text, sizeof text, "%" PRIu64, gone < jobs ? jobs - gone : 0);
    setenv(name, text, 1);
}

int kiln_on_done_run(const struct kiln_cli *cli, const char *command, const char *batch,
                     const struct kiln_progress *progress, int status)
{
    const char *argv[] = {"/bin/sh", "-c", command, NULL};
    const struct kiln_launch launch = {
        .argv = argv, .in_fd = -1, .out_fd = STDERR_FILENO, .err_fd = STDERR_FILENO};
    struct kiln_error err;
    int ended = 0;
    pid_t pid;
    if (!command)
        return status;
    setenv("KILN_BATCH", batch, 1);
    tell("KILN_DONE", progress, KILN_JOB_DONE);
    tell("KILN_FAILED", progress, KILN_JOB_FAILED);
    tell("KILN_CANCELLED", progress, KILN_JOB_CANCELLED);
    int rc = kiln_launch(&launch, &pid, &err);
    if (rc)
        return kiln_report(cli, &err);
    while (waitpid(pid, &ended, 0) < 0)
        if (errno != EINTR) {
            kiln_fail(&err, KILN_INTERNAL, "wait for --on-done: %s", strerror(errno));
            return kiln_report(cli, &err);
        }
    const int own = WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
    if (own)
        kiln_warn(cli, "the command of --on-done ended with %d", own);
    return own ? own : status;
}
