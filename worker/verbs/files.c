/* files.c - see verbs.h: files that a user named: where they go, writing them, reading pictures. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/limits.h"
#include "storage/formats/pictures/picture_mask.h"
#include "storage/formats/pictures/picture_resize.h"
#include "storage/formats/pictures/picture_write.h"
#include "storage/formats/replace.h"
#include "storage/formats/user_file.h"
#include "worker/verbs/verbs.h"

#define LINKS_MAX 40 /* as Linux follows them */

int kiln_verb_fail(const char *verb, const struct kiln_error *err)
{
    fprintf(stderr, "kiln %s: %s\n", verb, err->text);
    return kiln_code_exit(err->code);
}

/* A link that another user put into a directory that others may write to is not followed. */
static bool may_follow(const char *path)
{
    struct stat link, above;
    char *copy = strdup(path);
    const bool known = copy && lstat(path, &link) == 0 && stat(dirname(copy), &above) == 0;
    free(copy);
    return known && (link.st_uid == geteuid() || link.st_uid == above.st_uid ||
                     !(above.st_mode & (S_IWGRP | S_IWOTH)));
}

/* The path with a link at its end resolved, whether the target exists or not: malloc'd; NULL
 * without memory or for a circle of links. */
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

/* The real path of a file's directory: malloc'd, or NULL if there is no such directory. */
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

/* Which sides a run from a picture has. */
static int choose_size(const char *path, struct kiln_verb_start *start, struct kiln_error *err)
{
    uint32_t w, h;
    if (start->width != 0 || start->height != 0)
        return 0;
    kiln_picture_job_size(start->own_width, start->own_height, &w, &h);
    if (w < KILN_SIDE_MIN || w > KILN_SIDE_MAX || h < KILN_SIDE_MIN || h > KILN_SIDE_MAX)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: it has %u x %u pixels; sides are %d to %d: give --width and --height",
                         path, start->own_width, start->own_height, KILN_SIDE_MIN, KILN_SIDE_MAX);
    start->width = (int32_t)w;
    start->height = (int32_t)h;
    return 0;
}

static int read_pixels(const char *path, struct kiln_picture_pixels *ret, struct kiln_error *err)
{
    char *data = NULL;
    size_t size;
    int code = kiln_user_file_read(path, KILN_PICTURE_FILE_MAX, &data, &size, err);
    if (code)
        return code;
    code = kiln_picture_read((const uint8_t *)data, size, ret, err);
    free(data);
    return code ? kiln_fail_in(err, "%s", path) : 0;
}

int kiln_verb_read_picture(const char *path, struct kiln_verb_start *start, struct kiln_error *err)
{
    struct kiln_picture_pixels picture = {0};
    int code = read_pixels(path, &picture, err);
    if (code)
        return code;
    start->own_width = picture.width;
    start->own_height = picture.height;
    code = choose_size(path, start, err);
    code = code ? code
                : kiln_picture_resize(picture.rgb, picture.width, picture.height,
                                      (uint32_t)start->width, (uint32_t)start->height, &start->rgb,
                                      err);
    free(picture.rgb);
    return code;
}

int kiln_verb_read_mask(const char *path, struct kiln_verb_start *start, struct kiln_error *err)
{
    int code = read_pixels(path, &start->mask, err);
    if (code)
        return code;
    code = kiln_mask_check(
        (struct kiln_picture_size){start->mask.width, start->mask.height},
        (struct kiln_picture_size){start->own_width, start->own_height},
        (struct kiln_picture_size){(uint32_t)start->width, (uint32_t)start->height}, err);
    return code ? kiln_fail_in(err, "%s", path) : 0;
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
        return 0; /* a device or a pipe */
    char *place = place_of(path), *folder = place ? true_folder(place) : NULL;
    const bool fits = folder && access(folder, W_OK | X_OK) == 0;
    const int reason = place ? errno : ELOOP;
    free(place);
    free(folder);
    return fits ? 0
                : kiln_fail(err, KILN_IO, "--%s %s: no file can be made there: %s", name, path,
                            strerror(reason));
}

int kiln_verb_write(const char *path, const void *data, size_t size, struct kiln_error *err)
{
    struct stat about;
    struct kiln_part part;
    const bool there = stat(path, &about) == 0;
    if (there && !S_ISREG(about.st_mode))
        return kiln_replace_named(path, data, size, 0666, err);
    char *place = place_of(path); /* what a link points to is replaced, not the link */
    int code = place ? kiln_part_open(&part, place, 0666, err)
                     : kiln_fail(err, KILN_IO, "write %s: %s", path, strerror(ELOOP));
    free(place);
    if (code != 0)
        return code;
    code = kiln_part_write(&part, data, size, err);
    if (code == 0 && there && fchmod(part.fd, about.st_mode & 07777) != 0)
        code = kiln_fail(err, KILN_IO, "write %s: %s", path, strerror(errno));
    if (code == 0)
        return kiln_part_keep(&part, true, err);
    kiln_part_drop(&part);
    return code;
}

int kiln_verb_write_picture(const char *path, const uint8_t *rgb, int32_t width, int32_t height,
                            bool lossless, struct kiln_error *err)
{
    const struct kiln_webp_options webp = {.quality = 85, .method = 4, .lossless = lossless};
    uint8_t *data;
    size_t size;
    const int format = kiln_picture_format_of_path(path);
    int code = kiln_picture_write((enum kiln_picture_format)format, rgb, (uint32_t)width,
                                  (uint32_t)height, &webp, NULL, &data, &size, err);
    if (code != 0)
        return code;
    code = kiln_verb_write(path, data, size, err);
    free(data);
    return code;
}
