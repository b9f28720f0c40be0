/* user_file.h - reads a file that a user names by hand: settings, styles, a password.
 *
 * It may be a regular file, /dev/null, or a pipe, such as <(...) of a shell, /dev/stdin and
 * /dev/fd/N. Reading a pipe has a time limit, since a FIFO may have no writer.
 */
#ifndef KILN_USER_FILE_H
#define KILN_USER_FILE_H

#include <stddef.h>

#include "schemas/error.h"

#define KILN_USER_FILE_WAIT_S 5 /* for the whole of a pipe, from opening to its end */

/* Reads at most max bytes.  The caller frees *ret, which ends with a NUL that *ret_size does not
 * count. KILN_NOT_FOUND; KILN_BAD_INPUT for more bytes or another kind of file; KILN_TIMEOUT for a
 * pipe that does not end; else KILN_IO.  The error names the path. */
int kiln_user_file_read(const char *path, size_t max, char **ret, size_t *ret_size,
                        struct kiln_error *err) KILN_MUST_CHECK;

#endif
