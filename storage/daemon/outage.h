/* outage.h - a server that does not answer: how long to wait before each retry, and what to log.
 *
 * Half of each pause is random, so that a fleet that lost a server does not return to it at one
 * moment.
 */
#ifndef KILN_OUTAGE_H
#define KILN_OUTAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"

/* The pause after so many failures in a row, without jitter: first, then doubling up to max, in the
 * caller's unit.  0 before the first failure. */
uint32_t kiln_backoff(uint32_t failures, uint32_t first, uint32_t max);

/* Uniform in 0 .. below-1 (0 for 0); for jitter, not for secrets. */
uint32_t kiln_jitter(uint32_t below);

/* Backoff of one connection, from 50 ms to 2 s.  Starts as {0}. */
struct kiln_backoff {
    uint32_t failures; /* in a row */
    int64_t retry_at_ms;
};

/* Sleeps until the next attempt is due, so that a caller that retries in a loop does not spin. */
void kiln_backoff_wait(const struct kiln_backoff *backoff);
void kiln_backoff_failed(struct kiln_backoff *backoff);
void kiln_backoff_reset(struct kiln_backoff *backoff);

/* An outage as one thread sees it.  The log gets one line when it begins and one when it ends. */
struct kiln_outage {
    const char *away, *back;   /* the two log events */
    const char *effect;        /* what happens meanwhile, for the log line */
    bool severe;               /* logged as an error, not as a warning */
    _Atomic uint32_t *sharing; /* NULL, or counts the threads that miss the same server: the first
                                * and the last of them log */
    double since_ms;           /* monotonic; 0: the server answers */
    uint32_t failures;         /* in a row */
};

/* KILN_OUTAGE_OF("store") sets the events store_away and store_back. */
#define KILN_OUTAGE_OF(server) .away = server "_away", .back = server "_back"

/* The server failed.  Logs if it answered before.  Returns the milliseconds to wait: 100 ms at
 * first, 5 s at most. */
int kiln_outage_fail(struct kiln_outage *outage, const struct kiln_error *err);
/* The server answered.  Logs if it was away. */
void kiln_outage_over(struct kiln_outage *outage);
bool kiln_outage_is(const struct kiln_outage *outage);

#endif
