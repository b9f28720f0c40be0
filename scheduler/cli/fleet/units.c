/* units.c - see units.h; and `kiln worker` where systemd runs the workers.
 *
 * `systemctl show` prints a unit's properties as NAME=VALUE lines, units apart by an empty line.
 * Properties are an interface that systemd keeps; what it prints for people is not read.
 *
 * A start forgives what was given up (reset-failed), as it does with the guard; starting and
 * stopping wait as long as systemd does, which is until the worker is ready (Type=notify) or has
 * ended.  Whether a unit comes back with the machine is `systemctl enable`, which is not touched.
 */
#include "scheduler/cli/fleet/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/core/suggest.h"
#include "schemas/clock.h"

#define UNIT_NAME_MAX 80
#define TEMPLATE "kiln-worker@"
#define SUFFIX ".service"
#define ASK_LIMIT_S 20 /* of a question; starts and stops have their own limits */
#define ANSWER_MAX ((size_t)1 << 20)
#define BOOTED "/run/systemd/system" /* sd_booted(3) */
#define START_LIMIT_S 600            /* a large model takes minutes to load */
#define STOP_SLACK_S 60              /* what systemd and a worker take beyond drain_s */

/* Runs systemctl; *ret_text, if wanted, is what it printed, malloc'd. */
static int run(char *const *argv, double limit_s, char **ret_text, struct kiln_error *err)
{
    struct kiln_child child;
    FILE *out = tmpfile();
    if (!out)
        return kiln_fail(err, KILN_IO, "make a temporary file: %s", strerror(errno));
    int rc = kiln_child_start(&child, argv, NULL, -1, fileno(out), err);
    if (rc == 0)
        rc = kiln_child_end(&child, limit_s, err);
    if (rc == 0 && ret_text) {
        long end = fseek(out, 0, SEEK_END) == 0 ? ftell(out) : 0;
        size_t size = end > 0 && (size_t)end < ANSWER_MAX ? (size_t)end : 0;
        rewind(out);
        *ret_text = calloc(1, size + 1);
        if (!*ret_text || fread(*ret_text, 1, size, out) != size)
            rc = kiln_fail(err, KILN_IO, "read what systemctl said");
    }
    fclose(out);
    return rc;
}

static int ask(const char *const *words, char **ret_text, struct kiln_error *err)
{
    char program[PATH_MAX];
    char *argv[16] = {program};
    if (!kiln_program_find("systemctl", program))
        return kiln_fail(err, KILN_UNAVAILABLE, "there is no systemctl on this machine");
    for (int i = 0; words[i] && i < 14; i++)
        argv[i + 1] = (char *)(uintptr_t)words[i];
    return run(argv, ASK_LIMIT_S, ret_text, err);
}

bool kiln_units_here(void)
{
    char *text = NULL;
    struct kiln_error err;
    if (access(BOOTED, F_OK) != 0)
        return false;
    const char *const words[] = {"list-unit-files", "--no-legend", "--no-pager", TEMPLATE SUFFIX,
                                 NULL};
    int rc = ask(words, &text, &err);
    bool there = rc == 0 && strstr(text, TEMPLATE SUFFIX);
    free(text);
    return there;
}

static bool has_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return access(kiln_join(path, dir, name), F_OK) == 0;
}

bool kiln_units_meant(const struct kiln_cli *cli, const struct kiln_args *args)
{
    char *conf = cli->config_path ? realpath(cli->config_path, NULL) : NULL;
    if (conf)
        *strrchr(conf, '/') = '\0';
    bool guarded = kiln_arg(args, "dir") || has_file(".kiln", KILN_GUARD_PLAN) ||
                   (conf && (has_file(conf, "stack.json") || has_file(conf, KILN_GUARD_PLAN)));
    free(conf);
    return !guarded && kiln_units_here();
}

/* --- names ------------------------------------------------------------------------------------ */

static void short_host(char out[64])
{
    snprintf(out, 64, "localhost");
    (void)gethostname(out, 63);
    out[63] = '\0';
    out[strcspn(out, ".")] = '\0';
}

