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

#include "storage/objects/file.h"
#include "storage/objects/walk.h"

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

static int file_list(struct kiln_store *base, const char *prefix, kiln_store_each *each, void *arg,
                     struct kiln_error *err)
{
    struct kiln_file_store *store = file_store(base);
    return kiln_store_walk(store->root_fd, store->root, prefix, each, arg, err);
}

static void file_close(struct kiln_store *base)
{
    struct kiln_file_store *store = file_store(base);
    if (store->root_fd >= 0)
        close(store->root_fd);
    free(store->root);
    free(store);
}

static const struct kiln_store_ops file_ops = {
    .put = kiln_file_put,
    .get = file_get,
    .head = file_head,
    .reach = file_reach,
    .remove = file_remove,
    .list = file_list,
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
