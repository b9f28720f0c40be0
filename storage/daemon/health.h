/* health.h - when each server last answered a daemon, and whether that is too long ago.
 *
 * A running process may do no work, because a server is silent.  So health is the age of the last
 * answer.  There is one set of facts in each process; any thread may write and read it.
 */
#ifndef KILN_HEALTH_H
#define KILN_HEALTH_H

#include <stdbool.h>
#include <stddef.h>

#include "schemas/error.h"

enum kiln_peer { KILN_PEER_LEDGER, KILN_PEER_BUS, KILN_PEER_STORE, KILN_PEER_COUNT };
const char *kiln_peer_name(enum kiln_peer peer); /* "ledger", "bus", "store" */

/* From now on the peer must answer every limit_s seconds; 0: it is not polled any more. */
void kiln_health_expect(enum kiln_peer peer, double limit_s);
/* The main loop asks this peer now.  If that takes long, the others are asked late, which does not
 * count against them. */
void kiln_health_asks(enum kiln_peer peer);
/* Whether it is time to probe a peer that was idle: a third of its limit after its last answer, or
 * after this last returned true.  Returns true to one thread. */
bool kiln_health_due(enum kiln_peer peer);
/* The peer has answered. */
void kiln_health_heard(enum kiln_peer peer);
/* Why there is no work yet ("the model is loading"), or NULL once there may be.  text is borrowed
 * for the life of the process. */
void kiln_health_starting(const char *text);

/* Work that fails repeatedly ("intake"), and why; error NULL: it succeeds again.  The time counts
 * from the first error; /healthz fails after three seconds. */
void kiln_health_stuck(const char *what, const struct kiln_error *error);
/* How long it has been stuck, 0 if it is not; *ret_code (enum kiln_code): why. */
double kiln_health_stuck_s(int *ret_code);

/* Why no work is taken although every server answers ("the store refuses the pictures"), or NULL;
 * text is borrowed for the life of the process. */
void kiln_health_refusing(const char *text);

/* Seconds since the peer last answered, or was first expected to; negative: not expected. */
double kiln_health_age_s(enum kiln_peer peer);
/* Whether the process is healthy; text gets a sentence in both cases. */
bool kiln_health_check(char *text, size_t size);
/* Whether it also takes work. */
bool kiln_health_ready(char *text, size_t size);

#endif
