/* guard.c - the guard: one loop, twice a second, and at once when a child ends.
 *
 * All that it knows is in files, so another guard can follow it at any time.  A worker that an
 * earlier guard has started is no child of this one: it is watched by its pid, and how it ended
 * is read from its log.  Without the line that a worker writes last, it was a crash.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>

#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/stack/guard.h"
#include "schemas/clock.h"

#define LOOK_NS 500000000L
#define ROTATE_EVERY 10 /* looks */
#define NEXT_STEP_S 10  /* a second SIGTERM stops a worker at its next step */

struct guarded {
    struct kiln_guard_row row;
    struct kiln_guard_life life;
    pid_t pid;
    bool child;    /* ours to wait for */
    double stop_s; /* when a worker that was signalled to end gets its next signal; 0: none yet */
    bool told_twice;
    int64_t since_ms;
};

struct guard {
    struct kiln_cli *cli;
    struct kiln_stack *stack;
    struct kiln_guard_plan plan;
    struct guarded workers[KILN_GUARD_MAX];
    int count;
    bool ending, changed;
    struct kiln_gallery_tended gallery;
};

/* --- log and report --------------------------------------------------------------------------- */

static void say(struct guard *guard, const struct guarded *worker, const char *what)
{
    char at[32];
    kiln_time_text(kiln_wall_ms(), at, sizeof at);
    fprintf(stderr, "%s %s pid=%ld %s%s%s\n", at, worker->row.id, (long)worker->pid, what,
            worker->life.reason[0] ? ": " : "", worker->life.reason);
    guard->changed = true;
}

static void write_reports(struct guard *guard)
{
    struct kiln_error err;
    json_t *reports = json_array();
    for (int i = 0; i < guard->count; i++) {
        const struct guarded *worker = &guard->workers[i];
        json_array_append_new(
            reports, json_pack("{s:s, s:s, s:s, s:i, s:I, s:i, s:i, s:s}", "worker",
                               worker->row.name, "device", worker->row.device, "state",
                               kiln_guard_state_name(worker->life.state), "pid",
                               worker->stop_s > 0 ? 0 : (int)worker->pid, "since_ms",
                               (json_int_t)worker->since_ms, "restarts", (int)worker->life.restarts,
                               "turn", (int)worker->row.turn, "reason", worker->life.reason));
    }
    if (kiln_guard_write_reports(guard->stack, reports, &err))
        fprintf(stderr, "%s\n", err.text);
    guard->changed = false;
}

static void set_state(struct guard *guard, struct guarded *worker, enum kiln_guard_state state)
{
    worker->life.state = state;
    worker->since_ms = kiln_wall_ms();
    guard->changed = true;
}

/* --- starting and ending ---------------------------------------------------------------------- */

static void start_worker(struct guard *guard, struct guarded *worker)
{
    char program[PATH_MAX];
    struct kiln_error err;
    bool stacks = kiln_stack_worker_number(worker->row.name) >= 0;
    const char *argv[] = {kiln_join(program, guard->stack->bin, "kiln-worker"),
                          "--config",
                          stacks ? guard->stack->conf : guard->plan.config,
                          "--id",
                          worker->row.id,
                          "--device",
                          worker->row.device,
                          NULL};
    struct kiln_spawn spawn = {.name = worker->row.name, .argv = argv, .cwd = guard->stack->dir};
    worker->life.started_s = kiln_now_s();
    if (kiln_process_start(guard->stack, &spawn, &worker->pid, &err)) {
        worker->pid = 0;
        kiln_guard_ended(&worker->life, &guard->plan, -1, err.text, kiln_now_s());
        say(guard, worker, "not started");
        return;
    }
    worker->child = true;
    worker->life.reason[0] = '\0';
    set_state(guard, worker, KILN_GUARD_RUNNING);
    say(guard, worker, "started");
}

/* The worker has ended: after our signal, or by itself. */
static void note_end(struct guard *guard, struct guarded *worker, int status)
{
    char words[KILN_ERROR_TEXT_MAX] = "", path[PATH_MAX];
    FILE *file = fopen(kiln_process_log(guard->stack, worker->row.name, path), "re");
    if (file) {
        kiln_last_line(file, words, sizeof words);
        fclose(file);
    }
    if (status == -1 && strstr(words, "worker_ended"))
        status = 0;
    kiln_process_forget(guard->stack, worker->row.name);
    worker->pid = 0;
    if (worker->stop_s > 0) { /* somebody may have started it again before it was gone */
        bool again = worker->row.wanted && !guard->ending;
        worker->life = (struct kiln_guard_life){.reason = "on command"};
        worker->stop_s = 0;
        worker->told_twice = false;
        set_state(guard, worker, again ? KILN_GUARD_WAITING : KILN_GUARD_STOPPED);
        say(guard, worker, "stopped");
        return;
    }
    kiln_guard_ended(&worker->life, &guard->plan, status, words, kiln_now_s());
    set_state(guard, worker, worker->life.state);
    say(guard, worker, kiln_guard_state_name(worker->life.state));
}

/* It drains; it stops at its next step; it is killed. */
static void end_worker(struct guard *guard, struct guarded *worker)
{
    double now_s = kiln_now_s();
    if (worker->stop_s == 0) {
        worker->stop_s = now_s + kiln_drain_limit_s(guard->cli);
        kill(worker->pid, SIGTERM);
    } else if (now_s > worker->stop_s) {
        kill(worker->pid, worker->told_twice ? SIGKILL : SIGTERM);
        worker->told_twice = true;
        worker->stop_s = now_s + NEXT_STEP_S;
    }
}

