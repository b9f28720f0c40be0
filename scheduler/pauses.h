/* pauses.h - the pauses in force, and which jobs each matches.
 *
 * The ledger has them in its table hold (storage/ledger/queue/pause.h): pauses by people, closed
 * windows, used-up daily quotas.  Only the code here says whether a pause matches a job.  The
 * leader keeps paused jobs out of the policy, `kiln why` names the pause of a job; both ask
 * kiln_pauses_find, which walks all of them: there are few.
 *
 * A group is named "SIZE/STEPS/LORAS/MODE", as `kiln status` prints it: 1024x1024/8/none,
 * 512x512/8/ink:0.8+mono:1/coarse=4+3.  "*" matches any, and parts left out at the end are "*"; the
 * mode of exact jobs is "exact", which kiln_group_of leaves out.  A model other than the pool's
 * comes before it: "turbo@1024x1024".
 */
#ifndef KILN_PAUSES_H
#define KILN_PAUSES_H

#include <stddef.h>

#include "scheduler/policy/policy.h"
#include "storage/ledger/queue/pause.h"

struct kiln_pauses {
    struct kiln_pause *at;
    size_t count, room;
};

/* For kiln_ledger_pauses: keeps those in force.  arg is a struct kiln_pauses. */
int kiln_pauses_keep(void *arg, const struct kiln_pause *pause, struct kiln_error *err);
void kiln_pauses_release(struct kiln_pauses *pauses);
bool kiln_pauses_equal(const struct kiln_pauses *a, const struct kiln_pauses *b);
/* Whether every pause of a is one of b. */
bool kiln_pauses_within(const struct kiln_pauses *a, const struct kiln_pauses *b);

/* The first that matches the job, in the order of enum kiln_pause_scope; NULL: none. */
const struct kiln_pause *kiln_pauses_find(const struct kiln_pauses *pauses,
                                          const struct kiln_policy_job *job);
/* One sentence: what is paused, since when by whom, what ends it. */
void kiln_pause_text(const struct kiln_pause *pause, char *out, size_t size);

/* Completes the name of a group as people write it.  KILN_BAD_INPUT says what is wrong. */
int kiln_group_name(const char *text, char *out, size_t size,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The full name of a job's group. */
void kiln_group_of(const struct kiln_policy_job *job, char *out, size_t size);
bool kiln_group_matches(const char *name, const struct kiln_policy_job *job);

#endif
