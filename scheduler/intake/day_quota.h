/* day_quota.h - tenants that have used up their GPU-seconds of the day are held until midnight.
 *
 * The day is that of UTC, as in `kiln usage`.  What a tenant has used is the sum over its finished
 * pictures, looked at every few seconds; so a tenant may get beyond its quota by what was drawn
 * since the last look and by what is in workers' hands.
 */
#ifndef KILN_DAY_QUOTA_H
#define KILN_DAY_QUOTA_H

#include <stdint.h>

#include "schemas/error.h"

struct kiln_ledger;

/* Zero-initialise. */
struct kiln_day_quota {
    int64_t due_ms;
};

/* Looks if it is time to, and writes or lifts holds of scope quota. */
int kiln_day_quota_mind(struct kiln_day_quota *day, struct kiln_ledger *ledger, const char *pool,
                        struct kiln_error *err) KILN_MUST_CHECK;

#endif
