/* fleet.h - simulated workers for `kiln bench queue --jobs`.
 *
 * A simulated worker is a thread with a bus and a ledger connection of its own that speaks the
 * whole protocol of schemas/bus.md: beats that are its lease, a stream of its own, assignments
 * taken in and deleted, one transaction a picture fenced by the attempt, events.  What it leaves
 * out is the picture: nothing is drawn, encoded or stored; the rows name objects that do not exist.
 * So it is good for a private stack that is thrown away, and nothing else.
 */
#ifndef KILN_BENCH_FLEET_H
#define KILN_BENCH_FLEET_H

#include <sys/types.h>

#include "schemas/config.h"
#include "schemas/error.h"

/* Starts a process with so many workers ("sim-0", ...); it dies with this one. */
int kiln_bench_fleet_start(const struct kiln_config *config, long workers, pid_t *ret,
                           struct kiln_error *err) KILN_MUST_CHECK;
/* Ends it; KILN_INTERNAL if a worker of it had given up. */
int kiln_bench_fleet_stop(pid_t fleet, struct kiln_error *err) KILN_MUST_CHECK;

#endif
