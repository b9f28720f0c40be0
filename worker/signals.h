/* signals.h - the daemon's state, and the signals that end it or make it read its settings again.
 */
#ifndef KILN_SIGNALS_H
#define KILN_SIGNALS_H

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
    bool known;             /* its row is in the ledger, */
    bool taken;             /* but under an id that another worker has */
    sigset_t signals;
    pthread_t threads[KILN_THREADS_MAX], heart;
    uint32_t thread_count;
    uint32_t stops_heard; /* SIGTERM and SIGINT so far */
};

/* Makes the end of the worker this urgent, if it was less so.  by: who wants that, for the log. */
void kiln_raise_drain(struct kiln_worker *worker, enum kiln_drain to, const char *by);

/* Waits up to wait_ms for a signal and obeys it. */
void kiln_daemon_signals(struct kiln_daemon *daemon, int wait_ms);

#endif
