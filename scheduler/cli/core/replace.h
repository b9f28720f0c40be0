/* replace.h - a file is there whole, or as it was before.
 *
 * What is written lies beside its place as NAME.part until it is whole.  The part is made anew,
 * never opened: whoever may write to the directory cannot have put a link or a file of theirs
 * there first, and what a crash left is no obstacle.  A link under the name itself is replaced,
 * not followed.
 */
#ifndef KILN_CLI_REPLACE_H
#define KILN_CLI_REPLACE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "schemas/error.h"

/* Writes the text, waits for the disk, renames it into place and waits for the directory.  mode:
 * what the file gets from its first byte on, less the umask.  KILN_FULL when the disk is full. */
int kiln_replace(const char *path, const char *text, mode_t mode,
                 struct kiln_error *err) KILN_MUST_CHECK;
/* The same for a path that a user named: a device or a pipe that is there, and /dev/stdout wherever it
 * leads, is written to as it is. */
int kiln_replace_named(const char *path, const char *text, mode_t mode,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The same with a JSON value, 0644; value NULL (no memory) is an error. */
int kiln_replace_json(const char *path, const json_t *value,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* The same step by step, of what is larger: open, write to fd, then keep or drop. */
struct kiln_part {
    int dir, fd; /* fd -1: closed */
    char name[NAME_MAX + 1], path[PATH_MAX];
};
/* KILN_EXISTS for names of the system's own, as /dev/stdout: to replace one would break others. */
int kiln_part_open(struct kiln_part *part, const char *path, mode_t mode,
                   struct kiln_error *err) KILN_MUST_CHECK;
int kiln_part_write(struct kiln_part *part, const void *data, size_t size,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Into its place.  to_disk: not before the disk has it.  An error leaves no part. */
int kiln_part_keep(struct kiln_part *part, bool to_disk, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_part_drop(struct kiln_part *part); /* also after a failed open, and twice */

/* Waits until the disk has the names in a directory, by its descriptor; 0 or -1 with errno. */
int kiln_sync_dir(int dir);

/* DIR is whoever's the user says, a link too; what is below it ("NAME" or "FOLDER/NAME") is reached
 * without following any link, so nobody can lead it elsewhere.  The folder is made when missing. */
int kiln_part_open_below(struct kiln_part *part, const char *dir, const char *below, mode_t mode,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* A regular file there for reading, or -1. */
int kiln_open_below(const char *dir, const char *below);

#endif
