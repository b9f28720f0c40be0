/* acl.h - the Redis users of Kiln: each with the keys and commands that its part needs.
 *
 * The names are those of the database roles (database_roles.h), and kiln_producer, which may only
 * enqueue.
 */
#ifndef KILN_BUS_ACL_H
#define KILN_BUS_ACL_H

#include "storage/bus/bus.h"

#define KILN_BUS_USER_COUNT 6
#define KILN_BUS_RULES_MAX 4096
extern const char *const kiln_bus_user_names[KILN_BUS_USER_COUNT];

/* The rules of a user, "on resetpass #... resetkeys ... -@all +ping ...", as in a line of an ACL
 * file, after the name; hash: SHA-256 of the password in hex.  KILN_FULL if they do not fit. */
int kiln_bus_rules(int user, const char *pool, const char *hash, char out[KILN_BUS_RULES_MAX],
                   struct kiln_error *err) KILN_MUST_CHECK;

/* The setting `redis` for another user. */
int kiln_bus_url_as(const char *url, const char *user, char *out, size_t size,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* Creates the user, or replaces its rules. */
int kiln_bus_set_user(struct kiln_bus *bus, const char *name, const char *rules,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Writes the users to the server's ACL file; KILN_CONFIG if it has none; a restart then
 * forgets them. */
int kiln_bus_save_users(struct kiln_bus *bus, struct kiln_error *err) KILN_MUST_CHECK;

#endif
