/* fleet.h - simulated workers for `kiln bench queue --jobs`.
 *
 * A simulated worker is a thread with its own connections to bus and ledger.  It speaks the whole
 * protocol of schemas/bus.md: heartbeats, a stream of assignments, one transaction a picture fenced
 * by the attempt, events.  It renders, encodes and stores nothing, so its rows name objects that do
 * not exist.  Use it only on a private stack that is deleted afterwards.
 */
#ifndef KILN_BENCH_FLEET_H
#define KILN_BENCH_FLEET_H

#include <sys/types.h>

#include "schemas/config/config.h"
#include "schemas/error.h"

/* Starts a process with the workers "sim-0", ...; it dies with this process. */
int kiln_bench_fleet_start(const struct kiln_config *config, long workers, pid_t *ret,
                           struct kiln_error *err) KILN_MUST_CHECK;
/* Ends the process; KILN_INTERNAL if one of its workers failed. */
int kiln_bench_fleet_stop(pid_t fleet, struct kiln_error *err) KILN_MUST_CHECK;

#endif
