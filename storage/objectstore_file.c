/* objectstore_file.c - objects as files under one directory: ROOT/<key>.
 *
 * Durable means: the bytes and every directory entry on the way to them survive a power cut.
 *
 *     write ROOT/.put-<random>            bytes that nobody can mistake for an object
 *     fsync it                            the bytes are on the disk
 *     rename it to ROOT/<key>             the object appears whole or not at all
 *     fsync <dir> and those above it      the name is on the disk
 *
 * A batch of puts renames all its files first, then syncs each directory once: the three sizes
 * of a picture share one.  A file that already holds the same bytes is left alone, so that a
 * repeated put costs a read.  A crash may leave a .put-* file behind; no key can name it, the
 * listing passes it by, and whoever opens the store removes those that are old.  They lie in the
 * root because it is small: nobody could look through the directories of a million jobs.
 *
 * Every path is opened relative to the root's descriptor and without following a final link.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "schemas/limits.h"
#include "storage/objectstore_backend.h"
#include "storage/objectstore_walk.h"

#define DIR_MODE 0755
#define FILE_MODE 0644
#define SYNCED_MAX 4
#define TEMP_PREFIX ".put-"
#define TEMP_OLD_S 3600 /* no put takes that long */
#define RENAME_TRIES 8  /* each lost to somebody who removed the empty directory in between */

struct file_store {
    struct kiln_store base;
    char *root;
    int root_fd;
    /* Directories known durable up to the root: those that hold the jobs' own, of pictures, of
     * latents, of last month's. */
    char synced[SYNCED_MAX][KILN_OBJECT_KEY_MAX + 1];
    unsigned synced_next; /* to be replaced */
    bool beside;          /* a directory below is another file system: temporary files lie there */
};

static struct file_store *file_store(struct kiln_store *store)
{
    return (struct file_store *)store;
}

/* The code for errno, so that a full disk and a missing right are told apart. */
static int errno_code(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
        return KILN_FULL;
    case EACCES:
    case EPERM:
    case EROFS:
        return KILN_DENIED;
    case ENOENT:
        return KILN_NOT_FOUND;
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
        return KILN_BAD_INPUT; /* "a" and "a/b" cannot both be files */
    case ENOMEM:
        return KILN_NO_MEMORY;
    default:
        return KILN_IO;
    }
}

static int fail_errno(struct kiln_error *err, const char *what, const struct file_store *store,
                      const char *key)
{
    int number = errno;
    return kiln_fail(err, errno_code(number), "%s %s/%s: %s", what, store->root, key,
                     strerror(number));
}

/* Length of the directory part of a path, without its '/'; 0 for the root. */
static size_t dir_length(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '/')
        len--;
    return len > 0 ? len - 1 : 0;
}

/* The remembered directory that is key[0..len) or lies below it, or NULL. */
static char *known_durable(struct file_store *store, const char *key, size_t len)
{
    for (int i = 0; i < SYNCED_MAX; i++) {
        char *known = store->synced[i];
        if (known[0] && strncmp(known, key, len) == 0 && (known[len] == '/' || known[len] == '\0'))
            return known;
    }
    return NULL;
}

/* mkdir -p for the directories of a key. */
static int make_dirs(struct file_store *store, const char *key, struct kiln_error *err)
{
    char dir[KILN_OBJECT_KEY_MAX + 1];
    for (const char *slash = strchr(key, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - key), key);
        if (mkdirat(store->root_fd, dir, DIR_MODE) == 0) {
            char *known; /* somebody had removed it: what we remember is of its forerunner */
            while ((known = known_durable(store, dir, strlen(dir))))
                known[0] = '\0';
        } else if (errno != EEXIST) {
            return fail_errno(err, "make directory", store, dir);
        }
    }
    return KILN_OK;
}

/* Until all is written: a disk that fills takes a part first. */
static int write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return -1;
        }
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Writes and syncs a new file; on failure nothing is left behind. */
static int write_file(struct file_store *store, const char *path, const struct kiln_put *put,
                      struct kiln_error *err)
{
    int fd = openat(store->root_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                    FILE_MODE);
    if (fd < 0)
        return fail_errno(err, "create", store, path);
    int code = KILN_OK;
    if (write_all(fd, put->data, put->size) || fsync(fd))
        code = fail_errno(err, "write", store, put->key);
    if (close(fd) && !code) /* some file systems report a full disk only here */
        code = fail_errno(err, "close", store, put->key);
    if (code)
        unlinkat(store->root_fd, path, 0);
    return code;
}

