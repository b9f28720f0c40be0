/* identity.h - one worker id, one worker.
 *
 * Two processes under one id would read one stream and overwrite each other's beat.  The rule: who
 * is there first stays.  A newcomer that finds a live beat of another incarnation waits one lease
 * for it to end (a crashed predecessor's beat ends by itself; one whose process is known to be gone
 * on this host is not waited for), then refuses to start.  Two that start in the same moment see
 * each other's beat over their own: the last writer stays.
 */
#ifndef KILN_IDENTITY_H
#define KILN_IDENTITY_H

#include "storage/bus/bus.h"
#include "worker/state/worker.h"

/* Looks once; KILN_EXISTS names the other process, and the caller does the waiting.  If the id is
 * free it takes old orders out of the worker's stream: they were meant for a predecessor.
 * Assignments that it never read stay. */
int kiln_identity_claim(struct kiln_worker *worker, struct kiln_bus *bus,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* After the first beat: KILN_EXISTS if another incarnation has beaten since. */
int kiln_identity_confirm(struct kiln_worker *worker, struct kiln_bus *bus,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* After a command on a key of this worker's own: code, or 0 when a value of another type stood in
 * its way.  That value is deleted then, and the command may be repeated. */
int kiln_identity_mend(struct kiln_bus *bus, const char *key, int code,
                       struct kiln_error *err) KILN_MUST_CHECK;

#endif
