/* recovery.c - how long the queue stops when a part of it is lost.
 *
 * restart: N jobs are queued in the ledger and a scheduler is started.  Measured are the times to
 * its first assignment and until it has read all jobs, then its memory, and how long commands take
 * on such a queue (commands.h).
 *
 * recovery: two real workers (test card) with default settings.  One is killed (kill -9) in the
 * middle of a job.  Measured are the times until the job is assigned to the other worker and until
 * it is done there.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/bench/bench.h"
#include "scheduler/bench/commands.h"
#include "scheduler/bench/fleet.h"
#include "scheduler/cli/stack/guard.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/read.h"

#define LIMIT_S 120.0
#define BATCH "restart"
#define POLL_S 0.005
#define IN_STEP_S 0.5 /* after the assignment; the job takes two seconds, so it is running */

/* --- restart ---------------------------------------------------------------------------------- */

static int wait_assigned(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_counts counts = {0};
    double until = kiln_now_s() + LIMIT_S;
    int rc = kiln_open_ledger(&bench->own, &ledger, err);
    while (rc == 0 && counts.at[KILN_JOB_ASSIGNED] + counts.at[KILN_JOB_DONE] == 0) {
        kiln_sleep_s(POLL_S);
        rc = kiln_ledger_counts(ledger, kiln_pool(&bench->own), &counts, err);
        if (rc == 0 && kiln_now_s() > until)
            rc = kiln_fail(err, KILN_TIMEOUT, "nothing was assigned within %.0f s", LIMIT_S);
    }
    kiln_ledger_close(ledger);
    return rc;
}

/* Fills the ledger through the intake and ends the scheduler. */
static int fill(struct kiln_bench *bench, struct kiln_error *err)
{
    int rc = kiln_stack_up(&bench->own, bench->dir, 0, &bench->stack, err);
    rc = rc ? rc : kiln_bench_lines(bench, KILN_BENCH_MIXED, bench->jobs, err);
    rc = rc ? rc : kiln_bench_send(bench, BATCH, bench->jobs, NULL, NULL, err);
    rc = rc ? rc : kiln_bench_wait(bench, BATCH, (uint64_t)bench->jobs, false, NULL, NULL, err);
    pid_t scheduler = kiln_stack_find_scheduler(&bench->stack);
    if (rc == 0 && !kiln_process_stop(&bench->stack, "scheduler", scheduler, SIGTERM, 30))
        rc = kiln_fail(err, KILN_TIMEOUT, "the scheduler did not end within 30 s");
    return rc;
}

/* Waits until the scheduler logs "queue_loaded ... took_s=1.23", and returns these seconds.  With a
 * long queue that comes after its first assignment. */
static double wait_loaded(const char *log)
{
    char line[1024];
    double seconds = 0;
    for (double until = kiln_now_s() + LIMIT_S; seconds == 0 && kiln_now_s() < until;) {
        kiln_sleep_s(0.1);
        FILE *file = fopen(log, "re");
        while (file && fgets(line, sizeof line, file)) {
            const char *took = strstr(line, "queue_loaded") ? strstr(line, "took_s=") : NULL;
            if (took)
                (void)sscanf(took, "took_s=%lf", &seconds);
        }
        if (file)
            fclose(file);
    }
    return seconds;
}

int kiln_bench_restart(struct kiln_bench *bench, struct kiln_error *err)
{
    pid_t fleet;
    struct kiln_error end;
    struct kiln_bench_commands commands;
    int rc = fill(bench, err);
    rc = rc ? rc : kiln_bench_fleet_start(bench->own.config, 4, &fleet, err);
    if (rc)
        return rc;
    kiln_sleep_s(1); /* the scheduler shall find heartbeats */
    char log[PATH_MAX];
    snprintf(log, sizeof log, "%.*s/log/scheduler.log", PATH_MAX - 64, bench->stack.dir);
    (void)remove(log); /* the first scheduler logged the same about its own queue */
    double start = kiln_now_s();
    rc = kiln_stack_scheduler(&bench->stack, &bench->own, false, err);
    rc = rc ? rc : wait_assigned(bench, err);
    double first_s = kiln_now_s() - start;
    double all_s = rc == 0 ? wait_loaded(log) : 0;
    int stopped = kiln_bench_fleet_stop(fleet, rc ? &end : err);
    if (rc || stopped)
        return rc ? rc : stopped;
    /* A job at the end of the queue, which is still queued. */
    rc = kiln_bench_commands_run(bench, BATCH, (uint64_t)bench->jobs, &commands, err);
    if (rc)
        return rc;
    if (bench->cli->json)
        return kiln_print_json(bench->cli,
                               json_pack("{s:s, s:I, s:f, s:f, s:o}", "bench", "restart", "jobs",
                                         (json_int_t)bench->jobs, "first_assignment_s", first_s,
                                         "loaded_s", all_s, "then",
                                         kiln_bench_commands_json(&commands)))
                   ? kiln_fail(err, KILN_IO, "write to stdout")
                   : 0;
    printf("%-16s %10.2f s    from the start of kiln-scheduler to its first assignment, %ld jobs "
           "waiting\n%-16s %10.2f s    from leading to the last of them read\n",
           "restart", first_s, bench->jobs, "", all_s);
    kiln_bench_commands_print(&commands);
    return 0;
}

