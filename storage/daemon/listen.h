/* listen.h - a listening socket of a daemon's HTTP server, on the first free port of a few.
 *
 * The socket is made here and given to libmicrohttpd, so that a port that is taken is known by its
 * errno and the next one can be tried.
 */
#ifndef KILN_LISTEN_H
#define KILN_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_listen {
    const char *address;         /* numeric: a name may mean another interface tomorrow */
    const char *address_setting; /* where they were set, for errors */
    const char *port_setting;
    uint16_t port;  /* the first one to try; 0: any */
    uint32_t ports; /* how many are tried */
    int backlog;
};

/* *ret_fd: a listening, non-blocking socket; *ret_port: where.  KILN_CONFIG: not a numeric address;
 * KILN_EXISTS: every port is taken. */
int kiln_listen(const struct kiln_listen *wanted, uint16_t *ret_port, int *ret_fd,
                struct kiln_error *err) KILN_MUST_CHECK;
/* Whether a numeric address can be reached from this machine alone. */
bool kiln_address_is_loopback(const char *address);

#endif
