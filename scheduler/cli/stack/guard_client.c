/* guard_client.c - what commands do with the guard: find it, give it a plan, wait until the plan is
 * carried out, end it.
 *
 * Ready is what others can see: the heartbeat of a worker, with its pid, is on the bus.  A worker
 * that loads a large model takes minutes, so the limit is long.
 */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/stack/guard.h"
#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "storage/objects/store.h"

#define START_LIMIT_S 600
#define START_SAY_S 30 /* a wait that is longer says what it waits for */
#define STORE_LOOK_S 3 /* a worker that is not ready by then: is it the store? */
#define DRAIN_SLACK_S 15
#define STOP_SLACK_S 30 /* beyond the drain: what the guard needs to stop and to kill */
#define SCAN_EVERY_S 1   /* for workers of an earlier release; it reads every process */
#define GUARDS_MAX 3

pid_t kiln_guard_find(const struct kiln_stack *stack)
{
    return kiln_process_find(stack, KILN_GUARD_NAME,
                             (const char *const[]){"worker\nguard\n", stack->dir, NULL});
}

double kiln_drain_limit_s(const struct kiln_cli *cli)
{
    return kiln_config_number(cli->config, KILN_KEY_DRAIN_S) + DRAIN_SLACK_S;
}

pid_t kiln_guard_worker(const struct kiln_stack *stack, const struct kiln_guard_row *row)
{
    pid_t pid = kiln_worker_find(stack, row->name, row->id, NULL);
    return pid ? pid : kiln_worker_find(stack, row->name, row->name, NULL);
}

int kiln_guard_apply(const struct kiln_stack *stack, const struct kiln_guard_plan *plan,
                     struct kiln_error *err)
{
    char program[PATH_MAX];
    bool needed = false;
    for (int i = 0; i < plan->count; i++)
        needed = needed || plan->at[i].wanted || kiln_guard_worker(stack, &plan->at[i]);
    int rc = kiln_guard_write(stack, plan, err);
    pid_t pid = kiln_guard_find(stack);
    if (rc || (pid && kill(pid, SIGHUP) == 0) || !needed)
        return rc;
    const char *argv[] = {kiln_join(program, stack->bin, "kiln"),
                          "worker",
                          "guard",
                          "--dir",
                          stack->dir,
                          "--config",
                          plan->config[0] ? plan->config : stack->conf,
                          NULL};
    struct kiln_spawn spawn = {
        .name = KILN_GUARD_NAME, .argv = argv, .cwd = stack->dir, .holds_hup = true};
    return kiln_process_start(stack, &spawn, &pid, err);
}

void kiln_guard_want(const struct kiln_stack *stack, struct kiln_guard_plan *plan,
                     struct kiln_guard_row *row, struct kiln_guard_chosen *chosen)
{
    struct kiln_guard_report report = {.pid = 0};
    row->wanted = true;
    row->turn++;
    chosen->at[row - plan->at] = true;
    /* One that died a moment ago runs as far as a guard knows; without a guard its report is old.
     */
    chosen->ran[row - plan->at] =
        kiln_guard_worker(stack, row) != 0 ||
        (kiln_guard_find(stack) && kiln_guard_report(stack, row->name, &report) && report.pid);
}

/* --- waiting for a start ---------------------------------------------------------------------- */

struct start {
    struct kiln_cli *cli;
    struct kiln_stack *stack;
    struct kiln_guard_plan *plan;
    struct kiln_guard_chosen *chosen;
    pid_t pids[KILN_GUARD_MAX]; /* of the workers that the guard has started */
    bool ready[KILN_GUARD_MAX];
    int missing, guards;
    double scan_s; /* of the next look for workers of an earlier release */
};

static int see_beat(void *arg, const char *worker, const char *text, size_t len)
{
    struct start *start = arg;
    struct kiln_heartbeat beat;
    const struct kiln_guard_row *row = kiln_guard_row_of_id(start->plan, worker);
    if (!row || kiln_heartbeat_decode(text, len, &beat, NULL) != 0)
        return 0;
    long i = row - start->plan->at;
    if (start->pids[i] && start->pids[i] == (pid_t)beat.pid && !start->ready[i]) {
        start->ready[i] =
            true; /* by its pid: an old heartbeat may outlive its process by a lease */
        start->missing--;
    }
    return 0;
}

/* Applies the plan as it is now, so that a guard that was killed is followed by another.  name: a
 * row that gets one more turn, *ret_turn, if it is still there; or NULL. */
static int apply_again(struct kiln_stack *stack, const char *name, uint32_t *ret_turn,
                       struct kiln_error *err)
{
    bool locked = stack->lock_fd >= 0;
    struct kiln_guard_plan *now = malloc(sizeof *now);
    struct kiln_guard_row *row = NULL;
    int rc = now ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the plan");
    if (rc == 0 && !locked)
        rc = kiln_stack_lock(stack, err);
    if (rc == 0)
        rc = kiln_guard_read(stack, now, err);
    if (rc == 0 && name && (row = kiln_guard_row(now, name)) != NULL)
        *ret_turn = ++row->turn;
    if (rc == 0)
        rc = kiln_guard_apply(stack, now, err);
    if (!locked)
        kiln_stack_close(stack);
    free(now);
    return rc;
}

