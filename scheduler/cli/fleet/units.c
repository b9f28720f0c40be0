/* units.c - see units.h.
 *
 * `systemctl show` prints a unit's properties as NAME=VALUE lines, units apart by an empty line.
 * Properties are an interface that systemd keeps; what it prints for people is not read.
 */
#include "scheduler/cli/fleet/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/core/programs.h"
#include "schemas/clock.h"

#define TEMPLATE "kiln-worker@"
#define SUFFIX ".service"
#define ASK_LIMIT_S 20 /* of a question; starts and stops have their own limits */
#define ANSWER_MAX ((size_t)1 << 20)
#define BOOTED "/run/systemd/system" /* sd_booted(3) */

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

void kiln_unit_worker(const char *instance, char out[KILN_NAME_MAX + 1])
{
    char host[64];
    short_host(host);
    snprintf(out, KILN_NAME_MAX + 1, "%.*s-gpu%s", KILN_NAME_MAX - KILN_INSTANCE_MAX - 4, host,
             instance);
}

bool kiln_unit_instance(const char *name, char out[KILN_INSTANCE_MAX])
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
    char id[KILN_UNIT_NAME_MAX], active[24], sub[24], result[32], environment[512];
    long pid, restarts, code, status;
    int64_t changed_us; /* of the clock that does not jump */
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
        long *number;
    } fields[] = {{"Id", shown->id, sizeof shown->id, NULL},
                  {"ActiveState", shown->active, sizeof shown->active, NULL},
                  {"SubState", shown->sub, sizeof shown->sub, NULL},
                  {"Result", shown->result, sizeof shown->result, NULL},
                  {"Environment", shown->environment, sizeof shown->environment, NULL},
                  {"MainPID", NULL, 0, &shown->pid},
                  {"NRestarts", NULL, 0, &shown->restarts},
                  {"ExecMainCode", NULL, 0, &shown->code},
                  {"ExecMainStatus", NULL, 0, &shown->status}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strlen(fields[i].name) != len || strncmp(line, fields[i].name, len) != 0)
            continue;
        if (fields[i].number)
            *fields[i].number = atol(value + 1);
        else
            snprintf(fields[i].text, fields[i].size, "%s", value + 1);
        return;
    }
    if (len == strlen("StateChangeTimestampMonotonic") &&
        strncmp(line, "StateChangeTimestampMonotonic", len) == 0)
        shown->changed_us = strtoll(value + 1, NULL, 10);
}

/* A unit in the words of guard_rule.c; false: not one of ours. */
static bool make_unit(const struct shown *shown, struct kiln_unit *ret)
{
    enum { EXITED = 1 }; /* CLD_EXITED; others died of a signal */
    size_t before = strlen(TEMPLATE), len = strlen(shown->id), after = strlen(SUFFIX);
    if (strncmp(shown->id, TEMPLATE, before) != 0 || len <= before + after)
        return false;
    *ret = (struct kiln_unit){.line = {.pid = (pid_t)shown->pid, .restarts = shown->restarts}};
    struct kiln_worker_line *line = &ret->line;
    if (shown->changed_us)
        line->since_ms = kiln_wall_ms() - (kiln_clock_ms() - shown->changed_us / 1000);
    snprintf(ret->instance, sizeof ret->instance, "%.*s", (int)(len - before - after),
             shown->id + before);
    kiln_unit_worker(ret->instance, line->name);
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
                 shown->code == EXITED ? "exit %ld" : "killed by signal %ld", shown->status);
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

int kiln_units_control(const char *const *words, char (*instances)[KILN_INSTANCE_MAX], int count,
                       double limit_s, struct kiln_error *err)
{
    char program[PATH_MAX], names[KILN_GUARD_MAX][KILN_UNIT_NAME_MAX];
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
