/* lora_disk.c - see lora_disk.h.  The locks are flock's, which belong to an open file: two threads
 * of one process hold them apart, and a process that dies holds none.  A lock whose file was
 * removed before it was held is no lock, so it is looked at once more. */
#include "worker/state/lora_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/job.h"
#include "schemas/limits.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"
#include "storage/formats/file_hash.h"
#include "storage/formats/replace.h"

#define DATA ".safetensors"
#define LOCK ".used"
#define WAIT_MS 60000 /* for another one that fetches the same file */
#define POLL_US 20000
#define LOCK_TRIES 8
#define FETCH_TRIES 2 /* bytes may be damaged on their way */

struct kiln_lora_disk {
    uint64_t bytes_max;
    const _Atomic int *ends;
    char dir[PATH_MAX];
};

struct kiln_lora_disk *kiln_lora_disk_new(const char *dir, uint64_t bytes_max,
                                          const _Atomic int *ends)
{
    struct kiln_lora_disk *disk = calloc(1, sizeof *disk);
    if (!disk)
        return NULL;
    disk->bytes_max = bytes_max;
    disk->ends = ends;
    snprintf(disk->dir, sizeof disk->dir, "%s", dir);
    return disk;
}

void kiln_lora_disk_free(struct kiln_lora_disk *disk)
{
    free(disk);
}

static void path_of(const struct kiln_lora_disk *disk, const char *sha256, const char *ending,
                    char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%.*s/%.64s%s", PATH_MAX - 100, disk->dir, sha256, ending);
}

/* Makes the directory and those above it. */
static int make_dir(const struct kiln_lora_disk *disk, const char *name, struct kiln_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", disk->dir);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        return 0;
    return kiln_fail(err, KILN_IO, "LoRA %s: make %s, the folder of the setting lora_cache_dir: %s",
                     name, path, strerror(errno));
}

/* --- locks ------------------------------------------------------------------------------------ */

/* how: LOCK_SH or LOCK_EX.  -1 with errno; EWOULDBLOCK: somebody else holds it. */
static int lock_file(const struct kiln_lora_disk *disk, const char *sha256, int how, bool make)
{
    char path[PATH_MAX];
    path_of(disk, sha256, LOCK, path);
    for (int i = 0; i < LOCK_TRIES; i++) {
        struct stat held, there;
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0), 0644);
        if (fd < 0)
            return -1;
        if (flock(fd, how | LOCK_NB) != 0) {
            const int why = errno;
            close(fd);
            errno = why;
            return -1;
        }
        if (fstat(fd, &held) == 0 && stat(path, &there) == 0 && held.st_ino == there.st_ino &&
            held.st_dev == there.st_dev)
            return fd;
        close(fd);
    }
    errno = EWOULDBLOCK;
    return -1;
}

static bool is_whole(const char *path, const char *sha256)
{
    char hex[KILN_FILE_HASH_MAX];
    return kiln_file_hash(path, KILN_LORA_BYTES_MAX, hex) && strcmp(hex, sha256) == 0;
}

/* Takes the lock over if the file is whole. */
static struct kiln_lora_pin *pin_locked(const struct kiln_lora_disk *disk, const char *sha256,
                                        int lock)
{
    struct kiln_lora_pin *pin = calloc(1, sizeof *pin);
    if (!pin)
        return NULL;
    path_of(disk, sha256, DATA, pin->path);
    if (!is_whole(pin->path, sha256)) {
        free(pin);
        return NULL;
    }
    pin->lock = lock;
    (void)futimens(lock, NULL); /* else it goes sooner than it should */
    return pin;
}

struct kiln_lora_pin *kiln_lora_disk_pin(struct kiln_lora_disk *disk,
                                         const char sha256[KILN_LORA_SHA256_MAX])
{
    const int lock = lock_file(disk, sha256, LOCK_SH, false);
    struct kiln_lora_pin *pin = lock < 0 ? NULL : pin_locked(disk, sha256, lock);
    if (lock >= 0 && !pin)
        close(lock);
    return pin;
}

void kiln_lora_unpin(struct kiln_lora_pin *pin)
{
    if (!pin)
        return;
    close(pin->lock);
    free(pin);
}

/* --- room ------------------------------------------------------------------------------------- */

struct file {
    char sha256[KILN_LORA_SHA256_MAX];
    bool part; /* what a crash left of a fetch */
    uint64_t bytes;
    struct timespec used;
};

