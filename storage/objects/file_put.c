/* file_put.c - how an object becomes durable in the directory store.
 *
 * Durable means: the bytes and every directory entry on the way to them survive a power cut.
 *
 *     write ROOT/.put-<random>            bytes under a name that no key can have
 *     sync it                             the bytes are on the disk
 *     rename it to ROOT/<key>             the object appears whole or not at all
 *     sync <dir> and those above it       the name is on the disk
 *
 * A group of puts takes each step for all files before the next one: the disk knows all writes
 * before the first sync waits, and each directory is synced once.  One syncfs() for all was
 * measured: hardly faster, and it also waits for the other writes of that file system.  A file with
 * the same bytes is left alone, so a repeated put costs a read.  A crash may leave a .put-* file;
 * listings skip it, and the next open of the store removes old ones.  They are in the root because
 * it is small: the directories of a million jobs could not be searched.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/formats/replace.h"
#include "storage/objects/file.h"

#define FILE_MODE 0644
#define PAGE_MAX 64 /* puts that go through the steps together; each holds a descriptor */
#define TRIES 8     /* each lost to a deletion that removed the empty directory in between */

/* A put whose bytes are in a temporary file. */
struct part {
    struct kiln_put *put;
    int fd; /* -1: failed */
    char temp[KILN_OBJECT_KEY_MAX + 32];
};

/* --- directories ----------------------------------------------------------------------------- */

/* The remembered directory that is key[0..len) or lies below it, or NULL. */
static char *known_durable(struct kiln_file_store *store, const char *key, size_t len)
{
    for (int i = 0; i < KILN_SYNCED_MAX; i++) {
        char *known = store->synced[i];
        if (known[0] && strncmp(known, key, len) == 0 && (known[len] == '/' || known[len] == '\0'))
            return known;
    }
    return NULL;
}

/* mkdir -p for the directories of a key. */
static int make_dirs(struct kiln_file_store *store, const char *key, struct kiln_error *err)
{
    char dir[KILN_OBJECT_KEY_MAX + 1];
    for (const char *slash = strchr(key, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - key), key);
        if (mkdirat(store->root_fd, dir, KILN_DIR_MODE) == 0) {
            char *known; /* it had been removed: forget the one before */
            while ((known = known_durable(store, dir, strlen(dir))))
                known[0] = '\0';
        } else if (errno != EEXIST) {
            return kiln_file_fail(err, "make directory", store, dir);
        }
    }
    return KILN_OK;
}

/* Syncs the object's directory, and upwards until one is known to be named durably.  Another
 * process may have made any of them a moment ago without having synced it yet.  above: the
 * directory above the last one of this call, "" for none: all names were in place when it was
 * synced. */
static int sync_path(struct kiln_file_store *store, const char *key, char *above,
                     struct kiln_error *err)
{
    char dir[KILN_OBJECT_KEY_MAX + 1];
    size_t leaf = kiln_file_dir_length(key, strlen(key)), len = leaf;
    for (;;) {
        snprintf(dir, sizeof dir, "%.*s", (int)len, key);
        if (len < leaf && above[0] && strcmp(dir, above) == 0)
            return KILN_OK;
        int code = kiln_file_sync_dir(store, dir, err);
        if (code)
            return code;
        if (len == 0 || known_durable(store, key, len))
            break;
        len = kiln_file_dir_length(key, len);
    }
    /* Not the leaf: a delete elsewhere may remove an empty one, and a put there remake it. */
    size_t parent = kiln_file_dir_length(key, leaf);
    if (parent > 0 && !known_durable(store, key, parent))
        snprintf(store->synced[store->synced_next++ % KILN_SYNCED_MAX], sizeof *store->synced,
                 "%.*s", (int)parent, key);
    snprintf(above, KILN_OBJECT_KEY_MAX + 1, "%.*s", (int)parent, key);
    return KILN_OK;
}

static bool same_dir(const char *a, const char *b)
{
    size_t len = kiln_file_dir_length(a, strlen(a));
    return len == kiln_file_dir_length(b, strlen(b)) && strncmp(a, b, len) == 0;
}

/* --- temporary files ------------------------------------------------------------------------- */

/* Whether the object is there with these very bytes. */
static bool holds_same(struct kiln_file_store *store, const struct kiln_put *put)
{
    int fd;
    size_t size;
    if (kiln_file_open(store, put->key, &fd, &size, NULL))
        return false;
    bool same = size == put->size;
    const char *want = put->data;
    char block[16 * 1024];
    for (size_t at = 0; same && at < size;) {
        size_t n = size - at < sizeof block ? size - at : sizeof block;
        same = kiln_file_read_all(fd, block, n) == 0 && memcmp(block, want + at, n) == 0;
        at += n;
    }
    close(fd);
    return same;
}

/* Removes the temporary file and fails the put. */
static void drop_part(struct kiln_file_store *store, struct part *part,
                      const struct kiln_error *err)
{
    if (part->fd >= 0)
        close(part->fd);
    part->fd = -1;
    unlinkat(store->root_fd, part->temp, 0);
    kiln_put_fail(part->put, err);
}

/* A new name in the root, or beside the key: a rename never crosses file systems. */
static void name_part(const struct kiln_file_store *store, struct part *part)
{
    uint64_t number = 0;
    const char *key = part->put->key;
    RAND_bytes((unsigned char *)&number, sizeof number); /* O_EXCL catches a repetition */
    size_t dir = store->beside ? kiln_file_dir_length(key, strlen(key)) : 0;
    snprintf(part->temp, sizeof part->temp, "%.*s%s" KILN_TEMP_PREFIX "%016llx", (int)dir, key,
             dir ? "/" : "", (unsigned long long)number);
}

