/* file.c - objects as files under one directory: ROOT/<key>.
 *
 * The table of functions, and all of them but one: how an object gets there is file_put.c.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "schemas/room.h"
#include "storage/objects/file.h"

#define TEMP_OLD_S 3600 /* no put takes that long */

static struct kiln_file_store *file_store(struct kiln_store *store)
{
    return (struct kiln_file_store *)store;
}

static int file_get(struct kiln_store *base, const char *key, size_t max, void **ret_data,
                    size_t *ret_size, struct kiln_error *err)
{
    struct kiln_file_store *store = file_store(base);
    int fd;
    size_t size;
    int code = kiln_file_open(store, key, &fd, &size, err);
    if (code)
        return code;
    char *data = NULL;
    if (size > max)
        code = kiln_fail(err, KILN_FULL, "%s/%s has %zu bytes; at most %zu were asked for",
                         store->root, key, size, max);
    else if (!(data = malloc(size + 1)))
        code = kiln_fail(err, KILN_NO_MEMORY, "read %s/%s: no memory for %zu bytes", store->root,
                         key, size);
    else if (kiln_file_read_all(fd, data, size))
        code = kiln_file_fail(err, "read", store, key);
    close(fd);
    if (code) {
        free(data);
        return code;
    }
    *ret_data = data;
    *ret_size = size;
    return KILN_OK;
}

static int file_head(struct kiln_store *base, const char *key, uint64_t *ret_size,
                     struct kiln_error *err)
{
    int fd;
    size_t size;
    int code = kiln_file_open(file_store(base), key, &fd, &size, err);
    if (code)
        return code;
    close(fd);
    *ret_size = size;
    return KILN_OK;
}

/* By its name: a directory that was moved or unmounted would still answer to its descriptor. */
static int file_reach(struct kiln_store *base, struct kiln_error *err)
{
    return access(file_store(base)->root, W_OK | X_OK) == 0
               ? KILN_OK
               : kiln_file_fail(err, "reach", file_store(base), "");
}

/* Also removes the directories that became empty: there is one for each job. */
static int file_remove(struct kiln_store *base, const char *key, struct kiln_error *err)
{
    struct kiln_file_store *store = file_store(base);
    if (unlinkat(store->root_fd, key, 0)) {
        if (errno == ENOENT || errno == ENOTDIR)
            return KILN_OK;
        if (errno == EISDIR || errno == EPERM)
            return kiln_fail(err, KILN_NOT_FOUND, "%s/%s is not an object", store->root, key);
        return kiln_file_fail(err, "remove", store, key);
    }
    char dir[KILN_OBJECT_KEY_MAX + 1];
    for (size_t len = kiln_file_dir_length(key, strlen(key)); len > 0;
         len = kiln_file_dir_length(key, len)) {
        snprintf(dir, sizeof dir, "%.*s", (int)len, key);
        if (unlinkat(store->root_fd, dir, AT_REMOVEDIR) == 0)
            continue;
        int code = errno == ENOENT ? KILN_NOT_FOUND : kiln_file_sync_dir(store, dir, err);
        return code == KILN_NOT_FOUND ? KILN_OK
                                      : code; /* another removal has it, and syncs above */
    }
    return kiln_file_sync_dir(store, "", err);
}

/* --- listing ----------------------------------------------------------------------------------
 *
 * A directory is listed as an object store would be: flat, in byte order of keys.  That is not the
 * order of names in one directory: "a.b" < "a/b" although "a" < "a.b", because '.' < '/'.
 * Directories are therefore sorted as if their name ended in '/'.  The names of one directory a
 * level are in memory at a time, never those of the whole store.  What disappears meanwhile is
 * passed by: it was deleted, which is what the caller wants to know. */