/* A new name in the root, or beside the key: a rename never crosses file systems. */
static void temp_name(const struct file_store *store, const char *key,
                      char out[KILN_OBJECT_KEY_MAX + 32])
{
    uint64_t number = 0;
    RAND_bytes((unsigned char *)&number, sizeof number); /* O_EXCL catches a repetition */
    size_t dir = store->beside ? dir_length(key, strlen(key)) : 0;
    snprintf(out, KILN_OBJECT_KEY_MAX + 32, "%.*s%s" TEMP_PREFIX "%016llx", (int)dir, key,
             dir ? "/" : "", (unsigned long long)number);
}

/* Write, sync, rename; on failure the old object, if there is one, is untouched. */
static int try_write(struct file_store *store, const struct kiln_put *put, struct kiln_error *err)
{
    char temp[KILN_OBJECT_KEY_MAX + 32];
    temp_name(store, put->key, temp);
    int code = make_dirs(store, put->key, err);
    if (!code)
        code = write_file(store, temp, put, err);
    if (code || renameat(store->root_fd, temp, store->root_fd, put->key) == 0)
        return code;
    bool crossed = errno == EXDEV && !store->beside;
    code = fail_errno(err, "rename to", store, put->key);
    unlinkat(store->root_fd, temp, 0);
    if (!crossed)
        return code;
    store->beside = true;
    return try_write(store, put, err);
}

/* A directory may vanish between making it and using it when a delete empties it. */
static int write_and_rename(struct file_store *store, const struct kiln_put *put,
                            struct kiln_error *err)
{
    int code = KILN_OK;
    for (int i = 0; i < RENAME_TRIES; i++) {
        code = try_write(store, put, err);
        if (code != KILN_NOT_FOUND)
            return code;
    }
    return kiln_fail(err, KILN_IO, "%s", err->text);
}

