/* pick.c - the decisions: which worker is served next, and with which group.
 *
 * Idle workers come first, among them those whose own set has work: so nobody opens a set while
 * its holder is idle, and nobody gets a second assignment while another worker has none.  The set
 * that an idle worker replaces is the one that nobody has asked for longest.  Work is given ahead
 * only shortly before a worker is idle: until then it can still go to the first idle worker.
 *
 * The penalty that makes a worker leave its set is the larger of two.  One is how much longer the
 * other set has waited (beyond half of what ours has waited: in a deep backlog everybody waits
 * long) over PATIENCE.  The other is how much more of the fleet's time our tenant has had over
 * FAIR_PATIENCE.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/policy/state.h"
#include "schemas/wire/wire.h"

#define WALK_SETS 32   /* sets looked at in one order */
#define WALK_GROUPS 8  /* groups of one set */
#define WALK_WORKERS 8 /* idle workers looked at for one that had the set before, */
#define WALK_FILES 64  /* or at least has its files, */
#define WALK_ALL 1024  /* or alone has the files that a group failed without */
#define OVERLOAD 1.05  /* a set is overloaded beyond this share of the mean load */
#define AHEAD 8.0      /* how far own deadlines may be ahead, in units of another's slack */
#define STAY_MIN 2.0   /* loads' worth of work before deadlines pull a worker from its set */
#define SLOW 1.5       /* so many times slower than the fastest counts as slow at the end */

struct choice {
    uint32_t group;
    uint32_t job; /* goes first; KILN_NONE: in the order of the group */
    enum kiln_policy_rule rule;
};

const char *kiln_policy_rule_name(enum kiln_policy_rule rule)
{
    static const char *const names[] = {"overdue", "stay", "open", "join"};
    return names[rule];
}

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
static bool allowed(const struct kiln_policy *p, const struct pol_worker *worker, uint32_t group)
{
    return (!p->groups[group].alone || worker->in_flight_count == 0) &&
           knows_mode(p, worker, group) && !better_elsewhere(p, worker, group);
}

/* Whether some holder of the set may take the group, among those that would be first. */
static bool holder_may(const struct kiln_policy *p, uint32_t set, uint32_t group)
{
    uint32_t root = p->sets[set].ranked_holders, holder = kiln_treap_first(p->holder_rank, root);
    for (int i = 0; i < WALK_WORKERS && holder != KILN_NONE; i++) {
        const struct pol_worker *worker = &p->workers[holder];
        if (knows_mode(p, worker, group) && !better_elsewhere(p, worker, group))
            return true;
        holder = kiln_treap_next(p->holder_rank, root, holder);
    }
    return false;
}

/* --- penalties ------------------------------------------------------------------------------- */
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
    return same_rank(p, group, chosen) && a->skip != b->skip && a->width == b->width &&
           a->height == b->height && a->steps == b->steps && a->guidance == b->guidance &&
           strcmp(a->mode, b->mode) == 0 && first_id(p, group) < first_id(p, chosen);
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
        if (allowed(p, worker, group)) {
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

/* --- load ------------------------------------------------------------------------------------ */
/* Seconds until the holders have rendered all that waits for the set, once they are at it. */
static double load(const struct kiln_policy *p, uint32_t set)
{
    return p->sets[set].backlog_s / fmax(p->sets[set].holder_speed, 1e-3);
}

/* Its holders would still be at it when all others have finished. */
static bool overloaded(struct kiln_policy *p, uint32_t set)
{
    double mean = p->backlog_s / fmax(p->speed_sum, 1e-3);
    return load(p, set) > mean * OVERLOAD + kiln_policy_switch_s(p, set);
}

/* --- rule 1: overdue ------------------------------------------------------------------------- */
static bool urgent_job(const struct kiln_policy *p, const struct pol_worker *worker, uint32_t set,
                       int64_t horizon_ms, struct choice *ret)
{
    uint32_t job = kiln_treap_first(p->job_due, p->sets[set].deadlines);
    if (job == KILN_NONE || p->job_due[job].hi > horizon_ms)
        return false;
    uint32_t group = p->queues[p->jobs[job].queue].group;
    if (!allowed(p, worker, group))
        return false;
    *ret = (struct choice){group, job, KILN_RULE_OVERDUE};
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
        return !overloaded(p, set);
    int64_t margin_ms = (int64_t)((kiln_policy_reserve_s(p) - p->batch_s) * 1000);
    return p->workers[holder].free_ms + margin_ms < due_ms;
}

/* The first urgent job of another set whose holder will not be free in time. */
static bool urgent_other(struct kiln_policy *p, const struct pol_worker *worker, uint32_t model,
                         int64_t now_ms, struct choice *ret)
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
                          uint32_t model, struct choice *ret)
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
                      bool own_due, int64_t now_ms, struct choice *ret)
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