static int create_part(struct kiln_file_store *store, struct part *part, struct kiln_error *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int code = KILN_OK;
    name_part(store, part);
    for (int i = 0; i < TRIES && (!code || code == KILN_NOT_FOUND); i++) {
        part->fd = openat(store->root_fd, part->temp, flags, FILE_MODE);
        if (part->fd >= 0)
            return KILN_OK;
        if (errno != ENOENT)
            return kiln_file_fail(err, "create", store, part->temp);
        code = make_dirs(store, part->put->key, err);
    }
    if (code && code != KILN_NOT_FOUND)
        return code;
    return kiln_fail(err, KILN_IO, "create %s/%s: its directory keeps vanishing", store->root,
                     part->temp);
}

/* False: the put has failed and nothing is left of it. */
static bool write_part(struct kiln_file_store *store, struct part *part)
{
    struct kiln_error err = {0};
    if (create_part(store, part, &err)) {
        kiln_put_fail(part->put, &err);
        return false;
    }
    if (kiln_write_all(part->fd, part->put->data, part->put->size) == 0)
        return true;
    (void)kiln_file_fail(&err, "write", store, part->put->key);
    drop_part(store, part, &err);
    return false;
}

/* --- the steps of a page --------------------------------------------------------------------- */

/* The bytes of all parts are on the disk, or their puts have failed. */
static void sync_parts(struct kiln_file_store *store, struct part *parts, size_t count)
{
    struct kiln_error err = {0};
    for (size_t i = 0; i < count && count > 1; i++) /* a hint; the sync below waits and tells */
        (void)sync_file_range(parts[i].fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    for (size_t i = 0; i < count; i++) {
        bool bad = fsync(parts[i].fd) != 0;
        if (bad)
            (void)kiln_file_fail(&err, "write", store, parts[i].put->key);
        int fd = parts[i].fd;
        parts[i].fd = -1;
        if (close(fd) && !bad) { /* some file systems report a full disk only here */
            bad = true;
            (void)kiln_file_fail(&err, "close", store, parts[i].put->key);
        }
        if (bad)
            drop_part(store, &parts[i], &err);
    }
}

/* Gives a synced file its name; a directory may vanish when a delete empties it.  *ret_crossed: the
 * name lies on another file system. */
static int rename_part(struct kiln_file_store *store, struct part *part, bool *ret_crossed,
                       struct kiln_error *err)
{
    int code = KILN_OK;
    for (int i = 0; i < TRIES && (!code || code == KILN_NOT_FOUND); i++) {
        if (renameat(store->root_fd, part->temp, store->root_fd, part->put->key) == 0)
            return KILN_OK;
        if (errno != ENOENT)
            break;
        code = make_dirs(store, part->put->key, err);
    }
    if (code && code != KILN_NOT_FOUND)
        return code;
    *ret_crossed = errno == EXDEV;
    code = kiln_file_fail(err, "rename to", store, part->put->key);
    return code == KILN_NOT_FOUND ? kiln_fail(err, KILN_IO, "%s", err->text) : code;
}

/* The directory is another file system than the root: once more, with the file beside it. */
static void put_beside(struct kiln_file_store *store, struct part *part)
{
    struct kiln_error err = {0};
    bool crossed;
    unlinkat(store->root_fd, part->temp, 0);
    store->beside = true;
    if (!write_part(store, part))
        return;
    sync_parts(store, part, 1);
    if (part->put->code == KILN_OK && rename_part(store, part, &crossed, &err))
        drop_part(store, part, &err);
}

static void name_parts(struct kiln_file_store *store, struct part *parts, size_t count)
{
    struct kiln_error err = {0};
    for (size_t i = 0; i < count; i++) {
        bool crossed = false;
        if (parts[i].put->code || rename_part(store, &parts[i], &crossed, &err) == 0)
            continue;
        if (crossed && !store->beside)
            put_beside(store, &parts[i]);
        else
            drop_part(store, &parts[i], &err);
    }
}

/* Makes the names durable; neighbours share the sync of their directory. */
static void sync_names(struct kiln_file_store *store, struct kiln_put *puts, size_t count)
{
    struct kiln_error err = {0};
    const char *last = NULL; /* key whose directory was synced last */
    char above[KILN_OBJECT_KEY_MAX + 1] = "";
    for (size_t i = 0; i < count; i++) {
        if (puts[i].code || (last && same_dir(last, puts[i].key)))
            continue;
        int code = sync_path(store, puts[i].key, above, &err);
        last = code ? NULL : puts[i].key;
        if (code)
            kiln_put_fail(&puts[i], &err);
    }
}

static void put_page(struct kiln_file_store *store, struct kiln_put *puts, size_t count)
{
    struct part parts[PAGE_MAX];
    size_t part_count = 0;
    for (size_t i = 0; i < count; i++) {
        puts[i].was_there = puts[i].code == KILN_OK && holds_same(store, &puts[i]);
        if (puts[i].code || puts[i].was_there)
            continue;
        parts[part_count].put = &puts[i];
        parts[part_count].fd = -1;
        part_count += write_part(store, &parts[part_count]);
    }
    sync_parts(store, parts, part_count);
    name_parts(store, parts, part_count);
    sync_names(store, puts, count);
}

void kiln_file_put(struct kiln_store *base, struct kiln_put *puts, size_t count)
{
    struct kiln_file_store *store = (struct kiln_file_store *)base;
    for (size_t at = 0; at < count; at += PAGE_MAX)
        put_page(store, puts + at, count - at < PAGE_MAX ? count - at : PAGE_MAX);
}
