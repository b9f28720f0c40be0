/* outage.h - one thing that may be away (store, ledger, bus) as one thread sees it.
 *
 * Keeps the log to one line when it goes and one when it is back, and says how long to wait before
 * the next try: from 100 ms doubling to 5 s, with jitter, so that a fleet does not knock in step.
 */
#ifndef KILN_OUTAGE_H
#define KILN_OUTAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_outage {
    const char *what;   /* "store", "ledger", "bus"; the log events are store_away, store_back */
    const char *effect; /* what happens meanwhile, for the log line */
    _Atomic uint32_t *sharing; /* NULL, or counts the threads that miss the same thing: the first
                                * and the last of them log */
    double since_ms;           /* 0 = it is there */
    uint32_t tries;
};

/* It failed.  Logs if it worked before.  Returns the milliseconds to wait. */
int kiln_outage_fail(struct kiln_outage *outage, const struct kiln_error *err);
/* It answered.  Logs if it was away. */
void kiln_outage_over(struct kiln_outage *outage);
bool kiln_outage_is(const struct kiln_outage *outage);

#endif
