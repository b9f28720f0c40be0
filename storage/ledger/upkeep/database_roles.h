/* database_roles.h - the database users of Kiln, each with the rights that schemas/roles.sql
 * grants.
 *
 * Made by `kiln migrate --roles`, which needs CREATEROLE.  Passwords are hashed here (SCRAM), so
 * that neither the network nor the server's log ever sees one.
 */
#ifndef KILN_DATABASE_ROLES_H
#define KILN_DATABASE_ROLES_H

#include "schemas/config/config.h"
#include "schemas/error.h"

#define KILN_ROLE_COUNT 5 /* the users of storage/bus/acl.h but kiln_producer, in their order */

/* Makes the roles that are missing and grants what each may.  passwords[i] becomes that of role i;
 * NULL: it keeps what it has.  kiln_operator may become kiln_reader, as which its questions are
 * then asked.  *ret_made counts the new ones.  All or nothing. */
int kiln_roles_make(const struct kiln_config *config, const char *const passwords[KILN_ROLE_COUNT],
                    int *ret_made, struct kiln_error *err) KILN_MUST_CHECK;

/* The setting `postgres` for another user: without user and password of ours, with those given.
 * malloc'd. */
int kiln_roles_conninfo(const struct kiln_config *config, const char *user, const char *passfile,
                        char **ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