/* The name of the worker of an instance, as the unit file gives it. */
static void unit_worker(const char *instance, char out[KILN_NAME_MAX + 1])
{
    char host[64];
    short_host(host);
    snprintf(out, KILN_NAME_MAX + 1, "%.*s-gpu%s", KILN_NAME_MAX - KILN_INSTANCE_MAX - 4, host,
             instance);
}

/* The instance that a person means by "0", "cuda:0", "gpu0", "HOST-gpu0" or "kiln-worker@0"; false:
 * it is none of these. */
static bool unit_instance(const char *name, char out[KILN_INSTANCE_MAX])
{
    char own[72];
    short_host(own);
    snprintf(own + strlen(own), 8, "-gpu");
    const char *const before[] = {own, "gpu", "cuda:", TEMPLATE};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (strncmp(name, before[i], strlen(before[i])) == 0) {
            name += strlen(before[i]);
            break;
        }
    size_t len = strspn(name, "0123456789");
    if (len == 0 || len > 5 || (name[len] && strcmp(name + len, SUFFIX) != 0))
        return false;
    snprintf(out, KILN_INSTANCE_MAX, "%.*s", (int)len, name);
    return true;
}

/* --- states ----------------------------------------------------------------------------------- */

/* What one block of `systemctl show` says. */
struct shown {
    char id[UNIT_NAME_MAX], active[24], sub[24], result[32], environment[512];
    int64_t pid, restarts, code, status, changed_us; /* the time by the clock that does not jump */
};

static void take_property(struct shown *shown, const char *line)
{
    const char *value = strchr(line, '=');
    if (!value)
        return;
    size_t len = (size_t)(value - line);
    const struct {
        const char *name;
        char *text;
        size_t size;
        int64_t *number;
    } fields[] = {{"Id", shown->id, sizeof shown->id, NULL},
                  {"ActiveState", shown->active, sizeof shown->active, NULL},
                  {"SubState", shown->sub, sizeof shown->sub, NULL},
                  {"Result", shown->result, sizeof shown->result, NULL},
                  {"Environment", shown->environment, sizeof shown->environment, NULL},
                  {"MainPID", NULL, 0, &shown->pid},
                  {"NRestarts", NULL, 0, &shown->restarts},
                  {"ExecMainCode", NULL, 0, &shown->code},
                  {"ExecMainStatus", NULL, 0, &shown->status},
                  {"StateChangeTimestampMonotonic", NULL, 0, &shown->changed_us}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strlen(fields[i].name) != len || strncmp(line, fields[i].name, len) != 0)
            continue;
        if (fields[i].number)
            *fields[i].number = strtoll(value + 1, NULL, 10);
        else
            snprintf(fields[i].text, fields[i].size, "%s", value + 1);
        return;
    }
}

/* A unit in the words of guard_rule.c; false: not one of ours. */
static bool make_unit(const struct shown *shown, struct kiln_unit *ret)
{
    enum { EXITED = 1 }; /* CLD_EXITED; others died of a signal */
    size_t before = strlen(TEMPLATE), len = strlen(shown->id), after = strlen(SUFFIX);
    if (strncmp(shown->id, TEMPLATE, before) != 0 || len <= before + after)
        return false;
    *ret =
        (struct kiln_unit){.line = {.pid = (pid_t)shown->pid, .restarts = (long)shown->restarts}};
    struct kiln_worker_line *line = &ret->line;
    if (shown->changed_us)
        line->since_ms = kiln_wall_ms() - (kiln_clock_ms() - shown->changed_us / 1000);
    snprintf(ret->instance, sizeof ret->instance, "%.*s", (int)(len - before - after),
             shown->id + before);
    unit_worker(ret->instance, line->name);
    const char *device = strstr(shown->environment, "KILN_DEVICE=");
    if (device)
        snprintf(line->device, sizeof line->device, "%.*s", (int)strcspn(device + 12, " \""),
                 device + 12);
    else
        snprintf(line->device, sizeof line->device, "cuda:%.24s", ret->instance);
    snprintf(line->state, sizeof line->state, "%s",
             strcmp(shown->active, "failed") == 0      ? "given_up"
             : strcmp(shown->sub, "auto-restart") == 0 ? "waiting"
             : strcmp(shown->active, "inactive") == 0  ? "stopped"
                                                       : "running");
    line->wanted = strcmp(line->state, "stopped") != 0;
    if (strcmp(shown->result, "success") == 0 || shown->pid)
        return true;
    if (strcmp(shown->result, "exit-code") == 0 || strcmp(shown->result, "signal") == 0 ||
        strcmp(shown->result, "core-dump") == 0)
        snprintf(line->reason, sizeof line->reason,
                 shown->code == EXITED ? "exit %ld" : "killed by signal %ld", (long)shown->status);
    else
        snprintf(line->reason, sizeof line->reason, "%s", shown->result);
    return true;
}

