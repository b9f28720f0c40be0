/* stack.c - the directory of an embedded stack: its layout, its lock, who owns what in it.
 *
 * Postgres refuses to run as root, so root starts it as the user postgres (or nobody), who must be
 * able to reach its data and its socket.  Where DIR is below a directory that this user may not
 * enter (/root), and where DIR is too deep for a unix socket's 107 bytes, a side directory takes
 * them: /var/lib/kiln/stack-HASH of root, /var/tmp/kiln-UID-HASH of others (sockets alone).  HASH
 * is that of DIR, so the same DIR finds it again, and stack.json remembers it.
 */
#include "scheduler/cli/stack/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/daemon/config_file.h"
#include "storage/formats/replace.h"

#define SOCKET_PATH_MAX 107 /* sun_path without its NUL */
#define LOCK_WAIT_S 120

void kiln_stack_worker_name(int number, char out[KILN_PROCESS_NAME_MAX])
{
    snprintf(out, KILN_PROCESS_NAME_MAX, "worker-%d", number);
}

int kiln_stack_worker_number(const char *name)
{
    int number, end = 0;
    return sscanf(name, "worker-%d%n", &number, &end) == 1 && end > 0 && name[end] == '\0' &&
                   number >= 0
               ? number
               : -1;
}

void kiln_stack_reload(struct kiln_cli *cli, const char *path)
{
    struct kiln_config *config = NULL;
    struct kiln_error err;
    if (kiln_config_load(path, &config, NULL, &err) != 0)
        return;
    kiln_config_free(cli->config);
    cli->config = config;
}

int kiln_stack_make_dir(const char *path, mode_t mode, struct kiln_error *err)
{
    if (mkdir(path, mode) == 0)
        return chmod(path, mode) == 0 /* whatever the umask was */
                   ? 0
                   : kiln_fail(err, KILN_IO, "chmod %s: %s", path, strerror(errno));
    struct stat st;
    if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    int code = errno == ENOSPC ? KILN_FULL : errno == EACCES ? KILN_DENIED : KILN_IO;
    return kiln_fail(err, code, "make directory %s: %s", path,
                     strerror(errno == EEXIST ? ENOTDIR : errno));
}

static const char *const parts[] = {"run", "log", "redis", "store"};

/* The stack's own directories.  0711 where Postgres has a user of its own, who passes through to
 * its socket: nobody lists. */
static int make_layout(const struct kiln_stack *stack, struct kiln_error *err)
{
    char path[PATH_MAX];
    struct stat at, st;
    int rc = kiln_stack_make_dir(stack->dir, 0711, err);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && rc == 0; i++) {
        rc = kiln_stack_make_dir(kiln_join(path, stack->dir, parts[i]),
                                 i == 0 && stack->as_other ? 0711 : 0700, err);
        if (rc == 0 && (lstat(path, &at) != 0 || stat(path, &st) != 0))
            rc = kiln_fail(err, KILN_IO, "%s: %s", path, strerror(errno));
        if (rc || (at.st_uid == geteuid() && st.st_uid == geteuid()))
            continue;
        /* Another user has made it, or has linked to it, and can fill it with links and files. */
        const uid_t uid = at.st_uid == geteuid() ? st.st_uid : at.st_uid;
        const struct passwd *owner = getpwuid(uid);
        rc = kiln_fail(err, KILN_DENIED,
                       "%s belongs to %s (user %u), who could write anything there; remove it, or "
                       "choose another --dir",
                       path, owner ? owner->pw_name : "an unknown user", (unsigned)uid);
    }
    return rc;
}

/* Makes dir, and as plain directories those above it that are missing. */
static int make_new(const char *dir, struct kiln_error *err)
{
    char above[PATH_MAX];
    size_t len = strlen(dir);
    while (len > 0 && dir[len - 1] == '/')
        len--;
    while (len > 0 && dir[len - 1] != '/')
        len--;
    if (len >= sizeof above)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: the path is too long", dir);
    memcpy(above, dir, len);
    above[len] = '\0';
    int rc = len > 0 ? kiln_make_path(above, err) : 0;
    return rc ? rc : kiln_stack_make_dir(dir, 0711, err);
}