/* What every level needs. */
struct walk {
    const struct kiln_file_store *store;
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
    return kiln_fail(walk->err, code, "%s %s/%s: %s", what, walk->store->root, walk->key,
                     strerror(errno));
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
            return kiln_fail(walk->err, KILN_NO_MEMORY, "list %s/%s: no memory", walk->store->root,
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
    if (fstatat(walk->store->root_fd, walk->key, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT || errno == ENOTDIR ? KILN_OK : fail_errno(walk, "stat");
    if (!S_ISREG(st.st_mode))
        return KILN_OK;
    return walk->each(walk->arg, walk->key, (uint64_t)st.st_size, st.st_mtim.tv_sec);
}

/* Opens, reads and closes; a directory that has gone meanwhile is empty. */
static int open_names(struct walk *walk, struct names *names)
{
    int fd = openat(walk->store->root_fd, walk->key[0] ? walk->key : ".",
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

static int file_list(struct kiln_store *base, const char *prefix, kiln_store_each *each, void *arg,
                     struct kiln_error *err)
{
    struct walk walk = {.store = file_store(base),
                        .prefix = prefix,
                        .prefix_len = strlen(prefix),
                        .each = each,
                        .arg = arg,
                        .err = err};
    return walk_dir(&walk, 0);
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void file_close(struct kiln_store *base)
{
    struct kiln_file_store *store = file_store(base);
    if (store->root_fd >= 0)
        close(store->root_fd);
    free(store->root);
    free(store);
}

/* Reads only what kiln_store_open_file has set, so any thread may call it. */
static int file_open(struct kiln_store *base, const char *key, int *ret_fd, uint64_t *ret_size,
                     struct kiln_error *err)
{
    size_t size;
    int code = kiln_file_open(file_store(base), key, ret_fd, &size, err);
    if (!code)
        *ret_size = size;
    return code;
}

static const struct kiln_store_ops file_ops = {
    .put = kiln_file_put,
    .get = file_get,
    .head = file_head,
    .reach = file_reach,
    .remove = file_remove,
    .list = file_list,
    .open = file_open,
    .close = file_close,
};

/* Makes one directory with its name durable; one that is there already is fine. */
static int make_dir(char *path, size_t len, struct kiln_error *err)
{
    char kept = path[len];
    path[len] = '\0';
    int code = KILN_OK;
    if (mkdir(path, KILN_DIR_MODE) == 0) {
        size_t parent = kiln_file_dir_length(path, len);
        path[parent] = '\0';
        int fd = open(parent ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        path[parent] = '/';
        if (fd < 0 || fsync(fd))
            code = kiln_fail(err, kiln_file_code(errno), "sync the directory above %s: %s", path,
                             strerror(errno));
        if (fd >= 0)
            close(fd);
    } else if (errno != EEXIST) {
        code = kiln_fail(err, kiln_file_code(errno), "make store directory %s: %s", path,
                         strerror(errno));
    }
    path[len] = kept;
    return code;
}

/* mkdir -p for the store itself. */
static int make_root(const char *path, struct kiln_error *err)
{
    char *copy = strdup(path);
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "open store %s: no memory", path);
    int code = KILN_OK;
    for (size_t i = 1; copy[i - 1] && !code; i++)
        if ((copy[i] == '/' || copy[i] == '\0') && copy[i - 1] != '/')
            code = make_dir(copy, i, err);
    free(copy);
    return code;
}

/* Removes temporary files that a crash left.  As well as it goes: a store that may only be read is
 * opened all the same. */
static void remove_old_temporaries(const struct kiln_file_store *store)
{
    int fd = openat(store->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    time_t now = time(NULL);
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        if (strncmp(entry->d_name, KILN_TEMP_PREFIX, strlen(KILN_TEMP_PREFIX)) == 0 &&
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            now - st.st_mtime > TEMP_OLD_S)
            unlinkat(fd, entry->d_name, 0);
    }
    closedir(dir);
}

int kiln_store_open_file(const struct kiln_config *config, const char *path,
                         struct kiln_store **ret, struct kiln_error *err)
{
    (void)config;
    if (path[0] != '/' || path[1] == '\0')
        return kiln_fail(err, KILN_CONFIG, "store is 'file://%s'; it must be file:///directory",
                         path);
    int code = make_root(path, err);
    if (code)
        return code;
    struct kiln_file_store *store = calloc(1, sizeof *store);
    if (!store)
        return kiln_fail(err, KILN_NO_MEMORY, "open store %s: no memory", path);
    store->base.ops = &file_ops;
    store->root = strdup(path);
    store->root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->root && store->root_fd >= 0) {
        remove_old_temporaries(store);
        *ret = &store->base;
        return KILN_OK;
    }
    code = store->root ? kiln_fail(err, kiln_file_code(errno), "open store directory %s: %s", path,
                                   strerror(errno))
                       : kiln_fail(err, KILN_NO_MEMORY, "open store %s: no memory", path);
    file_close(&store->base);
    return code;
}