static void look_at(struct guard *guard, struct guarded *worker)
{
    int status = 0;
    bool wanted = worker->row.wanted && !guard->ending;
    if (worker->pid && worker->child && waitpid(worker->pid, &status, WNOHANG) == worker->pid)
        note_end(guard, worker, status);
    else if (worker->pid && !worker->child && !kiln_process_alive(worker->pid))
        note_end(guard, worker, -1);
    if (worker->pid && (!wanted || worker->stop_s > 0)) {
        end_worker(guard, worker);
    } else if (!worker->pid && !wanted && worker->life.state != KILN_GUARD_STOPPED) {
        snprintf(worker->life.reason, sizeof worker->life.reason, "on command");
        set_state(guard, worker, KILN_GUARD_STOPPED);
    } else if (!worker->pid && wanted && worker->life.state == KILN_GUARD_WAITING &&
               kiln_now_s() >= worker->life.due_s) {
        worker->life.restarts += worker->life.crashes > 0;
        start_worker(guard, worker);
    }
}

/* --- the plan --------------------------------------------------------------------------------- */

/* A new row.  Perhaps its worker runs already: an earlier guard has started it. */
static void add_row(struct guard *guard, const struct kiln_guard_row *row)
{
    struct guarded *worker = &guard->workers[guard->count++];
    *worker = (struct guarded){.row = *row, .since_ms = kiln_wall_ms()};
    worker->pid = kiln_guard_worker(guard->stack, row);
    worker->life.state = worker->pid ? KILN_GUARD_RUNNING : KILN_GUARD_WAITING;
    worker->life.started_s = kiln_now_s();
    guard->ending = guard->ending && !row->wanted;
    if (worker->pid)
        say(guard, worker, "taken over");
}

/* A later turn forgives all crashes, of a worker that runs too.  A start during the guard's own end
 * (a `kiln down` that was interrupted) revokes the end: the worker drains and is started again. */
static void update_row(struct guard *guard, struct guarded *worker,
                       const struct kiln_guard_row *row)
{
    if (row->turn != worker->row.turn) {
        worker->life =
            (struct kiln_guard_life){.state = worker->pid ? worker->life.state : KILN_GUARD_WAITING,
                                     .started_s = worker->life.started_s};
        guard->ending = guard->ending && !row->wanted;
    }
    worker->row = *row;
}

/* Rows that left the plan end, and are forgotten once their worker has gone. */
static void drop_rows(struct guard *guard)
{
    for (int i = guard->count - 1; i >= 0; i--) {
        struct guarded *worker = &guard->workers[i];
        if (kiln_guard_row(&guard->plan, worker->row.name))
            continue;
        worker->row.wanted = false;
        if (worker->pid)
            continue;
        *worker = guard->workers[--guard->count];
        guard->changed = true;
    }
}

static void read_plan(struct guard *guard)
{
    struct kiln_guard_plan *plan = malloc(sizeof *plan);
    struct kiln_error err;
    if (plan && kiln_guard_read(guard->stack, plan, &err) == 0) {
        guard->plan = *plan;
        drop_rows(guard);
        for (int i = 0; i < plan->count; i++) {
            int at = 0;
            while (at < guard->count && strcmp(guard->workers[at].row.name, plan->at[i].name) != 0)
                at++;
            if (at < guard->count)
                update_row(guard, &guard->workers[at], &plan->at[i]);
            else if (guard->count < KILN_GUARD_MAX)
                add_row(guard, &plan->at[i]);
        }
        guard->changed = true;
    } else {
        fprintf(stderr, "the plan is unchanged: %s\n", plan ? err.text : "no memory");
    }
    free(plan);
    if (guard->cli->config_path)
        kiln_stack_reload(guard->cli, guard->cli->config_path); /* for drain_s */
}

static void rotate_logs(struct guard *guard)
{
    char path[PATH_MAX];
    struct kiln_error err;
    for (int i = -1; i < guard->count; i++) {
        const char *name = i < 0 ? KILN_GUARD_NAME : guard->workers[i].row.name;
        if (kiln_log_rotate(kiln_process_log(guard->stack, name, path), guard->plan.log_bytes,
                            &err))
            fprintf(stderr, "%s\n", err.text);
    }
}

/* Whether there is nothing left to guard. */
static bool is_over(const struct guard *guard)
{
    for (int i = 0; i < guard->count; i++)
        if (guard->workers[i].pid || (!guard->ending && guard->workers[i].row.wanted) ||
            guard->workers[i].life.state != KILN_GUARD_STOPPED)
            return false;
    return true;
}

int kiln_guard_run(struct kiln_cli *cli, struct kiln_stack *stack)
{
    struct guard *guard = calloc(1, sizeof *guard);
    sigset_t signals;
    if (!guard)
        return EX_OSERR;
    guard->cli = cli;
    guard->stack = stack;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    read_plan(guard);
    for (unsigned looks = 0; !is_over(guard); looks++) {
        for (int i = 0; i < guard->count; i++)
            look_at(guard, &guard->workers[i]);
        drop_rows(guard);
        if (looks % ROTATE_EVERY == 0)
            rotate_logs(guard);
        if (!guard->ending)
            kiln_stack_gallery_tend(guard->stack, &guard->gallery);
        if (guard->changed)
            write_reports(guard);
        int got = sigtimedwait(&signals, NULL, &(struct timespec){.tv_nsec = LOOK_NS});
        if (got == SIGHUP)
            read_plan(guard);
        guard->ending = guard->ending || got == SIGTERM;
    }
    write_reports(guard);
    kiln_process_forget(stack, KILN_GUARD_NAME);
    free(guard);
    return 0;
}
