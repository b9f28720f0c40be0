/* worker.c - `kiln worker start|stop|ls|logs`: the workers of this machine.
 *
 * start and stop change the plan and wake the guard (guard.h), then wait until it is so.  A machine
 * with a stack of its own (`kiln up`) keeps its plan in the stack's directory; on a fleet's machine
 * it is --dir.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/times.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/units.h"
#include "scheduler/cli/fleet/worker_show.h"
#include "scheduler/cli/stack/guard.h"
#include "schemas/names.h"

/* Where the plan is: --dir, or beside a stack's kiln.conf, or ./.kiln. */
static int open_dir(struct kiln_cli *cli, const struct kiln_args *args, bool create,
                    struct kiln_stack *stack, struct kiln_error *err)
{
    char dir[PATH_MAX], path[PATH_MAX];
    const char *given = kiln_arg(args, "dir");
    if (given) {
        if (create && access(given, F_OK) != 0) /* a typing mistake would make a second plan */
            return kiln_fail(err, KILN_NOT_FOUND,
                             "there is no stack in %s: create one with `kiln up`, or only the "
                             "directory to run workers without a stack",
                             given);
        snprintf(dir, sizeof dir, "%s", given);
    } else if (!cli->config_path || !kiln_stack_of(cli->config_path, dir)) {
        snprintf(dir, sizeof dir, ".kiln");
    }
    static const char *const parts[] = {"", "run", "log"};
    int rc = 0;
    for (size_t i = 0; create && rc == 0 && i < sizeof parts / sizeof *parts; i++)
        if (mkdir(kiln_join(path, dir, parts[i]), i == 2 ? 0700 : 0711) != 0 && errno != EEXIST)
            rc = kiln_fail(err, KILN_IO, "make directory %s: %s", path, strerror(errno));
    if (rc == 0 && !given && access(dir, F_OK) != 0 && errno == ENOENT)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "no worker was started here (%s is missing): `kiln worker start` starts "
                         "one, `kiln workers` lists those of the fleet",
                         dir);
    return rc ? rc : kiln_stack_open(stack, dir, false, err);
}

/* Under the stack's lock, since two may do it at once: reads the plan, lets edit change it, writes
 * it. */
struct edit {
    struct kiln_cli *cli;
    const struct kiln_args *args;
    const struct kiln_stack *stack;
    struct kiln_guard_chosen *chosen;
    bool wanted;
    long workers, crashes, log_mb; /* 0: not given */
    int64_t within_s;
};

/* The plan may have that worker as one of the stack (worker-0), or of an older release
 * (HOST-cuda0): it keeps that name, or there would be two. */
static void keep_name(const struct kiln_guard_plan *plan, char name[KILN_PROCESS_NAME_MAX])
{
    for (int i = 0; i < plan->count; i++)
        if (kiln_worker_meant(plan->at[i].id, name) && kiln_worker_meant(name, plan->at[i].id)) {
            snprintf(name, KILN_PROCESS_NAME_MAX, "%s", plan->at[i].name);
            return;
        }
}

/* A row for each worker, new or there already: --device cpu,cuda:0 with --workers N going round. */
static int want_devices(struct edit *edit, struct kiln_guard_plan *plan, struct kiln_error *err)
{
    struct kiln_devices devices;
    int rc = kiln_devices_read(kiln_config_text(edit->cli->config, KILN_KEY_DEVICE), &devices, err);
    if (rc)
        return rc;
    long workers = edit->workers ? edit->workers : devices.count;
    for (int i = 0; i < workers && rc == 0; i++) {
        const char *device = devices.at[i % devices.count];
        char name[KILN_PROCESS_NAME_MAX];
        struct kiln_guard_row *row;
        kiln_worker_name_of(NULL, device, (unsigned)(i / devices.count), name);
        keep_name(plan, name);
        rc = kiln_guard_add(plan, name, &row, err);
        if (rc)
            break;
        snprintf(row->device, sizeof row->device, "%.31s", device);
        kiln_guard_want(edit->stack, plan, row, edit->chosen);
    }
    return rc;
}

static void stop_row(struct edit *edit, const struct kiln_guard_plan *plan,
                     struct kiln_guard_row *row)
{
    row->wanted = false;
    edit->chosen->at[row - plan->at] = true;
}

/* The rows that are named on the command line. */
static int want_named(struct edit *edit, struct kiln_guard_plan *plan, struct kiln_error *err)
{
    struct kiln_suggest near = {0};
    int rc = 0;
    for (int i = 1; i < edit->args->rest_count && rc == 0; i++) {
        const char *name = edit->args->rest[i];
        struct kiln_guard_row *row = kiln_worker_row_meant(plan, name);
        for (int at = 0; !row && rc == 0 && at < plan->count; at++)
            rc = kiln_suggest_add(&near, plan->at[at].id, err);
        if (!row && rc == 0)
            rc = kiln_suggest_refuse(&near, 0, "worker of this machine", name, err);
        else if (row && edit->wanted)
            kiln_guard_want(edit->stack, plan, row, edit->chosen);
        else if (row)
            stop_row(edit, plan, row);
    }
    kiln_suggest_release(&near);
    return rc;
}

