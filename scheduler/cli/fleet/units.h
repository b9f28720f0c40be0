/* units.h - the workers of this machine as units of systemd: kiln-worker@N.service uses cuda:N.
 *
 * systemd does what the guard (stack/guard.h) does elsewhere: restarts with pauses, gives up what
 * crashes too often, keeps the logs.  Everything goes through systemctl.
 */
#ifndef KILN_CLI_UNITS_H
#define KILN_CLI_UNITS_H

#include "scheduler/cli/fleet/worker_show.h"
#include "scheduler/cli/stack/guard.h"

#define KILN_INSTANCE_MAX 32

/* Whether systemd is the first process here and has the unit. */
bool kiln_units_here(void);
/* The same, and no guard is meant: neither --dir, nor a stack or a plan beside the settings. */
bool kiln_units_meant(const struct kiln_cli *cli, const struct kiln_args *args);

/* A unit as systemd knows it, a stopped one only if it is still of interest to it. */
struct kiln_unit {
    char instance[KILN_INSTANCE_MAX];
    struct kiln_worker_line line; /* HOST-gpuN, its device and state */
};
/* In order of their instances; at most KILN_GUARD_MAX of them. */
int kiln_units_list(struct kiln_unit *at, int *ret_count, struct kiln_error *err) KILN_MUST_CHECK;

/* `kiln worker start|stop|ls|logs` there; an exit status. */
int kiln_worker_units(struct kiln_cli *cli, const struct kiln_args *args);

#endif