struct files {
    struct file *at;
    size_t count, room;
    uint64_t bytes;
};

/* Whether it is the name of one of our files, and whose. */
static bool name_hash(const char *name, struct file *ret)
{
    const char *dot = strchr(name, '.');
    ret->part = dot && strcmp(dot, DATA ".part") == 0;
    if (!dot || dot - name != KILN_LORA_SHA256_MAX - 1 || (strcmp(dot, DATA) != 0 && !ret->part))
        return false;
    memcpy(ret->sha256, name, KILN_LORA_SHA256_MAX - 1);
    ret->sha256[KILN_LORA_SHA256_MAX - 1] = '\0';
    return kiln_sha256_valid(ret->sha256);
}

static void list_files(const struct kiln_lora_disk *disk, struct files *ret)
{
    DIR *dir = opendir(disk->dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct file file = {.bytes = 0};
        struct stat st;
        char lock[PATH_MAX];
        if (!name_hash(entry->d_name, &file) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        struct file *at = kiln_room(ret->at, ret->count, &ret->room, sizeof *at);
        if (!at)
            break; /* the rest is looked at when the next file is fetched */
        file.bytes = (uint64_t)st.st_size;
        path_of(disk, file.sha256, LOCK, lock);
        if (stat(lock, &st) == 0)
            file.used = st.st_mtim;
        ret->at = at;
        ret->at[ret->count++] = file;
        ret->bytes += file.bytes;
    }
    if (dir)
        closedir(dir);
}

static int older(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->sha256, y->sha256);
}

uint32_t kiln_lora_disk_list(const struct kiln_lora_disk *disk, uint64_t *ret, uint32_t max)
{
    struct files files = {0};
    uint32_t count = 0;
    list_files(disk, &files);
    if (files.count)
        qsort(files.at, files.count, sizeof *files.at, older);
    for (size_t i = files.count; i > 0 && count < max; i--)
        if (!files.at[i - 1].part)
            ret[count++] = kiln_lora_digits(files.at[i - 1].sha256);
    free(files.at);
    return count;
}

/* False for a file in use. */
static bool remove_file(const struct kiln_lora_disk *disk, const char *sha256)
{
    static const char *const endings[] = {DATA, DATA ".part", LOCK}; /* the lock goes last */
    const int lock = lock_file(disk, sha256, LOCK_EX, true);
    char path[PATH_MAX];
    if (lock < 0)
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        path_of(disk, sha256, endings[i], path);
        (void)unlink(path);
    }
    close(lock);
    return true;
}

/* Removes the longest unused files until so many more bytes fit; `but` stays. */
static void make_room(const struct kiln_lora_disk *disk, uint64_t bytes, const char *but)
{
    struct files files = {0};
    list_files(disk, &files);
    if (files.count)
        qsort(files.at, files.count, sizeof *files.at, older);
    const uint64_t most = bytes < disk->bytes_max ? disk->bytes_max - bytes : 0;
    for (size_t i = 0; i < files.count && files.bytes > most; i++) {
        const struct file *file = &files.at[i];
        if (strcmp(file->sha256, but) == 0 || !remove_file(disk, file->sha256))
            continue;
        files.bytes -= file->bytes;
        kiln_log(KILN_LOG_INFO, "lora_removed", kiln_f("sha256", "%s", file->sha256),
                 kiln_f("bytes", "%" PRIu64, file->bytes));
    }
    free(files.at);
}

/* --- fetching --------------------------------------------------------------------------------- */

/* The bytes that have the hash.  The size is asked first: it bounds the memory that the store's
 * answer may take, and the time for which the store may dawdle. */
