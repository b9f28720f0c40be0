/* choose.c - rules 2 to 4: a worker stays on its set, or takes another one.
 *
 * The penalty that makes a worker leave its set is the larger of two.  One is how much longer the
 * other set has waited (beyond half of what ours has waited: in a deep backlog everybody waits
 * long) over PATIENCE.  The other is how much more of the fleet's time our tenant has had over
 * FAIR_PATIENCE.
 */
#include <math.h>
#include <string.h>

#include "scheduler/policy/state.h"

#define WALK_SETS 32  /* sets looked at in one order */
#define WALK_GROUPS 8 /* groups of one set */

const char *kiln_policy_rule_name(enum kiln_policy_rule rule)
{
    static const char *const names[] = {"overdue", "stay", "open", "join"};
    return names[rule];
}

/* --- the group of a set ---------------------------------------------------------------------- */
/* Seconds of penalty for serving `mine` while `other` waits; both have ready jobs. */
static double penalty(struct kiln_policy *p, uint32_t mine, uint32_t other, int64_t now_ms)
{
    uint32_t my_queue = kiln_policy_best_queue(p, mine);
    uint32_t its_queue = kiln_policy_best_queue(p, other);
    const struct kiln_treap_node *my = &p->queue_rank[my_queue], *its = &p->queue_rank[its_queue];
    if (pol_is_backfill(my) != pol_is_backfill(its)) /* backfill never holds up other work */
        return pol_is_backfill(my) ? INFINITY : -INFINITY;
    double my_age = fmax(0, (double)(now_ms - my->lo) / 1000);
    double waited = (double)(my->lo - its->lo) / 1000 - my_age / 2;
    double served = p->tenants[p->queues[my_queue].tenant].used_s -
                    p->tenants[p->queues[its_queue].tenant].used_s;
    served /= fmax(p->speed_sum, 1);
    return fmax(waited / PATIENCE, served / FAIR_PATIENCE);
}

static uint64_t first_id(struct kiln_policy *p, uint32_t group)
{
    const uint32_t queue = kiln_policy_best_queue(p, group);
    return p->jobs[kiln_treap_first(p->job_rank, p->queues[queue].jobs)].id;
}

static bool same_rank(const struct kiln_policy *p, uint32_t a, uint32_t b)
{
    const struct kiln_treap_node *x = &p->group_rank[a], *y = &p->group_rank[b];
    return x->hi == y->hi && x->lo == y->lo;
}

/* Jobs of one batch were queued at one moment.  Those that differ only in the steps that are left
 * go in the order of their ids, so that none waits for all of the other kind. */
static bool goes_before(struct kiln_policy *p, uint32_t group, uint32_t chosen)
{
    if (chosen == KILN_NONE)
        return true;
    const struct pol_group *a = &p->groups[group], *b = &p->groups[chosen];
    return same_rank(p, group, chosen) && a->skip != b->skip && pol_renders_alike(a, b) &&
           first_id(p, group) < first_id(p, chosen);
}

static bool is_size_of(const struct pol_worker *worker, const struct pol_group *group)
{
    return worker->width == group->width && worker->height == group->height &&
           worker->steps == group->steps && strcmp(worker->mode, group->mode) == 0;
}

/* The best group of the set that the worker may take: its present size while that is fair. */
static uint32_t group_of_set(struct kiln_policy *p, const struct pol_worker *worker, uint32_t set,
                             int64_t now_ms)
{
    uint32_t best = KILN_NONE, same = KILN_NONE, group = kiln_policy_best_group(p, set);
    for (int i = 0; i < WALK_GROUPS && group != KILN_NONE; i++) {
        if (same != KILN_NONE && !same_rank(p, group, same))
            break;
        if (kiln_policy_allowed(p, worker, group)) {
            if (goes_before(p, group, best))
                best = group;
            if (is_size_of(worker, &p->groups[group]) && goes_before(p, group, same))
                same = group;
        }
        group = kiln_treap_next(p->group_rank, p->sets[set].groups, group);
    }
    if (same == KILN_NONE || same == best)
        return best;
    double cost = fmax(SIZE_SWITCH_S, kiln_policy_capture_s(p, worker, best));
    return penalty(p, same, best, now_ms) > cost ? best : same;
}

static bool better(const struct kiln_policy *p, uint32_t a, uint32_t b)
{
    if (b == KILN_NONE)
        return true;
    const struct kiln_treap_node *x = &p->group_rank[a], *y = &p->group_rank[b];
    return x->hi != y->hi ? x->hi < y->hi : x->lo < y->lo;
}

/* --- rules 3 and 4: the best of the other sets ----------------------------------------------- */
/* The first that the worker may take; of those that rank equally, the one that it has to fetch the
 * fewest files for. */