/* The absolute path of a directory that may not exist yet. */
static int resolve(const char *dir, bool create, char out[PATH_MAX], bool *ret_made,
                   struct kiln_error *err)
{
    struct stat st;
    bool there = stat(dir, &st) == 0;
    *ret_made = !there && errno == ENOENT && create;
    if (*ret_made) {
        int rc = make_new(dir, err);
        if (rc)
            return rc;
    }
    if (there && !S_ISDIR(st.st_mode))
        return kiln_fail(err, create ? KILN_EXISTS : KILN_NOT_FOUND,
                         "%s is a file; --dir needs a directory", dir);
    char *real = realpath(dir, NULL);
    if (!real)
        return kiln_fail(err, errno == ENOENT ? KILN_NOT_FOUND : KILN_IO, "%s: %s", dir,
                         errno == ENOENT ? "there is no such directory" : strerror(errno));
    int len = snprintf(out, PATH_MAX, "%s", real);
    free(real);
    return len < PATH_MAX - 64 ? 0
                               : kiln_fail(err, KILN_BAD_INPUT, "%s: the path is too long", dir);
}

static int find_user(struct kiln_stack *stack, struct kiln_error *err)
{
    if (geteuid() != 0)
        return 0;
    static const char *const names[] = {"postgres", "nobody"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct passwd *user = getpwnam(names[i]);
        if (!user || user->pw_uid == 0)
            continue;
        stack->as_other = true;
        stack->uid = user->pw_uid;
        stack->gid = user->pw_gid;
        snprintf(stack->user, sizeof stack->user, "%s", names[i]);
        return 0;
    }
    return kiln_fail(err, KILN_CONFIG,
                     "Postgres does not run as root and there is neither a user "
                     "'postgres' nor 'nobody' to run it as");
}

/* Whether Postgres' user may enter dir: asked of the kernel by a child that has become that user.
 */
