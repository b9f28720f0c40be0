/* top_up.h - tops up backfills to their low-water marks, within their windows.
 *
 *     backfills of the ledger -> which are below their marks -> lines from where the cursor stands
 *       -> jobs -> into the ledger together with the moved cursor,
 *       in one statement (storage/ledger/queue/top_up.c)
 *
 * All state is in the ledger: if a scheduler dies while topping up, all of a step is there or
 * nothing, and its successor goes on from there.  The same thread keeps the scheduler's own pauses:
 * backfills outside their windows, tenants that have used up their day.
 *
 * A job's seed comes from the backfill's name and the job's number in it, unless its line names one
 * and it is the first pass.  Its key is made of its line and its seed, so no prompt is rendered
 * with the same seed twice, not even by a backfill that is added again.
 */
#ifndef KILN_TOP_UP_H
#define KILN_TOP_UP_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"

struct kiln_top_up;
struct kiln_routes; /* scheduler/intake/routes.h */

/* config and routes, which chooses the LoRAs, are borrowed for its life. */
int kiln_top_up_open(const struct kiln_config *config, struct kiln_routes *routes,
                     struct kiln_top_up **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_top_up_close(struct kiln_top_up *top_up); /* accepts NULL */

struct kiln_top_up_made {
    uint64_t fresh; /* new jobs */
    uint64_t again; /* cancelled with a backfill of the same name before, and queued again */
    bool more;      /* a backfill is a page or more below its mark */
};
/* Adds at most one page of jobs to each backfill.  Failures are the ledger's. */
int kiln_top_up_step(struct kiln_top_up *top_up, struct kiln_top_up_made *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
