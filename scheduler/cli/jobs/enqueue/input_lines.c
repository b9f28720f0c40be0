/* input_lines.c - one buffer of several times the longest line:
 *
 *     [ lines returned   | unread ..... | free ]
 *                        at             filled
 *
 * Lines are returned within the buffer.  When no complete line is left, the unread rest moves to
 * the front and one read(2) fills the free part, so bytes move once a block, not once a line.  A
 * line that does not fit is dropped block by block and counted.
 */
#include "scheduler/cli/jobs/enqueue/input_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/limits.h"
#include "storage/formats/replace.h"

#define BLOCK (4 * KILN_LINE_MAX)

struct kiln_lines {
    char *name;
    int fd;
    bool started, ended; /* ended: read(2) has said so */
    uint64_t number;
    size_t at, filled; /* unread bytes are buffer[at..filled) */
    char buffer[BLOCK + 1];
};

/* Moves the unread rest to the front and reads once; sets ended when there is no more. */
static int fill(struct kiln_lines *lines, struct kiln_error *err)
{
    if (lines->at > 0) {
        memmove(lines->buffer, lines->buffer + lines->at, lines->filled - lines->at);
        lines->filled -= lines->at;
        lines->at = 0;
    }
    if (lines->ended || lines->filled == BLOCK)
        return 0;
    ssize_t got;
    do
        got = read(lines->fd, lines->buffer + lines->filled, BLOCK - lines->filled);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return kiln_fail(err, KILN_IO, "read %s: %s", lines->name, strerror(errno));
    lines->ended = got == 0;
    lines->filled += (size_t)got;
    return 0;
}

