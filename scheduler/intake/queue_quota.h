/* queue_quota.h - a tenant's limit of queued jobs, at the intake.
 *
 * Jobs beyond the limit are refused with a reason that says what to do: the client sends them again
 * later, and the key of each job makes that safe.  Jobs that are in the ledger already are never
 * refused, so an entry that is read twice is counted as it was the first time.
 */
#ifndef KILN_QUEUE_QUOTA_H
#define KILN_QUEUE_QUOTA_H

#include <stdint.h>

#include "storage/ledger/ledger.h"

struct kiln_queue_quota;

/* The ledger stays the caller's. */
int kiln_queue_quota_new(struct kiln_ledger *ledger, const char *pool,
                         struct kiln_queue_quota **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_queue_quota_free(struct kiln_queue_quota *quota); /* accepts NULL */

/* ret_refused[i]: jobs[i] is beyond its tenant's quota, and its refusal is in the ledger; the
 * others may be inserted.  *ret_count = how many are refused. */
int kiln_queue_quota_check(struct kiln_queue_quota *quota, const struct kiln_new_job *jobs,
                           size_t count, int64_t now_ms, bool *ret_refused, size_t *ret_count,
                           struct kiln_error *err) KILN_MUST_CHECK;

#endif