/* What the guard says of a row that is not ready yet. */
static int look_at(struct start *start, int i, bool scan, struct kiln_error *err)
{
    struct kiln_guard_row *row = &start->plan->at[i];
    struct kiln_guard_report report;
    /* A guard of an earlier release calls workers by their files, so nobody would see the heartbeat
     * that is waited for.  Another guard follows. */
    if (scan && strcmp(row->id, row->name) != 0 &&
        kiln_worker_find(start->stack, row->name, row->name, NULL)) {
        kiln_stack_say(start->cli, row->id, "was started as %s by a guard of an earlier release",
                       row->name);
        (void)kiln_guard_stop(start->stack, start->cli);
        return 0;
    }
    if (!kiln_guard_report(start->stack, row->name, &report) || report.turn != row->turn)
        return 0; /* the guard has not read the plan yet */
    start->pids[i] = report.pid;
    if (strcmp(report.state, "running") == 0)
        return 0;
    if (start->chosen->ran[i]) {
        start->chosen->ran[i] = false;
        kiln_stack_say(start->cli, row->id, "has ended; starting");
        return apply_again(start->stack, row->name, &row->turn, err);
    }
    kiln_process_tail(start->cli, start->stack, row->name);
    return kiln_fail(err, KILN_UNAVAILABLE, "%s ended while it was starting: %s", row->id,
                     report.reason);
}

/* A worker whose store is full waits for room, and says so only in its log: here it is an error.
 * Any other fault of the store ends the worker, and the end of its log is shown. */
static int check_store(struct kiln_cli *cli, struct kiln_error *err)
{
    struct kiln_store *store = NULL;
    struct kiln_error refusal;
    int rc = kiln_store_open(cli->config, &store, &refusal);
    if (rc == 0)
        rc = kiln_store_probe(store, 0, &refusal);
    kiln_store_close(store);
    return rc != KILN_FULL ? 0
                           : kiln_fail(err, rc,
                                       "the store is full: %s; make room there (`kiln gc`, "
                                       "`df -h`, `df -i`), then try again",
                                       refusal.text);
}

static int look_at_all(struct start *start, struct kiln_bus *bus, struct kiln_error *err)
{
    struct kiln_guard_row *first = NULL;
    const bool scan = kiln_now_s() >= start->scan_s;
    int rc = 0;
    if (scan)
        start->scan_s = kiln_now_s() + SCAN_EVERY_S;
    for (int i = 0; i < start->plan->count && rc == 0; i++)
        if (!start->ready[i]) {
            first = first ? first : &start->plan->at[i];
            rc = look_at(start, i, scan, err);
        }
    if (rc == 0)
        rc = kiln_bus_heartbeats(bus, kiln_pool(start->cli), NULL, see_beat, start, err);
    if (rc || start->missing == 0 || kiln_guard_find(start->stack))
        return rc;
    /* Killed, or it was about to end when the plan changed. */
    if (start->guards++ < GUARDS_MAX)
        return apply_again(start->stack, first->name, &first->turn, err);
    kiln_process_tail(start->cli, start->stack, KILN_GUARD_NAME);
    return kiln_fail(err, KILN_UNAVAILABLE, "the guard of the workers ended");
}

/* Of the first worker that has no heartbeat yet. */
static void say_waiting(const struct start *start)
{
    int i = 0;
    while (start->ready[i])
        i++;
    kiln_stack_say(start->cli, start->plan->at[i].id,
                   "is not ready yet (%d of %d are not); its log is %s/log/%s.log", start->missing,
                   start->plan->count, start->stack->dir, start->plan->at[i].name);
}

int kiln_guard_wait_started(struct kiln_cli *cli, struct kiln_stack *stack,
                            struct kiln_guard_plan *plan, struct kiln_guard_chosen *chosen,
                            struct kiln_error *err)
{
    struct start start = {.cli = cli, .stack = stack, .plan = plan, .chosen = chosen};
    struct kiln_bus *bus = NULL;
    bool ran[KILN_GUARD_MAX];
    memcpy(ran, chosen->ran, sizeof ran);
    for (int i = 0; i < plan->count; i++) {
        start.ready[i] = !chosen->at[i];
        start.missing += chosen->at[i];
        if (chosen->at[i] && !ran[i])
            kiln_stack_say(cli, plan->at[i].id, "starting (%s)", plan->at[i].device);
    }
    int rc = start.missing ? kiln_open_bus(cli, &bus, err) : 0;
    double until_s = kiln_now_s() + START_LIMIT_S, store_s = kiln_now_s() + STORE_LOOK_S,
           say_s = kiln_now_s() + START_SAY_S;
    while (rc == 0 && start.missing > 0) {
        rc = look_at_all(&start, bus, err);
        if (rc == 0 && start.missing > 0 && kiln_now_s() >= store_s) {
            store_s = kiln_now_s() + STORE_LOOK_S;
            rc = check_store(cli, err);
        }
        if (rc == 0 && start.missing > 0 && kiln_now_s() > until_s)
            rc = kiln_fail(err, KILN_TIMEOUT, "%d workers were not ready within %d s; see %s/log",
                           start.missing, START_LIMIT_S, stack->dir);
        if (rc == 0 && start.missing > 0 && kiln_now_s() >= say_s) {
            say_s = kiln_now_s() + START_SAY_S;
            say_waiting(&start);
        }
        if (rc == 0 && start.missing > 0)
            kiln_sleep_s(0.05);
    }
    for (int i = 0; i < plan->count && rc == 0; i++)
        if (chosen->at[i])
            kiln_stack_say(cli, plan->at[i].id, "%s (pid %ld, %s)",
                           ran[i] && chosen->ran[i] ? "runs" : "started", (long)start.pids[i],
                           plan->at[i].device);
    kiln_bus_close(bus);
    return rc;
}

