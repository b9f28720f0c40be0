/* standing.h - standing orders: topped up to their mark, within their hours.
 *
 *     orders of the ledger -> who has room -> lines from where the cursor stands -> jobs
 *       -> into the ledger together with the moved cursor,
 *       in one statement (storage/ledger/queue/top_up.c)
 *
 * Everything that matters is in the ledger, so a scheduler that dies amid topping up leaves either
 * all of a step or nothing of it, and its successor goes on from there.  The same thread keeps the
 * scheduler's own holds: orders outside their hours, tenants that have used up their day.
 *
 * A job's seed comes from the order's name and the job's number in it, unless its line names one
 * and it is the first pass; its identity is made of its line and its seed, so no prompt is drawn
 * with the same seed twice, not even by an order that is added again.
 */
#ifndef KILN_STANDING_H
#define KILN_STANDING_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/config.h"
#include "schemas/error.h"

struct kiln_standing;

/* config is borrowed for its life. */
int kiln_standing_open(const struct kiln_config *config, struct kiln_standing **ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
void kiln_standing_close(struct kiln_standing *standing); /* accepts NULL */

struct kiln_standing_made {
    uint64_t fresh; /* new jobs */
    uint64_t again; /* that were cancelled with an order of the same name, and wait again */
    bool more;      /* an order has room for another page */
};
/* Looks at every order and gives each at most one page of jobs.  Failures are the ledger's. */
int kiln_standing_step(struct kiln_standing *standing, struct kiln_standing_made *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;

#endif
