/* urgent.c - rule 1: deadlines that cannot wait any longer.
 *
 * A worker serves its own deadlines first, which costs no switch, and those of another set once its
 * holder will not be free in time, or once that set is too far behind.
 */
#include <math.h>

#include "scheduler/policy/state.h"

#define WALK_SETS 32 /* sets looked at in the order of their deadlines */
#define AHEAD 8.0    /* how far own deadlines may be ahead, in units of another's slack */
#define STAY_MIN 2.0 /* loads' worth of work before deadlines pull a worker from its set */

static bool urgent_job(const struct kiln_policy *p, const struct pol_worker *worker, uint32_t set,
                       int64_t horizon_ms, struct pol_choice *ret)
{
    uint32_t job = kiln_treap_first(p->job_due, p->sets[set].deadlines);
    if (job == KILN_NONE || p->job_due[job].hi > horizon_ms)
        return false;
    uint32_t group = p->queues[p->jobs[job].queue].group;
    if (!kiln_policy_allowed(p, worker, group))
        return false;
    *ret = (struct pol_choice){group, job, KILN_RULE_OVERDUE};
    return true;
}

/* Whether some holder of the set is free in time, busy now or not.  For a deadline that is missed
 * already any holder of a set that is not overloaded will do: one more load would only make others
 * late, too. */
static bool holder_in_time(struct kiln_policy *p, uint32_t set, int64_t now_ms)
{
    uint32_t holder = kiln_treap_first(p->holder_rank, p->sets[set].ranked_holders);
    if (holder == KILN_NONE || p->workers[holder].draining || p->workers[holder].batch_max == 0)
        return false;
    int64_t due_ms = p->set_due[set].hi;
    if (due_ms <= now_ms)
        return !kiln_policy_overloaded(p, set);
    int64_t margin_ms = (int64_t)((kiln_policy_reserve_s(p) - p->batch_s) * 1000);
    return p->workers[holder].free_ms + margin_ms < due_ms;
}

/* The first urgent job of another set whose holder will not be free in time. */
static bool urgent_other(struct kiln_policy *p, const struct pol_worker *worker, uint32_t model,
                         int64_t now_ms, struct pol_choice *ret)
{
    uint32_t root = p->models[model].due_sets, set = kiln_treap_first(p->set_due, root);
    for (int i = 0; i < WALK_SETS && set != KILN_NONE; i++) {
        if (p->set_due[set].hi > p->horizon_ms)
            return false;
        bool waits = set == worker->set || holder_in_time(p, set, now_ms);
        if (!waits && urgent_job(p, worker, set, p->horizon_ms, ret))
            return true;
        set = kiln_treap_next(p->set_due, root, set);
    }
    return false;
}

/* The first deadline of a set without a holder; INT64_MAX: none. */
static int64_t unheld_due(const struct kiln_policy *p, const struct pol_worker *worker,
                          uint32_t model, struct pol_choice *ret)
{
    uint32_t root = p->models[model].due_sets, set = kiln_treap_first(p->set_due, root);
    for (int i = 0; i < WALK_SETS && set != KILN_NONE; i++) {
        if (p->sets[set].holders == 0 && urgent_job(p, worker, set, INT64_MAX, ret))
            return p->job_due[ret->job].hi;
        set = kiln_treap_next(p->set_due, root, set);
    }
    return INT64_MAX;
}

/* A worker's own deadlines are served before those of a set without a holder until the gap exceeds
 * AHEAD times that set's slack.  So sets are gone through in waves, as long as the deadlines allow,
 * and not in the order of single jobs.  A deadline that is missed already forces no switch. */
static bool too_far_ahead(const struct kiln_policy *p, const struct pol_worker *worker,
                          int64_t other_due_ms, int64_t now_ms)
{
    if (other_due_ms < now_ms)
        return false;
    uint32_t job = kiln_treap_first(p->job_due, p->sets[worker->set].deadlines);
    int64_t reserve_ms = (int64_t)(kiln_policy_reserve_s(p) * 1000);
    double left_ms = fmax((double)reserve_ms, (double)(other_due_ms - now_ms - reserve_ms));
    return (double)(p->job_due[job].hi - other_due_ms) > AHEAD * left_ms;
}

/* The worker's own deadlines (own_due: it has some) cost no switch.  Others come before them if one
 * is too far behind in a set without a holder, or cannot wait any longer and is not missed yet. */
static bool other_due(struct kiln_policy *p, const struct pol_worker *worker, uint32_t model,
                      bool own_due, int64_t now_ms, struct pol_choice *ret)
{
    int64_t due_ms = unheld_due(p, worker, model, ret);
    if (own_due && due_ms != INT64_MAX && too_far_ahead(p, worker, due_ms, now_ms))
        return true;
    if (!urgent_other(p, worker, model, now_ms, ret))
        return false;
    if (!own_due)
        return true;
    due_ms = p->job_due[ret->job].hi;
    uint32_t own = kiln_treap_first(p->job_due, p->sets[worker->set].deadlines);
    int64_t last_ms = now_ms + (int64_t)(kiln_policy_reserve_s(p) * 1000);
    return due_ms <= last_ms && due_ms >= now_ms && due_ms < p->job_due[own].hi;
}

bool kiln_policy_overdue(struct kiln_policy *p, const struct pol_worker *worker,
                         const uint32_t models[2], int64_t now_ms, struct pol_choice *ret)
{
    int64_t horizon_ms = kiln_policy_horizon(p, now_ms);
    if (horizon_ms == INT64_MIN)
        return false;
    struct pol_choice other;
    bool holds = worker->set != KILN_NONE && p->sets[worker->set].ready > 0;
    bool own_due = holds && urgent_job(p, worker, worker->set, INT64_MAX, &other);
    bool fresh = holds && worker->since_switch_s < STAY_MIN * p->load_s;
    for (int i = 0; i < 2 && !fresh; i++) {
        if (models[i] == KILN_NONE || !other_due(p, worker, models[i], own_due, now_ms, &other))
            continue;
        *ret = other;
        return true;
    }
    return own_due && urgent_job(p, worker, worker->set, horizon_ms, ret);
}
