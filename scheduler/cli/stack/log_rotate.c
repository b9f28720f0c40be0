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
#include "storage/formats/replace.h"

#define PIECE 65536

/* Copies to the end, and what is added meanwhile. */
static bool copy_all(int from, int to)
{
    char piece[PIECE];
    for (ssize_t n; (n = read(from, piece, sizeof piece)) != 0;)
        if (n < 0 || kiln_write_all(to, piece, (size_t)n) != 0)
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
    char first[PATH_MAX + 8];
    struct kiln_part part;
    struct stat st;
    if (stat(path, &st) != 0 || st.st_size <= max)
        return 0;
    snprintf(first, sizeof first, "%s.1", path);
    int from = open(path, O_RDWR | O_CLOEXEC);
    if (from < 0)
        return kiln_fail(err, KILN_IO, "rotate %s: %s", path, strerror(errno));
    int rc = kiln_part_open(&part, first, 0600, err);
    if (rc == 0 && !copy_all(from, part.fd))
        rc = kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "rotate %s: %s", path,
                       strerror(errno));
    if (rc == 0) {
        shift(path);
        rc = kiln_part_keep(&part, false, err);
    } else {
        kiln_part_drop(&part); /* half a copy would take the room that is missing */
    }
    if (rc == 0 && ftruncate(from, 0) != 0)
        rc = kiln_fail(err, KILN_IO, "rotate %s: %s", path, strerror(errno));
    close(from);
    return rc;
}
