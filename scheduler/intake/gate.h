/* gate.h - quotas at the intake: who may have how many jobs waiting.
 *
 * What is too much is refused with a reason that says what to do, not left half-way: a client that
 * is told sends again later, and identity makes that safe.  Jobs that are in the ledger already
 * are never refused, so an entry that is read twice is counted as it was the first time.
 */
#ifndef KILN_GATE_H
#define KILN_GATE_H

#include <stdint.h>

#include "storage/ledger/ledger.h"

struct kiln_gate;

/* The ledger stays the caller's. */
int kiln_gate_new(struct kiln_ledger *ledger, const char *pool, struct kiln_gate **ret,
                  struct kiln_error *err) KILN_MUST_CHECK;
void kiln_gate_free(struct kiln_gate *gate); /* accepts NULL */

/* ret_refused[i]: jobs[i] is beyond its tenant's quota, which is on record by then; the others may
 * be inserted.  *ret_count = how many are refused. */
int kiln_gate_judge(struct kiln_gate *gate, const struct kiln_new_job *jobs, size_t count,
                    int64_t now_ms, bool *ret_refused, size_t *ret_count,
                    struct kiln_error *err) KILN_MUST_CHECK;

#endif
