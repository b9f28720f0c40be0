/* daemons.c - kiln-scheduler and the kiln-workers of a stack.
 *
 * `up` starts the scheduler itself: ready is when it leads the pool in the ledger.  Workers are
 * rows in the plan of the guard (guard.h), which starts them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/stack/guard.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/read.h"

#define SCHEDULER_LIMIT_S 60

/* --- the scheduler ---------------------------------------------------------------------------- */

pid_t kiln_stack_find_scheduler(const struct kiln_stack *stack)
{
    return kiln_process_find(stack, "scheduler",
                             (const char *const[]){"kiln-scheduler\n", stack->conf, NULL});
}

struct leading {
    struct kiln_ledger *ledger;
    const char *pool;
};

/* Ready when the pool has a leader: until then nothing would be taken in. */
static int pool_is_led(void *arg, bool *ret_ready, struct kiln_error *err)
{
    const struct leading *leading = arg;
    return kiln_ledger_led(leading->ledger, leading->pool, ret_ready, err);
}

int kiln_stack_scheduler(struct kiln_stack *stack, struct kiln_cli *cli, bool restart,
                         struct kiln_error *err)
{
    char program[PATH_MAX];
    const char *argv[] = {kiln_join(program, stack->bin, "kiln-scheduler"), "--config", stack->conf,
                          NULL};
    struct kiln_spawn spawn = {
        .name = "scheduler", .argv = argv, .cwd = stack->dir, .said = restart ? "restarted" : NULL};
    struct leading leading = {.pool = kiln_pool(cli)};
    pid_t pid = kiln_stack_find_scheduler(stack);
    if (pid && restart) {
        (void)kiln_process_stop(stack, "scheduler", pid, SIGTERM, 20);
        pid = 0;
    }
    int rc = kiln_open_ledger(cli, &leading.ledger, err);
    if (rc == 0)
        rc =
            kiln_process_up(stack, cli, &spawn, pid, SCHEDULER_LIMIT_S, pool_is_led, &leading, err);
    kiln_ledger_close(leading.ledger);
    return rc;
}

/* --- workers ---------------------------------------------------------------------------------- */

/* Workers go round the devices. */
static const char *device_of(const struct kiln_stack *stack, int number)
{
    return stack->devices[number % stack->device_count];
}

/* As an earlier release names workers.  If its guard still runs, it does so whatever id the plan
 * has, and nobody would see the heartbeat of the name that is waited for. */
static bool is_named_by_files(const struct kiln_stack *stack, const struct kiln_guard_row *row)
{
    return strcmp(row->id, row->name) == 0 || kiln_worker_find(stack, row->name, row->name, NULL);
}

/* Ends the workers of the stack that are too many, on another device or of earlier settings; all at
 * once.  A guard of an earlier release ends as well, with all its workers; the next one starts
 * those that are wanted. */
static int end_workers(struct kiln_stack *stack, struct kiln_cli *cli, bool restart,
                       struct kiln_guard_plan *plan, struct kiln_error *err)
{
    struct kiln_guard_chosen ending = {0};
    bool any = false, older = false;
    for (int i = 0; i < KILN_STACK_WORKERS_MAX; i++) {
        char name[KILN_PROCESS_NAME_MAX];
        kiln_stack_worker_name(i, name);
        struct kiln_guard_row *row = kiln_guard_row(plan, name);
        older = older || (row && is_named_by_files(stack, row));
        pid_t pid = kiln_worker_find(stack, name, NULL, NULL);
        if (!pid)
            continue;
        /* An earlier release may have left no row; then the guard does not know the worker yet. */
        int rc = kiln_guard_add(plan, name, &row, err);
        if (rc)
            return rc;
        const char *why =
            i >= stack->workers                                         ? "one too many"
            : restart                                                   ? "the settings changed"
            : !kiln_worker_find(stack, name, NULL, device_of(stack, i)) ? "its device changed"
            : is_named_by_files(stack, row) || !kiln_worker_id_fits(row->id, device_of(stack, i))
                ? "its name changed"
                : NULL;
        if (!why)
            continue;
        kiln_stack_say(cli, row->id, "stopping (pid %ld): %s", (long)pid, why);
        row->wanted = false;
        ending.at[row - plan->at] = any = true;
    }
    if (older && kiln_guard_find(stack)) {
        (void)kiln_guard_stop(stack, cli);
        return 0;
    }
    int rc = any ? kiln_guard_apply(stack, plan, err) : 0;
    return rc ? rc : kiln_guard_wait_stopped(cli, stack, plan, &ending, err);
}

/* The rows that the stack shall have, and no more of its own.  A row keeps its id as long as it
 * fits. */
static int plan_workers(struct kiln_stack *stack, struct kiln_guard_plan *plan,
                        struct kiln_guard_chosen *starting, struct kiln_error *err)
{
    struct kiln_guard_row *rows[KILN_STACK_WORKERS_MAX];
    int kept = 0;
    for (int i = 0; i < plan->count; i++)
        if (kiln_stack_worker_number(plan->at[i].name) < stack->workers)
            plan->at[kept++] = plan->at[i];
    plan->count = kept;
    for (int i = 0; i < stack->workers; i++) {
        char name[KILN_PROCESS_NAME_MAX];
        kiln_stack_worker_name(i, name);
        int rc = kiln_guard_add(plan, name, &rows[i], err);
        if (rc)
            return rc;
        snprintf(rows[i]->device, sizeof rows[i]->device, "%s", device_of(stack, i));
        if (!kiln_worker_id_fits(rows[i]->id, rows[i]->device))
            rows[i]->id[0] = '\0'; /* so that another row may have it */
    }
    for (int i = 0; i < stack->workers; i++) {
        if (!rows[i]->id[0])
            kiln_worker_id_set(plan, rows[i]);
        kiln_guard_want(stack, plan, rows[i], starting);
    }
    return 0;
}

int kiln_stack_workers(struct kiln_stack *stack, struct kiln_cli *cli, bool restart,
                       struct kiln_error *err)
{
    struct kiln_guard_plan *plan = malloc(sizeof *plan);
    struct kiln_guard_chosen starting = {0};
    int rc = plan ? kiln_guard_read(stack, plan, err)
                  : kiln_fail(err, KILN_NO_MEMORY, "no memory for the plan");
    if (rc == 0)
        rc = end_workers(stack, cli, restart, plan, err);
    if (rc == 0)
        rc = plan_workers(stack, plan, &starting, err);
    if (rc == 0)
        rc = kiln_guard_apply(stack, plan, err);
    if (rc == 0)
        rc = kiln_guard_wait_started(cli, stack, plan, &starting, err);
    free(plan);
    return rc;
}
