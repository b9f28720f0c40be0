/* roles.h - users of Postgres and Redis with few rights, and their files, DIR/:
 *
 *     kiln_worker.redis     the password of the Redis user
 *     kiln_worker.pgpass    that of the database role, as libpq reads it
 *     kiln_worker.env       both servers as this user: the unit reads it over /etc/kiln/kiln.conf
 *     kiln_worker.conf      the settings here with these users, for a program started by hand
 *
 * One password serves both servers.  It is only in these files (0600, of the directory's owner, who
 * alone may enter it): the servers get hashes, and it is never an argument of a program.
 */
#ifndef KILN_CLI_ROLES_H
#define KILN_CLI_ROLES_H

#include "scheduler/cli/core/cli.h"

/* Makes the database roles; with a directory also passwords in it, the Redis users, and the files
 * of each.  Passwords that the directory already has are kept, so it can be repeated while daemons
 * use them.  acl: the ACL file of Redis that gets the users' lines; NULL: they are printed.  Prints
 * a JSON object with --json.  An exit status. */
int kiln_roles_and_users(struct kiln_cli *cli, const char *dir, const char *acl);

#endif
