/* socket_dir.c - the folders for sockets outside DIR.
 *
 * A folder's name is a hash of DIR, so the folder also has DIR itself, in a file "of".  Releases
 * before November 2026 wrote none; their folders count as unused if no server answers there.  A
 * folder with Postgres' data is never removed.  Removing another by mistake loses nothing: `up`
 * makes it anew.
 */
#include "scheduler/cli/stack/stack.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/cli/core/paths.h"
#include "schemas/digest.h"
#include "storage/formats/replace.h"

#define SIDE_OF_ROOT "/var/lib/kiln/stack-"
#define SIDE_OF_USERS "/var/tmp/kiln-"
#define MARK "of"
#define YOUNG_S 3600   /* an `up` that has not written its stack.json yet is younger */
#define SILENT_S 86400 /* nothing was made or removed in one without a mark for so long */

/* What a stack leaves in one, the folders last. */
static const char *const parts[] = {"redis/redis.sock", "postgres/.s.PGSQL.5432",
                                    "postgres/.s.PGSQL.5432.lock", "redis", "postgres"};
#define PARTS (sizeof parts / sizeof *parts)
#define SOCKETS 2 /* of them */
#define HASH 12   /* digits at the end of a folder's name */

static void name_of(const char *dir, char out[PATH_MAX])
{
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[HASH + 1];
    kiln_sha256(dir, strlen(dir), digest);
    kiln_hex(digest, HASH / 2, hex);
    if (geteuid() == 0)
        snprintf(out, PATH_MAX, SIDE_OF_ROOT "%s", hex);
    else
        snprintf(out, PATH_MAX, SIDE_OF_USERS "%u-%s", (unsigned)geteuid(), hex);
}

/* Makes path ours, or refuses: /var/tmp is everybody's. */
static int own_dir(const char *path, struct kiln_error *err)
{
    if (mkdir(path, 0711) == 0)
        return chmod(path, 0711) == 0
                   ? 0
                   : kiln_fail(err, KILN_IO, "chmod %s: %s", path, strerror(errno));
    struct stat st;
    if (errno != EEXIST)
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "make directory %s: %s", path,
                         strerror(errno));
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return kiln_fail(err, KILN_DENIED, "%s is not a directory of this user; remove it", path);
    return 0;
}

int kiln_socket_dir_open(const char *dir, char out[PATH_MAX], struct kiln_error *err)
{
    char mark[PATH_MAX];
    struct kiln_error ignored; /* unmarked it works as well */
    if (geteuid() == 0)
        (void)mkdir("/var/lib/kiln", 0755); /* a failure shows in the next line */
    name_of(dir, out);
    int rc = own_dir(out, err);
    if (rc == 0 && access(kiln_join(mark, out, MARK), F_OK) != 0)
        (void)!kiln_replace(mark, dir, 0600, &ignored);
    return rc;
}

bool kiln_socket_dir_is(const char *path)
{
    return strncmp(path, SIDE_OF_ROOT, strlen(SIDE_OF_ROOT)) == 0 ||
           strncmp(path, SIDE_OF_USERS, strlen(SIDE_OF_USERS)) == 0;
}

/* --- those whose stack is gone ---------------------------------------------------------------- */

/* Whether the folder says which DIR it is of, and that DIR has no use for it. */
static bool is_unnamed(const char *side)
{
    char dir[PATH_MAX], path[PATH_MAX];
    struct stat st;
    const char *sockets = "";
    const int fd = kiln_open_below(side, MARK);
    const ssize_t len = fd >= 0 ? read(fd, dir, PATH_MAX - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (len <= 0)
        return false;
    dir[len] = '\0';
    name_of(dir, path);
    if (strcmp(path, side) != 0) /* not its own mark */
        return false;
    if (stat(dir, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    if (lstat(side, &st) != 0 || st.st_mtime > time(NULL) - YOUNG_S)
        return false;
    json_t *state = json_load_file(kiln_join(path, dir, "stack.json"), 0, NULL);
    const bool other =
        json_unpack(state, "{s:s}", "sockets", &sockets) == 0 && strcmp(sockets, side) != 0;
    json_decref(state);
    return other; /* without a stack.json nobody knows */
}

/* Whether a process listens there, or it cannot be said that none does. */
static bool is_used(const char *side, const char *socket_name)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (snprintf(to.sun_path, sizeof to.sun_path, "%s/%s", side, socket_name) >=
        (int)sizeof to.sun_path)
        return true;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true;
    const bool refused = connect(fd, (struct sockaddr *)&to, sizeof to) != 0 &&
                         (errno == ECONNREFUSED || errno == ENOENT);
    close(fd);
    return !refused;
}

static bool is_silent_below(const char *side, const char *below)
{
    char path[PATH_MAX], at[PATH_MAX], part[300];
    struct stat st;
    DIR *folder = opendir(kiln_join(path, side, below));
    bool silent = folder || errno == ENOENT;
    for (const struct dirent *entry; silent && folder && (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, "..") == 0)
            continue;
        bool known = strcmp(entry->d_name, ".") == 0; /* the folder itself */
        snprintf(part, sizeof part, "%s%s%s", below, below[0] ? "/" : "", entry->d_name);
        for (size_t i = 0; i < PARTS; i++)
            known = known || strcmp(part, parts[i]) == 0;
        silent = known && lstat(kiln_join(at, path, entry->d_name), &st) == 0 &&
                 st.st_mtime < time(NULL) - SILENT_S;
    }
    if (folder)
        closedir(folder);
    return silent;
}

/* One without a mark, of a name as only we make it: it holds nothing but a stack's parts, and for a
 * day none came or went. */
static bool is_silent(const char *side)
{
    char mark[PATH_MAX];
    struct stat st;
    const size_t length = strlen(side);
    return strspn(side + length - HASH, "0123456789abcdef") == HASH &&
           lstat(kiln_join(mark, side, MARK), &st) != 0 && errno == ENOENT &&
           is_silent_below(side, "") && is_silent_below(side, "redis") &&
           is_silent_below(side, "postgres");
}

static bool is_abandoned(const char *side)
{
    char data[PATH_MAX];
    struct stat st;
    if (lstat(side, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        lstat(kiln_join(data, side, "data"), &st) == 0 || errno != ENOENT)
        return false;
    if (!is_unnamed(side) && !is_silent(side))
        return false;
    for (size_t i = 0; i < SOCKETS; i++)
        if (is_used(side, parts[i]))
            return false;
    return true;
}

/* A folder with other files in it stays. */
static bool remove_side(const char *side)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < PARTS; i++)
        (void)remove(kiln_join(path, side, parts[i]));
    struct stat st;
    for (size_t i = SOCKETS + 1; i < PARTS; i++)
        if (lstat(kiln_join(path, side, parts[i]), &st) == 0)
            return false; /* with its mark, so that the next sweep knows it again */
    (void)remove(kiln_join(path, side, MARK));
    return rmdir(side) == 0;
}

int kiln_socket_dirs_sweep(void)
{
    char base[PATH_MAX], side[PATH_MAX];
    int removed = 0;
    name_of("", base);
    char *last = strrchr(base, '/');
    *last = '\0';
    const char *begins = last + 1;
    const size_t prefix = strlen(begins) - HASH;
    DIR *folder = opendir(base);
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, begins, prefix) != 0 || strlen(entry->d_name) != prefix + HASH)
            continue;
        kiln_join(side, base, entry->d_name);
        removed += is_abandoned(side) && remove_side(side);
    }
    if (folder)
        closedir(folder);
    return removed;
}
