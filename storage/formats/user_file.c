/* user_file.c - see user_file.h.
 *
 * A pipe is opened without blocking.  Linux then answers a read with 0 as long as no writer has
 * come, and at the end; poll distinguishes them, since it reports a hang-up only after a writer
 * was there.  A writer that ended before the pipe was opened here is not reported: bytes before the
 * 0 then prove the end, and a pipe without a name, such as <(...), had its writer from the
 * beginning.
 */
#include "storage/formats/user_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "storage/formats/regular.h"

/* Waits until there is something to read or the writer has ended; false after the time limit. */
static bool wait_for(int fd, double until_ms, bool *ret_ended)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    for (;;) {
        const double left_ms = until_ms - kiln_monotonic_ms();
        const int ready = left_ms > 0 ? poll(&poller, 1, (int)left_ms + 1) : 0;
        if (ready > 0) {
            *ret_ended = *ret_ended || !(poller.revents & POLLIN);
            return true;
        }
        if (ready == 0 || errno != EINTR)
            return false;
    }
}

/* Whether it is a pipe that no file names. */
static bool is_nameless(int fd)
{
    char link[64], target[16];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t len = readlink(link, target, sizeof target);
    return len > 5 && memcmp(target, "pipe:", 5) == 0;
}

/* Up to max bytes and one more of a pipe: 0 or the reason, ETIMEDOUT among them. */
static int read_pipe(int fd, char *bytes, size_t max, size_t *ret_size)
{
    const double until_ms = kiln_monotonic_ms() + KILN_USER_FILE_WAIT_S * 1e3;
    bool ended = is_nameless(fd);
    for (*ret_size = 0; *ret_size <= max;) {
        const ssize_t n = read(fd, bytes + *ret_size, max + 1 - *ret_size);
        if (n > 0)
            *ret_size += (size_t)n;
        else if (n == 0 && (*ret_size > 0 || ended))
            return 0;
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
            return errno;
        else if (!wait_for(fd, until_ms, &ended))
            return ETIMEDOUT;
    }
    return 0;
}

static int take_pipe(const char *path, int fd, size_t max, char **ret, size_t *ret_size,
                     struct kiln_error *err)
{
    size_t size;
    char *bytes = malloc(max + 2); /* one byte too many is noticed, and the NUL */
    if (!bytes)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    const int reason = read_pipe(fd, bytes, max, &size);
    if (reason == 0 && size <= max) {
        bytes[size] = '\0';
        *ret = bytes;
        *ret_size = size;
        return 0;
    }
    free(bytes);
    if (reason == 0)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: larger than %zu bytes", path, max);
    if (reason == ETIMEDOUT)
        return kiln_fail(err, KILN_TIMEOUT, "%s is a pipe whose writer did not %s within %d s",
                         path, size ? "end" : "write anything", KILN_USER_FILE_WAIT_S);
    return kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(reason));
}

static int take_nothing(char **ret, size_t *ret_size, struct kiln_error *err)
{
    char *bytes = calloc(1, 1);
    if (!bytes)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read a file");
    *ret = bytes;
    *ret_size = 0;
    return 0;
}

/* regular.c reads everything else, and refuses it. */
int kiln_user_file_read(const char *path, size_t max, char **ret, size_t *ret_size,
                        struct kiln_error *err)
{
    struct stat st;
    int code, fd = -1;
    if (stat(path, &st) != 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
        return kiln_regular_read(path, max, ret, ret_size, err);
    if (S_ISCHR(st.st_mode))
        return st.st_rdev == makedev(1, 3) /* /dev/null, on every Linux */
                   ? take_nothing(ret, ret_size, err)
                   : kiln_fail(err, KILN_BAD_INPUT, "%s is neither a regular file nor a pipe",
                               path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))
        code = kiln_fail(err, KILN_IO, "open %s: %s", path,
                         fd < 0 ? strerror(errno) : "it was replaced by another file");
    else
        code = take_pipe(path, fd, max, ret, ret_size, err);
    if (fd >= 0)
        close(fd);
    return code;
}
