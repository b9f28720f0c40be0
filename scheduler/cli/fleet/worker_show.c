/* worker_show.c - `kiln worker ls` and `kiln worker logs`.
 *
 * The list joins three things: the plan (who shall run), what the guard wrote (what became of them)
 * and the processes themselves, which are believed most.
 */
#include "scheduler/cli/fleet/worker_show.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/text_safe.h"
#include "schemas/names.h"
#include "schemas/text/utf8.h"

#define PIECE 65536

/* --- ls --------------------------------------------------------------------------------------- */

void kiln_worker_heading(const struct kiln_cli *cli)
{
    if (cli->tty_out && !cli->json)
        kiln_print_fit(cli, KILN_CUT, "%-18s %-8s %-9s %7s %5s %-20s %s", "WORKER", "DEVICE",
                       "STATE", "PID", "AGAIN", "SINCE", "REASON");
}

void kiln_worker_print(struct kiln_cli *cli, const struct kiln_worker_line *line)
{
    char since[32];
    struct kiln_text name = {0};
    if (cli->json) {
        kiln_time_text(line->since_ms, since, sizeof since);
        (void)kiln_print_json(cli,
                              json_pack("{s:s, s:s, s:s, s:b, s:i, s:i, s:s?, s:s}", "worker",
                                        line->name, "device", line->device, "state", line->state,
                                        "wanted", (int)line->wanted, "pid", (int)line->pid,
                                        "restarts", (int)line->restarts, "since",
                                        line->since_ms ? since : NULL, "reason", line->reason));
        return;
    }
    kiln_text_cell(&name, cli->columns, line->name, 18);
    kiln_print_fit(cli, 0, "%s %-8s %-9s %7ld %5ld %-20s %s", name.at, line->device, line->state,
                   (long)line->pid, line->restarts,
                   kiln_short_time(line->since_ms, since, sizeof since), line->reason);
    kiln_text_release(&name);
}

static void list_row(struct kiln_cli *cli, const struct kiln_stack *stack,
                     const struct kiln_guard_row *row, bool guarded)
{
    struct kiln_guard_report report = {.state = "stopped"};
    pid_t pid = kiln_guard_worker(stack, row);
    bool known = kiln_guard_report(stack, row->name, &report);
    struct kiln_worker_line line = {.wanted = row->wanted,
                                    .pid = pid,
                                    .restarts = report.restarts,
                                    .since_ms = report.since_ms};
    const char *state = pid                                    ? guarded ? "running" : "unguarded"
                        : !guarded && row->wanted              ? "down"
                        : strcmp(report.state, "running") != 0 ? report.state
                                                               : "stopped";
    snprintf(line.name, sizeof line.name, "%s", row->id);
    snprintf(line.device, sizeof line.device, "%s", row->device);
    snprintf(line.state, sizeof line.state, "%s", state);
    snprintf(line.reason, sizeof line.reason, "%s", known && !pid ? report.reason : "");
    kiln_worker_print(cli, &line);
}

int kiln_worker_list(struct kiln_cli *cli, const struct kiln_stack *stack)
{
    struct kiln_error err;
    struct kiln_guard_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return EX_OSERR;
    if (kiln_guard_read(stack, plan, &err)) {
        free(plan);
        return kiln_report(cli, &err);
    }
    bool guarded = kiln_guard_find(stack) != 0;
    if (plan->count)
        kiln_worker_heading(cli);
    bool down = false;
    for (int i = 0; i < plan->count; i++) {
        list_row(cli, stack, &plan->at[i], guarded);
        down = down || (plan->at[i].wanted && !guarded);
    }
    if (plan->count == 0)
        kiln_say(cli, "no workers on this machine: `kiln worker start` starts one, `kiln workers` "
                      "lists those of the fleet");
    if (down)
        kiln_say(cli,
                 "these workers have no guard; `kiln up` (a private stack) or `kiln worker start` "
                 "starts it");
    free(plan);
    return 0;
}

/* --- logs ------------------------------------------------------------------------------------- */

/* The name of the one log DIR/log/NAME.log that is meant, and the id of its worker: by a row of the
 * plan, else by the name of the file; else the error says which there are. */
