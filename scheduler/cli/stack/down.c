/* down.c - `kiln down`: stops a stack in the order in which nothing is lost.
 *
 * Workers first, all at once: they finish their batch and return the rest while scheduler and
 * servers still answer.  Then the scheduler, Redis (which writes its log out) and Postgres.  A
 * process that exceeds its time limit is killed, which the ledger survives.
 */
#include <signal.h>
#include <stdlib.h>

#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/stack/guard.h"
#include "scheduler/cli/stack/stack.h"

#define SCHEDULER_LIMIT_S 20
#define REDIS_LIMIT_S 60
#define POSTGRES_LIMIT_S 60

static int stop_one(struct kiln_stack *stack, struct kiln_cli *cli, const char *name, pid_t pid,
                    int signal_no, double limit_s)
{
    if (!pid) {
        kiln_process_forget(stack, name); /* it may have left its pid file */
        return 0;
    }
    bool gentle = kiln_process_stop(stack, name, pid, signal_no, limit_s);
    kiln_stack_say(cli, name, "stopped%s", gentle ? "" : " (killed: it did not end in time)");
    return 1;
}

/* The next guard must not start the stack's workers without their servers: `up` wants them again.
 */
static void unwant_workers(const struct kiln_stack *stack)
{
    struct kiln_guard_plan *plan = malloc(sizeof *plan);
    struct kiln_error err;
    bool changed = false;
    int rc = plan ? kiln_guard_read(stack, plan, &err) : KILN_NO_MEMORY;
    for (int i = 0; rc == 0 && i < plan->count; i++)
        if (plan->at[i].wanted && kiln_stack_worker_number(plan->at[i].name) >= 0) {
            plan->at[i].wanted = false;
            changed = true;
        }
    if (changed)
        (void)!kiln_guard_write(stack, plan, &err);
    free(plan);
}

static int stop_daemons(struct kiln_stack *stack, struct kiln_cli *cli)
{
    kiln_stack_reload(cli, stack->conf); /* for drain_s */
    int stopped = kiln_stack_gallery_stop(stack, cli) + kiln_guard_stop(stack, cli);
    unwant_workers(stack);
    return stopped + stop_one(stack, cli, "scheduler", kiln_stack_find_scheduler(stack), SIGTERM,
                              SCHEDULER_LIMIT_S);
}

int kiln_stack_down(struct kiln_stack *stack, struct kiln_cli *cli)
{
    int stopped = stop_daemons(stack, cli);
    stopped += stop_one(stack, cli, "redis", kiln_stack_find_redis(stack), SIGTERM, REDIS_LIMIT_S);
    /* SIGINT is Postgres' fast shutdown: clients are disconnected, nothing is lost. */
    stopped +=
        stop_one(stack, cli, "postgres", kiln_stack_find_postgres(stack), SIGINT, POSTGRES_LIMIT_S);
    for (int i = 0; i < KILN_STACK_WORKERS_MAX; i++) { /* that died while nobody guarded them */
        char name[KILN_PROCESS_NAME_MAX];
        kiln_stack_worker_name(i, name);
        kiln_process_forget(stack, name);
    }
    return stopped;
}

int kiln_verb_down(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_stack stack;
    struct kiln_error err;
    char dir[PATH_MAX];
    const char *given = kiln_arg(args, "dir");
    int rc = kiln_stack_meant(cli, given, dir, &err);
    if (rc)
        return kiln_report(cli, &err);
    rc = kiln_stack_open(&stack, dir, false, &err);
    if (rc == 0)
        rc = kiln_stack_lock(&stack, &err);
    if (rc) {
        kiln_stack_close(&stack);
        int status = kiln_report(cli, &err);
        if (rc == KILN_NOT_FOUND && !given)
            kiln_say(cli, "      a stack elsewhere: kiln down --dir DIR");
        return status;
    }
    bool daemons = kiln_arg(args, "daemons") != NULL;
    int stopped = daemons ? stop_daemons(&stack, cli) : kiln_stack_down(&stack, cli);
    kiln_stack_close(&stack);
    (void)kiln_socket_dirs_sweep(); /* of other stacks, which are gone */
    if (stopped == 0)
        kiln_say(cli, "%s in %s", daemons ? "no daemon runs" : "nothing runs", stack.dir);
    if (cli->json)
        return kiln_print_json(cli, json_pack("{s:s, s:i}", "dir", stack.dir, "stopped", stopped));
    return 0;
}
