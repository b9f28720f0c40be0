/* regular.c - see regular.h. */
#include "storage/regular.h"

#include <errno.h>
#include <fcntl.h>
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

/* Until the end or room bytes; less than 0 where reading fails. */
static ssize_t read_all(int fd, char *to, size_t room)
{
    size_t have = 0;
    while (have < room) {
        const ssize_t n = pread(fd, to + have, room - have, (off_t)have);
        if (n == 0)
            break;
        if (n > 0)
            have += (size_t)n;
        else if (errno != EINTR)
            return -1;
    }
    return (ssize_t)have;
}

int kiln_regular_read(const char *path, size_t max, char **ret, size_t *ret_size,
                      struct kiln_error *err)
{
    struct stat st;
    int fd;
    const int code = kiln_regular_open(path, &fd, &st, err);
    if (code)
        return code;
    char *bytes = malloc(max + 1); /* it may grow while it is read */
    const ssize_t size = bytes ? read_all(fd, bytes, max + 1) : 0;
    const int reason = errno;
    close(fd);
    if (bytes && size >= 0 && (size_t)size <= max) {
        bytes[size] = '\0';
        *ret = bytes;
        *ret_size = (size_t)size;
        return 0;
    }
    free(bytes);
    if (!bytes)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    if (size < 0)
        return kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(reason));
    return kiln_fail(err, KILN_BAD_INPUT, "%s: larger than %zu bytes", path, max);
}