/* --- ending ----------------------------------------------------------------------------------- */

int kiln_guard_wait_stopped(struct kiln_cli *cli, struct kiln_stack *stack,
                            const struct kiln_guard_plan *plan,
                            const struct kiln_guard_chosen *chosen, struct kiln_error *err)
{
    double limit_s = kiln_drain_limit_s(cli) + STOP_SLACK_S, until_s = kiln_now_s() + limit_s;
    int guards = 0;
    for (int i = 0; i < plan->count; i++) {
        if (!chosen->at[i])
            continue;
        while (kiln_guard_worker(stack, &plan->at[i])) {
            if (kiln_now_s() > until_s)
                return kiln_fail(err, KILN_TIMEOUT, "%s did not end within %.0f s", plan->at[i].id,
                                 limit_s);
            /* Without a guard nobody ends the worker. */
            int rc = !kiln_guard_find(stack) && guards++ < GUARDS_MAX
                         ? apply_again(stack, NULL, NULL, err)
                         : 0;
            if (rc)
                return rc;
            kiln_sleep_s(0.05);
        }
        kiln_process_forget(stack, plan->at[i].name);
        kiln_stack_say(cli, plan->at[i].id, "stopped");
    }
    return 0;
}

struct running {
    struct {
        char name[KILN_PROCESS_NAME_MAX];
        pid_t pid;
    } at[KILN_GUARD_MAX];
    int count;
};

/* Lists every worker that runs and has a pid file here; one that is in the list gets its new pid.
 */
static void list_running(const struct kiln_stack *stack, struct running *list)
{
    char path[PATH_MAX];
    DIR *dir = opendir(kiln_join(path, stack->dir, "run"));
    for (struct dirent *entry; dir && list->count < KILN_GUARD_MAX && (entry = readdir(dir));) {
        char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".pid") != 0 || end - entry->d_name >= KILN_PROCESS_NAME_MAX)
            continue;
        *end = '\0';
        pid_t pid = kiln_worker_find(stack, entry->d_name, NULL, NULL);
        int i = 0;
        while (i < list->count && strcmp(list->at[i].name, entry->d_name) != 0)
            i++;
        if (!pid)
            continue;
        snprintf(list->at[i].name, KILN_PROCESS_NAME_MAX, "%.31s", entry->d_name);
        list->at[i].pid = pid;
        list->count += i == list->count;
    }
    if (dir)
        closedir(dir);
}

int kiln_guard_stop(struct kiln_stack *stack, struct kiln_cli *cli)
{
    struct running workers = {.count = 0};
    double limit_s = kiln_drain_limit_s(cli);
    pid_t guard = kiln_guard_find(stack);
    list_running(stack, &workers);
    bool ended =
        guard && kiln_process_stop(stack, KILN_GUARD_NAME, guard, SIGTERM, limit_s + STOP_SLACK_S);
    list_running(stack, &workers);            /* the guard may have started one since */
    for (int i = 0; i < workers.count; i++) { /* all that it left, at once: they drain together */
        pid_t left = kiln_worker_find(stack, workers.at[i].name, NULL, NULL);
        if (left)
            kill(left, SIGTERM);
    }
    for (int i = 0; i < workers.count; i++) {
        char id[KILN_PROCESS_NAME_MAX];
        const char *name = workers.at[i].name;
        bool gentle = kiln_process_wait_gone(workers.at[i].pid, limit_s);
        if (!gentle) /* a second SIGTERM: at the next step */
            (void)kiln_process_stop(stack, name, workers.at[i].pid, SIGTERM, 10);
        kiln_process_forget(stack, name);
        kiln_guard_id(stack, name, id);
        kiln_stack_say(cli, id, "stopped%s", gentle ? "" : " before its batch finished");
    }
    if (guard)
        kiln_stack_say(cli, "guard", "stopped%s", ended ? "" : " (killed)");
    return workers.count;
}
