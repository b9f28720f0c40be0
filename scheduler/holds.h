/* holds.h - what is held back, and which jobs that means.
 *
 * The ledger has the holds (storage/ledger/queue/hold.h); here is the one place that says whether a
 * job falls under one.  The leader keeps held jobs out of the policy, `kiln why` names what holds a
 * job; both ask kiln_holds_find, which walks all of them: there are few.
 *
 * A group is named "SIZE/STEPS/LORAS", as `kiln status` prints it: 1024x1024/8/none,
 * 512x512/8/ink:0.8+mono:1.  "*" stands for any, and parts left out at the end are "*"; a model
 * other than the pool's goes before it: "turbo@1024x1024".
 */
#ifndef KILN_HOLDS_H
#define KILN_HOLDS_H

#include <stddef.h>

#include "scheduler/policy/policy.h"
#include "storage/ledger/queue/hold.h"

struct kiln_holds {
    struct kiln_hold *at;
    size_t count, room;
};

/* For kiln_ledger_holds: keeps those in force.  arg is a struct kiln_holds. */
int kiln_holds_keep(void *arg, const struct kiln_hold *hold, struct kiln_error *err);
void kiln_holds_release(struct kiln_holds *holds);
bool kiln_holds_equal(const struct kiln_holds *a, const struct kiln_holds *b);
/* Whether every hold of a is one of b. */
bool kiln_holds_within(const struct kiln_holds *a, const struct kiln_holds *b);

/* The first hold that the job falls under, in the order of enum kiln_hold_scope; NULL: none. */
const struct kiln_hold *kiln_holds_find(const struct kiln_holds *holds,
                                        const struct kiln_policy_job *job);
/* One sentence: what holds it, since when by whom, what ends it. */
void kiln_hold_text(const struct kiln_hold *hold, char *out, size_t size);

/* The name of a group as people write it, made whole.  KILN_BAD_INPUT says what is wrong. */
int kiln_group_name(const char *text, char *out, size_t size,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The full name of a job's group. */
void kiln_group_of(const struct kiln_policy_job *job, char *out, size_t size);
bool kiln_group_matches(const char *name, const struct kiln_policy_job *job);

#endif
