/* verdict.h - opinions on the safety level of a picture, and which of them counts.
 *
 * The newest opinion of a person counts before the newest of a model, and that before the newest of
 * a rule, whatever their order in time; so classifying everything again overwrites no person.  All
 * are kept (table safety_verdict); the one that counts is in image.  Needs a session that writes.
 */
#ifndef KILN_LEDGER_VERDICT_H
#define KILN_LEDGER_VERDICT_H

#include <stdint.h>

#include "schemas/error.h"

struct kiln_ledger;

enum kiln_verdict_rank { KILN_VERDICT_RULE, KILN_VERDICT_MODEL, KILN_VERDICT_PERSON };

struct kiln_verdict {
    uint64_t job;
    int level; /* enum kiln_safety_level; KILN_SAFETY_UNCHECKED takes this rank's opinion back */
    enum kiln_verdict_rank rank;
    double score;       /* 0 .. 1, of a model */
    const char *source; /* "rule:1", "model:NAME", "person:NAME" */
};

/* Records it.  *ret_level: the level that counts now.  KILN_NOT_FOUND: no picture of that job in
 * the pool. */
int kiln_ledger_judge(struct kiln_ledger *ledger, const char *pool,
                      const struct kiln_verdict *verdict, int *ret_level,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* All opinions on a picture, newest first.  verdict is lent. */
typedef int kiln_each_verdict(void *arg, int64_t at_ms, const struct kiln_verdict *verdict,
                              struct kiln_error *err);
int kiln_ledger_verdicts(struct kiln_ledger *ledger, const char *pool, uint64_t job,
                         kiln_each_verdict *each, void *arg,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
