/* process.c - starting, finding and ending the processes of a stack.
 *
 * They are children only as long as `kiln up` waits for them; afterwards init owns them and all
 * that is left is the pid file, which is believed only together with /proc/PID/cmdline.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler/cli/core/replace.h"
#include "scheduler/cli/core/shown.h"
#include "scheduler/cli/stack/stack.h"
#include "schemas/clock.h"
#include "storage/daemon/outage.h"
#include "storage/daemon/proc_stat.h"

#define TAIL_LINES 12
#define TAIL_BYTES 4096
#define CMDLINE_MAX 16384
#define EXEC_LIMIT_MS 1000
#define KILLED_LIMIT_S 10

extern char **environ;

/* DIR/part/name.suffix; "" if it does not fit, which no call accepts. */
static char *part_path(const struct kiln_stack *stack, const char *part, const char *name,
                       const char *suffix, char out[PATH_MAX])
{
    if (snprintf(out, PATH_MAX, "%s/%s/%s.%s", stack->dir, part, name, suffix) >= PATH_MAX)
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

/* A process whose command line holds every mark, of which there is at least one. */
static bool is_ours(pid_t pid, const char *const *marks)
{
    char text[CMDLINE_MAX];
    read_command(pid, text);
    for (; *marks; marks++)
        if (!strstr(text, *marks))
            return false;
    return true;
}

pid_t kiln_process_find(const struct kiln_stack *stack, const char *name, const char *const *marks)
{
    char path[PATH_MAX];
    FILE *file = fopen(part_path(stack, "run", name, "pid", path), "re");
    if (!file)
        return 0;
    long pid = 0;
    bool read = fscanf(file, "%ld", &pid) == 1 && pid > 1;
    fclose(file);
    bool found = read && is_ours((pid_t)pid, marks);
    if (found && kiln_proc_killed((pid_t)pid)) /* on a busy machine it looks alive for a while */
        found = !kiln_process_wait_gone((pid_t)pid, KILLED_LIMIT_S);
    if (!found)
        unlink(path);
    return found ? (pid_t)pid : 0;
}

void kiln_process_forget(const struct kiln_stack *stack, const char *name)
{
    char path[PATH_MAX];
    unlink(part_path(stack, "run", name, "pid", path));
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

/* The environment without KILN_*; NULL when memory is short. */
static char **clean_environment(void)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **clean = calloc(count + 1, sizeof *clean);
    for (size_t i = 0, kept = 0; clean && i < count; i++)
        if (strncmp(environ[i], "KILN_", 5) != 0)
            clean[kept++] = environ[i];
    return clean;
}

/* In the child, up to the exec; any failure is reported through the pipe as errno. */
static void become(const struct kiln_stack *stack, const struct kiln_spawn *spawn, int log_fd,
                   int in_fd, char *const *environment, int report_fd)
{
    setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    bool ok = dup2(in_fd, STDIN_FILENO) >= 0 && dup2(log_fd, STDOUT_FILENO) >= 0 &&
              dup2(log_fd, STDERR_FILENO) >= 0;
    if (ok && spawn->as_other && stack->as_other)
        ok = setgroups(0, NULL) == 0 && setgid(stack->gid) == 0 && setuid(stack->uid) == 0;
    if (ok && spawn->dies_with_us) /* after setuid, which would clear it */
        ok = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    if (ok && (!spawn->cwd || chdir(spawn->cwd) == 0))
        execve(spawn->argv[0], (char *const *)spawn->argv, environment);
    int failure = errno;
    (void)!write(report_fd, &failure, sizeof failure);
    _exit(127);
}

/* Forks and waits for the exec to succeed; *ret_pid is the child. */
static int launch(const struct kiln_stack *stack, const struct kiln_spawn *spawn, int in_fd,
                  pid_t *ret_pid, struct kiln_error *err)
{
    char log[PATH_MAX];
    int log_fd = open(part_path(stack, "log", spawn->name, "log", log),
                      O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log_fd < 0)
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "open %s: %s", log,
                         strerror(errno));
    int report[2];
    char **environment = clean_environment();
    if (!environment || pipe2(report, O_CLOEXEC) != 0) {
        free(environment);
        close(log_fd);
        return kiln_fail(err, KILN_NO_MEMORY, "start %s: %s", spawn->name, strerror(errno));
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become(stack, spawn, log_fd, in_fd, environment, report[1]);
    int failure = pid < 0 ? errno : 0;
    close(report[1]);
    if (pid > 0 && read(report[0], &failure, sizeof failure) == sizeof failure)
        waitpid(pid, NULL, 0);
    close(report[0]);
    close(log_fd);
    free(environment);
    if (failure)
        return kiln_fail(err, failure == ENOENT ? KILN_NOT_FOUND : KILN_IO, "start %s: %s",
                         spawn->argv[0], strerror(failure));
    *ret_pid = pid;
    return 0;
}

static int write_pid_file(const struct kiln_stack *stack, const char *name, pid_t pid,
                          struct kiln_error *err)
{
    char path[PATH_MAX], text[24];
    snprintf(text, sizeof text, "%ld\n", (long)pid);
    return kiln_replace(part_path(stack, "run", name, "pid", path), text, 0644, err);
}

int kiln_process_start(const struct kiln_stack *stack, const struct kiln_spawn *spawn, pid_t *ret,
                       struct kiln_error *err)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0)
        return kiln_fail(err, KILN_IO, "open /dev/null: %s", strerror(errno));
    pid_t pid = 0;
    int rc = launch(stack, spawn, null_fd, &pid, err);
    close(null_fd);
    if (rc == 0 && (rc = write_pid_file(stack, spawn->name, pid, err)) != 0) {
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
    int in_fd = input ? input_file(input) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in_fd < 0)
        return kiln_fail(err, KILN_IO, "open the input of %s: %s", spawn->name, strerror(errno));
    pid_t pid = 0;
    int rc = launch(stack, spawn, in_fd, &pid, err);
    close(in_fd);
    if (rc)
        return rc;
    int status = 0;
    double until = kiln_now_s() + limit_s;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (kiln_now_s() > until) {
            kill(-pid, SIGKILL);
            waitpid(pid, NULL, 0);
            return kiln_fail(err, KILN_TIMEOUT, "%s did not end within %.0f s", spawn->argv[0],
                             limit_s);
        }
        kiln_sleep_s(0.02);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return kiln_fail(err, KILN_IO, "%s ended with status %d", spawn->argv[0],
                     WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void kiln_process_tail(const struct kiln_cli *cli, const struct kiln_stack *stack, const char *name)
{
    char path[PATH_MAX], text[TAIL_BYTES + 1];
    FILE *file = fopen(part_path(stack, "log", name, "log", path), "re");
    if (!file)
        return;
    if (fseek(file, -TAIL_BYTES, SEEK_END) != 0)
        rewind(file);
    size_t len = fread(text, 1, TAIL_BYTES, file);
    fclose(file);
    text[len] = '\0';
    while (len > 0 && text[len - 1] == '\n')
        text[--len] = '\0';
    const char *start = text + len;
    for (int lines = 0; start > text; start--)
        if (start[-1] == '\n' && ++lines == TAIL_LINES)
            break;
    kiln_warn(cli, "the end of %s:", path);
    for (const char *line = start; *line;) {
        size_t n = strcspn(line, "\n");
        char shown[TAIL_BYTES + 1];
        bool more = line[n] == '\n';
        text[line - text + (ptrdiff_t)n] = '\0';
        fprintf(stderr, "      | %s\n", kiln_shown_line(line, shown, sizeof shown));
        line += n + more;
    }
}