static int by_instance(const void *a, const void *b)
{
    const struct kiln_unit *x = a, *y = b;
    return strverscmp(x->instance, y->instance);
}

int kiln_units_list(struct kiln_unit *at, int *ret_count, struct kiln_error *err)
{
    static const char *const words[] = {
        "show",
        "--all",
        "--no-pager",
        "--property=Id,ActiveState,SubState,Result,MainPID,NRestarts,ExecMainCode,ExecMainStatus,"
        "StateChangeTimestampMonotonic,Environment",
        TEMPLATE "*" SUFFIX,
        NULL};
    char *text = NULL;
    struct shown shown = {.id = ""};
    int count = 0, rc = ask(words, &text, err);
    for (char *line = text; rc == 0 && line;) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        take_property(&shown, line);
        if (!line[0] || !next) { /* the end of a block, or of all */
            if (count < KILN_GUARD_MAX && make_unit(&shown, &at[count]))
                count++;
            shown = (struct shown){.id = ""};
        }
        line = next;
    }
    free(text);
    qsort(at, (size_t)count, sizeof *at, by_instance);
    *ret_count = count;
    return rc;
}

/* --- start and stop --------------------------------------------------------------------------- */

/* systemctl WORDS... UNITS..., at most limit_s; an error ends with what it said last. */
static int control(const char *const *words, char (*instances)[KILN_INSTANCE_MAX], int count,
                   double limit_s, struct kiln_error *err)
{
    char program[PATH_MAX], names[KILN_GUARD_MAX][UNIT_NAME_MAX];
    char *argv[KILN_GUARD_MAX + 8] = {program};
    int used = 1;
    if (!kiln_program_find("systemctl", program))
        return kiln_fail(err, KILN_UNAVAILABLE, "there is no systemctl on this machine");
    for (int i = 0; words[i] && i < 6; i++)
        argv[used++] = (char *)(uintptr_t)words[i];
    for (int i = 0; i < count && i < KILN_GUARD_MAX; i++) {
        snprintf(names[i], sizeof names[i], TEMPLATE "%s" SUFFIX, instances[i]);
        argv[used++] = names[i];
    }
    return run(argv, limit_s, NULL, err);
}

/* --- the verb ----------------------------------------------------------------------------------
 */

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
    free(units);
    return kiln_suggest_refuse(&near, rc, "worker of this machine", name, err);
}

static int choose_named(struct choice *choice, const struct kiln_args *args, struct kiln_error *err)
{
    int rc = 0;
    for (int i = 1; i < args->rest_count && rc == 0; i++) {
        char instance[KILN_INSTANCE_MAX];
        rc = unit_instance(args->rest[i], instance) ? choose(choice, instance, err)
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
        rc = unit_instance(devices.at[i], instance)
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
        unit_worker(choice->at[i], name);
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
        (void)!control(forgive, choice.at, choice.count, STOP_SLACK_S, &err);
    if (rc == 0 && control(words, choice.at, choice.count, START_LIMIT_S, &err))
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
        rc = control(words, choice.at, choice.count, limit_s, &err);
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
    char program[PATH_MAX], instance[KILN_INSTANCE_MAX], unit[UNIT_NAME_MAX], count[16];
    struct kiln_error err;
    const char *name;
    long lines;
    int status = kiln_worker_logs_asked(cli, args, &name, &lines);
    if (status)
        return status;
    if (!unit_instance(name, instance))
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