static bool overdue(struct kiln_policy *p, const struct pol_worker *worker,
                    const uint32_t models[2], int64_t now_ms, struct choice *ret)
{
    int64_t horizon_ms = kiln_policy_horizon(p, now_ms);
    if (horizon_ms == INT64_MIN)
        return false;
    struct choice other;
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

/* Seconds of loading that one more holder of the set will probably save, by how often the set is
 * asked for lately. */
static double worth_s(struct kiln_policy *p, uint32_t set, uint32_t holders)
{
    double asked = kiln_policy_heat(p, set, 0) / fmax(holders, 1);
    return kiln_policy_switch_s(p, set) * asked / (1 + asked);
}

/* What the worker loses by giving its set up. */
static double regret_s(struct kiln_policy *p, const struct pol_worker *worker)
{
    return worker->set == KILN_NONE ? 0 : worth_s(p, worker->set, p->sets[worker->set].holders);
}

/* Seconds gained if an idle worker helps with a set that others hold: what goes last there begins
 * sooner, and later jobs find one more holder. */
static double help_s(struct kiln_policy *p, const struct pol_worker *worker, uint32_t set,
                     uint32_t group, int64_t now_ms)
{
    uint32_t holder = kiln_treap_first(p->holder_rank, p->sets[set].ranked_holders);
    double free_s = fmax(0, (double)(p->workers[holder].free_ms - now_ms) / 1000);
    double unit_s = kiln_policy_unit_s(p, group) / worker->speed;
    double before_s = free_s + fmax(0, load(p, set) - unit_s);
    return before_s - kiln_policy_load_s(p, worker, set) - kiln_policy_capture_s(p, worker, group) +
           worth_s(p, set, p->sets[set].holders + 1) - regret_s(p, worker);
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
        if (group != KILN_NONE && (overloaded(p, set) || !holder_may(p, set, group)))
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
                   uint32_t mine, int64_t now_ms, struct choice *ret)
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
    *ret = (struct choice){best, KILN_NONE, held ? KILN_RULE_JOIN : KILN_RULE_OPEN};
    return true;
}

/* --- one worker ------------------------------------------------------------------------------ */
static bool choose(struct kiln_policy *p, const struct pol_worker *worker, int64_t now_ms,
                   struct choice *ret)
{
    uint32_t models[2] = {p->pool_model,
                          worker->model == p->pool_model ? KILN_NONE : worker->model};
    if (overdue(p, worker, models, now_ms, ret))
        return true;
    uint32_t mine =
        worker->set == KILN_NONE ? KILN_NONE : group_of_set(p, worker, worker->set, now_ms);
    struct choice other;
    bool any = others(p, worker, models, mine, now_ms, &other);
    bool leave =
        any && (mine == KILN_NONE || penalty(p, mine, other.group, now_ms) >
                                         kiln_policy_switch_s(p, p->groups[other.group].set));
    *ret = leave ? other : (struct choice){mine, KILN_NONE, KILN_RULE_STAY};
    return leave || mine != KILN_NONE;
}

/* A slow worker that begins a job when the fleet has almost finished would end after all others. */
static bool too_slow(struct kiln_policy *p, const struct pol_worker *worker, uint32_t group)
{
    if (worker->speed * SLOW >= p->speed_max)
        return false;
    double unit_s = kiln_policy_unit_s(p, group);
    return unit_s / worker->speed >
           p->backlog_s / p->speed_sum + p->batch_s + unit_s / p->speed_max;
}

