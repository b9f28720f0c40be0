/* costs.c - the ledger's table of learned costs: always empty here.
 *
 * Estimates decide who draws what and never whether a job is lost; with none kept, each leader of a
 * run learns by itself, as the first one of a fleet does.
 */
#include "storage/ledger/queue/cost.h"

int kiln_ledger_costs(struct kiln_ledger *ledger, const char *pool, kiln_each_cost *each, void *arg,
                      struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)each, (void)arg, (void)err;
    return 0;
}

int kiln_ledger_keep_costs(struct kiln_ledger *ledger, const char *pool,
                           const struct kiln_cost_row *rows, size_t count, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)rows, (void)count, (void)err;
    return 0;
}
