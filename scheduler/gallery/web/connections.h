/* connections.h - every open connection with the time by which it must have moved on.
 *
 * libmicrohttpd counts inactivity, so a client that sends or reads a byte a second could hold a
 * connection for ever.  Here each connection has a deadline for its whole next step: its header,
 * its body and our answer, reading that answer.  A thread shuts the socket of one that is late; the
 * server then closes it as if the client had gone.
 */
#ifndef KILN_GALLERY_CONNECTIONS_H
#define KILN_GALLERY_CONNECTIONS_H

#include <stdint.h>

#include "schemas/error.h"

#define KILN_WEB_HEADER_MS 10000  /* a whole header, from the connection or the last answer */
#define KILN_WEB_BODY_MS 20000    /* a body, and ... */
#define KILN_WEB_BODY_BYTES_MS 32 /* ... another millisecond for so many bytes that have come */
#define KILN_WEB_ANSWER_MS 60000  /* our work */
#define KILN_WEB_READ_MS 30000    /* reading an answer ... */
#define KILN_WEB_READ_BYTES_MS 8  /* ... and so many bytes more each millisecond */

struct kiln_web_connections;
struct kiln_web_connection;

int kiln_web_connections_new(struct kiln_web_connections **ret,
                             struct kiln_error *err) KILN_MUST_CHECK;
/* The server must have closed every connection.  Accepts NULL. */
void kiln_web_connections_free(struct kiln_web_connections *all);

/* fd stays the server's.  NULL: no memory; such a connection has no deadline. */
struct kiln_web_connection *kiln_web_connection_add(struct kiln_web_connections *all, int fd);
void kiln_web_connection_remove(struct kiln_web_connections *all,
                                struct kiln_web_connection *connection); /* accepts NULL */
/* The next step may take so long from now. */
void kiln_web_connection_expect(struct kiln_web_connections *all,
                                struct kiln_web_connection *connection, int64_t limit_ms);
uint32_t kiln_web_connections_count(struct kiln_web_connections *all);
/* How many were cut until now. */
uint64_t kiln_web_connections_cut(struct kiln_web_connections *all);

#endif
