/* cost.h - learned costs: read by a scheduler that begins to lead, written as they change.  They
 * are estimates: losing them costs nothing but worse plans for a while. */
#ifndef KILN_LEDGER_COST_H
#define KILN_LEDGER_COST_H

#include "schemas/cost.h"
#include "schemas/error.h"

struct kiln_ledger;

#define KILN_COST_WRITE_MAX 256 /* rows of one write */

/* Every row of the pool, the oldest first; kinds that the program does not know are left out.  A
 * non-zero return of each ends the walk and is returned. */
typedef int kiln_each_cost(void *arg, const struct kiln_cost_row *row, struct kiln_error *err);
int kiln_ledger_costs(struct kiln_ledger *ledger, const char *pool, kiln_each_cost *each, void *arg,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Inserts or replaces up to KILN_COST_WRITE_MAX rows in one statement; no two may be of one key. */
int kiln_ledger_keep_costs(struct kiln_ledger *ledger, const char *pool,
                           const struct kiln_cost_row *rows, size_t count,
                           struct kiln_error *err) KILN_MUST_CHECK;

#endif
