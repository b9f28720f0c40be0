/* worker.c - `kiln worker start|stop|ls|logs`: the workers of this machine.
 *
 * start and stop change the plan and wake the guard (crew.h), then wait until it is so.  A machine
 * with a stack of its own (`kiln up`) keeps its crew in the stack's directory; on a fleet's machine
 * it is --dir.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/core/agree.h"
#include "scheduler/cli/core/duration.h"
#include "scheduler/cli/core/near.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/units.h"
#include "scheduler/cli/fleet/worker_show.h"
#include "scheduler/cli/stack/crew.h"
#include "scheduler/cli/stack/devices.h"
#include "schemas/digest.h"
#include "schemas/names.h"
#include "schemas/wire.h"
#include "storage/bus/bus.h"

#define START_LIMIT_S 600 /* a large model takes minutes to load */
#define HOST_SIZE 65      /* of a name that gethostname gives */
#define HOST_SHOWN 14     /* of it in the name of a worker */

/* Where the crew lives: --dir, or beside a stack's kiln.conf, or ./.kiln. */
static int open_dir(struct kiln_cli *cli, const struct kiln_args *args, bool create,
                    struct kiln_stack *stack, struct kiln_error *err)
{
    char dir[PATH_MAX] = ".kiln", path[PATH_MAX];
    const char *given = kiln_arg(args, "dir");
    char *conf = cli->config_path ? realpath(cli->config_path, NULL) : NULL;
    if (given) {
        if (create && access(given, F_OK) != 0) /* a slip would make a crew that nobody looks for */
            return kiln_fail(err, KILN_NOT_FOUND,
                             "there is no stack in %s: `kiln up` makes one, and a directory made "
                             "by hand is enough for workers alone",
                             given);
        snprintf(dir, sizeof dir, "%s", given);
    } else if (conf) {
        *strrchr(conf, '/') = '\0';
        if (access(kiln_join(path, conf, "stack.json"), F_OK) == 0)
            snprintf(dir, sizeof dir, "%s", conf);
    }
    free(conf);
    static const char *const parts[] = {"", "run", "log"};
    int rc = 0;
    for (size_t i = 0; create && rc == 0 && i < sizeof parts / sizeof *parts; i++)
        if (mkdir(kiln_join(path, dir, parts[i]), i == 2 ? 0700 : 0711) != 0 && errno != EEXIST)
            rc = kiln_fail(err, KILN_IO, "make directory %s: %s", path, strerror(errno));
    return rc ? rc : kiln_stack_open(stack, dir, false, err);
}

/* Under the stack's lock, since two may do it at once: reads the plan, lets edit change it, writes
 * it. */
struct edit {
    struct kiln_cli *cli;
    const struct kiln_args *args;
    bool *chosen; /* [KILN_CREW_MAX]: rows that are meant */
    bool wanted;
    long workers, crashes, log_mb; /* 0: not told */
    int64_t within_s;
};

static struct kiln_hand_row *find_row(struct kiln_crew_plan *plan, const char *name)
{
    for (int i = 0; i < plan->count; i++)
        if (strcmp(plan->at[i].name, name) == 0)
            return &plan->at[i];
    return NULL;
}

/* A name that is too long ends with a hash of it, since names of a fleet often differ in their last
 * letters, and two workers must not have one name. */
static void shorten_host(char host[HOST_SIZE])
{
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[5];
    if (strlen(host) <= HOST_SHOWN)
        return;
    kiln_sha256(host, strlen(host), digest);
    kiln_hex(digest, 2, hex);
    snprintf(host + HOST_SHOWN - 5, 6, "-%s", hex);
}