static int find_log(struct kiln_cli *cli, const struct kiln_stack *stack, const char *name,
                    char ret_file[KILN_NAME_MAX + 1], char ret_id[KILN_NAME_MAX + 1])
{
    char path[PATH_MAX];
    struct kiln_suggest near = {0};
    struct kiln_error err = {0};
    struct kiln_guard_plan *plan = malloc(sizeof *plan);
    const struct kiln_guard_row *row = NULL;
    int rc = plan ? kiln_guard_read(stack, plan, &err)
                  : kiln_fail(&err, KILN_NO_MEMORY, "no memory for the plan");
    int meant = 0;
    if (rc == KILN_CORRUPT) { /* the logs are there all the same */
        kiln_warn(cli, "%s", err.text);
        *plan = (struct kiln_guard_plan){.count = 0};
        rc = 0;
    }
    if (rc == 0 && (row = kiln_worker_row_meant(plan, name)) != NULL) {
        snprintf(ret_file, KILN_NAME_MAX + 1, "%s", row->name);
        snprintf(ret_id, KILN_NAME_MAX + 1, "%s", row->id);
    }
    DIR *dir = rc == 0 && !row ? opendir(kiln_join(path, stack->dir, "log")) : NULL;
    for (struct dirent *entry; dir && rc == 0 && (entry = readdir(dir)) != NULL;) {
        size_t len = strlen(entry->d_name);
        if (len <= 4 || strcmp(entry->d_name + len - 4, ".log") != 0)
            continue;
        entry->d_name[len - 4] = '\0';
        const struct kiln_guard_row *of = kiln_guard_row(plan, entry->d_name);
        if (!of && len - 4 <= KILN_NAME_MAX && kiln_worker_meant(entry->d_name, name)) {
            meant++;
            memcpy(ret_file, entry->d_name, len - 3);
            memcpy(ret_id, entry->d_name, len - 3);
        }
        rc = kiln_suggest_add(&near, of ? of->id : entry->d_name, &err);
    }
    if (dir)
        closedir(dir);
    free(plan);
    if (row || (rc == 0 && meant == 1)) {
        kiln_suggest_release(&near);
        return 0;
    }
    (void)kiln_suggest_refuse(&near, rc, "log of", name, &err);
    return kiln_report(cli, &err);
}

/* Prints the rest, without characters that control a terminal: a log may quote what others wrote. A
 * character of which only a part is written yet comes with the next call. */
static bool copy_out(FILE *file)
{
    char piece[PIECE + 1];
    for (size_t len; (len = fread(piece, 1, PIECE, file)) > 0;) {
        const size_t whole = kiln_utf8_whole(piece, len);
        if (whole < len)
            (void)fseek(file, -(long)(len - whole), SEEK_CUR);
        if (whole == 0)
            break;
        for (size_t i = 0; i < whole; i++)
            if (piece[i] == '\0')
                piece[i] = '?';
        piece[whole] = '\0';
        for (char *line = piece; *line;) {
            char *end = line + strcspn(line, "\n");
            const bool more = *end == '\n';
            *end = '\0';
            kiln_print_safe(line);
            if (more)
                putchar('\n');
            line = end + more;
        }
        if (ferror(stdout))
            return false;
    }
    clearerr(file);
    return fflush(stdout) == 0 && kiln_stdout_ok();
}

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Until Ctrl-C or until nobody reads.  A rotated log continues at its start. */
static void follow(FILE *file)
{
    struct sigaction action = {.sa_handler = interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    while (!interrupted && copy_out(file)) {
        struct stat st;
        if (fstat(fileno(file), &st) == 0 && st.st_size < ftell(file))
            rewind(file);
        kiln_sleep_s(0.2);
    }
}

int kiln_worker_logs_asked(struct kiln_cli *cli, const struct kiln_args *args,
                           const char **ret_name, long *ret_lines)
{
    if (args->rest_count != 2)
        return kiln_usage(cli, "name one worker: kiln worker logs NAME");
    *ret_name = args->rest[1];
    return kiln_arg_int(cli, args, "lines", 1, 1000000, 40, ret_lines);
}

int kiln_worker_logs(struct kiln_cli *cli, const struct kiln_stack *stack,
                     const struct kiln_args *args)
{
    char path[PATH_MAX];
    const char *name;
    long lines;
    int status = kiln_worker_logs_asked(cli, args, &name, &lines);
    if (status)
        return status;
    char name_of_file[KILN_NAME_MAX + 1], id[KILN_NAME_MAX + 1];
    status = find_log(cli, stack, name, name_of_file, id);
    if (status)
        return status;
    FILE *file = fopen(kiln_process_log(stack, name_of_file, path), "re");
    if (!file && errno == ENOENT)
        kiln_warn(cli,
                  "worker %s has no log, since it has not started here; `kiln worker ls` shows its "
                  "state, `kiln up` (a private stack) or `kiln worker start` starts it",
                  id);
    else if (!file)
        kiln_warn(cli, "%s: %s", path, strerror(errno));
    if (!file)
        return EX_NOINPUT;
    kiln_seek_lines(file, lines);
    (void)copy_out(file);
    if (kiln_arg(args, "follow"))
        follow(file);
    fclose(file);
    return 0;
}
