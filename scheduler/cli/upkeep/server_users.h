/* server_users.h - `kiln migrate --roles`: users of Postgres and Redis with few rights, and their
 * files. */
#ifndef KILN_CLI_SERVER_USERS_H
#define KILN_CLI_SERVER_USERS_H

#include "scheduler/cli/core/cli.h"

/* Makes the database roles; with a directory also passwords in it, the Redis users, and a settings
 * file a role.  Files that the directory already has are kept, so it can be repeated while daemons
 * use them.  Prints the users for Redis' ACL file on stdout, or a JSON object.  An exit status. */
int kiln_make_roles(struct kiln_cli *cli, const char *secrets);

#endif
