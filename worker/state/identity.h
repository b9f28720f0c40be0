/* identity.h - one worker id, one worker.
 *
 * Two processes with one id would read one stream and overwrite each other's heartbeat.  The first
 * one stays.  A newcomer that finds a live heartbeat of another incarnation waits one lease for it
 * to expire, then refuses to start; it does not wait if that process ran on this host and has
 * ended.  Of two that start at the same moment, the last writer stays.
 */
#ifndef KILN_IDENTITY_H
#define KILN_IDENTITY_H

#include "storage/bus/bus.h"
#include "worker/state/worker.h"

/* Checks once; KILN_EXISTS names the other process, and the caller waits.  If the id is free,
 * deletes control messages for a predecessor from the worker's stream; its unread assignments stay.
 */
int kiln_identity_claim(struct kiln_worker *worker, struct kiln_bus *bus,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* After the first heartbeat: KILN_EXISTS if another incarnation has sent one since. */
int kiln_identity_confirm(struct kiln_worker *worker, struct kiln_bus *bus,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* After a command on one of this worker's keys: code, or 0 if the key had a value of another type.
 * That value is then deleted, and the caller may repeat the command. */
int kiln_identity_repair(struct kiln_bus *bus, const char *key, int code,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
