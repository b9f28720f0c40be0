/* startup.h - a worker before its threads: the state of the daemon, and the steps up. */
#ifndef KILN_STARTUP_H
#define KILN_STARTUP_H

#include <pthread.h>
#include <signal.h>

#include "storage/daemon/notify.h"
#include "worker/daemon.h"
#include "worker/state/worker.h"

#define KILN_UPLOADERS 2  /* few, so that pictures gather into groups: one sync for all of them */
#define KILN_COMMITTERS 2 /* Postgres writes its log once for transactions that end together */
#define KILN_THREADS_MAX 300 /* of encode_threads' bound and the rest */

struct kiln_daemon {
    struct kiln_worker worker;
    struct kiln_config *config; /* the worker's; changed only while no thread runs */
    const struct kiln_daemon_source *source;
    struct kiln_exporter *exporter; /* NULL: nobody can scrape */
    struct kiln_watchdog watchdog;
    uint32_t stalled_ticks; /* in a row */
    bool known; /* its row is in the ledger, */
    bool taken; /* but under an id that another worker has */
    sigset_t signals;
    pthread_t threads[KILN_THREADS_MAX], heart;
    uint32_t thread_count;
    uint32_t stops_heard; /* SIGTERM and SIGINT so far */
};

/* Waits up to wait_ms for a signal and follows it. */
void kiln_daemon_signals(struct kiln_daemon *daemon, int wait_ms);

/* Ledger (right schema?), store (may we write?), id (free?), engine (does the model load?), first
 * beat.  A server that does not answer is waited for, since servers and workers are often started
 * together; a wrong setting is an error at once.  0 also when a signal ended the waiting: the
 * drain is then raised. */
int kiln_startup(struct kiln_daemon *daemon, struct kiln_error *err) KILN_MUST_CHECK;

/* At the end: writes into the ledger, for people to see, that the worker has gone.  Nothing where
 * the ledger never heard of it, or where the id is another worker's by now.  Tries once, and
 * briefly unless threads that read the settings still run. */
void kiln_startup_gone(struct kiln_daemon *daemon, bool threads_run);

#endif
