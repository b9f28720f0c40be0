/* given.h - reads what a user names by hand as a file: settings, styles, a password.
 *
 * A regular file, /dev/null, or a pipe, which is what a shell makes of <(...) and what /dev/stdin
 * and /dev/fd/N often are.  A pipe is waited for, but not for ever: a FIFO may have no writer.
 */
#ifndef KILN_GIVEN_H
#define KILN_GIVEN_H

#include <stddef.h>

#include "schemas/error.h"

#define KILN_GIVEN_WAIT_S 5 /* for the whole of a pipe, from opening to its end */

/* All bytes, of which there may be so many.  *ret is malloc'd and handed over, with a NUL behind
 * the bytes that *ret_size does not count.  KILN_NOT_FOUND; KILN_BAD_INPUT for more bytes and for
 * another kind of file; KILN_TIMEOUT for a pipe that does not end; else KILN_IO.  The error names
 * the path. */
int kiln_given_read(const char *path, size_t max, char **ret, size_t *ret_size,
                    struct kiln_error *err) KILN_MUST_CHECK;

#endif