static int change_plan(struct edit *edit, struct kiln_guard_plan *plan, struct kiln_error *err)
{
    bool all = kiln_arg(edit->args, "all") != NULL;
    if (edit->wanted) {
        char *conf = edit->cli->config_path ? realpath(edit->cli->config_path, NULL) : NULL;
        if (!conf)
            return kiln_fail(
                err, KILN_CONFIG,
                "workers need a settings file: give --config FILE (of a private stack, "
                "DIR/kiln.conf), or start a stack with `kiln up`");
        snprintf(plan->config, sizeof plan->config, "%s", conf);
        free(conf);
        plan->crashes = edit->crashes ? (int)edit->crashes : plan->crashes;
        plan->within_s = edit->within_s ? edit->within_s : plan->within_s;
        plan->log_bytes = edit->log_mb ? (int64_t)edit->log_mb << 20 : plan->log_bytes;
    }
    if (edit->args->rest_count > 1)
        return want_named(edit, plan, err);
    if (edit->wanted)
        return want_devices(edit, plan, err);
    for (int i = 0; all && i < plan->count; i++)
        stop_row(edit, plan, &plan->at[i]);
    return 0;
}

/* --- the verb --------------------------------------------------------------------------------- */

static int change(struct kiln_cli *cli, const struct kiln_args *args, bool wanted)
{
    struct kiln_stack stack = {.lock_fd = -1};
    struct kiln_error err;
    struct kiln_guard_chosen chosen = {0};
    struct edit edit = {
        .cli = cli, .args = args, .stack = &stack, .chosen = &chosen, .wanted = wanted};
    int status = kiln_arg_int(cli, args, "workers", 1, KILN_GUARD_MAX, 0, &edit.workers);
    if (status == 0)
        status = kiln_arg_int(cli, args, "crashes", 1, KILN_GUARD_CRASHES_MAX, 0, &edit.crashes);
    if (status == 0)
        status = kiln_arg_int(cli, args, "log-mb", 1, 10000, 0, &edit.log_mb);
    if (status == 0)
        status = kiln_arg_duration(cli, args, "within", 0, &edit.within_s);
    if (status)
        return status;
    struct kiln_guard_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return EX_OSERR;
    int rc = open_dir(cli, args, wanted, &stack, &err);
    if (rc == 0)
        rc = kiln_stack_lock(&stack, &err);
    if (rc == 0)
        rc = kiln_guard_read(&stack, plan, &err);
    if (rc == 0)
        rc = change_plan(&edit, plan, &err);
    if (rc == 0)
        rc = kiln_guard_apply(&stack, plan, &err);
    kiln_stack_close(&stack);
    if (rc == 0 && !kiln_arg(args, "no-wait"))
        rc = wanted ? kiln_guard_wait_started(cli, &stack, plan, &chosen, &err)
                    : kiln_guard_wait_stopped(cli, &stack, plan, &chosen, &err);
    free(plan);
    return rc ? kiln_report(cli, &err) : 0;
}

/* What is wrong with the words, 0 if nothing is; asks before all of them are stopped. */
static int check_words(struct kiln_cli *cli, const struct kiln_args *args)
{
    static const char *const words[] = {"start", "stop", "ls", "logs"};
    const char *what = args->rest[0];
    bool all = kiln_arg(args, "all") != NULL, stop = strcmp(what, "stop") == 0;
    if (strcmp(what, "start") == 0 && all)
        return kiln_usage(cli, "--all is only for stop; `worker start` starts all");
    if (stop && all == (args->rest_count > 1))
        return kiln_usage(cli, "name the workers to stop, or give --all");
    if (stop && all &&
        !kiln_confirm(cli, kiln_arg(args, "yes") != NULL,
                      "Every worker of this machine will finish its batch and end."))
        return EX_USAGE;
    for (int i = 0; i < 4; i++)
        if (strcmp(what, words[i]) == 0)
            return 0;
    const char *near = kiln_closest(what, strlen(what), words, 4);
    return kiln_usage(cli, "unknown subcommand '%s'; did you mean %s?", what, near);
}

int kiln_verb_worker(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_stack stack;
    struct kiln_error err;
    const char *what = args->rest[0];
    bool guard = strcmp(what, "guard") == 0; /* what `start` runs in the background */
    int status = guard ? 0 : check_words(cli, args);
    if (status)
        return status;
    if (!guard && kiln_units_meant(cli, args))
        return kiln_worker_units(cli, args);
    if (what[0] == 's')
        return change(cli, args, strcmp(what, "start") == 0);
    if (open_dir(cli, args, false, &stack, &err))
        return kiln_report(cli, &err);
    if (guard)
        return kiln_guard_run(cli, &stack);
    return what[1] == 's' ? kiln_worker_list(cli, &stack) : kiln_worker_logs(cli, &stack, args);
}
