/* priority.h - a lower priority for the server process of a session whose work can wait.
 *
 * A gallery on the machine of its Postgres shares the processors with the commits of workers.  The
 * process that serves a connection is one of the server's, so the client lowers it by its number.
 */
#ifndef KILN_LEDGER_PRIORITY_H
#define KILN_LEDGER_PRIORITY_H

#include <libpq-fe.h>
#include <stdbool.h>

/* The process that serves this connection gets this nice value (1 to 19), if it has no higher one.
 * False, and nothing is changed, for a server on another machine or in another container, one
 * behind a proxy, or one of another user: the number is only trusted if that process is a child of
 * the one that listens on the socket. */
bool kiln_pg_lower(PGconn *conn, int nice);

#endif
