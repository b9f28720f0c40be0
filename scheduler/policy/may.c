/* may.c - which groups a worker may take at all, whatever else it could do.
 *
 * It must know the mode; a suspect job runs alone; and jobs that failed at a worker go to another
 * one first, for a while.
 */
#include "scheduler/policy/state.h"

#define WALK_HOLDERS 8 /* of a set that are looked at */

/* Whether the worker knows the mode of the group. */
static bool knows_mode(const struct kiln_policy *p, const struct pol_worker *worker, uint32_t group)
{
    return worker->minor >= p->groups[group].minor;
}

/* How many files of the group's set must be fetched by the worker that lacks fewest, among those
 * that may soon take the group, other than where it failed.  UINT32_MAX: there is no such worker.
 * Thousands of idle workers may ask, so the answer is kept for the epoch. */
static uint32_t fewest_elsewhere(const struct kiln_policy *p, uint32_t group)
{
    struct pol_group *g = &p->groups[group];
    const uint32_t model = p->sets[g->set].model;
    if (g->fewest_at == p->epoch)
        return g->fewest;
    g->fewest_at = p->epoch;
    g->fewest = UINT32_MAX;
    for (uint32_t i = 0; i < p->worker_span && g->fewest > 0; i++) {
        const struct pol_worker *other = &p->workers[i];
        if (!p->worker_used[i] || other->name_hash == g->avoid || other->draining ||
            other->batch_max == 0 || (other->capacity == 0 && other->in_flight_count == 0) ||
            (model != p->pool_model && model != other->model) || !knows_mode(p, other, group))
            continue;
        const uint32_t missing = kiln_policy_fetches(p, other, g->set);
        g->fewest = missing < g->fewest ? missing : g->fewest;
    }
    return g->fewest;
}

/* Whether the jobs of the group failed at this worker last, and another one may soon take them: it
 * gets them for AVOID_MS.  They may have failed because the store lacks a LoRA that only some
 * workers have: if there is such a worker, it gets them before all others. */
static bool better_elsewhere(const struct kiln_policy *p, const struct pol_worker *worker,
                             uint32_t group)
{
    const struct pol_group *g = &p->groups[group];
    if (g->avoid == 0 || p->last_ms >= g->avoid_until_ms)
        return false;
    if (g->avoid == worker->name_hash)
        return fewest_elsewhere(p, group) != UINT32_MAX;
    const uint32_t missing = kiln_policy_fetches(p, worker, g->set);
    return missing > 0 && fewest_elsewhere(p, group) < missing;
}

/* A suspect shares a worker with nothing: not in its batch, not behind it. */
bool kiln_policy_allowed(const struct kiln_policy *p, const struct pol_worker *worker,
                         uint32_t group)
{
    return (!p->groups[group].alone || worker->in_flight_count == 0) &&
           knows_mode(p, worker, group) && !better_elsewhere(p, worker, group);
}

/* Whether some holder of the set may take the group, among those that would be first. */
bool kiln_policy_holder_may(const struct kiln_policy *p, uint32_t set, uint32_t group)
{
    uint32_t root = p->sets[set].ranked_holders, holder = kiln_treap_first(p->holder_rank, root);
    for (int i = 0; i < WALK_HOLDERS && holder != KILN_NONE; i++) {
        const struct pol_worker *worker = &p->workers[holder];
        if (knows_mode(p, worker, group) && !better_elsewhere(p, worker, group))
            return true;
        holder = kiln_treap_next(p->holder_rank, root, holder);
    }
    return false;
}
