/* regular.h - files that are read whole or mapped, and nothing else under their names: a FIFO that
 * nobody writes to, a device without an end and a directory are refused instead of waited for.
 */
#ifndef KILN_REGULAR_H
#define KILN_REGULAR_H

#include <stddef.h>
#include <sys/stat.h>

#include "schemas/error.h"

/* A regular file for reading, and what is known of it.  KILN_NOT_FOUND, KILN_BAD_INPUT for another
 * kind of file, else KILN_IO; the error names the path. */
int kiln_regular_open(const char *path, int *ret_fd, struct stat *ret_stat,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* All bytes of one, of which there may be so many: KILN_BAD_INPUT for more.  *ret is malloc'd and
 * handed over, with a NUL behind the bytes that *ret_size does not count. */
int kiln_regular_read(const char *path, size_t max, char **ret, size_t *ret_size,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
