/* socket_dir.h - the folders outside DIR that take a stack's sockets where DIR cannot (stack.c says
 * when). */
#ifndef KILN_CLI_SOCKET_DIR_H
#define KILN_CLI_SOCKET_DIR_H

#include <limits.h>
#include <stdbool.h>

#include "schemas/error.h"

/* The side folder of this DIR, made if it is missing.  KILN_DENIED where it is not ours. */
int kiln_socket_dir_open(const char *dir, char out[PATH_MAX],
                         struct kiln_error *err) KILN_MUST_CHECK;
bool kiln_socket_dir_is(const char *path);

/* Removes side folders of this user whose stack is gone; returns how many.  One stays as long as
 * anything might use it: it says which DIR it is of, that DIR is not there any more or names
 * another folder, no process listens on its sockets, and it holds nothing but sockets.  One that
 * does not say so, of an earlier release, stays for a day after it was last used. */
int kiln_socket_dirs_sweep(void);

#endif