/* HOST-cuda0, and HOST-cpu, HOST-cpu-1, ... for several on one device. */
static void name_row(struct kiln_hand_row *row, unsigned number)
{
    char host[HOST_SIZE] = "worker", device[32];
    (void)gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    shorten_host(host);
    size_t used = 0;
    for (const char *at = row->device; *at; at++)
        if (*at != ':')
            device[used++] = *at;
    device[used] = '\0';
    if (!kiln_name_valid(host, strlen(host), HOST_SHOWN))
        snprintf(host, sizeof host, "worker");
    if (number)
        snprintf(row->name, sizeof row->name, "%.14s-%.8s-%u", host, device,
                 number % KILN_CREW_MAX);
    else
        snprintf(row->name, sizeof row->name, "%.14s-%.8s", host, device);
}

/* One more row for the device, or the one that is there already. */
static int want_device(struct edit *edit, struct kiln_crew_plan *plan, const char *device,
                       unsigned number, struct kiln_error *err)
{
    struct kiln_hand_row row = {.wanted = true};
    snprintf(row.device, sizeof row.device, "%.31s", device);
    name_row(&row, number);
    struct kiln_hand_row *at = find_row(plan, row.name);
    if (!at && plan->count == KILN_CREW_MAX)
        return kiln_fail(err, KILN_FULL, "a machine has at most %d workers", KILN_CREW_MAX);
    if (!at) {
        at = &plan->at[plan->count++];
        *at = row;
    }
    at->wanted = true;
    at->turn++;
    edit->chosen[at - plan->at] = true;
    return 0;
}

/* --device cpu,cuda:0 with --workers N going round them. */
static int want_devices(struct edit *edit, struct kiln_crew_plan *plan, struct kiln_error *err)
{
    struct kiln_devices devices;
    int rc = kiln_devices_read(kiln_config_text(edit->cli->config, KILN_KEY_DEVICE), &devices, err);
    if (rc)
        return rc;
    long workers = edit->workers ? edit->workers : devices.count;
    for (int i = 0; i < workers && rc == 0; i++)
        rc = want_device(edit, plan, devices.at[i % devices.count], (unsigned)(i / devices.count),
                         err);
    return rc;
}

static int refuse_row(const struct kiln_crew_plan *plan, const char *name, struct kiln_error *err)
{
    struct kiln_near near = {0};
    int rc = 0;
    for (int i = 0; i < plan->count && rc == 0; i++)
        rc = kiln_near_add(&near, plan->at[i].name, err);
    if (rc == 0)
        rc = kiln_near_refuse(&near, "worker of this machine", name, err);
    kiln_near_release(&near);
    return rc;
}

/* The rows that are named on the command line. */
static int want_named(struct edit *edit, struct kiln_crew_plan *plan, struct kiln_error *err)
{
    for (int i = 1; i < edit->args->rest_count; i++) {
        struct kiln_hand_row *row = find_row(plan, edit->args->rest[i]);
        if (!row)
            return refuse_row(plan, edit->args->rest[i], err);
        row->wanted = edit->wanted;
        row->turn += edit->wanted;
        edit->chosen[row - plan->at] = true;
    }
    return 0;
}

static int take_limits(struct edit *edit, struct kiln_crew_plan *plan, struct kiln_error *err)
{
    plan->crashes = edit->crashes ? (int)edit->crashes : plan->crashes;
    plan->within_s = edit->within_s ? edit->within_s : plan->within_s;
    plan->log_bytes = edit->log_mb ? (int64_t)edit->log_mb << 20 : plan->log_bytes;
    char *conf = edit->cli->config_path ? realpath(edit->cli->config_path, NULL) : NULL;
    if (!conf)
        return kiln_fail(err, KILN_CONFIG,
                         "workers need a settings file: --config FILE, or `kiln up` for a stack");
    snprintf(plan->config, sizeof plan->config, "%s", conf);
    free(conf);
    return 0;
}