/* --- taking ---------------------------------------------------------------------------------- */
/* The next job of the batch: urgent ones first, then in the order of the group. */
static uint32_t next_job(struct kiln_policy *p, uint32_t group, bool urgent)
{
    uint32_t job =
        urgent ? kiln_treap_first(p->job_due, p->sets[p->groups[group].set].deadlines) : KILN_NONE;
    if (job != KILN_NONE && p->job_due[job].hi <= p->horizon_ms &&
        p->queues[p->jobs[job].queue].group == group)
        return job;
    uint32_t queue = kiln_policy_best_queue(p, group);
    return queue == KILN_NONE ? KILN_NONE : kiln_treap_first(p->job_rank, p->queues[queue].jobs);
}

/* What the assignment is expected to take; the switch is charged to the tenant whose job goes
 * first. */
static void expect(struct kiln_policy *p, const struct pol_worker *worker, uint32_t group,
                   uint32_t first, uint32_t count, struct kiln_policy_pick *ret)
{
    uint32_t set = p->groups[group].set;
    const struct kiln_cost_shape shape = kiln_policy_shape(p, group, count, worker);
    ret->compute_s = kiln_cost_compute(p->costs, &shape);
    ret->capture_s = kiln_policy_capture_s(p, worker, group);
    ret->first_of_size = !kiln_policy_has_size(worker, &p->groups[group]);
    ret->load = kiln_policy_switch_kind(p, worker, set);
    if (set == worker->set)
        return;
    ret->switch_s = kiln_policy_load_s(p, worker, set);
    kiln_policy_charge(p, p->queues[p->jobs[first].queue].tenant, ret->switch_s);
    p->switches++;
}

static void take(struct kiln_policy *p, uint32_t worker_slot, const struct choice *choice,
                 int64_t now_ms, struct kiln_policy_pick *ret)
{
    struct pol_worker *worker = &p->workers[worker_slot];
    uint32_t group = choice->group, set = p->groups[group].set;
    struct pol_group *g = &p->groups[group];
    uint32_t count = kiln_policy_batch_size(p, worker, group);
    count = count < g->ready ? count : g->ready;
    memset(ret, 0, sizeof(*ret));
    ret->rule = choice->rule;
    g->refs++; /* outlives its last job until the end of this function */
    bool urgent = choice->rule == KILN_RULE_OVERDUE;
    uint32_t job = choice->job != KILN_NONE ? choice->job : next_job(p, group, urgent);
    expect(p, worker, group, job, count, ret);
    for (; ret->count < count && job != KILN_NONE; job = next_job(p, group, urgent)) {
        uint32_t tenant = p->queues[p->jobs[job].queue].tenant;
        kiln_policy_job_unready(p, job);
        kiln_policy_charge(p, tenant, ret->compute_s / count);
        ret->ids[ret->count++] = p->jobs[job].id;
        kiln_policy_drop_job(p, job);
    }
    worker->width = g->width;
    worker->height = g->height;
    worker->steps = g->steps;
    memcpy(worker->mode, g->mode, sizeof(worker->mode));
    if (ret->first_of_size)
        worker->sizes[worker->sizes_turn++ % SIZES_MAX] = kiln_policy_size_hash(g);
    ret->tag = ++p->next_tag;
    snprintf(ret->worker, sizeof(ret->worker), "%s", worker->name);
    kiln_policy_plan_set(p, worker_slot, set);
    const struct pol_assignment assignment = {
        .tag = ret->tag,
        .set = set,
        .expected_s = (float)(ret->switch_s + ret->capture_s + ret->compute_s),
        .alone = g->alone,
        .minor = g->minor};
    kiln_policy_add_assignment(p, worker_slot, &assignment, now_ms);
    worker->since_switch_s = (ret->switch_s > 0 ? 0 : worker->since_switch_s) + ret->compute_s;
    p->picks++;
    g->refs--;
    kiln_policy_drop_group(p, group);
}

/* --- all workers ----------------------------------------------------------------------------- */
/* Of the longest idle workers without work of their own, the one that loses least by taking the
 * set: its set is not asked for, or it had the new one before. */
