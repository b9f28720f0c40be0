/* walk.c - lists a directory as an object store would: flat, in byte order of keys.
 *
 * Byte order of keys is not the order of names in one directory: "a.b" < "a/b" although "a" <
 * "a.b", because '.' < '/'.  Directories are therefore sorted as if their name ended in '/'.
 * One directory's names are in memory at a time for each level, never the whole store.  What
 * disappears while we walk is passed by: it was deleted, which is what the caller wants to know.
 */
#include "storage/objects/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/limits.h"
#include "schemas/room.h"

/* What every level needs. */
struct walk {
    int root_fd;
    const char *root;
    const char *prefix;
    size_t prefix_len;
    kiln_store_each *each;
    void *arg;
    struct kiln_error *err;
    char key[KILN_OBJECT_KEY_MAX + 2]; /* of the current entry */
};

struct names {
    char **items;
    size_t count, room;
};

static void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

/* Copies a name, with its '/' if it is a directory's. */
static int names_add(struct names *names, const char *name, bool is_dir)
{
    char **items = kiln_room(names->items, names->count, &names->room, sizeof *items);
    if (!items)
        return -1;
    names->items = items;
    size_t len = strlen(name);
    char *copy = malloc(len + 2);
    if (!copy)
        return -1;
    memcpy(copy, name, len);
    memcpy(copy + len, is_dir ? "/" : "", is_dir ? 2 : 1);
    names->items[names->count++] = copy;
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int fail_errno(const struct walk *walk, const char *what)
{
    int code = errno == ENOMEM ? KILN_NO_MEMORY : errno == EACCES ? KILN_DENIED : KILN_IO;
    return kiln_fail(walk->err, code, "%s %s/%s: %s", what, walk->root, walk->key, strerror(errno));
}

/* 1 directory, 0 regular file, -1 anything else (a link, a socket, gone). */
static int kind_of(int dir_fd, const struct dirent *entry)
{
    if (entry->d_type == DT_DIR)
        return 1;
    if (entry->d_type == DT_REG)
        return 0;
    struct stat st;
    if (entry->d_type != DT_UNKNOWN || fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
        return -1;
    return S_ISDIR(st.st_mode) ? 1 : S_ISREG(st.st_mode) ? 0 : -1;
}

/* All names of one directory that can be parts of keys. */
static int read_names(struct walk *walk, DIR *dir, struct names *names)
{
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry)
            return errno ? fail_errno(walk, "read directory") : KILN_OK;
        if (entry->d_name[0] == '.') /* no key has such a part: ours are .put-* */
            continue;
        int kind = kind_of(dirfd(dir), entry);
        if (kind >= 0 && names_add(names, entry->d_name, kind == 1))
            return kiln_fail(walk->err, KILN_NO_MEMORY, "list %s/%s: no memory", walk->root,
                             walk->key);
    }
}

/* Whether the entry in walk->key is, or can contain, something that starts with the prefix. */
static bool wanted(const struct walk *walk, size_t len)
{
    size_t n = len < walk->prefix_len && walk->key[len - 1] == '/' ? len : walk->prefix_len;
    return strncmp(walk->key, walk->prefix, n) == 0;
}

static int walk_dir(struct walk *walk, size_t len);

/* One entry: walks into a directory, reports a file. */
static int visit(struct walk *walk, size_t len)
{
    if (!wanted(walk, len))
        return KILN_OK;
    if (walk->key[len - 1] == '/')
        return walk_dir(walk, len);
    struct stat st;
    if (fstatat(walk->root_fd, walk->key, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT || errno == ENOTDIR ? KILN_OK : fail_errno(walk, "stat");
    if (!S_ISREG(st.st_mode))
        return KILN_OK;
    return walk->each(walk->arg, walk->key, (uint64_t)st.st_size, st.st_mtim.tv_sec);
}

/* Opens, reads and closes; a directory that has gone meanwhile is empty. */
static int open_names(struct walk *walk, struct names *names)
{
    int fd = openat(walk->root_fd, walk->key[0] ? walk->key : ".",
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? KILN_OK : fail_errno(walk, "open directory");
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int code = fail_errno(walk, "open directory");
        close(fd);
        return code;
    }
    int code = read_names(walk, dir, names);
    closedir(dir);
    return code;
}

/* walk->key holds len bytes: the directory with its final '/', or nothing for the root.  The
 * descriptor is closed before the level below is entered, so depth costs no descriptors. */
static int walk_dir(struct walk *walk, size_t len)
{
    struct names names = {0};
    int code = open_names(walk, &names);
    if (!code && names.count)
        qsort(names.items, names.count, sizeof *names.items, by_bytes);
    for (size_t i = 0; i < names.count && !code; i++) {
        size_t part = strlen(names.items[i]);
        if (len + part > KILN_OBJECT_KEY_MAX) /* too long for a key: not ours */
            continue;
        memcpy(walk->key + len, names.items[i], part + 1);
        code = visit(walk, len + part);
    }
    walk->key[len] = '\0';
    names_free(&names);
    return code;
}

int kiln_store_walk(int root_fd, const char *root, const char *prefix, kiln_store_each *each,
                    void *arg, struct kiln_error *err)
{
    struct walk walk = {.root_fd = root_fd,
                        .root = root,
                        .prefix = prefix,
                        .prefix_len = strlen(prefix),
                        .each = each,
                        .arg = arg,
                        .err = err};
    return walk_dir(&walk, 0);
}
