/* worker_units.c - `kiln worker` where systemd runs the workers.
 *
 * A start forgives what was given up (reset-failed), as it does with the guard; starting and
 * stopping wait as long as systemd does, which is until the worker is ready (Type=notify) or has
 * ended.  Whether a unit comes back with the machine is `systemctl enable`, which is not touched.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/fleet/units.h"

#define START_LIMIT_S 600 /* a large model takes minutes to load */
#define STOP_SLACK_S 60   /* what systemd and a worker take beyond drain_s */

/* The units that a command line means. */
struct choice {
    char at[KILN_GUARD_MAX][KILN_INSTANCE_MAX];
    int count;
};

static bool is_chosen(const struct choice *choice, const char *instance)
{
    for (int i = 0; i < choice->count; i++)
        if (strcmp(choice->at[i], instance) == 0)
            return true;
    return false;
}

static int choose(struct choice *choice, const char *instance, struct kiln_error *err)
{
    if (is_chosen(choice, instance))
        return 0;
    if (choice->count == KILN_GUARD_MAX)
        return kiln_fail(err, KILN_FULL, "a machine has at most %d workers", KILN_GUARD_MAX);
    snprintf(choice->at[choice->count++], KILN_INSTANCE_MAX, "%s", instance);
    return 0;
}

static int refuse_name(const char *name, struct kiln_error *err)
{
    struct kiln_unit *units = calloc(KILN_GUARD_MAX, sizeof *units);
    struct kiln_suggest near = {0};
    int count = 0, rc = units ? kiln_units_list(units, &count, err) : 0;
    for (int i = 0; i < count && rc == 0; i++)
        rc = kiln_suggest_add(&near, units[i].line.name, err);
    if (rc == 0)
        rc = kiln_suggest_refuse(&near, "worker of this machine", name, err);
    kiln_suggest_release(&near);
    free(units);
    return rc;
}

static int choose_named(struct choice *choice, const struct kiln_args *args, struct kiln_error *err)
{
    int rc = 0;
    for (int i = 1; i < args->rest_count && rc == 0; i++) {
        char instance[KILN_INSTANCE_MAX];
        rc = kiln_unit_instance(args->rest[i], instance) ? choose(choice, instance, err)
                                                         : refuse_name(args->rest[i], err);
    }
    return rc;
}

/* One a GPU of --device, or of the setting. */
static int choose_devices(struct choice *choice, const char *text, struct kiln_error *err)
{
    struct kiln_devices devices = {.count = 0};
    int rc = kiln_devices_read(text, &devices, err);
    for (int i = 0; i < devices.count && rc == 0; i++) {
        char instance[KILN_INSTANCE_MAX];
        rc = kiln_unit_instance(devices.at[i], instance)
                 ? choose(choice, instance, err)
                 : kiln_fail(err, KILN_CONFIG,
                             "device '%s': systemd has one worker a GPU, cuda:N; for one on the "
                             "CPU, `systemctl edit kiln-worker@0` with "
                             "Environment=KILN_DEVICE=cpu, then `kiln worker start 0`",
                             devices.at[i]);
    }
    return rc;
}

/* All that have not stopped already. */
static int choose_all(struct choice *choice, struct kiln_error *err)
{
    struct kiln_unit *units = calloc(KILN_GUARD_MAX, sizeof *units);
    int count = 0;
    if (!units)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the units");
    int rc = kiln_units_list(units, &count, err);
    for (int i = 0; i < count && rc == 0; i++)
        if (units[i].line.wanted)
            rc = choose(choice, units[i].instance, err);
    free(units);
    return rc;
}

static void say_each(const struct kiln_cli *cli, const struct choice *choice, const char *what)
{
    for (int i = 0; i < choice->count; i++) {
        char name[KILN_NAME_MAX + 1];
        kiln_unit_worker(choice->at[i], name);
        kiln_say(cli, "%-14s %s", name, what);
    }
}

/* Why a start failed: the state of the first unit that is not up says more than systemctl. */
static int explain(const struct choice *choice, struct kiln_error *err)
{
    struct kiln_unit *units = calloc(KILN_GUARD_MAX, sizeof *units);
    struct kiln_error own;
    int count = 0, rc = err->code;
    if (units && rc != KILN_TIMEOUT && kiln_units_list(units, &count, &own))
        count = 0;
    for (int i = 0; i < count; i++) {
        const struct kiln_worker_line *line = &units[i].line;
        if (!is_chosen(choice, units[i].instance) || !line->reason[0])
            continue;
        rc = kiln_fail(err, KILN_UNAVAILABLE,
                       "%s does not stay up (%s); `kiln worker logs %s` says more", line->name,
                       line->reason, line->name);
        break;
    }
    free(units);
    return rc;
}

