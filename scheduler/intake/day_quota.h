/* day_quota.h - pauses tenants that have used up their GPU-seconds of the day, until midnight.
 *
 * The day is that of UTC, as in `kiln usage`.  What a tenant has used is the sum over its finished
 * pictures, read every few seconds.  So a tenant may exceed its quota by what was rendered since
 * the last look and by what is in flight.
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

/* When it is due: writes or lifts pauses of scope quota. */
int kiln_day_quota_check(struct kiln_day_quota *day, struct kiln_ledger *ledger, const char *pool,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