static uint32_t victim(struct kiln_policy *p, uint32_t worker, uint32_t group)
{
    const uint32_t set = p->groups[group].set;
    const struct pol_worker *w = &p->workers[worker];
    uint32_t root = p->models[w->model].rooms, other = kiln_treap_first(p->worker_room, root);
    if (w->in_flight_count > 0 || w->set == set)
        return worker;
    double least = regret_s(p, w) + kiln_policy_load_s(p, w, set);
    bool fetches = kiln_policy_fetches(p, w, set) > 0;
    for (int i = 0; i < (fetches ? WALK_FILES : WALK_WORKERS) && other != KILN_NONE; i++) {
        const struct pol_worker *o = &p->workers[other];
        bool needed = o->set != KILN_NONE && p->sets[o->set].ready > 0;
        if (o->in_flight_count == 0 && !needed && o->speed >= w->speed && allowed(p, o, group)) {
            double loses = regret_s(p, o) + kiln_policy_load_s(p, o, set);
            if (loses < least) {
                worker = other;
                least = loses;
                fetches = kiln_policy_fetches(p, o, set) > 0;
            }
        }
        other = kiln_treap_next(p->worker_room, root, other);
    }
    return worker;
}

static bool try_worker(struct kiln_policy *p, uint32_t worker, int64_t now_ms,
                       struct kiln_policy_pick *ret)
{
    struct pol_worker *w = &p->workers[worker];
    struct choice choice;
    if (w->tried == p->epoch)
        return false;
    bool any = choose(p, w, now_ms, &choice) && !too_slow(p, w, choice.group);
    /* Backfill gives way at the end of each batch: it is never given ahead to a busy worker. */
    uint32_t queue = any && w->busy > 0 ? kiln_policy_best_queue(p, choice.group) : KILN_NONE;
    if (!any || (queue != KILN_NONE && pol_is_backfill(&p->queue_rank[queue]))) {
        w->tried = p->epoch;
        return false;
    }
    take(p, victim(p, worker, choice.group), &choice, now_ms, ret);
    return true;
}

/* Workers whose own set has work. */
static bool pick_hot(struct kiln_policy *p, uint32_t level, int64_t until_ms, int64_t now_ms,
                     struct kiln_policy_pick *ret)
{
    uint32_t set = kiln_treap_after(p->set_hot, p->hot_sets, (int64_t)level - 1);
    for (; set != KILN_NONE; set = kiln_treap_next(p->set_hot, p->hot_sets, set)) {
        if (p->set_hot[set].hi > level || p->set_hot[set].lo > until_ms)
            return false;
        uint32_t holder = kiln_treap_first(p->holder_rank, p->sets[set].ranked_holders);
        if (try_worker(p, holder, now_ms, ret))
            return true;
    }
    return false;
}

/* The others; what one of them does not want, the next ones do not either, unless it is slow, does
 * not know the mode or files of LoRAs, or lacks a file that others have. */
static bool pick_cold(struct kiln_policy *p, uint32_t level, int64_t until_ms, int64_t now_ms,
                      struct kiln_policy_pick *ret)
{
    for (uint32_t model = 0; model < MODELS_MAX; model++) {
        const struct pol_model *m = &p->models[model];
        if (m->refs == 0 || m->rooms == KILN_NONE || p->models[p->pool_model].ready + m->ready == 0)
            continue;
        uint32_t worker = kiln_treap_after(p->worker_room, m->rooms, (int64_t)level - 1);
        const int most = p->sought > 0 ? WALK_ALL : WALK_WORKERS;
        for (int i = 0; i < most && worker != KILN_NONE;) {
            if (p->worker_room[worker].hi > level || p->worker_room[worker].lo > until_ms)
                break;
            if (try_worker(p, worker, now_ms, ret))
                return true;
            i += p->workers[worker].minor >= KILN_WIRE_MINOR_FILES;
            worker = kiln_treap_next(p->worker_room, m->rooms, worker);
        }
    }
    return false;
}

bool kiln_policy_pick(struct kiln_policy *p, int64_t now_ms, struct kiln_policy_pick *ret)
{
    if (now_ms != p->last_ms)
        p->epoch++;
    p->last_ms = now_ms;
    kiln_policy_wake(p, now_ms);
    for (uint32_t level = 0; level < IN_FLIGHT_MAX && p->ready > 0; level++) {
        int64_t until_ms = level == 0 ? INT64_MAX : now_ms + kiln_policy_lead_ms(p);
        if (pick_hot(p, level, until_ms, now_ms, ret) || pick_cold(p, level, until_ms, now_ms, ret))
            return true;
    }
    return false;
}