static int start(struct kiln_cli *cli, const struct kiln_args *args)
{
    static const char *const guards[] = {"workers", "crashes", "within", "log-mb"};
    struct choice choice = {.count = 0};
    struct kiln_error err;
    bool wait = !kiln_arg(args, "no-wait");
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++)
        if (kiln_arg(args, guards[i]))
            return kiln_usage(cli,
                              "--%s is for workers without systemd; use `systemctl edit "
                              "kiln-worker@`, or --dir DIR for workers outside systemd",
                              guards[i]);
    int rc = args->rest_count > 1
                 ? choose_named(&choice, args, &err)
                 : choose_devices(&choice, kiln_config_text(cli->config, KILN_KEY_DEVICE), &err);
    const char *const forgive[] = {"reset-failed", NULL};
    const char *const words[] = {"start", wait ? NULL : "--no-block", NULL};
    if (rc == 0) /* those that are not loaded yet have nothing to be forgiven */
        (void)!kiln_units_control(forgive, choice.at, choice.count, STOP_SLACK_S, &err);
    if (rc == 0 && kiln_units_control(words, choice.at, choice.count, START_LIMIT_S, &err))
        rc = explain(&choice, &err);
    if (rc == 0)
        say_each(cli, &choice, wait ? "runs" : "starting");
    return rc ? kiln_report(cli, &err) : 0;
}

static int stop(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct choice choice = {.count = 0};
    struct kiln_error err;
    bool wait = !kiln_arg(args, "no-wait");
    double limit_s = kiln_config_number(cli->config, KILN_KEY_DRAIN_S) + STOP_SLACK_S;
    const char *const words[] = {"stop", wait ? NULL : "--no-block", NULL};
    int rc = args->rest_count > 1 ? choose_named(&choice, args, &err) : choose_all(&choice, &err);
    if (rc == 0 && choice.count)
        rc = kiln_units_control(words, choice.at, choice.count, limit_s, &err);
    if (rc == 0)
        say_each(cli, &choice, wait ? "stopped" : "stopping");
    return rc ? kiln_report(cli, &err) : 0;
}

static int list(struct kiln_cli *cli)
{
    struct kiln_unit *units = calloc(KILN_GUARD_MAX, sizeof *units);
    struct kiln_error err;
    int count = 0;
    if (!units)
        return EX_OSERR;
    int rc = kiln_units_list(units, &count, &err);
    if (rc == 0 && count)
        kiln_worker_heading(cli);
    for (int i = 0; i < count && rc == 0; i++)
        kiln_worker_print(cli, &units[i].line);
    if (rc == 0 && count == 0)
        kiln_say(cli, "systemd runs no kiln-worker@ here; start one with `kiln worker start "
                      "--device cuda:0`, and after each boot with `systemctl enable`");
    free(units);
    return rc ? kiln_report(cli, &err) : 0;
}

/* journalctl replaces this process, so its reader can follow the log and end it. */
static int logs(struct kiln_cli *cli, const struct kiln_args *args)
{
    char program[PATH_MAX], instance[KILN_INSTANCE_MAX], unit[KILN_UNIT_NAME_MAX], count[16];
    struct kiln_error err;
    const char *name;
    long lines;
    int status = kiln_worker_logs_asked(cli, args, &name, &lines);
    if (status)
        return status;
    if (!kiln_unit_instance(name, instance))
        return refuse_name(name, &err) ? kiln_report(cli, &err) : EX_NOINPUT;
    if (!kiln_program_find("journalctl", program)) {
        (void)!kiln_fail(&err, KILN_UNAVAILABLE, "there is no journalctl on this machine");
        return kiln_report(cli, &err);
    }
    snprintf(unit, sizeof unit, "kiln-worker@%s.service", instance);
    snprintf(count, sizeof count, "%ld", lines);
    char *argv[] = {program,
                    (char[]){"--no-pager"},
                    (char[]){"--output=cat"},
                    (char[]){"--unit"},
                    unit,
                    (char[]){"--lines"},
                    count,
                    kiln_arg(args, "follow") ? (char[]){"--follow"} : NULL,
                    NULL};
    fflush(NULL);
    execv(program, argv);
    (void)!kiln_fail(&err, KILN_IO, "start %s: %s", program, strerror(errno));
    return kiln_report(cli, &err);
}

int kiln_worker_units(struct kiln_cli *cli, const struct kiln_args *args)
{
    const char *what = args->rest[0];
    return strcmp(what, "start") == 0  ? start(cli, args)
           : strcmp(what, "stop") == 0 ? stop(cli, args)
           : strcmp(what, "ls") == 0   ? list(cli)
                                       : logs(cli, args);
}
