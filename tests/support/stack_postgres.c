/* stack_postgres.c - a Postgres cluster for a test, made by initdb once and then copied.
 *
 * initdb takes a second, a copy a tenth of it.  The copy in $BUILD belongs to whoever builds; it is
 * made under a lock, into another name first, so that tests may run side by side.
 */
#include "tests/support/stack_postgres.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/network.h"
#include "tests/support/process.h"

void kiln_test_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("test stack: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

const char *kiln_test_postgres_program(const char *name, char out[256])
{
    char pattern[64];
    glob_t found = {0};
    snprintf(pattern, sizeof pattern, "/usr/lib/postgresql/*/bin/%s", name);
    if (glob(pattern, 0, NULL, &found) == 0) /* sorted: the newest last */
        snprintf(out, 256, "%s", found.gl_pathv[found.gl_pathc - 1]);
    else
        snprintf(out, 256, "%s", name);
    globfree(&found);
    return out;
}

static const struct passwd *postgres_user(void)
{
    const struct passwd *user = getpwnam("postgres");
    return user ? user : getpwnam("nobody");
}

void kiln_test_drop_root(void)
{
    if (geteuid() != 0)
        return;
    const struct passwd *user = postgres_user();
    if (!user || setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)
        kiln_test_die("cannot become an unprivileged user for Postgres");
}

void kiln_test_command(bool as_postgres, const char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (as_postgres)
            kiln_test_drop_root();
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
        kiln_test_die("%s failed", argv[0]);
}

static void init(const char *data)
{
    char program[256];
    kiln_test_postgres_program("initdb", program);
    kiln_test_command(true, (const char *const[]){program, "-D", data, "-U", "kiln", "-A", "trust",
                                                  "-E", "UTF8", "--locale=C", "--no-sync", NULL});
}

/* "" when the test was not started by the runner. */
static void template_path(char *out, size_t size)
{
    if (!kiln_test_built("pgtemplate", out, size))
        out[0] = '\0';
}

static void give_to_postgres(const char *path)
{
    const struct passwd *user = postgres_user();
    char owner[64];
    if (geteuid() != 0 || !user)
        return;
    snprintf(owner, sizeof owner, "%u:%u", (unsigned)user->pw_uid, (unsigned)user->pw_gid);
    kiln_test_command(false, (const char *const[]){"chown", "-R", owner, path, NULL});
}

/* Makes the template from a fresh cluster, unless another test was faster. */
static void keep(const char *data, const char *template)
{
    char lock[300], half[300];
    snprintf(lock, sizeof lock, "%s.lock", template);
    snprintf(half, sizeof half, "%s.%d", template, (int)getpid());
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        return; /* only slower */
    if (access(template, F_OK) != 0) {
        kiln_test_command(false, (const char *const[]){"cp", "-a", data, half, NULL});
        if (rename(half, template) != 0)
            kiln_test_command(false, (const char *const[]){"rm", "-rf", half, NULL});
    }
    close(fd);
}

static void fill(const char *data)
{
    char template[256];
    template_path(template, sizeof template);
    if (template[0] && access(template, F_OK) == 0) {
        kiln_test_command(false, (const char *const[]){"cp", "-a", template, data, NULL});
        give_to_postgres(data);
        return;
    }
    kiln_test_command(false, (const char *const[]){"mkdir", "-m", "700", data, NULL});
    give_to_postgres(data);
    init(data);
    if (template[0])
        keep(data, template);
}

/* initdb lets in the machine itself and nobody else. */
static void let_rooms_in(const char *data)
{
    char path[200];
    snprintf(path, sizeof path, "%s/pg_hba.conf", data);
    FILE *file = fopen(path, "ae");
    if (!file || fputs("host all all 10.231.0.0/16 trust\n", file) < 0 || fclose(file) != 0)
        kiln_test_die("cannot write %s", path);
}

void kiln_test_postgres_data(const struct kiln_test_stack *stack)
{
    char data[160];
    snprintf(data, sizeof data, "%s/postgres", stack->dir);
    fill(data);
    if (test_network_listen() == INADDR_ANY)
        let_rooms_in(data);
}

char *kiln_test_postgres_log(const struct kiln_test_stack *stack)
{
    char path[300];
    snprintf(path, sizeof path, "%s/postgres.log", stack->dir);
    FILE *file = fopen(path, "re");
    long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *text = size > 0 ? calloc(1, (size_t)size + 1) : NULL;
    if (!text || fseek(file, 0, SEEK_SET) != 0 || fread(text, 1, (size_t)size, file) == 0)
        kiln_test_die("cannot read %s", path);
    fclose(file);
    return text;
}