static int get(struct kiln_store *store, const char *name, const char *sha256, void **ret,
               size_t *ret_size, struct kiln_error *err)
{
    char key[KILN_LORA_KEY_MAX], hex[2 * KILN_SHA256_SIZE + 1];
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_lora_key(sha256, key);
    for (int i = 0; i < FETCH_TRIES; i++) {
        uint64_t size = 0;
        int code = kiln_store_head(store, key, &size, err);
        if (code == 0 && size > KILN_LORA_BYTES_MAX)
            return kiln_fail(err, KILN_CORRUPT, "LoRA %s: %s has %" PRIu64 " bytes; at most %zu",
                             name, key, size, KILN_LORA_BYTES_MAX);
        code = code ? code : kiln_store_get(store, key, (size_t)size, ret, ret_size, err);
        if (code == KILN_FULL)
            return kiln_fail(err, KILN_PROTOCOL, "LoRA %s: %s has more bytes than the store says",
                             name, key);
        if (code == KILN_NOT_FOUND)
            return kiln_fail(err, code,
                             "LoRA %s: the file with sha256 %s is neither on this machine nor in "
                             "the store; `kiln lora add` or `replace` stores it",
                             name, sha256);
        if (code != 0)
            return code;
        kiln_sha256(*ret, *ret_size, digest);
        kiln_hex(digest, sizeof digest, hex);
        if (strcmp(hex, sha256) == 0)
            return 0;
        free(*ret);
    }
    return kiln_fail(err, KILN_CORRUPT, "LoRA %s: the file in the store has the sha256 %s, not %s",
                     name, hex, sha256);
}

static int write_file(const struct kiln_lora_disk *disk, const char *name, const char *sha256,
                      const void *data, size_t size, struct kiln_error *err)
{
    char path[PATH_MAX];
    path_of(disk, sha256, DATA, path);
    make_room(disk, size, sha256);
    int code = kiln_replace_bytes(path, data, size, 0644, err);
    if (code == KILN_FULL) { /* others fill the disk: what is not in use goes */
        make_room(disk, disk->bytes_max, sha256);
        code = kiln_replace_bytes(path, data, size, 0644, err);
    }
    if (code == 0)
        return 0;
    err->code = KILN_IO; /* of this machine; other workers have disks of their own */
    return kiln_fail_in(err, "LoRA %s", name);
}

/* Under the lock, held alone.  Another one may have fetched the file before. */
static int fetch_locked(const struct kiln_lora_disk *disk, struct kiln_store *store,
                        const char *name, const char *sha256, struct kiln_error *err)
{
    char path[PATH_MAX];
    void *data;
    size_t size;
    path_of(disk, sha256, DATA, path);
    if (is_whole(path, sha256))
        return 0;
    const double began_ms = kiln_monotonic_ms();
    int code = get(store, name, sha256, &data, &size, err);
    if (code != 0)
        return code;
    code = write_file(disk, name, sha256, data, size, err);
    free(data);
    if (code == 0)
        kiln_log(KILN_LOG_INFO, "lora_fetched", kiln_f("lora", "%s", name),
                 kiln_f("sha256", "%s", sha256), kiln_f("bytes", "%zu", size),
                 kiln_f("ms", "%.0f", kiln_monotonic_ms() - began_ms));
    return code;
}

int kiln_lora_disk_fetch(struct kiln_lora_disk *disk, struct kiln_store *store, const char *name,
                         const char sha256[KILN_LORA_SHA256_MAX], struct kiln_lora_pin **ret,
                         struct kiln_error *err)
{
    const double until_ms = kiln_monotonic_ms() + WAIT_MS;
    int code = make_dir(disk, name, err);
    if (code)
        return code;
    do {
        *ret = kiln_lora_disk_pin(disk, sha256);
        if (*ret)
            return 0;
        const int lock = lock_file(disk, sha256, LOCK_EX, true);
        if (lock < 0 && errno != EWOULDBLOCK)
            return kiln_fail(err, KILN_IO, "LoRA %s: write in %s (lora_cache_dir): %s", name,
                             disk->dir, strerror(errno));
        if (lock >= 0) {
            code = fetch_locked(disk, store, name, sha256, err);
            if (code) {
                char path[PATH_MAX];
                path_of(disk, sha256, LOCK, path);
                (void)unlink(path);
                close(lock);
                return code;
            }
            /* Not in one step: meanwhile another one may remove the file. */
            *ret = flock(lock, LOCK_SH | LOCK_NB) == 0 ? pin_locked(disk, sha256, lock) : NULL;
            if (*ret)
                return 0;
            close(lock);
        }
        if (disk->ends && atomic_load(disk->ends) != 0)
            return kiln_fail(err, KILN_CANCELLED,
                             "LoRA %s: another worker fetches it, and this one ends", name);
        usleep(POLL_US);
    } while (kiln_monotonic_ms() < until_ms);
    return kiln_fail(err, KILN_TIMEOUT, "LoRA %s: another worker has been fetching %s for %d s",
                     name, sha256, WAIT_MS / 1000);
}
