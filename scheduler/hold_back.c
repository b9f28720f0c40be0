/* hold_back.c - what is held leaves the policy, and comes back when it is let go.
 *
 * Held jobs wait in the ledger like any other; the leader only does not know of them.  So nothing
 * in the policy has to step over them, however many they are, and they take no memory.  A new hold
 * acts on what waits at once; what is let go is found by a sweep over the ledger.  Whatever a
 * worker has in its hands already is drawn.
 */
#include "scheduler/leader.h"
#include "schemas/log.h"

#define HOLDS_MS 400 /* so that an order whose message is lost is obeyed within a second, too */

static bool is_held(const void *arg, const struct kiln_policy_job *job)
{
    return kiln_holds_find(arg, job) != NULL;
}

int kiln_hold_back(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    struct kiln_holds holds = {0};
    if (now_ms < leader->holds_due_ms)
        return 0;
    leader->holds_due_ms = now_ms + HOLDS_MS;
    int rc = kiln_ledger_holds(leader->ledger, leader->pool, false, kiln_holds_keep, &holds, err);
    if (rc || kiln_holds_equal(&holds, &leader->holds)) {
        kiln_holds_release(&holds);
        return rc;
    }
    bool let_go = !kiln_holds_within(&leader->holds, &holds);
    kiln_holds_release(&leader->holds);
    leader->holds = holds;
    uint32_t removed = kiln_policy_remove_where(leader->policy, is_held, &leader->holds);
    if (let_go)
        leader->sweep_due_ms = 0;
    kiln_log(KILN_LOG_INFO, "holds_changed", kiln_f("holds", "%zu", holds.count),
             kiln_f("jobs_held_back", "%u", removed), kiln_f("let_go", "%d", (int)let_go));
    return 0;
}