static uint32_t best_free(struct kiln_policy *p, const struct pol_worker *worker, uint32_t model,
                          int64_t now_ms)
{
    uint32_t *root = &p->models[model].free_sets;
    uint32_t set = kiln_policy_best_set(p, root), best = KILN_NONE, least = UINT32_MAX;
    for (int i = 0; i < WALK_SETS && set != KILN_NONE && least > 0; i++) {
        uint32_t group = group_of_set(p, worker, set, now_ms);
        if (group != KILN_NONE && best != KILN_NONE && !same_rank(p, group, best))
            break;
        uint32_t fetches = group == KILN_NONE ? least : kiln_policy_fetches(p, worker, set);
        if (fetches < least) {
            best = group;
            least = fetches;
        }
        set = kiln_treap_next(p->set_rank, *root, set);
    }
    return best;
}

/* Seconds gained if an idle worker helps with a set that others hold: what goes last there begins
 * sooner, and later jobs find one more holder. */
static double help_s(struct kiln_policy *p, const struct pol_worker *worker, uint32_t set,
                     uint32_t group, int64_t now_ms)
{
    uint32_t holder = kiln_treap_first(p->holder_rank, p->sets[set].ranked_holders);
    double free_s = fmax(0, (double)(p->workers[holder].free_ms - now_ms) / 1000);
    double unit_s = kiln_policy_unit_s(p, group) / worker->speed;
    double before_s = free_s + fmax(0, kiln_policy_holders_s(p, set) - unit_s);
    return before_s - kiln_policy_load_s(p, worker, set) - kiln_policy_capture_s(p, worker, group) +
           kiln_policy_worth_s(p, set, p->sets[set].holders + 1) - kiln_policy_regret_s(p, worker);
}

/* The best set with a holder that deserves one more worker: an overloaded one or, for an idle
 * worker, the one where its help ends something soonest. */
static uint32_t best_held(struct kiln_policy *p, const struct pol_worker *worker, uint32_t model,
                          bool idle, int64_t now_ms)
{
    uint32_t root = p->models[model].loaded_sets, found = KILN_NONE;
    double most = 0;
    uint32_t set = kiln_treap_first(p->set_load, root);
    for (int i = 0; i < WALK_GROUPS && set != KILN_NONE; i++) {
        uint32_t group = set == worker->set ? KILN_NONE : group_of_set(p, worker, set, now_ms);
        if (group != KILN_NONE &&
            (kiln_policy_overloaded(p, set) || !kiln_policy_holder_may(p, set, group)))
            return group;
        double gain = group != KILN_NONE && idle ? help_s(p, worker, set, group, now_ms) : 0;
        if (gain > most) {
            most = gain;
            found = group;
        }
        if (!idle && set != worker->set)
            break;
        set = kiln_treap_next(p->set_load, root, set);
    }
    return found;
}

static bool others(struct kiln_policy *p, const struct pol_worker *worker, const uint32_t models[2],
                   uint32_t mine, int64_t now_ms, struct pol_choice *ret)
{
    uint32_t best = KILN_NONE;
    for (int i = 0; i < 2 && models[i] != KILN_NONE; i++) {
        uint32_t free_group = best_free(p, worker, models[i], now_ms);
        if (free_group != KILN_NONE && better(p, free_group, best))
            best = free_group;
    }
    bool idle = mine == KILN_NONE && best == KILN_NONE && worker->busy == 0;
    for (int i = 0; i < 2 && models[i] != KILN_NONE; i++) {
        uint32_t held = best_held(p, worker, models[i], idle, now_ms);
        if (held != KILN_NONE && better(p, held, best))
            best = held;
    }
    if (best == KILN_NONE)
        return false;
    bool held = p->sets[p->groups[best].set].holders > 0;
    *ret = (struct pol_choice){best, KILN_NONE, held ? KILN_RULE_JOIN : KILN_RULE_OPEN};
    return true;
}

/* --- the rule that decides ------------------------------------------------------------------- */
bool kiln_policy_choose(struct kiln_policy *p, const struct pol_worker *worker, int64_t now_ms,
                        struct pol_choice *ret)
{
    uint32_t models[2] = {p->pool_model,
                          worker->model == p->pool_model ? KILN_NONE : worker->model};
    if (kiln_policy_overdue(p, worker, models, now_ms, ret))
        return true;
    uint32_t mine =
        worker->set == KILN_NONE ? KILN_NONE : group_of_set(p, worker, worker->set, now_ms);
    struct pol_choice other;
    bool any = others(p, worker, models, mine, now_ms, &other);
    bool leave =
        any && (mine == KILN_NONE || penalty(p, mine, other.group, now_ms) >
                                         kiln_policy_switch_s(p, p->groups[other.group].set));
    *ret = leave ? other : (struct pol_choice){mine, KILN_NONE, KILN_RULE_STAY};
    return leave || mine != KILN_NONE;
}
