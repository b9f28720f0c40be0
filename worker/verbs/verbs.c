/* verbs.c - what the verbs share: values of options, and files that are whole or not there. */
#include "worker/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/limits.h"
#include "schemas/utf8.h"

#define LINKS_MAX 40     /* as Linux follows them */
#define THREADS_MAX 1024 /* more than any machine has cores: a slip of the finger */

int kiln_verb_fail(const char *verb, const struct kiln_error *err)
{
    fprintf(stderr, "kiln %s: %s\n", verb, err->text);
    return kiln_code_exit(err->code);
}

int kiln_verb_whole(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *ret,
                    struct kiln_error *err)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < min || value > max)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s%s \"%s\": expected a whole number, %" PRIu64 " to %" PRIu64,
                         name[1] ? "--" : "-", name, text, min, max);
    *ret = value;
    return 0;
}

int kiln_verb_number(const char *name, const char *text, double min, double max, double *ret,
                     struct kiln_error *err)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value < min || value > max)
        return kiln_fail(err, KILN_BAD_INPUT, "--%s \"%s\": expected a number, %g to %g", name,
                         text, min, max);
    *ret = value;
    return 0;
}

int kiln_verb_prompt(const char *name, const char *text, struct kiln_error *err)
{
    const size_t len = strlen(text);
    size_t bad;
    if (len > KILN_PROMPT_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "--%s: %zu bytes; the limit is %d", name, len,
                         KILN_PROMPT_MAX);
    if (!kiln_utf8_valid(text, len, &bad))
        return kiln_fail(err, KILN_BAD_INPUT, "--%s: not UTF-8 at byte %zu", name, bad);
    return 0;
}

int kiln_verb_small(const char *name, const char *text, uint64_t min, uint64_t max, int32_t *ret,
                    struct kiln_error *err)
{
    uint64_t value;
    int code = kiln_verb_whole(name, text, min, max, &value, err);
    if (code == 0)
        *ret = (int32_t)value;
    return code;
}

int kiln_verb_steps(const char *text, int32_t *ret, struct kiln_error *err)
{
    return kiln_verb_small("steps", text, KILN_STEPS_MIN, KILN_STEPS_MAX, ret, err);
}

int kiln_verb_threads(const char *text, int32_t *ret, struct kiln_error *err)
{
    return kiln_verb_small("threads", text, 0, THREADS_MAX, ret, err);
}

int kiln_verb_side(const char *name, const char *text, int32_t *ret, struct kiln_error *err)
{
    int32_t value;
    int code = kiln_verb_small(name, text, KILN_SIDE_MIN, KILN_SIDE_MAX, &value, err);
    if (code == 0 && value % KILN_SIDE_STEP != 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "--%s %s: not a multiple of %d", name, text,
                         KILN_SIDE_STEP);
    if (code == 0)
        *ret = value;
    return code;
}

int kiln_verb_lora(char *text, int count, DiffusionZLora *ret, struct kiln_error *err)
{
    char *colon = strrchr(text, ':');
    double weight = 1;
    struct kiln_error no_number;
    if (count >= KILN_LORAS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "--lora: at most %d", KILN_LORAS_MAX);
    if (colon) {
        const bool whole = access(text, F_OK) == 0;
        *colon = '\0';
        const bool front = access(text, F_OK) == 0;
        const int code = kiln_verb_number("lora", colon + 1, -KILN_LORA_SCALE_MAX,
                                          KILN_LORA_SCALE_MAX, &weight, &no_number);
        if (code != 0 && front && !whole)
            return kiln_fail(err, code, "--lora %s: its strength \"%s\" is no number from %g to %g",
                             text, colon + 1, -KILN_LORA_SCALE_MAX, KILN_LORA_SCALE_MAX);
        if (code != 0 || (whole && !front)) { /* the colon is a part of the name */
            *colon = ':';
            weight = 1;
        }
    }
    *ret = (DiffusionZLora){text, (float)weight};
    return 0;
}

/* --- files that are written ------------------------------------------------------------------- */

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