static int change_plan(struct edit *edit, struct kiln_crew_plan *plan, struct kiln_error *err)
{
    bool all = kiln_arg(edit->args, "all") != NULL;
    int rc = edit->wanted ? take_limits(edit, plan, err) : 0;
    if (rc == 0 && edit->args->rest_count > 1)
        return want_named(edit, plan, err);
    if (rc == 0 && edit->wanted)
        return want_devices(edit, plan, err);
    for (int i = 0; rc == 0 && all && i < plan->count; i++) {
        plan->at[i].wanted = false;
        edit->chosen[i] = true;
    }
    return rc;
}

/* --- waiting until it is so ------------------------------------------------------------------- */

/* A guard that reads the plan now, or one that is started. */
static int wake_guard(struct kiln_stack *stack, const struct kiln_crew_plan *plan,
                      struct kiln_error *err)
{
    char program[PATH_MAX];
    pid_t pid = kiln_crew_find_guard(stack);
    if (pid && kill(pid, SIGHUP) == 0)
        return 0;
    const char *argv[] = {kiln_join(program, stack->bin, "kiln"),
                          "worker",
                          "guard",
                          "--dir",
                          stack->dir,
                          "--config",
                          plan->config,
                          NULL};
    struct kiln_spawn spawn = {.name = "crew", .argv = argv, .cwd = stack->dir};
    return kiln_process_start(stack, &spawn, &pid, err);
}

struct beat_search {
    const char *name;
    pid_t pid;
    bool found;
};

static int see_beat(void *arg, const char *worker, const char *text, size_t len)
{
    struct beat_search *search = arg;
    struct kiln_heartbeat beat;
    if (strcmp(worker, search->name) == 0 && kiln_heartbeat_decode(text, len, &beat, NULL) == 0 &&
        (pid_t)beat.pid == search->pid)
        search->found = true;
    return 0;
}

/* One look: *ret_done once its heartbeat is on the bus.  An error when it died. */
static int look_started(struct kiln_cli *cli, struct kiln_stack *stack, struct kiln_bus *bus,
                        const struct kiln_hand_row *row, bool *ret_done, struct kiln_error *err)
{
    struct kiln_hand_report report;
    struct beat_search search = {.name = row->name};
    *ret_done = false;
    if (!kiln_hand_report(stack, row->name, &report) || report.turn != row->turn)
        return 0; /* the guard has not looked yet */
    if (strcmp(report.state, "given_up") == 0 || report.restarts > 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "%s does not stay up (%s); its log is %s/log/%s.log", row->name,
                         report.reason, stack->dir, row->name);
    search.pid = report.pid;
    int rc = search.pid ? kiln_bus_heartbeats(bus, kiln_pool(cli), see_beat, &search, err) : 0;
    *ret_done = search.found;
    return rc;
}

static int wait_started(struct kiln_cli *cli, struct kiln_stack *stack,
                        const struct kiln_crew_plan *plan, const bool *chosen,
                        struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    int rc = kiln_open_bus(cli, &bus, err);
    double until = kiln_now_s() + START_LIMIT_S;
    for (int i = 0; i < plan->count && rc == 0; i++) {
        for (bool done = !chosen[i]; !done && rc == 0;) {
            rc = look_started(cli, stack, bus, &plan->at[i], &done, err);
            if (rc == 0 && !done && kiln_now_s() > until)
                rc = kiln_fail(err, KILN_TIMEOUT, "%s was not ready within %d s", plan->at[i].name,
                               START_LIMIT_S);
            if (rc == 0 && !done)
                kiln_sleep_s(0.1);
        }
        if (rc == 0 && chosen[i])
            kiln_say(cli, "%-14s runs on %s", plan->at[i].name, plan->at[i].device);
    }
    kiln_bus_close(bus);
    return rc;
}

