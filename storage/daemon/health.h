/* health.h - when a daemon last heard its servers, and whether that is long ago.
 *
 * A process that runs is not yet one that works: it may read a stream that nobody writes to any
 * more.  So health is the age of the last poll that a server answered.  One set of facts a process,
 * as there is one log; any thread may write and read them.
 */
#ifndef KILN_HEALTH_H
#define KILN_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

enum kiln_peer { KILN_PEER_LEDGER, KILN_PEER_BUS, KILN_PEER_STORE, KILN_PEER_COUNT };
const char *kiln_peer_name(enum kiln_peer peer); /* "ledger", "bus", "store" */

/* From now on the peer must answer every limit_s seconds; 0: it is not polled any more. */
void kiln_health_expect(enum kiln_peer peer, double limit_s);
/* The main loop asks it now: when that takes too long, the others are not to blame for being asked
 * late. */
void kiln_health_asks(enum kiln_peer peer);
/* Whether it is time to ask a peer that nobody has needed for a while: a third of its limit after
 * it last answered or this last said yes.  Yes is said to one thread. */
bool kiln_health_due(enum kiln_peer peer);
/* It has answered. */
void kiln_health_heard(enum kiln_peer peer);
/* Why there is no work yet ("the model is loading"), or NULL once there may be.  text is borrowed
 * for the life of the process. */
void kiln_health_starting(const char *text);

/* Work that the process does not get on with ("intake"), and why; error NULL: it goes on.  Counted
 * from the first error; health suffers when it has lasted for three seconds. */
void kiln_health_stuck(const char *what, const struct kiln_error *error);
/* How long it has been stuck, 0 when it is not; *ret_code (enum kiln_code) says by what. */
double kiln_health_stuck_s(int *ret_code);

/* Seconds since the peer last answered, or was first expected to; negative: not expected. */
double kiln_health_age_s(enum kiln_peer peer);
/* Whether all is well; text gets a sentence either way. */
bool kiln_health_check(char *text, size_t size);

#endif
