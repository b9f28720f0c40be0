/* token_file.c - see token_file.h. */
#include "scheduler/gallery/meaning/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

/* A place: this bit, so that none is 0; 40 bits of offset; the size in the last 20. */
#define IS_PLACE (UINT64_C(1) << 63)
#define SIZE_BITS 20
#define OFFSET_MAX ((UINT64_C(1) << 40) - 1)
#define LOOK_BYTES (64L << 20) /* between two looks at how much of the disk is free */
#define FLUSH_BYTES                                                                                \
    (1L << 20) /* that the kernel begins to write, and not all of it at once later */

struct kiln_token_file {
    int fd;
    _Atomic int holders;
    uint64_t size, look_at, flushed;
    char dir[PATH_MAX]; /* for messages */
};

static int open_in(struct kiln_token_file *file, const char *dir, struct kiln_error *err)
{
    char path[PATH_MAX + 32];
    struct statfs disk;
    snprintf(file->dir, sizeof file->dir, "%s", dir);
    if (statfs(dir, &disk) == 0 && disk.f_type == TMPFS_MAGIC)
        return kiln_fail(err, KILN_IO, "%s is in memory, not on a disk", dir);
    snprintf(path, sizeof path, "%s/kiln-tokens-XXXXXX", dir);
    file->fd = mkostemp(path, O_CLOEXEC);
    if (file->fd < 0)
        return kiln_fail(err, KILN_IO, "temporary file in %s: %s", dir, strerror(errno));
    unlink(path);
    return 0;
}

static int open_unnamed(struct kiln_token_file *file, struct kiln_error *err)
{
    const char *dir = getenv("TMPDIR");
    return dir && dir[0] && open_in(file, dir, err) == 0 ? 0 : open_in(file, "/var/tmp", err);
}

int kiln_token_file_new(struct kiln_token_file **ret, struct kiln_error *err)
{
    struct kiln_token_file *file = calloc(1, sizeof *file);
    if (!file)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the tokens of prompts");
    file->holders = 1;
    int code = open_unnamed(file, err);
    if (code != 0) {
        free(file);
        return code;
    }
    *ret = file;
    return 0;
}

struct kiln_token_file *kiln_token_file_hold(struct kiln_token_file *file)
{
    atomic_fetch_add(&file->holders, 1);
    return file;
}

void kiln_token_file_drop(struct kiln_token_file *file)
{
    if (!file || atomic_fetch_sub(&file->holders, 1) > 1)
        return;
    close(file->fd);
    free(file);
}

/* Postgres may be on the same disk, and a full one stops it. */
static int look_for_room(struct kiln_token_file *file, size_t size, struct kiln_error *err)
{
    struct statfs disk;
    if (size > KILN_TOKENS_SIZE_MAX || file->size + size > OFFSET_MAX)
        return kiln_fail(err, KILN_IO, "the tokens of a prompt are %zu bytes, behind %llu others",
                         size, (unsigned long long)file->size);
    if (file->size < file->look_at)
        return 0;
    file->look_at = file->size + LOOK_BYTES;
    if (fstatfs(file->fd, &disk) == 0 &&
        (uint64_t)disk.f_bavail * (uint64_t)disk.f_bsize < KILN_TOKEN_FILE_SPARE)
        return kiln_fail(err, KILN_IO, "%s has less than %ld MiB free", file->dir,
                         KILN_TOKEN_FILE_SPARE >> 20);
    return 0;
}

static int write_at(int fd, const uint8_t *bytes, size_t size, off_t at)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = pwrite(fd, bytes + done, size - done, at + (off_t)done);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int kiln_token_file_add(struct kiln_token_file *file, const uint8_t *tokens, size_t size,
                        kiln_token_place *ret, struct kiln_error *err)
{
    int code = look_for_room(file, size, err);
    if (code != 0)
        return code;
    if (write_at(file->fd, tokens, size, (off_t)file->size) != 0)
        return kiln_fail(err, KILN_IO, "temporary file in %s: %s", file->dir, strerror(errno));
    *ret = IS_PLACE | file->size << SIZE_BITS | size;
    file->size += size;
    if (file->size - file->flushed >= FLUSH_BYTES) {
        (void)sync_file_range(file->fd, (off_t)file->flushed, (off_t)(file->size - file->flushed),
                              SYNC_FILE_RANGE_WRITE);
        file->flushed = file->size;
    }
    return 0;
}

static uint8_t *reserve(struct kiln_token_bytes *bytes, size_t size)
{
    uint8_t *at = size > bytes->room ? realloc(bytes->at, size) : bytes->at;
    if (at && size > bytes->room)
        bytes->at = at, bytes->room = size;
    return at;
}

int kiln_token_file_read(const struct kiln_token_file *file, kiln_token_place place,
                         struct kiln_token_bytes *ret, struct kiln_error *err)
{
    const size_t size = place & KILN_TOKENS_SIZE_MAX;
    const off_t from = (off_t)(place >> SIZE_BITS & OFFSET_MAX);
    if (size > 0 && !reserve(ret, size))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the tokens of a prompt");
    ret->size = size;
    for (size_t done = 0; done < size;) {
        const ssize_t got = pread(file->fd, ret->at + done, size - done, from + (off_t)done);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return kiln_fail(err, KILN_IO, "temporary file in %s: %s", file->dir,
                             got < 0 ? strerror(errno) : "it ends too soon");
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}