static bool user_reaches(const struct kiln_stack *stack, const char *dir)
{
    if (!stack->as_other)
        return true;
    pid_t child = fork();
    if (child < 0)
        return false;
    if (child == 0) {
        bool became = setgroups(0, NULL) == 0 && setgid(stack->gid) == 0 && setuid(stack->uid) == 0;
        _exit(became && chdir(dir) == 0 ? 0 : 1);
    }
    int status = 1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Decides where Postgres' data and the sockets are, unless stack.json knew. */
static int place(struct kiln_stack *stack, struct kiln_error *err)
{
    char side[PATH_MAX], path[PATH_MAX];
    bool reachable = user_reaches(stack, stack->dir);
    if (!stack->data[0]) {
        kiln_join(stack->data, stack->dir, "postgres");
        if (!reachable) {
            int rc = kiln_socket_dir_open(stack->dir, side, err);
            if (rc)
                return rc;
            kiln_join(stack->data, side, "data");
            /* For people who look for it; nothing reads the link. */
            (void)!symlink(stack->data, kiln_join(path, stack->dir, "postgres"));
        }
    }
    if (!stack->sockets[0]) {
        kiln_join(stack->sockets, stack->dir, "run");
        size_t longest = strlen(stack->sockets) + strlen("/postgres/.s.PGSQL.5432.lock");
        if (!reachable || longest > SOCKET_PATH_MAX)
            return kiln_socket_dir_open(stack->dir, stack->sockets, err);
    }
    return 0;
}

static void read_state(struct kiln_stack *stack)
{
    char path[PATH_MAX];
    json_t *state = json_load_file(kiln_join(path, stack->dir, "stack.json"), 0, NULL);
    const char *data = NULL, *sockets = NULL;
    json_t *devices = NULL;
    int gallery = 1; /* also in the file of an earlier release */
    if (state)
        (void)json_unpack(state, "{s?b}", "gallery", &gallery);
    stack->gallery = gallery != 0;
    if (state && json_unpack(state, "{s:i, s:s, s:s, s:o}", "workers", &stack->workers, "postgres",
                             &data, "sockets", &sockets, "devices", &devices) == 0) {
        snprintf(stack->data, sizeof stack->data, "%s", data);
        snprintf(stack->sockets, sizeof stack->sockets, "%s", sockets);
        size_t count = json_array_size(devices);
        for (size_t i = 0; i < count && i < KILN_STACK_DEVICES_MAX; i++) {
            const char *device = json_string_value(json_array_get(devices, i));
            if (device)
                snprintf(stack->devices[stack->device_count++], 32, "%s", device);
        }
    }
    json_decref(state);
    /* A directory that was moved or copied must not reach into its old place. */
    if (!kiln_socket_dir_is(stack->data))
        stack->data[0] = '\0';
    if (!kiln_socket_dir_is(stack->sockets))
        stack->sockets[0] = '\0';
}

int kiln_stack_save(const struct kiln_stack *stack, struct kiln_error *err)
{
    char path[PATH_MAX];
    kiln_join(path, stack->dir, "stack.json");
    json_t *devices = json_array();
    for (int i = 0; i < stack->device_count; i++)
        json_array_append_new(devices, json_string(stack->devices[i]));
    json_t *state =
        json_pack("{s:i, s:b, s:s, s:s, s:o}", "workers", stack->workers, "gallery", stack->gallery,
                  "postgres", stack->data, "sockets", stack->sockets, "devices", devices);
    json_t *before = json_load_file(path, 0, NULL);
    bool same = state && before && json_equal(state, before); /* a full disk is no obstacle then */
    int rc = same ? 0 : kiln_replace_json(path, state, err);
    json_decref(before);
    json_decref(state);
    return rc;
}

int kiln_stack_open(struct kiln_stack *stack, const char *dir, bool create, struct kiln_error *err)
{
    memset(stack, 0, sizeof *stack);
    stack->lock_fd = stack->workers = -1;
    int rc = resolve(dir, create, stack->dir, &stack->made, err);
    if (rc)
        return rc;
    kiln_join(stack->conf, stack->dir, "kiln.conf");
    if ((rc = kiln_program_dir(stack->bin, err)) != 0 || (rc = find_user(stack, err)) != 0)
        return rc;
    if (create && (rc = make_layout(stack, err)) != 0)
        return rc;
    read_state(stack);
    return place(stack, err);
}

static int open_lock(struct kiln_stack *stack, char path[PATH_MAX], struct kiln_error *err)
{
    char run[PATH_MAX];
    kiln_join(path, kiln_join(run, stack->dir, "run"), "lock");
    stack->lock_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (stack->lock_fd < 0 && errno == ENOENT)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no stack in %s", stack->dir);
    if (stack->lock_fd < 0)
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "open %s: %s", path,
                         strerror(errno));
    return 0;
}

bool kiln_stack_try_lock(struct kiln_stack *stack)
{
    char path[PATH_MAX];
    struct kiln_error err;
    if (open_lock(stack, path, &err))
        return false;
    if (flock(stack->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    kiln_stack_close(stack);
    return false;
}

int kiln_stack_lock(struct kiln_stack *stack, struct kiln_error *err)
{
    char path[PATH_MAX];
    int rc = open_lock(stack, path, err);
    if (rc)
        return rc;
    for (int tries = 0; flock(stack->lock_fd, LOCK_EX | LOCK_NB) != 0; tries++) {
        if (tries == LOCK_WAIT_S * 10)
            return kiln_fail(err, KILN_TIMEOUT,
                             "another `kiln up` or `kiln down` is running in %s (%s is locked)",
                             stack->dir, path);
        kiln_sleep_s(0.1);
    }
    return 0;
}

void kiln_stack_close(struct kiln_stack *stack)
{
    if (stack->lock_fd >= 0)
        close(stack->lock_fd);
    stack->lock_fd = -1;
}

void kiln_stack_unmake(const struct kiln_stack *stack)
{
    char path[PATH_MAX], run[PATH_MAX];
    if (!stack->made || access(stack->conf, F_OK) == 0)
        return;
    unlink(kiln_join(path, kiln_join(run, stack->dir, "run"), "lock"));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        rmdir(kiln_join(path, stack->dir, parts[i]));
    rmdir(stack->dir);
}
