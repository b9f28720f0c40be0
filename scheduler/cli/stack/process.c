/* process.c - starting, finding and ending the processes of a stack.
 *
 * A process outlives the command that started it.  Its pid file is believed only together with
 * /proc/PID/cmdline.  A reader never removes a pid file: the guard may just have written it anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/stack/stack.h"
#include "schemas/clock.h"
#include "storage/daemon/outage.h"
#include "storage/daemon/proc_stat.h"
#include "storage/formats/replace.h"

#define TAIL_LINES 12
#define LINE_BYTES 4096
#define CMDLINE_MAX 16384
#define EXEC_LIMIT_MS 1000
#define KILLED_LIMIT_S 10

extern char **environ;

static char *pid_path(const struct kiln_stack *stack, const char *name, char out[PATH_MAX])
{
    if (snprintf(out, PATH_MAX, "%s/run/%s.pid", stack->dir, name) >= PATH_MAX)
        out[0] = '\0'; /* which no call accepts */
    return out;
}

char *kiln_process_log(const struct kiln_stack *stack, const char *name, char out[PATH_MAX])
{
    if (snprintf(out, PATH_MAX, "%s/log/%s.log", stack->dir, name) >= PATH_MAX)
        out[0] = '\0';
    return out;
}

/* A process that is not there counts as well. */
static bool has_ended(pid_t pid)
{
    struct kiln_proc_stat stat;
    return !kiln_proc_stat(pid, &stat) || stat.state == 'Z' || stat.state == 'X';
}

/* The words of its command line, a line each; "" of a process that has ended.  One in the midst of
 * an exec has none for a moment, which is waited for. */
static void read_command(pid_t pid, char text[CMDLINE_MAX])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)pid);
    size_t len = 0;
    for (int64_t until = kiln_clock_ms() + EXEC_LIMIT_MS;;) {
        FILE *file = fopen(path, "re");
        len = file ? fread(text, 1, CMDLINE_MAX - 1, file) : 0;
        if (file)
            fclose(file);
        if (len > 0 || has_ended(pid) || kiln_clock_ms() >= until)
            break;
        kiln_sleep_s(0.002);
    }
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\0')
            text[i] = '\n';
    text[len] = '\0';
}

pid_t kiln_process_find(const struct kiln_stack *stack, const char *name, const char *const *marks)
{
    char path[PATH_MAX], command[CMDLINE_MAX];
    FILE *file = fopen(pid_path(stack, name, path), "re");
    if (!file)
        return 0;
    long pid = 0;
    bool found = fscanf(file, "%ld", &pid) == 1 && pid > 1;
    fclose(file);
    if (found)
        read_command((pid_t)pid, command);
    for (; found && *marks; marks++)
        found = strstr(command, *marks) != NULL;
    if (found && kiln_proc_killed((pid_t)pid)) /* on a busy machine it looks alive for a while */
        found = !kiln_process_wait_gone((pid_t)pid, KILLED_LIMIT_S);
    return found ? (pid_t)pid : 0;
}

void kiln_process_forget(const struct kiln_stack *stack, const char *name)
{
    char path[PATH_MAX];
    unlink(pid_path(stack, name, path));
}

bool kiln_process_alive(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, WNOHANG) == pid)
        return false;
    return !has_ended(pid); /* and is not the zombie of another parent */
}

bool kiln_process_wait_gone(pid_t pid, double limit_s)
{
    double until = kiln_now_s() + limit_s;
    for (uint32_t looks = 1; kiln_process_alive(pid); looks++) {
        if (kiln_now_s() >= until)
            return false;
        kiln_sleep_s(kiln_backoff(looks, 5, 100) / 1e3);
    }
    return true;
}

bool kiln_process_stop(const struct kiln_stack *stack, const char *name, pid_t pid, int signal_no,
                       double limit_s)
{
    kill(pid, signal_no);
    bool gentle = kiln_process_wait_gone(pid, limit_s);
    if (!gentle) {
        kill(pid, SIGKILL);
        (void)kiln_process_wait_gone(pid, 10);
    }
    kiln_process_forget(stack, name);
    return gentle;
}

/* --- starting --------------------------------------------------------------------------------- */

/* Its output goes to the end of DIR/log/NAME.log. */
static int launch(const struct kiln_stack *stack, const struct kiln_spawn *spawn, int in_fd,
                  pid_t *ret, struct kiln_error *err)
{
    char log[PATH_MAX];
    int log_fd = open(kiln_process_log(stack, spawn->name, log),
                      O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log_fd < 0)
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "open %s: %s", log,
                         strerror(errno));
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    char **environment = calloc(count + 1, sizeof *environment); /* ours without KILN_* */
    for (size_t i = 0; environment && i < count; i++)
        if (strncmp(environ[i], "KILN_", 5) != 0)
            environment[kept++] = environ[i];
    const struct kiln_launch launch = {.argv = spawn->argv,
                                       .environment = environment,
                                       .cwd = spawn->cwd,
                                       .in_fd = in_fd,
                                       .out_fd = log_fd,
                                       .err_fd = log_fd,
                                       .own_session = true,
                                       .dies_with_us = spawn->dies_with_us,
                                       .holds_hup = spawn->holds_hup,
                                       .as_user = spawn->as_other && stack->as_other,
                                       .uid = stack->uid,
                                       .gid = stack->gid};
    int rc = environment ? kiln_launch(&launch, ret, err)
                         : kiln_fail(err, KILN_NO_MEMORY, "no memory to start %s", spawn->name);
    free(environment);
    close(log_fd);
    return rc;
}

