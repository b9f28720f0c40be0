/* gauges.h - the leader's numbers on the page of metrics.
 *
 * The leader's memory belongs to one thread and a scrape comes in another, so once a second the
 * leader leaves a copy here, and the exporter reads the copy.  Groups can be thousands: the largest
 * are shown by name and all others as one, so that a page has a bound.  A standby shows
 * kiln_leader 0 and nothing of the queue, which it does not know.
 */
#ifndef KILN_SCHEDULER_GAUGES_H
#define KILN_SCHEDULER_GAUGES_H

#include "schemas/error.h"
#include "schemas/text/text.h"

#define KILN_GAUGES_GROUPS 20 /* shown by name */

struct kiln_gauges;
struct kiln_leader;

struct kiln_gauges *kiln_gauges_new(void);         /* NULL: no memory */
void kiln_gauges_free(struct kiln_gauges *gauges); /* accepts NULL */

/* The leader's part of a step: leaves a copy if one is due.  Failures are the ledger's. */
int kiln_gauges_tend(struct kiln_gauges *gauges, const struct kiln_leader *leader, int64_t now_ms,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* The leadership has ended: clears the copy. */
void kiln_gauges_standby(struct kiln_gauges *gauges);

/* For the exporter; arg is the gauges. */
void kiln_gauges_collect(void *arg, struct kiln_text *text);

#endif
