/* regular.c - see regular.h. */
#include "storage/formats/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* O_NONBLOCK: opening a FIFO that nobody writes would wait for ever. */
int kiln_regular_open(const char *path, int *ret_fd, struct stat *ret_stat, struct kiln_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return kiln_fail(err, errno == ENOENT || errno == ENOTDIR ? KILN_NOT_FOUND : KILN_IO,
                         "open %s: %s", path, strerror(errno));
    bool known = fstat(fd, ret_stat) == 0;
    int reason = errno;
    if (!known || !S_ISREG(ret_stat->st_mode)) {
        close(fd);
        return known ? kiln_fail(err, KILN_BAD_INPUT, "%s is not a regular file", path)
                     : kiln_fail(err, KILN_IO, "stat %s: %s", path, strerror(reason));
    }
    *ret_fd = fd;
    return 0;
}

/* The bytes of one file, as they come. */
struct reading {
    char *bytes;
    size_t have, room;
};

/* More room, but never more than max; false if memory is short. */
static bool grow(struct reading *r, size_t max)
{
    const size_t room = r->room < max / 2 ? 2 * r->room : max;
    char *grown = realloc(r->bytes, room);
    if (!grown)
        return false;
    r->bytes = grown;
    r->room = room;
    return true;
}

/* Until the end or max bytes: 0 or the reason.  The file may grow while it is read. */
static int read_all(int fd, struct reading *r, size_t max)
{
    for (;;) {
        if (r->have == max)
            return 0;
        if (r->have == r->room && !grow(r, max))
            return ENOMEM;
        const ssize_t n = pread(fd, r->bytes + r->have, r->room - r->have, (off_t)r->have);
        if (n == 0)
            return 0;
        if (n > 0)
            r->have += (size_t)n;
        else if (errno != EINTR)
            return errno;
    }
}

int kiln_regular_read(const char *path, size_t max, char **ret, size_t *ret_size,
                      struct kiln_error *err)
{
    struct stat st;
    int fd;
    const int code = kiln_regular_open(path, &fd, &st, err);
    if (code)
        return code;
    const size_t expected = (uint64_t)st.st_size < max ? (size_t)st.st_size : max;
    struct reading r = {.bytes = malloc(expected + 1), .room = expected + 1};
    const int reason = r.bytes ? read_all(fd, &r, max + 1) : ENOMEM;
    close(fd);
    if (!reason && r.have <= max) {
        r.bytes[r.have] = '\0'; /* an end was found, so there is room behind it */
        *ret = r.bytes;
        *ret_size = r.have;
        return 0;
    }
    free(r.bytes);
    if (!reason)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: larger than %zu bytes", path, max);
    if (reason == ENOMEM)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    return kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(reason));
}

bool kiln_regular_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}