int kiln_process_start(const struct kiln_stack *stack, const struct kiln_spawn *spawn, pid_t *ret,
                       struct kiln_error *err)
{
    char path[PATH_MAX], text[24];
    pid_t pid = 0;
    int rc = launch(stack, spawn, -1, &pid, err);
    snprintf(text, sizeof text, "%ld\n", (long)pid);
    if (rc == 0 && (rc = kiln_replace(pid_path(stack, spawn->name, path), text, 0644, err)) != 0) {
        kill(pid, SIGTERM); /* nobody would find it again */
        (void)kiln_process_wait_gone(pid, 5);
    }
    if (rc == 0)
        *ret = pid;
    return rc;
}

/* A file without a name that holds text, read from the start. */
static int input_file(const char *text)
{
    FILE *file = tmpfile();
    if (!file)
        return -1;
    bool ok = fputs(text, file) >= 0 && fflush(file) == 0;
    int fd = ok ? dup(fileno(file)) : -1;
    fclose(file);
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int kiln_process_run(const struct kiln_stack *stack, const struct kiln_spawn *spawn,
                     const char *input, double limit_s, struct kiln_error *err)
{
    int in_fd = input ? input_file(input) : -1;
    if (input && in_fd < 0)
        return kiln_fail(err, KILN_IO, "open the input of %s: %s", spawn->name, strerror(errno));
    struct kiln_child child = {.name = spawn->argv[0], .own_session = true};
    int rc = launch(stack, spawn, in_fd, &child.pid, err);
    if (in_fd >= 0)
        close(in_fd);
    return rc ? rc : kiln_child_end(&child, limit_s, err);
}

void kiln_process_tail(const struct kiln_cli *cli, const struct kiln_stack *stack, const char *name)
{
    char path[PATH_MAX], line[LINE_BYTES], shown[LINE_BYTES];
    FILE *file = fopen(kiln_process_log(stack, name, path), "re");
    if (!file)
        return;
    kiln_warn(cli, "the end of %s:", path);
    kiln_seek_lines(file, TAIL_LINES);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        fprintf(stderr, "      | %s\n", kiln_safe_line(line, shown, sizeof shown));
    }
    fclose(file);
}

int kiln_process_ready(const struct kiln_stack *stack, const char *name, pid_t pid, int limit_s,
                       kiln_process_probe *probe, void *arg, struct kiln_error *err)
{
    bool ready = false;
    int rc = probe(arg, &ready, err);
    for (int64_t until = kiln_clock_ms() + limit_s * 1000LL; rc == 0 && !ready;) {
        if (!kiln_process_alive(pid)) {
            kiln_process_forget(stack, name);
            return kiln_fail(err, KILN_UNAVAILABLE, "%s ended while it was starting", name);
        }
        if (kiln_clock_ms() > until)
            return kiln_fail(err, KILN_TIMEOUT,
                             "%s was not ready within %d s; its log is %s/log/%s.log", name,
                             limit_s, stack->dir, name);
        kiln_sleep_s(0.02);
        rc = probe(arg, &ready, err);
    }
    return rc;
}

void kiln_stack_say(const struct kiln_cli *cli, const char *part, const char *fmt, ...)
{
    char text[KILN_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    kiln_say(cli, "%-18s %s", part, text);
}

int kiln_process_up(const struct kiln_stack *stack, const struct kiln_cli *cli,
                    const struct kiln_spawn *spawn, pid_t pid, int limit_s,
                    kiln_process_probe *probe, void *arg, struct kiln_error *err)
{
    bool runs = pid != 0;
    int rc = runs ? 0 : kiln_process_start(stack, spawn, &pid, err);
    if (rc == 0)
        rc = kiln_process_ready(stack, spawn->name, pid, limit_s, probe, arg, err);
    if (rc)
        kiln_process_tail(cli, stack, spawn->name);
    else
        kiln_stack_say(cli, spawn->name, "%s (pid %ld)",
                       runs          ? "runs"
                       : spawn->said ? spawn->said
                                     : "started",
                       (long)pid);
    return rc;
}

pid_t kiln_worker_find(const struct kiln_stack *stack, const char *name, const char *id,
                       const char *device)
{
    char called[KILN_PROCESS_NAME_MAX + 8], on[64];
    const char *marks[5] = {"kiln-worker\n", called};
    const bool stacks = kiln_stack_worker_number(name) >= 0;
    int count = 2;
    if (id || !stacks)
        snprintf(called, sizeof called, "--id\n%s\n", id ? id : name);
    else
        snprintf(called, sizeof called, "--id\n");
    snprintf(on, sizeof on, "--device\n%s\n", device ? device : "");
    if (stacks) /* another stack of this machine has one as well */
        marks[count++] = stack->conf;
    if (device)
        marks[count++] = on;
    return kiln_process_find(stack, name, marks);
}
