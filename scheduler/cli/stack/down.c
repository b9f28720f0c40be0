/* down.c - `kiln down`: stops a stack in the order in which nothing is lost.
 *
 * Workers first, all at once: they finish the batch in hand and hand back the rest while scheduler
 * and servers still answer.  Then the scheduler, Redis (which writes its log out) and Postgres.
 * Each has a limit; what does not end in time is killed, which the ledger survives.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/stack/crew.h"
#include "scheduler/cli/stack/side.h"
#include "scheduler/cli/stack/stack.h"
#include "storage/daemon/config_file.h"

#define SCHEDULER_LIMIT_S 20
#define REDIS_LIMIT_S 60
#define POSTGRES_LIMIT_S 60

/* The stack's own settings, for drain_s; a broken file must not keep a stack running. */
static void load_settings(struct kiln_cli *cli, const struct kiln_stack *stack)
{
    struct kiln_config *config = NULL;
    struct kiln_error err;
    if (kiln_config_load(stack->conf, &config, NULL, &err) != 0)
        return;
    kiln_config_free(cli->config);
    cli->config = config;
}

static double drain_limit(const struct kiln_cli *cli)
{
    return kiln_config_number(cli->config, KILN_KEY_DRAIN_S) + 15;
}

/* All get the signal before any is waited for: they drain at the same time. */
static int stop_workers(struct kiln_stack *stack, struct kiln_cli *cli)
{
    pid_t pids[KILN_STACK_WORKERS_MAX];
    int stopped = 0;
    for (int i = 0; i < KILN_STACK_WORKERS_MAX; i++)
        if ((pids[i] = kiln_stack_find_worker(stack, i)) != 0)
            kill(pids[i], SIGTERM);
    for (int i = 0; i < KILN_STACK_WORKERS_MAX; i++) {
        if (!pids[i])
            continue;
        char name[KILN_PROCESS_NAME_MAX];
        kiln_stack_worker_name(i, name);
        bool gentle = kiln_process_wait_gone(pids[i], drain_limit(cli));
        if (!gentle)
            (void)kiln_process_stop(stack, name, pids[i], SIGTERM, 10); /* at the next step */
        kiln_process_forget(stack, name);
        kiln_say(cli, "%-10s stopped%s", name, gentle ? "" : " (it did not finish in time)");
        stopped++;
    }
    return stopped;
}

static int stop_one(struct kiln_stack *stack, struct kiln_cli *cli, const char *name, pid_t pid,
                    int signal_no, double limit_s)
{
    if (!pid)
        return 0;
    bool gentle = kiln_process_stop(stack, name, pid, signal_no, limit_s);
    kiln_say(cli, "%-10s stopped%s", name, gentle ? "" : " (killed: it did not end in time)");
    return 1;
}

static int stop_daemons(struct kiln_stack *stack, struct kiln_cli *cli)
{
    load_settings(cli, stack);
    int stopped = kiln_crew_stop(stack, cli, drain_limit(cli));
    stopped += stop_workers(stack, cli);
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
    return stopped;
}

int kiln_verb_down(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_stack stack;
    struct kiln_error err;
    int status = kiln_args_parse(cli, argc, argv, 0, 0, &args);
    if (status)
        return status;
    const char *dir = kiln_arg(&args, "dir");
    int rc = kiln_stack_open(&stack, dir ? dir : ".kiln", false, &err);
    if (rc == 0)
        rc = kiln_stack_lock(&stack, &err);
    if (rc) {
        kiln_stack_close(&stack);
        return kiln_report(cli, &err);
    }
    bool daemons = kiln_arg(&args, "daemons") != NULL;
    int stopped = daemons ? stop_daemons(&stack, cli) : kiln_stack_down(&stack, cli);
    kiln_stack_close(&stack);
    (void)kiln_side_sweep(); /* of other stacks, which are gone */
    if (stopped == 0)
        kiln_say(cli, "%s in %s", daemons ? "no daemon runs" : "nothing runs", stack.dir);
    if (cli->json)
        return kiln_print_json(cli, json_pack("{s:s, s:i}", "dir", stack.dir, "stopped", stopped));
    return 0;
}