/* --- recovery --------------------------------------------------------------------------------- */

struct seen {
    uint64_t id;
    enum kiln_job_state state;
    uint32_t attempt;
    char worker[KILN_NAME_MAX + 1];
};

static int see(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct seen *seen = arg;
    (void)err;
    seen->id = row->job.id;
    seen->state = row->job.state;
    seen->attempt = row->job.attempt;
    memcpy(seen->worker, row->worker, sizeof seen->worker);
    return 0;
}

/* Waits until the batch's one job is in that state at that attempt or a later one. */
static int wait_job(struct kiln_bench *bench, struct kiln_ledger *ledger, const char *batch,
                    enum kiln_job_state state, uint32_t attempt, struct seen *seen,
                    struct kiln_error *err)
{
    int rc = 0;
    *seen = (struct seen){0};
    for (double until = kiln_now_s() + LIMIT_S; rc == 0;) {
        rc = kiln_ledger_jobs(ledger, kiln_pool(&bench->own), batch, -1, see, seen, err);
        if (rc == KILN_NOT_FOUND)
            rc = 0;
        if (rc == 0 && seen->id && seen->attempt >= attempt && seen->state == state)
            return 0;
        if (rc == 0 && kiln_now_s() > until)
            rc =
                kiln_fail(err, KILN_TIMEOUT, "job %llu is not in state %d, attempt %u after %.0f s",
                          (unsigned long long)seen->id, (int)state, attempt, LIMIT_S);
        kiln_sleep_s(POLL_S);
    }
    return rc;
}

struct recovery {
    double again_s, done_s;
};

/* The pid of the stack's worker of that id, 0 if it does not run. */
static pid_t pid_of(const struct kiln_stack *stack, const char *id)
{
    struct kiln_error err;
    struct kiln_guard_plan *plan = malloc(sizeof *plan);
    const struct kiln_guard_row *row =
        plan && kiln_guard_read(stack, plan, &err) == 0 ? kiln_guard_row_of_id(plan, id) : NULL;
    pid_t pid = row ? kiln_guard_worker(stack, row) : 0;
    free(plan);
    return pid;
}

static int kill_one(struct kiln_bench *bench, struct kiln_ledger *ledger, long round,
                    struct recovery *ret, struct kiln_error *err)
{
    char batch[32];
    struct seen seen;
    snprintf(batch, sizeof batch, "kill-%ld", round);
    int rc = kiln_stack_up(&bench->own, bench->dir, 2, &bench->stack, err);
    rc = rc ? rc : kiln_bench_lines(bench, KILN_BENCH_SLOW, 1, err);
    rc = rc ? rc : kiln_bench_send(bench, batch, 1, NULL, NULL, err);
    rc = rc ? rc : wait_job(bench, ledger, batch, KILN_JOB_ASSIGNED, 1, &seen, err);
    if (rc)
        return rc;
    kiln_sleep_s(IN_STEP_S);
    pid_t pid = pid_of(&bench->stack, seen.worker);
    pid_t guard = kiln_guard_find(&bench->stack);
    double start = kiln_now_s();
    if (guard > 0) /* so that nobody restarts the worker, as when a machine is lost */
        kill(guard, SIGKILL);
    if (pid <= 0 || kill(pid, SIGKILL) != 0)
        return kiln_fail(err, KILN_INTERNAL, "%s has ended by itself", seen.worker);
    rc = wait_job(bench, ledger, batch, KILN_JOB_ASSIGNED, 2, &seen, err);
    ret->again_s = kiln_now_s() - start;
    rc = rc ? rc : wait_job(bench, ledger, batch, KILN_JOB_DONE, 2, &seen, err);
    ret->done_s = kiln_now_s() - start;
    return rc;
}

int kiln_bench_recovery(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct recovery worst = {0};
    double sum_s = 0;
    int rc = kiln_stack_up(&bench->own, bench->dir, 2, &bench->stack, err);
    rc = rc ? rc : kiln_open_ledger(&bench->own, &ledger, err);
    for (long round = 0; round < bench->jobs && rc == 0; round++) {
        struct recovery now = {0};
        rc = kill_one(bench, ledger, round, &now, err);
        sum_s += now.again_s;
        worst.again_s = now.again_s > worst.again_s ? now.again_s : worst.again_s;
        worst.done_s = now.done_s > worst.done_s ? now.done_s : worst.done_s;
    }
    kiln_ledger_close(ledger);
    if (rc)
        return rc;
    const double mean_s = sum_s / (double)bench->jobs;
    if (bench->cli->json)
        (void)kiln_print_json(bench->cli,
                              json_pack("{s:s, s:I, s:f, s:f, s:f}", "bench", "recovery", "kills",
                                        (json_int_t)bench->jobs, "again_mean_s", mean_s,
                                        "again_max_s", worst.again_s, "done_max_s", worst.done_s));
    else
        printf("%-16s %10.2f s    longest of %ld from kill -9 of a worker to its job with another "
               "(mean %.2f s)\n%-16s %10.2f s    longest to its end there, 2 s of work; all "
               "settings at their defaults\n",
               "recovery", worst.again_s, bench->jobs, mean_s, "", worst.done_s);
    return 0;
}
