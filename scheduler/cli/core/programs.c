/* programs.c - see programs.h.
 *
 * What a program complains about goes into a file without a name: a pipe would have to be read
 * while the program runs.  Its last line is usually the reason.
 */
#include "scheduler/cli/core/programs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/core/paths.h"
#include "storage/daemon/outage.h"

#define TAIL_BYTES 2048
#define DAY_S (24.0 * 3600)
#define POSTGRES_ROOT "/usr/lib/postgresql"

extern char **environ;

int kiln_program_become(const struct kiln_cli *cli, const char *name, char **argv)
{
    char dir[PATH_MAX], path[PATH_MAX], *was = argv[0];
    struct kiln_error err;
    if (kiln_program_dir(dir, &err))
        return kiln_report(cli, &err);
    argv[0] = kiln_join(path, dir, name);
    signal(SIGPIPE, SIG_DFL); /* which main.c ignores, and a program inherits */
    execv(path, argv);
    kiln_warn(cli, "start %s: %s", path, strerror(errno));
    argv[0] = was;
    return EX_UNAVAILABLE;
}

bool kiln_program_find(const char *name, char *out)
{
    const char *path = getenv("PATH");
    char places[4096];
    snprintf(places, sizeof places, "%s:/usr/local/bin:/usr/bin:/bin:/usr/sbin", path ? path : "");
    for (char *save = NULL, *dir = strtok_r(places, ":", &save); dir;
         dir = strtok_r(NULL, ":", &save))
        if (access(kiln_join(out, dir, name), X_OK) == 0)
            return true;
    return false;
}

bool kiln_postgres_program(const char *name, int major, char *out)
{
    char program[PATH_MAX], bin[PATH_MAX];
    int best = 0;
    DIR *dir = opendir(POSTGRES_ROOT);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        int version = atoi(entry->d_name);
        if (version <= best || (major && version != major))
            continue;
        snprintf(bin, sizeof bin, POSTGRES_ROOT "/%s/bin", entry->d_name);
        if (access(kiln_join(program, bin, name), X_OK) != 0)
            continue;
        best = version;
        snprintf(out, PATH_MAX, "%s", program);
    }
    if (dir)
        closedir(dir);
    return best || kiln_program_find(name, out); /* another distribution's place */
}

/* In the child, up to the exec; a failure is reported through the pipe as errno. */
static void become(const struct kiln_launch *launch, int null_fd, int report_fd)
{
    const int fds[] = {launch->in_fd, launch->out_fd, launch->err_fd};
    sigset_t blocked;
    sigemptyset(&blocked);
    if (launch->holds_hup)
        sigaddset(&blocked, SIGHUP);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    signal(SIGPIPE, SIG_DFL);
    bool ok = !launch->own_session || setsid() >= 0;
    for (int i = 0; i < 3; i++)
        ok = ok && dup2(fds[i] >= 0 ? fds[i] : null_fd, i) >= 0;
    if (ok && launch->as_user)
        ok = setgroups(0, NULL) == 0 && setgid(launch->gid) == 0 && setuid(launch->uid) == 0;
    if (ok && launch->dies_with_us) /* after setuid, which would clear it */
        ok = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    for (int fd = STDERR_FILENO + 1; fd < 256; fd++) /* the other ends of pipes among them */
        if (fd != report_fd)
            close(fd);
    if (ok && (!launch->cwd || chdir(launch->cwd) == 0))
        execve(launch->argv[0], (char *const *)launch->argv,
               launch->environment ? launch->environment : environ);
    int failure = errno;
    (void)!write(report_fd, &failure, sizeof failure);
    _exit(127);
}

int kiln_launch(const struct kiln_launch *launch, pid_t *ret, struct kiln_error *err)
{
    int report[2] = {-1, -1}, null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid = -1;
    fflush(NULL);
    if (null_fd >= 0 && pipe2(report, O_CLOEXEC) == 0)
        pid = fork();
    if (pid == 0)
        become(launch, null_fd, report[1]);
    int failure = pid < 0 ? errno : 0;
    if (report[0] >= 0)
        close(report[1]);
    if (pid > 0 && read(report[0], &failure, sizeof failure) == sizeof failure)
        waitpid(pid, NULL, 0);
    if (report[0] >= 0)
        close(report[0]);
    if (null_fd >= 0)
        close(null_fd);
    if (failure)
        return kiln_fail(err, failure == ENOENT ? KILN_NOT_FOUND : KILN_IO, "start %s: %s",
                         launch->argv[0], strerror(failure));
    *ret = pid;
    return 0;
}

