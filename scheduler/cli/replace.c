/* replace.c - see replace.h. */
#include "scheduler/cli/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The part is made anew: nobody can have opened it, and what a crash left is no obstacle. */
static bool write_part(const char *part, const char *text, mode_t mode)
{
    size_t len = strlen(text), done = 0;
    (void)unlink(part);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    while (fd >= 0 && done < len) {
        ssize_t n = write(fd, text + done, len - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    bool ok = fd >= 0 && done == len && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && ok)
        return false;
    errno = why;
    return ok;
}

int kiln_replace(const char *path, const char *text, mode_t mode, struct kiln_error *err)
{
    char part[PATH_MAX + 8];
    snprintf(part, sizeof part, "%s.part", path);
    if (write_part(part, text, mode) && rename(part, path) == 0)
        return 0;
    int why = errno;
    (void)unlink(part);
    return kiln_fail(err, why == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s", path, strerror(why));
}

int kiln_replace_json(const char *path, const json_t *value, struct kiln_error *err)
{
    char *text = value ? json_dumps(value, JSON_INDENT(1)) : NULL;
    int rc = text ? kiln_replace(path, text, 0644, err)
                  : kiln_fail(err, KILN_NO_MEMORY, "no memory to write %s", path);
    free(text);
    return rc;
}