static int wait_stopped(struct kiln_cli *cli, struct kiln_stack *stack,
                        const struct kiln_crew_plan *plan, const bool *chosen,
                        struct kiln_error *err)
{
    double limit_s = kiln_config_number(cli->config, KILN_KEY_DRAIN_S) + 30;
    double until = kiln_now_s() + limit_s;
    for (int i = 0; i < plan->count; i++) {
        if (!chosen[i])
            continue;
        while (kiln_crew_find_hand(stack, plan->at[i].name)) {
            if (kiln_now_s() > until)
                return kiln_fail(err, KILN_TIMEOUT, "%s did not end within %.0f s",
                                 plan->at[i].name, limit_s);
            kiln_sleep_s(0.05);
        }
        kiln_say(cli, "%-14s stopped", plan->at[i].name);
    }
    return 0;
}

/* --- the verb --------------------------------------------------------------------------------- */

static int change(struct kiln_cli *cli, const struct kiln_args *args, bool wanted)
{
    struct kiln_stack stack = {.lock_fd = -1};
    struct kiln_error err;
    bool chosen[KILN_CREW_MAX] = {false};
    struct edit edit = {.cli = cli, .args = args, .chosen = chosen, .wanted = wanted};
    int status = kiln_arg_int(cli, args, "workers", 1, KILN_CREW_MAX, 0, &edit.workers);
    if (status == 0)
        status = kiln_arg_int(cli, args, "crashes", 1, KILN_CREW_CRASHES_MAX, 0, &edit.crashes);
    if (status == 0)
        status = kiln_arg_int(cli, args, "log-mb", 1, 10000, 0, &edit.log_mb);
    if (status == 0)
        status = kiln_arg_duration(cli, args, "within", 0, &edit.within_s);
    if (status)
        return status;
    struct kiln_crew_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return EX_OSERR;
    int rc = open_dir(cli, args, wanted, &stack, &err);
    if (rc == 0)
        rc = kiln_stack_lock(&stack, &err);
    if (rc == 0)
        rc = kiln_crew_read(&stack, plan, &err);
    if (rc == 0)
        rc = change_plan(&edit, plan, &err);
    if (rc == 0)
        rc = kiln_crew_write(&stack, plan, &err);
    if (rc == 0 && (wanted || kiln_crew_find_guard(&stack)))
        rc = wake_guard(&stack, plan, &err);
    kiln_stack_close(&stack);
    if (rc == 0 && !kiln_arg(args, "no-wait"))
        rc = wanted ? wait_started(cli, &stack, plan, chosen, &err)
                    : wait_stopped(cli, &stack, plan, chosen, &err);
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
        return kiln_usage(cli, "start starts all; --all is for stop");
    if (stop && all == (args->rest_count > 1))
        return kiln_usage(cli, "name workers, or all with --all");
    if (stop && all &&
        !kiln_agreed(cli, kiln_arg(args, "yes") != NULL,
                     "Every worker of this machine finishes its batch and ends."))
        return EX_USAGE;
    for (int i = 0; i < 4; i++)
        if (strcmp(what, words[i]) == 0)
            return 0;
    const char *near = kiln_closest(what, strlen(what), words, 4);
    return kiln_usage(cli, "'%s' is nothing to do with workers; did you mean %s?", what, near);
}

int kiln_verb_worker(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_stack stack;
    struct kiln_error err;
    int status = kiln_args_parse(cli, argc, argv, 1, KILN_CREW_MAX, &args);
    if (status)
        return status;
    const char *what = args.rest[0];
    bool guard = strcmp(what, "guard") == 0; /* what `start` runs in the background */
    if (!guard && (status = check_words(cli, &args)) != 0)
        return status;
    if (!guard && kiln_units_meant(cli, &args))
        return kiln_worker_units(cli, &args);
    if (what[0] == 's')
        return change(cli, &args, strcmp(what, "start") == 0);
    if (open_dir(cli, &args, false, &stack, &err))
        return kiln_report(cli, &err);
    if (guard)
        return kiln_crew_guard(cli, &stack);
    return what[1] == 's' ? kiln_worker_list(cli, &stack) : kiln_worker_logs(cli, &stack, &args);
}
