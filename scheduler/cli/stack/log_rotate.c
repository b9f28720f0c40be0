/* log_rotate.c - logs that do not fill the disk.
 *
 * The writer keeps its file open for weeks, so renaming it would only rename where it writes.  The
 * content is copied and the file then cut to nothing; the writer appends, so it goes on at the
 * start.  A line that comes between the copy and the cut would be lost: the copy goes on until
 * nothing was added while it looked, which leaves microseconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/cli/stack/guard.h"

#define PIECE 65536

/* Copies to the end, and what is added meanwhile. */
static bool copy_all(int from, int to)
{
    char piece[PIECE];
    for (ssize_t n; (n = read(from, piece, sizeof piece)) != 0;)
        if (n < 0 || write(to, piece, (size_t)n) != n)
            return false;
    return true;
}

static void shift(const char *path)
{
    char from[PATH_MAX + 8], to[PATH_MAX + 8];
    for (int i = KILN_LOGS_KEPT - 1; i > 0; i--) {
        snprintf(from, sizeof from, "%s.%d", path, i);
        snprintf(to, sizeof to, "%s.%d", path, i + 1);
        (void)rename(from, to); /* most are not there yet */
    }
}

int kiln_log_rotate(const char *path, int64_t max, struct kiln_error *err)
{
    char first[PATH_MAX + 8], part[PATH_MAX + 8];
    struct stat st;
    if (stat(path, &st) != 0 || st.st_size <= max)
        return 0;
    snprintf(first, sizeof first, "%s.1", path);
    snprintf(part, sizeof part, "%s.part", path);
    int from = open(path, O_RDWR | O_CLOEXEC);
    (void)unlink(part); /* of a crash; a link there is not followed */
    int to = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = from >= 0 && to >= 0 && copy_all(from, to);
    if (ok)
        shift(path);
    ok = ok && rename(part, first) == 0 && ftruncate(from, 0) == 0;
    int failure = errno;
    if (!ok && to >= 0)
        (void)unlink(part); /* half a copy would take the room that is missing */
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return ok ? 0
              : kiln_fail(err, failure == ENOSPC ? KILN_FULL : KILN_IO, "turn %s: %s", path,
                          strerror(failure));
}
