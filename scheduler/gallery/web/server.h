/* server.h - the HTTP server of the gallery: libmicrohttpd, its limits, and who may come in.
 *
 *     connection --> host, token, route --quick--> answer
 *                                       \-slow-> suspended -> work.h -> resumed -> answer
 *
 * Two threads of libmicrohttpd serve pages that are ready and files; whatever needs the ledger is
 * suspended and answered by the workers of work.h.  The site (visit.h) says what is at which path.
 */
#ifndef KILN_GALLERY_SERVER_H
#define KILN_GALLERY_SERVER_H

#include "scheduler/gallery/web/access.h"
#include "scheduler/gallery/web/visit.h"

struct kiln_web_server;

#define KILN_WEB_CONNECTIONS_MAX 1024
#define KILN_WEB_CONNECTIONS_PER_ADDRESS 192 /* not behind a proxy, where all have its address */
#define KILN_WEB_PORTS 20
#define KILN_WEB_END_MS 5000 /* clients that do not read hold up the end of the server so long */

/* Listens at gallery_address on gallery_port or the next free port.  exact: on that port alone, or
 * on any for 0.  access and site are borrowed until the server is stopped.  KILN_CONFIG: the
 * address can be reached from other machines, and there is neither a token nor a proxy. */
int kiln_web_server_start(const struct kiln_config *config, bool exact,
                          const struct kiln_web_access *access, const struct kiln_web_site *site,
                          struct kiln_web_server **ret, struct kiln_error *err) KILN_MUST_CHECK;
uint16_t kiln_web_server_port(const struct kiln_web_server *server);
/* Gauges for the page of metrics. */
void kiln_web_server_gauges(struct kiln_web_server *server, struct kiln_text *text);
/* Accepts no more, sends the answers it has begun within KILN_WEB_END_MS, ends.  Accepts NULL. */
void kiln_web_server_stop(struct kiln_web_server *server);

#endif