int kiln_child_start(struct kiln_child *child, char *const *argv, char *const *environment,
                     int in_fd, int out_fd, struct kiln_error *err)
{
    const char *slash = strrchr(argv[0], '/');
    *child = (struct kiln_child){.name = slash ? slash + 1 : argv[0], .complaints = tmpfile()};
    if (!child->complaints)
        return kiln_fail(err, KILN_IO, "make a temporary file: %s", strerror(errno));
    const struct kiln_launch launch = {.argv = (const char *const *)argv,
                                       .environment = environment,
                                       .in_fd = in_fd,
                                       .out_fd = out_fd,
                                       .err_fd = fileno(child->complaints),
                                       .dies_with_us = true};
    int rc = kiln_launch(&launch, &child->pid, err);
    if (rc)
        kiln_child_drop(child);
    return rc;
}

void kiln_seek_lines(FILE *file, long lines)
{
    char piece[4096];
    long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    for (long at = end; at > 0;) {
        long from = at > (long)sizeof piece ? at - (long)sizeof piece : 0;
        (void)fseek(file, from, SEEK_SET);
        size_t len = fread(piece, 1, (size_t)(at - from), file);
        for (size_t i = len; i > 0; i--)
            if (piece[i - 1] == '\n' && from + (long)i < end && lines-- <= 1) {
                (void)fseek(file, from + (long)i, SEEK_SET);
                return;
            }
        at = from;
    }
    rewind(file);
}

void kiln_last_line(FILE *file, char *out, size_t size)
{
    char text[TAIL_BYTES + 1];
    if (fseek(file, -TAIL_BYTES, SEEK_END) != 0)
        rewind(file);
    size_t len = fread(text, 1, TAIL_BYTES, file);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' '))
        len--;
    text[len] = '\0';
    const char *line = strrchr(text, '\n');
    snprintf(out, size, "%.*s", (int)size - 1, line ? line + 1 : text);
}

void kiln_child_drop(struct kiln_child *child)
{
    if (child->pid > 0) {
        kill(child->own_session ? -child->pid : child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (child->complaints)
        fclose(child->complaints);
    *child = (struct kiln_child){0};
}

/* The child has ended with this status. */
static int report_end(struct kiln_child *child, int status, struct kiln_error *err)
{
    char words[TAIL_BYTES + 1] = "";
    int rc = 0;
    child->pid = 0;
    if (child->complaints)
        kiln_last_line(child->complaints, words, sizeof words);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        rc = kiln_fail(err, KILN_IO, "%s ended with status %d%s%s", child->name,
                       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                       words[0] ? ": " : "", words);
    kiln_child_drop(child);
    return rc;
}

/* Between two looks at a child: longer every time. */
static void nap(uint32_t looks)
{
    kiln_sleep_s(kiln_backoff(looks, 1, 50) / 1e3);
}

int kiln_child_end(struct kiln_child *child, double limit_s, struct kiln_error *err)
{
    int status = 0;
    double until = kiln_now_s() + limit_s;
    for (uint32_t looks = 1; waitpid(child->pid, &status, WNOHANG) == 0; nap(looks++)) {
        if (kiln_now_s() <= until)
            continue;
        kiln_fail(err, KILN_TIMEOUT, "%s did not end within %.0f s", child->name, limit_s);
        kiln_child_drop(child);
        return err->code;
    }
    return report_end(child, status, err);
}

/* Bytes that the child has read and written until now; false: the kernel does not say. */
static bool moved_bytes(pid_t pid, unsigned long long *ret)
{
    char path[64];
    unsigned long long in = 0, out = 0;
    snprintf(path, sizeof path, "/proc/%ld/io", (long)pid);
    FILE *file = fopen(path, "re");
    bool read = file && fscanf(file, "rchar: %llu wchar: %llu", &in, &out) == 2;
    if (file)
        fclose(file);
    *ret = in + out;
    return read;
}

int kiln_child_end_moving(struct kiln_child *child, double still_s, struct kiln_error *err)
{
    int status = 0;
    unsigned long long before = 0, bytes;
    double moved_s = kiln_now_s(), until = moved_s + DAY_S;
    for (uint32_t looks = 1; waitpid(child->pid, &status, WNOHANG) == 0; nap(looks++)) {
        double now_s = kiln_now_s();
        if (!moved_bytes(child->pid, &bytes) || bytes != before)
            moved_s = now_s;
        before = bytes;
        if (now_s - moved_s <= still_s && now_s <= until)
            continue;
        kiln_fail(err, KILN_TIMEOUT, "%s has made no progress for %.0f s", child->name,
                  now_s - moved_s);
        kiln_child_drop(child);
        return err->code;
    }
    return report_end(child, status, err);
}
