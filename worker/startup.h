/* startup.h - the steps before the worker's threads start, and the row that says it is gone. */
#ifndef KILN_STARTUP_H
#define KILN_STARTUP_H

#include "worker/signals.h"

/* Checks the ledger's schema, writing to the store and the worker's id, loads the model and sends
 * the first heartbeat.  Waits for servers that do not answer, since servers and workers are often
 * started together; a wrong setting is an error at once.  0 also when a signal ended the wait: the
 * drain is then raised. */
int kiln_startup(struct kiln_daemon *daemon, struct kiln_error *err) KILN_MUST_CHECK;

/* Writes into the ledger, for people to see, that the worker has ended, and why if it was not asked
 * to (NULL); nothing if the ledger has no row of it or another worker has the id now.  Tries once,
 * and briefly unless threads that read the settings still run. */
void kiln_startup_gone(struct kiln_daemon *daemon, const char *trouble, bool threads_run);

#endif
