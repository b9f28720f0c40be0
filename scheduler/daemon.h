/* daemon.h - kiln-scheduler from start to end: stand by, lead, stand by again, end.
 *
 * Several may run; the one that holds the advisory lock of its pool leads.  The others ask for the
 * lock every second, so that one of them takes over a second after the leader has gone.
 */
#ifndef KILN_SCHEDULER_DAEMON_H
#define KILN_SCHEDULER_DAEMON_H

#include <stdatomic.h>

#include "schemas/error.h"

struct kiln_scheduler_signals {
    atomic_bool stop;   /* SIGTERM, SIGINT */
    atomic_bool reload; /* SIGHUP: settings are read again */
};

/* Runs until stop.  argv: main's.  Returns 0, or the code of a failure that makes starting
 * pointless: wrong settings, a ledger of another version. */
int kiln_scheduler_run(int argc, char *const *argv, struct kiln_scheduler_signals *signals,
                       struct kiln_error *err) KILN_MUST_CHECK;

#endif