/* Exactly size bytes. */
static int read_all(int fd, char *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno; /* shorter than its own size: cut under our hands */
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

/* Opens a regular file for reading; *ret_size is its size. */
static int open_object(struct file_store *store, const char *key, int *ret_fd, size_t *ret_size,
                       struct kiln_error *err)
{
    int fd = openat(store->root_fd, key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        errno = errno == ENOTDIR ? ENOENT : errno; /* "a/b" where "a" is an object */
        return fail_errno(err, "open", store, key);
    }
    struct stat st;
    int code = KILN_OK;
    if (fstat(fd, &st))
        code = fail_errno(err, "stat", store, key);
    else if (!S_ISREG(st.st_mode))
        code = kiln_fail(err, KILN_NOT_FOUND, "%s/%s is not an object", store->root, key);
    if (code) {
        close(fd);
        return code;
    }
    *ret_fd = fd;
    *ret_size = (size_t)st.st_size;
    return KILN_OK;
}

/* Whether the object is there with these very bytes. */
static bool holds_same(struct file_store *store, const struct kiln_put *put)
{
    int fd;
    size_t size;
    if (open_object(store, put->key, &fd, &size, NULL))
        return false;
    bool same = size == put->size;
    const char *want = put->data;
    char block[16 * 1024];
    for (size_t at = 0; same && at < size;) {
        size_t n = size - at < sizeof block ? size - at : sizeof block;
        same = read_all(fd, block, n) == 0 && memcmp(block, want + at, n) == 0;
        at += n;
    }
    close(fd);
    return same;
}

/* "" is the root. */
static int sync_dir(struct file_store *store, const char *dir, struct kiln_error *err)
{
    int fd = openat(store->root_fd, dir[0] ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "open directory", store, dir);
    int code = fsync(fd) ? fail_errno(err, "sync directory", store, dir) : KILN_OK;
    close(fd);
    return code;
}

/* Syncs the object's directory, and upwards until one is known to be named durably.  Another
 * process may have made any of them a moment ago without having synced it yet. */
static int sync_path(struct file_store *store, const char *key, struct kiln_error *err)
{
    char dir[KILN_OBJECT_KEY_MAX + 1];
    size_t leaf = dir_length(key, strlen(key)), len = leaf;
    for (;;) {
        snprintf(dir, sizeof dir, "%.*s", (int)len, key);
        int code = sync_dir(store, dir, err);
        if (code)
            return code;
        if (len == 0 || known_durable(store, key, len))
            break;
        len = dir_length(key, len);
    }
    /* Not the leaf: a delete elsewhere may remove an empty one, and a put there remake it. */
    size_t parent = dir_length(key, leaf);
    if (parent > 0 && !known_durable(store, key, parent))
        snprintf(store->synced[store->synced_next++ % SYNCED_MAX], sizeof *store->synced, "%.*s",
                 (int)parent, key);
    return KILN_OK;
}

/* Whether two keys lie in one directory. */
static bool same_dir(const char *a, const char *b)
{
    size_t len = dir_length(a, strlen(a));
    return len == dir_length(b, strlen(b)) && strncmp(a, b, len) == 0;
}

/* All renames first: the neighbours' directory is then synced once for all of them. */
static void file_put(struct kiln_store *base, struct kiln_put *puts, size_t count)
{
    struct file_store *store = file_store(base);
    struct kiln_error err = {0};
    for (size_t i = 0; i < count; i++)
        if (puts[i].code == KILN_OK && !holds_same(store, &puts[i]) &&
            write_and_rename(store, &puts[i], &err))
            kiln_put_fail(&puts[i], &err);

    const char *last = NULL; /* key whose directory was synced last */
    for (size_t i = 0; i < count; i++) {
        if (puts[i].code || (last && same_dir(last, puts[i].key)))
            continue;
        int code = sync_path(store, puts[i].key, &err);
        last = code ? NULL : puts[i].key;
        if (code)
            kiln_put_fail(&puts[i], &err);
    }
}

static int file_get(struct kiln_store *base, const char *key, size_t max, void **ret_data,
                    size_t *ret_size, struct kiln_error *err)
{
    struct file_store *store = file_store(base);
    int fd;
    size_t size;
    int code = open_object(store, key, &fd, &size, err);
    if (code)
        return code;
    char *data = NULL;
    if (size > max)
        code = kiln_fail(err, KILN_FULL, "%s/%s has %zu bytes; at most %zu were asked for",
                         store->root, key, size, max);
    else if (!(data = malloc(size + 1)))
        code = kiln_fail(err, KILN_NO_MEMORY, "read %s/%s: no memory for %zu bytes", store->root,
                         key, size);
    else if (read_all(fd, data, size))
        code = fail_errno(err, "read", store, key);
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
    int code = open_object(file_store(base), key, &fd, &size, err);
    if (code)
        return code;
    close(fd);
    *ret_size = size;
    return KILN_OK;
}

/* Also removes the directories that became empty: there is one for each job. */
static int file_remove(struct kiln_store *base, const char *key, struct kiln_error *err)
{
    struct file_store *store = file_store(base);
    if (unlinkat(store->root_fd, key, 0)) {
        if (errno == ENOENT || errno == ENOTDIR)
            return KILN_OK;
        if (errno == EISDIR || errno == EPERM)
            return kiln_fail(err, KILN_NOT_FOUND, "%s/%s is not an object", store->root, key);
        return fail_errno(err, "remove", store, key);
    }
    char dir[KILN_OBJECT_KEY_MAX + 1];
    for (size_t len = dir_length(key, strlen(key)); len > 0; len = dir_length(key, len)) {
        snprintf(dir, sizeof dir, "%.*s", (int)len, key);
        if (unlinkat(store->root_fd, dir, AT_REMOVEDIR))
            return errno == ENOENT ? KILN_OK : sync_dir(store, dir, err);
    }
    return sync_dir(store, "", err);
}

static int file_list(struct kiln_store *base, const char *prefix, kiln_store_each *each, void *arg,
                     struct kiln_error *err)
{
    struct file_store *store = file_store(base);
    return kiln_store_walk(store->root_fd, store->root, prefix, each, arg, err);
}

static void file_close(struct kiln_store *base)
{
    struct file_store *store = file_store(base);
    if (store->root_fd >= 0)
        close(store->root_fd);
    free(store->root);
    free(store);
}

static const struct kiln_store_ops file_ops = {
    .put = file_put,
    .get = file_get,
    .head = file_head,
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
    if (mkdir(path, DIR_MODE) == 0) {
        size_t parent = dir_length(path, len);
        path[parent] = '\0';
        int fd = open(parent ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        path[parent] = '/';
        if (fd < 0 || fsync(fd))
            code = kiln_fail(err, errno_code(errno), "sync the directory above %s: %s", path,
                             strerror(errno));
        if (fd >= 0)
            close(fd);
    } else if (errno != EEXIST) {
        code =
            kiln_fail(err, errno_code(errno), "make store directory %s: %s", path, strerror(errno));
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
static void remove_old_temporaries(const struct file_store *store)
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
        if (strncmp(entry->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0 &&
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            now - st.st_mtime > TEMP_OLD_S)
            unlinkat(fd, entry->d_name, 0);
    }
    closedir(dir);
}

int kiln_store_open_file(const char *path, struct kiln_store **ret, struct kiln_error *err)
{
    if (path[0] != '/' || path[1] == '\0')
        return kiln_fail(err, KILN_CONFIG, "store is 'file://%s'; it must be file:///directory",
                         path);
    int code = make_root(path, err);
    if (code)
        return code;
    struct file_store *store = calloc(1, sizeof *store);
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
    code = store->root ? kiln_fail(err, errno_code(errno), "open store directory %s: %s", path,
                                   strerror(errno))
                       : kiln_fail(err, KILN_NO_MEMORY, "open store %s: no memory", path);
    file_close(&store->base);
    return code;
}
