/* files.c - files that are written whole or not at all; see verbs.h. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/verbs/verbs.h"

#define LINKS_MAX 40 /* as Linux follows them */

int kiln_verb_fail(const char *verb, const struct kiln_error *err)
{
    fprintf(stderr, "kiln %s: %s\n", verb, err->text);
    return kiln_code_exit(err->code);
}

/* A link that a stranger put into a directory where others may write leads nowhere. */
static bool may_follow(const char *path)
{
    struct stat link, above;
    char *copy = strdup(path);
    const bool known = copy && lstat(path, &link) == 0 && stat(dirname(copy), &above) == 0;
    free(copy);
    return known && (link.st_uid == geteuid() || link.st_uid == above.st_uid ||
                     !(above.st_mode & (S_IWGRP | S_IWOTH)));
}

/* Where a path leads when its last part is a link, there or not yet: malloc'd; NULL without memory
 * or for links without an end. */
static char *place_of(const char *path)
{
    char *place = strdup(path), target[PATH_MAX];
    for (int hops = 0; place && hops < LINKS_MAX; hops++) {
        const ssize_t length = readlink(place, target, sizeof target - 1);
        if (length < 0)
            return place;
        if (!may_follow(place))
            break;
        target[length] = '\0';
        char *slash = strrchr(place, '/'), *next = NULL;
        const int folder = slash && target[0] != '/' ? (int)(slash - place) + 1 : 0;
        if (asprintf(&next, "%.*s%s", folder, place, target) < 0)
            next = NULL;
        free(place);
        place = next;
    }
    free(place);
    return NULL;
}

/* The directory of a path, by its true name: malloc'd, NULL where there is none. */
static char *true_folder(const char *path)
{
    char *copy = strdup(path), *folder = NULL;
    if (copy)
        folder = realpath(dirname(copy), NULL);
    free(copy);
    return folder;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool kiln_verb_same_file(const char *a, const char *b)
{
    struct stat one, other;
    if (stat(a, &one) == 0 && stat(b, &other) == 0)
        return one.st_dev == other.st_dev && one.st_ino == other.st_ino && S_ISREG(one.st_mode);
    char *first = place_of(a), *second = place_of(b);
    char *x = first ? true_folder(first) : NULL, *y = second ? true_folder(second) : NULL;
    const bool same =
        x && y && strcmp(x, y) == 0 && strcmp(last_name(first), last_name(second)) == 0;
    free(first);
    free(second);
    free(x);
    free(y);
    return same;
}

int kiln_verb_may_write(const char *name, const char *path, struct kiln_error *err)
{
    struct stat about;
    const bool there = stat(path, &about) == 0;
    if (path[0] == '\0')
        return kiln_fail(err, KILN_BAD_INPUT, "--%s is empty: it names a file", name);
    if (there && S_ISDIR(about.st_mode))
        return kiln_fail(err, KILN_BAD_INPUT, "--%s %s: a directory; name a file in it", name,
                         path);
    if (there && !S_ISREG(about.st_mode))
        return 0; /* a device or a pipe, which is written to as it is */
    char *place = place_of(path), *folder = place ? true_folder(place) : NULL;
    const bool fits = folder && access(folder, W_OK | X_OK) == 0;
    const int reason = place ? errno : ELOOP;
    free(place);
    free(folder);
    return fits ? 0
                : kiln_fail(err, KILN_IO, "--%s %s: no file can be made there: %s", name, path,
                            strerror(reason));
}

/* Writes and closes the file at `at`, which in the end will be path.  fresh: nobody has put
 * anything there before, a link least of all. */
static int write_at(const char *at, bool fresh, mode_t mode, const char *path, const void *data,
                    size_t size, struct kiln_error *err)
{
    const int flags = fresh ? O_CREAT | O_EXCL | O_NOFOLLOW : 0;
    const int fd = open(at, O_WRONLY | O_CLOEXEC | flags, 0666);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!file) {
        const int reason = errno;
        if (fd >= 0)
            close(fd);
        return kiln_fail(err, KILN_IO, "write %s: %s", path, strerror(reason));
    }
    bool good = fwrite(data, 1, size, file) == size && fflush(file) == 0;
    good = good && (mode == 0 || fchmod(fileno(file), mode) == 0);
    /* A pipe or a terminal cannot be synced, and need not be. */
    good = good && (fsync(fileno(file)) == 0 || errno == EINVAL || errno == ENOTSUP);
    int number = errno;
    if (fclose(file) != 0 && good) {
        good = false;
        number = errno;
    }
    if (good)
        return 0;
    return kiln_fail(err, number == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s", path,
                     strerror(number));
}

/* Not the command's replace.h, which no worker may include and which replaces a link: here what a
 * user's link leads to is replaced.  A picture that a power cut takes can be drawn again, so the
 * folder is not waited for. */
static int write_beside(const char *path, mode_t mode, const void *data, size_t size,
                        struct kiln_error *err)
{
    char temp[4096];
    if (snprintf(temp, sizeof temp, "%s.tmp%ld", path, (long)getpid()) >= (int)sizeof temp)
        return kiln_fail(err, KILN_BAD_INPUT, "the path %.40s... is too long", path);
    (void)unlink(temp);
    int code = write_at(temp, true, mode, path, data, size, err);
    if (code == 0 && rename(temp, path) != 0)
        code = kiln_fail(err, KILN_IO, "write %s: %s", path, strerror(errno));
    if (code != 0)
        unlink(temp);
    return code;
}

int kiln_verb_write(const char *path, const void *data, size_t size, struct kiln_error *err)
{
    struct stat about;
    const bool there = stat(path, &about) == 0;
    if (there && !S_ISREG(about.st_mode))
        return write_at(path, false, 0, path, data, size, err);
    char *place = place_of(path); /* what a link points to is replaced, not the link */
    const int code = place ? write_beside(place, there ? about.st_mode & 07777 : 0, data, size, err)
                           : kiln_fail(err, KILN_IO, "write %s: %s", path, strerror(ELOOP));
    free(place);
    return code;
}
