/* regular.h - opens regular files only.  A FIFO without a writer, an endless device or a directory
 * is refused, so that no read waits for ever.
 */
#ifndef KILN_REGULAR_H
#define KILN_REGULAR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "schemas/error.h"

/* Opens a regular file for reading, with its stat.  KILN_NOT_FOUND, KILN_BAD_INPUT for another
 * kind of file, else KILN_IO; the error names the path. */
int kiln_regular_open(const char *path, int *ret_fd, struct stat *ret_stat,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* Whether a file is as it was: device, inode, size, mtime, and ctime too, since whoever rewrites a
 * file can set its mtime back. */
bool kiln_regular_same(const struct stat *a, const struct stat *b);

/* Reads a whole file of at most max bytes; KILN_BAD_INPUT for more.  The caller frees *ret, which
 * ends with a NUL that *ret_size does not count. */
int kiln_regular_read(const char *path, size_t max, char **ret, size_t *ret_size,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