/* Reads until there are a few bytes to look at, then drops a byte order mark. */
static int start(struct kiln_lines *lines, struct kiln_error *err)
{
    int code = 0;
    while (!code && !lines->ended && lines->filled < 4)
        code = fill(lines, err);
    if (code || lines->started)
        return code;
    lines->started = true;
    const char *text = lines->buffer;
    if (lines->filled >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        lines->at = 3;
    bool wide = lines->filled >= 2 &&
                (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
    if (wide)
        return kiln_fail(err, KILN_CORRUPT, "%s is UTF-16; save it as UTF-8", lines->name);
    return 0;
}

int kiln_lines_peek(struct kiln_lines *lines, const char **ret_text, size_t *ret_len,
                    struct kiln_error *err)
{
    int code = start(lines, err);
    *ret_text = lines->buffer + lines->at;
    *ret_len = lines->filled - lines->at;
    return code;
}

/* Drops bytes up to and with the next newline; the line counts as one. */
static int skip_long_line(struct kiln_lines *lines, struct kiln_error *err)
{
    uint64_t length = 0;
    for (;;) {
        char *from = lines->buffer + lines->at;
        size_t left = lines->filled - lines->at;
        char *newline = memchr(from, '\n', left);
        size_t taken = newline ? (size_t)(newline - from) + 1 : left;
        length += newline ? taken - 1 : taken;
        lines->at += taken;
        if (newline || (lines->ended && left == 0))
            break;
        int code = fill(lines, err);
        if (code)
            return code;
    }
    return kiln_fail(err, KILN_BAD_INPUT, "the line is %llu bytes long; the limit is %d",
                     (unsigned long long)length, KILN_LINE_MAX);
}

int kiln_lines_next(struct kiln_lines *lines, const char **ret_text, size_t *ret_len,
                    struct kiln_error *err)
{
    int code = start(lines, err);
    if (code)
        return code;
    for (;;) {
        char *from = lines->buffer + lines->at;
        size_t left = lines->filled - lines->at;
        char *newline = memchr(from, '\n', left);
        size_t len = newline ? (size_t)(newline - from) : left;
        if (newline || lines->ended) {
            *ret_text = newline || left > 0 ? from : NULL;
            if (!*ret_text)
                return 0;
            lines->number++;
            if (len > KILN_LINE_MAX)
                return skip_long_line(lines, err);
            lines->at += len + (newline != NULL);
            if (len > 0 && from[len - 1] == '\r')
                len--;
            *ret_len = len;
            return 0;
        }
        if (left > KILN_LINE_MAX) {
            lines->number++;
            return skip_long_line(lines, err);
        }
        code = fill(lines, err);
        if (code)
            return code;
    }
}

uint64_t kiln_lines_number(const struct kiln_lines *lines)
{
    return lines->number;
}
const char *kiln_lines_name(const struct kiln_lines *lines)
{
    return lines->name;
}

int kiln_lines_rewind(struct kiln_lines *lines, struct kiln_error *err)
{
    if (lseek(lines->fd, 0, SEEK_SET) != 0)
        return kiln_fail(err, KILN_IO, "%s cannot be read twice: %s", lines->name, strerror(errno));
    lines->at = lines->filled = 0;
    lines->started = lines->ended = false;
    lines->number = 0;
    return 0;
}

/* --- opening ------------------------------------------------------------------------------- */

/* All of the input into the spool, block by block. */
static int copy_to(struct kiln_lines *lines, FILE *spool, struct kiln_error *err)
{
    uint64_t total = 0;
    for (;;) {
        lines->at = lines->filled; /* fill() drops what is behind at */
        int code = fill(lines, err);
        if (code)
            return code;
        if (lines->filled == 0)
            break;
        total += lines->filled;
        if (total > (uint64_t)KILN_SPOOL_MAX)
            return kiln_fail(err, KILN_FULL,
                             "%s has more than %ld MiB, the limit of a pipe that must be read "
                             "twice; save it to a file",
                             lines->name, KILN_SPOOL_MAX >> 20);
        if (fwrite(lines->buffer, 1, lines->filled, spool) != lines->filled)
            return kiln_fail(err, KILN_IO, "temporary copy of %s: %s", lines->name,
                             strerror(errno));
    }
    return fflush(spool) == 0
               ? 0
               : kiln_fail(err, KILN_IO, "temporary copy of %s: %s", lines->name, strerror(errno));
}

/* Puts a temporary file with the same bytes in place of an input that can be read only once. */
static int spool_input(struct kiln_lines *lines, struct kiln_error *err)
{
    FILE *spool = tmpfile();
    if (!spool)
        return kiln_fail(err, KILN_IO, "temporary file for %s: %s", lines->name, strerror(errno));
    int code = copy_to(lines, spool, err);
    int copy = code ? -1 : dup(fileno(spool));
    if (!code && copy < 0)
        code = kiln_fail(err, KILN_IO, "temporary file for %s: %s", lines->name, strerror(errno));
    fclose(spool);
    if (code)
        return code;
    if (lines->fd != STDIN_FILENO)
        close(lines->fd);
    lines->fd = copy;
    return kiln_lines_rewind(lines, err);
}

static int open_input(struct kiln_lines *lines, const char *path, bool spool,
                      struct kiln_error *err)
{
    bool standard = strcmp(path, "-") == 0;
    struct stat info;
    lines->fd = -1;
    lines->name = strdup(standard ? "<stdin>" : path);
    if (!lines->name)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    lines->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (lines->fd < 0)
        return kiln_fail(err, errno == ENOENT ? KILN_NOT_FOUND : KILN_IO, "open %s: %s", path,
                         strerror(errno));
    if (fstat(lines->fd, &info) != 0)
        return kiln_fail(err, KILN_IO, "stat %s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return kiln_fail(err, KILN_NOT_FOUND, "%s is a directory", path);
    return spool && !S_ISREG(info.st_mode) ? spool_input(lines, err) : 0;
}

/* Through a file in memory, so that a text is read as any other input. */
static int open_text(struct kiln_lines *lines, const char *name, const char *text, size_t len,
                     struct kiln_error *err)
{
    lines->fd = -1;
    lines->name = strdup(name);
    if (!lines->name)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", name);
    lines->fd = memfd_create("kiln", MFD_CLOEXEC);
    if (lines->fd < 0)
        return kiln_fail(err, KILN_IO, "memory file for %s: %s", name, strerror(errno));
    if (kiln_write_all(lines->fd, text, len) != 0)
        return kiln_fail(err, KILN_IO, "memory file for %s: %s", name, strerror(errno));
    return kiln_lines_rewind(lines, err);
}

/* Zeroed but for its buffer. */
static struct kiln_lines *new_lines(void)
{
    struct kiln_lines *lines = malloc(sizeof *lines);
    if (lines)
        memset(lines, 0, offsetof(struct kiln_lines, buffer));
    return lines;
}

int kiln_lines_open_text(const char *name, const char *text, size_t len, struct kiln_lines **ret,
                         struct kiln_error *err)
{
    struct kiln_lines *lines = new_lines();
    int code = lines ? open_text(lines, name, text, len, err)
                     : kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", name);
    if (code)
        kiln_lines_close(lines);
    else
        *ret = lines;
    return code;
}

/* A descriptor of our own, so that closing is the same for all inputs. */
static int open_fd(struct kiln_lines *lines, const char *name, int fd, struct kiln_error *err)
{
    lines->fd = dup(fd);
    lines->name = strdup(name);
    if (!lines->name)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", name);
    if (lines->fd < 0)
        return kiln_fail(err, KILN_IO, "%s: %s", name, strerror(errno));
    return kiln_lines_rewind(lines, err);
}

int kiln_lines_open_fd(const char *name, int fd, struct kiln_lines **ret, struct kiln_error *err)
{
    struct kiln_lines *lines = new_lines();
    int code = lines ? open_fd(lines, name, fd, err)
                     : kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", name);
    if (code)
        kiln_lines_close(lines);
    else
        *ret = lines;
    return code;
}

int kiln_lines_open(const char *path, bool spool, struct kiln_lines **ret, struct kiln_error *err)
{
    struct kiln_lines *lines = new_lines();
    if (!lines)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    int code = open_input(lines, path, spool, err);
    if (code)
        kiln_lines_close(lines);
    else
        *ret = lines;
    return code;
}

void kiln_lines_close(struct kiln_lines *lines)
{
    if (!lines)
        return;
    if (lines->fd > STDIN_FILENO)
        close(lines->fd);
    free(lines->name);
    free(lines);
}
