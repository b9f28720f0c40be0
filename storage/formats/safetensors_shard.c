/* safetensors_shard.c - one file, mapped or read; see safetensors_shard.h. */
#include "storage/formats/safetensors_shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "storage/formats/regular.h"

void kiln_st_shard_release(struct kiln_st_shard *s)
{
    kiln_st_header_release(&s->header);
    if (s->mapped)
        munmap(s->data, s->size);
    else
        free(s->data);
    if (s->fd >= 0)
        close(s->fd);
    free(s->path);
}

static int map_all(struct kiln_st_shard *s, struct kiln_error *err)
{
    void *map = mmap(NULL, s->size, PROT_READ, MAP_PRIVATE, s->fd, 0);
    if (map == MAP_FAILED)
        return kiln_fail(err, KILN_IO, "map %s (%zu bytes): %s", s->path, s->size, strerror(errno));
    s->data = map;
    s->mapped = true;
    return 0;
}

static int read_all(struct kiln_st_shard *s, size_t *room, struct kiln_error *err)
{
    if (s->size > *room)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %zu bytes to be read into memory, at most %zu",
                         s->path, s->size, *room);
    *room -= s->size;
    s->data = malloc(s->size);
    if (!s->data)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its %zu bytes", s->path, s->size);
    for (size_t at = 0; at < s->size;) {
        ssize_t n = pread(s->fd, (uint8_t *)s->data + at, s->size - at, (off_t)at);
        if (n < 0 && errno != EINTR)
            return kiln_fail(err, KILN_IO, "read %s at %zu: %s", s->path, at, strerror(errno));
        if (n == 0)
            return kiln_fail(err, KILN_CORRUPT,
                             "%s ends at %zu of %zu bytes: it was cut short while it was read; "
                             "replace files by renaming a new one over the old",
                             s->path, at, s->size);
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int kiln_st_shard_open(struct kiln_st_shard *s, const char *path, size_t *room,
                       struct kiln_error *err)
{
    struct stat st;
    *s = (struct kiln_st_shard){.fd = -1};
    int rc = kiln_regular_open(path, &s->fd, &st, err);
    if (rc)
        return rc;
    s->path = strdup(path);
    if (!s->path)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", path);
    if (st.st_size < (off_t)sizeof(uint64_t))
        return kiln_fail(err, KILN_CORRUPT, "%s: %lld bytes are too few for a safetensors file",
                         path, (long long)st.st_size);
    s->size = (size_t)st.st_size;
    s->mtime = st.st_mtim;
    rc = *room == KILN_ST_MAP ? map_all(s, err) : read_all(s, room, err);
    return rc ? rc : kiln_st_header_parse(s->data, s->size, path, &s->header, err);
}

int kiln_st_shard_check(const struct kiln_st_shard *s, struct kiln_error *err)
{
    struct stat now;
    if (s->fd < 0)
        return 0;
    if (fstat(s->fd, &now) != 0)
        return kiln_fail(err, KILN_IO, "stat %s: %s", s->path, strerror(errno));
    if ((size_t)now.st_size != s->size || now.st_mtim.tv_sec != s->mtime.tv_sec ||
        now.st_mtim.tv_nsec != s->mtime.tv_nsec)
        return kiln_fail(err, KILN_CORRUPT,
                         "%s was changed while it was open (%zu bytes then, %lld now): replace "
                         "files by renaming a new one over the old",
                         s->path, s->size, (long long)now.st_size);
    return 0;
}
