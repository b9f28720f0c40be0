/* replace.c - see replace.h. */
#include "storage/formats/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const char *path, int why, struct kiln_error *err)
{
    return kiln_fail(err, why == ENOSPC || why == EDQUOT ? KILN_FULL : KILN_IO, "write %s: %s",
                     path, strerror(why));
}

int kiln_write_all(int fd, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        ssize_t n = write(fd, at, size < (1u << 30) ? size : (1u << 30));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return -1;
        }
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

int kiln_sync(int fd)
{
    int rc;
    do
        rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc == 0 || errno == EINVAL ? 0 : -1;
}

/* The directory above a path, open; the name in it into name[NAME_MAX + 1].  -1 with errno. */
static int open_above(const char *path, char *name)
{
    char above[PATH_MAX];
    const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
    if (strlen(path) >= sizeof above || strlen(last) > NAME_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name, last, strlen(last) + 1);
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    return open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The directory of DIR/FOLDER/NAME or DIR/NAME, open; the name into name[NAME_MAX + 1]. */
static int open_folder(const char *dir, const char *below, bool make, char *name)
{
    char folder[NAME_MAX + 1];
    const char *slash = strchr(below, '/'), *last = slash ? slash + 1 : below;
    if (strlen(last) > NAME_MAX || (slash && slash - below > NAME_MAX)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name, last, strlen(last) + 1);
    int base = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base < 0 || !slash)
        return base;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - below), below);
    if (make)
        (void)mkdirat(base, folder, 0777); /* a failure shows in the next line */
    int fd = openat(base, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int why = errno;
    close(base);
    errno = why;
    return fd;
}

int kiln_open_below(const char *dir, const char *below)
{
    char name[NAME_MAX + 1];
    struct stat st;
    int folder = open_folder(dir, below, false, name);
    if (folder < 0)
        return -1;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    close(folder);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

#define PART_MAX (NAME_MAX + 8)

static bool part_name(const struct kiln_part *part, char out[PART_MAX])
{
    return snprintf(out, PART_MAX, "%s.part", part->name) <= NAME_MAX;
}

/* part->dir, part->name and part->path are set. */
static int make_part(struct kiln_part *part, mode_t mode, struct kiln_error *err)
{
    char name[PART_MAX];
    part->fd = -1;
    if (part->dir < 0)
        return errno == ELOOP || errno == ENOTDIR
                   ? kiln_fail(err, KILN_EXISTS, "write %s: its folder is a link or a file",
                               part->path)
                   : failed(part->path, errno, err);
    if (part_name(part, name)) {
        (void)unlinkat(part->dir, name, 0);
        part->fd =
            openat(part->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    } else {
        errno = ENAMETOOLONG;
    }
    if (part->fd >= 0)
        return 0;
    int why = errno;
    close(part->dir);
    part->dir = -1;
    return why == EEXIST
               ? kiln_fail(err, KILN_DENIED, "write %s: %s is there and cannot be removed",
                           part->path, name)
               : failed(part->path, why, err);
}

/* The system's names for open files and devices: /dev/stdout, /dev/fd/1, /proc/self/fd/1.  They may
 * lead to regular files, and replacing one would take it from every program. */
static bool is_of_system(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           (strncmp(path, "/dev/", 5) == 0 && !strchr(path + 5, '/'));
}

int kiln_part_open(struct kiln_part *part, const char *path, mode_t mode, struct kiln_error *err)
{
    part->dir = part->fd = -1;
    snprintf(part->path, sizeof part->path, "%s", path);
    if (is_of_system(path))
        return kiln_fail(err, KILN_EXISTS, "write %s: it is the system's, and no file", path);
    part->dir = open_above(path, part->name);
    return make_part(part, mode, err);
}

int kiln_part_open_below(struct kiln_part *part, const char *dir, const char *below, mode_t mode,
                         struct kiln_error *err)
{
    snprintf(part->path, sizeof part->path, "%.*s/%.255s", PATH_MAX - 257, dir, below);
    part->dir = open_folder(dir, below, true, part->name);
    return make_part(part, mode, err);
}

int kiln_part_write(struct kiln_part *part, const void *data, size_t size, struct kiln_error *err)
{
    return kiln_write_all(part->fd, data, size) == 0 ? 0 : failed(part->path, errno, err);
}

int kiln_part_keep(struct kiln_part *part, bool to_disk, struct kiln_error *err)
{
    char name[PART_MAX];
    bool ok = !to_disk || kiln_sync(part->fd) == 0;
    int why = errno;
    if (close(part->fd) != 0 && ok && errno != EINTR) { /* it is closed all the same */
        ok = false;
        why = errno;
    }
    part->fd = -1;
    if (ok) {
        (void)part_name(part, name);
        ok = renameat(part->dir, name, part->dir, part->name) == 0 &&
             (!to_disk || kiln_sync(part->dir) == 0);
        why = errno;
    }
    int rc = ok ? 0 : failed(part->path, why, err);
    if (!ok) {
        kiln_part_drop(part);
        return rc;
    }
    close(part->dir);
    part->dir = -1;
    return rc;
}

void kiln_part_drop(struct kiln_part *part)
{
    char name[PART_MAX];
    if (part->fd >= 0)
        close(part->fd);
    part->fd = -1;
    if (part->dir < 0)
        return;
    if (part_name(part, name))
        (void)unlinkat(part->dir, name, 0);
    close(part->dir);
    part->dir = -1;
}

int kiln_replace_bytes(const char *path, const void *data, size_t size, mode_t mode,
                       struct kiln_error *err)
{
    struct kiln_part part;
    int rc = kiln_part_open(&part, path, mode, err);
    if (rc)
        return rc;
    rc = kiln_part_write(&part, data, size, err);
    if (rc == 0)
        return kiln_part_keep(&part, true, err);
    kiln_part_drop(&part);
    return rc;
}

int kiln_replace(const char *path, const char *text, mode_t mode, struct kiln_error *err)
{
    return kiln_replace_bytes(path, text, strlen(text), mode, err);
}

int kiln_replace_named(const char *path, const void *data, size_t size, mode_t mode,
                       struct kiln_error *err)
{
    struct stat st;
    struct kiln_part part = {.dir = -1};
    const bool is_file = stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
    if (is_file && !is_of_system(path))
        return kiln_replace_bytes(path, data, size, mode, err);
    snprintf(part.path, sizeof part.path, "%s", path);
    part.fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (part.fd < 0)
        return failed(path, errno, err);
    int rc = kiln_part_write(&part, data, size, err);
    if (close(part.fd) != 0 && rc == 0 && errno != EINTR)
        rc = failed(path, errno, err);
    return rc;
}

int kiln_replace_json(const char *path, const json_t *value, struct kiln_error *err)
{
    char *text = value ? json_dumps(value, JSON_INDENT(1)) : NULL;
    int rc = text ? kiln_replace(path, text, 0644, err)
                  : kiln_fail(err, KILN_NO_MEMORY, "no memory to write %s", path);
    free(text);
    return rc;
}
