/* replace.h - writes a file completely or not at all.
 *
 * The new content is written beside its place as NAME.part and renamed when it is complete.  The
 * part is always created, never opened, so that nobody with access to the directory can put a link
 * or a file of theirs there first; what a crash left is removed.  A link under the name itself is
 * replaced, not followed.
 */
#ifndef KILN_REPLACE_H
#define KILN_REPLACE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "schemas/error.h"

/* Writes the text, waits for the disk, renames the file into place and waits for the directory.
 * mode: permissions from the first byte on, less the umask.  KILN_FULL when the disk is full. */
int kiln_replace(const char *path, const char *text, mode_t mode,
                 struct kiln_error *err) KILN_MUST_CHECK;
/* The same with any bytes. */
int kiln_replace_bytes(const char *path, const void *data, size_t size, mode_t mode,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The same for a path that a user named: an existing device or pipe, and /dev/stdout wherever it
 * leads, is written to directly. */
int kiln_replace_named(const char *path, const void *data, size_t size, mode_t mode,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The same with a JSON value, 0644; value NULL (no memory) is an error. */
int kiln_replace_json(const char *path, const json_t *value,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* The same in steps, for larger files: open, write, then keep or drop. */
struct kiln_part {
    int dir, fd; /* fd -1: closed */
    char name[NAME_MAX + 1], path[PATH_MAX];
};
/* KILN_EXISTS for names of the system's own, such as /dev/stdout: other programs use what is there.
 */
int kiln_part_open(struct kiln_part *part, const char *path, mode_t mode,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* DIR may be a link.  Below it ("NAME" or "FOLDER/NAME") no link is followed, so nobody can lead
 * the file elsewhere.  A missing folder is made. */
int kiln_part_open_below(struct kiln_part *part, const char *dir, const char *below, mode_t mode,
                         struct kiln_error *err) KILN_MUST_CHECK;
int kiln_part_write(struct kiln_part *part, const void *data, size_t size,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Renames the part into place.  to_disk: waits for the disk first.  An error leaves no part. */
int kiln_part_keep(struct kiln_part *part, bool to_disk, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_part_drop(struct kiln_part *part); /* also after a failed open, and twice */

/* Opens a regular file below DIR for reading, without following links; -1 if there is none. */
int kiln_open_below(const char *dir, const char *below);

/* Writes all bytes to a blocking descriptor; 0, or -1 with errno. */
int kiln_write_all(int fd, const void *data, size_t size);
/* fsync of a file or a directory; 0, also where a file system cannot, or -1 with errno. */
int kiln_sync(int fd);

#endif
