/* hold.h - what is held back from the workers, by order of people or of the scheduler.
 *
 * A hold names jobs by scope: all of the pool, all backfill, one standing order, a tenant, a group
 * (scheduler/pauses.h says how a group is named).  Whoever writes a hold last decides; the row of
 * before is handed back, so that both sides of a contradiction can be told.
 */
#ifndef KILN_LEDGER_HOLD_H
#define KILN_LEDGER_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job.h"

struct kiln_ledger;

enum kiln_hold_scope {
    KILN_SCOPE_ALL,
    KILN_SCOPE_BACKFILL,     /* priority -10 */
    KILN_SCOPE_ONE_BACKFILL, /* the standing order of that name */
    KILN_SCOPE_TENANT,
    KILN_SCOPE_GROUP,
    KILN_SCOPE_WINDOW, /* a standing order outside its hours: the scheduler's own */
    KILN_SCOPE_QUOTA,  /* a tenant that has used up its day: the scheduler's own */
    KILN_SCOPE_COUNT
};
const char *kiln_scope_name(enum kiln_hold_scope scope); /* as in the ledger */

#define KILN_HOLD_NAME_MAX (KILN_LORA_SET_MAX + KILN_NAME_MAX + 48)
#define KILN_HOLD_WHO_MAX 128
#define KILN_HOLD_REASON_MAX 200

struct kiln_hold {
    enum kiln_hold_scope scope;
    char name[KILN_HOLD_NAME_MAX + 1];
    char who[KILN_HOLD_WHO_MAX + 1];
    char reason[KILN_HOLD_REASON_MAX + 1];
    uint64_t batch_id; /* of the standing order, 0 for other scopes */
    bool held;         /* false: lifted at `at_ms` */
    int64_t at_ms, until_ms;
};
typedef int kiln_each_hold(void *arg, const struct kiln_hold *hold, struct kiln_error *err);

/* Those in force, or with `lifted` those that were lifted too; ordered by scope and name.  One of a
 * standing order that is gone is passed over. */
int kiln_ledger_holds(struct kiln_ledger *ledger, const char *pool, bool lifted,
                      kiln_each_hold *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* Records the hold, or its end (hold->held false), now.  *ret_before is the row of before; its who
 * is "" if there was none.  reason and until_ms (0: somebody must lift it) are kept with it. */
int kiln_ledger_hold(struct kiln_ledger *ledger, const char *pool, const struct kiln_hold *hold,
                     struct kiln_hold *ret_before, struct kiln_error *err) KILN_MUST_CHECK;

/* Calls each with the name of every tenant that has jobs in the pool. */
typedef int kiln_each_name(void *arg, const char *name, struct kiln_error *err);
int kiln_ledger_tenants(struct kiln_ledger *ledger, const char *pool, kiln_each_name *each,
                        void *arg, struct kiln_error *err) KILN_MUST_CHECK;

#endif
