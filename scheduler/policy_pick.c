/* policy_pick.c - the decisions: who is served next, and with which group.
 *
 * Workers with empty hands come first, among them those whose own set has work: so nobody opens
 * a set while its holder stands idle, and nobody gets a second assignment while another has none.
 *
 * The penalty that makes a worker leave its set is, in seconds of unfairness over PATIENCE, the
 * larger of how much longer the other has waited (beyond half of what ours has waited: in a deep
 * backlog everybody waits long) and how many GPU-seconds more our tenant has had.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/policy_state.h"

#define WALK_SETS 32      /* sets looked at in one order before giving up */
#define WALK_GROUPS 8     /* groups of one set */
#define OVERLOAD 1.05     /* a set is overloaded beyond this share of the mean load */
#define DUE_SLACK_MS 5000 /* our own overdue job goes before another's that is this much older */

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

static bool has_room(const struct pol_worker *worker)
{
    if (worker->draining || worker->batch_max == 0 || worker->held_count >= worker->capacity)
        return false;
    return worker->held_count == 0 || !worker->held[worker->held_count - 1].alone;
}

/* A suspect shares a worker with nothing: not in its batch, not behind it. */
static bool allowed(const struct kiln_policy *p, const struct pol_worker *worker, uint32_t group)
{
    return !p->groups[group].alone || worker->held_count == 0;
}

static bool same_size(const struct pol_worker *worker, const struct pol_group *group)
{
    return worker->width == group->width && worker->height == group->height &&
           worker->steps == group->steps;
}

static double switch_cost(const struct kiln_policy *p, uint32_t set)
{
    const struct pol_set *s = &p->sets[set];
    return kiln_cost_switch(p->costs, p->models[s->model].name, s->lora_set);
}

/* --- penalties ------------------------------------------------------------------------------- */
/* Seconds of penalty for serving `mine` while `other` waits; both have ready jobs. */
static double penalty(struct kiln_policy *p, uint32_t mine, uint32_t other, int64_t now_ms)
{
    uint32_t my_queue = kiln_policy_best_queue(p, mine);
    uint32_t its_queue = kiln_policy_best_queue(p, other);
    const struct kiln_order_node *my = &p->queue_rank[my_queue], *its = &p->queue_rank[its_queue];
    if (my->hi >> 40 != its->hi >> 40) /* backfill never holds up other work */
        return my->hi >> 40 ? INFINITY : -INFINITY;
    double my_age = fmax(0, (double)(now_ms - my->lo) / 1000);
    double waited = (double)(my->lo - its->lo) / 1000 - my_age / 2;
    double served = p->tenants[p->queues[my_queue].tenant].used_s -
                    p->tenants[p->queues[its_queue].tenant].used_s;
    return fmax(waited, served) / PATIENCE;
}

/* The best group of the set that the worker may take: its present size while that is fair. */
static uint32_t group_of_set(struct kiln_policy *p, const struct pol_worker *worker, uint32_t set,
                             int64_t now_ms)
{
    uint32_t best = KILN_NONE, group = kiln_policy_best_group(p, set);
    for (int i = 0; i < WALK_GROUPS && group != KILN_NONE; i++) {
        if (allowed(p, worker, group)) {
            if (best == KILN_NONE)
                best = group;
            if (same_size(worker, &p->groups[group]))
                return penalty(p, group, best, now_ms) > SIZE_SWITCH_S ? best : group;
        }
        group = kiln_order_next(p->group_rank, p->sets[set].groups, group);
    }
    return best;
}

static bool better(const struct kiln_policy *p, uint32_t a, uint32_t b)
{
    if (b == KILN_NONE)
        return true;
    const struct kiln_order_node *x = &p->group_rank[a], *y = &p->group_rank[b];
    return x->hi != y->hi ? x->hi < y->hi : x->lo < y->lo;
}

/* --- rule 1: overdue ------------------------------------------------------------------------- */
static bool urgent_job(const struct kiln_policy *p, const struct pol_worker *worker, uint32_t set,
                       int64_t now_ms, struct choice *ret)
{
    uint32_t job = kiln_order_first(p->job_due, p->sets[set].deadlines);
    if (job == KILN_NONE || p->job_due[job].hi > now_ms)
        return false;
    uint32_t group = p->queues[p->jobs[job].queue].group;
    if (!allowed(p, worker, group))
        return false;
    *ret = (struct choice){group, job, KILN_RULE_OVERDUE};
    return true;
}

static bool overdue(const struct kiln_policy *p, const struct pol_worker *worker,
                    const uint32_t models[2], int64_t now_ms, struct choice *ret)
{
    bool found = worker->set != KILN_NONE && urgent_job(p, worker, worker->set, now_ms, ret);
    for (int i = 0; i < 2; i++) {
        uint32_t set = models[i] == KILN_NONE
                           ? KILN_NONE
                           : kiln_order_first(p->set_due, p->models[models[i]].promised_sets);
        struct choice other;
        if (set == KILN_NONE || set == worker->set || !urgent_job(p, worker, set, now_ms, &other))
            continue;
        /* Half of the margin belongs to the workers that have the set. */
        int64_t due = p->job_due[other.job].hi;
        if (p->sets[set].holders > 0 && now_ms < due + p->jobs[other.job].margin_ms / 2)
            continue;
        if (!found || due + DUE_SLACK_MS < p->job_due[ret->job].hi)
            *ret = other;
        found = true;
    }
    return found;
}

/* --- rules 3 and 4: the best of the other sets ----------------------------------------------- */
static uint32_t best_free(struct kiln_policy *p, const struct pol_worker *worker, uint32_t model,
                          int64_t now_ms)
{
    uint32_t *root = &p->models[model].free_sets;
    uint32_t set = kiln_policy_best_set(p, root);
    for (int i = 0; i < WALK_SETS && set != KILN_NONE; i++) {
        uint32_t group = group_of_set(p, worker, set, now_ms);
        if (group != KILN_NONE)
            return group;
        set = kiln_order_next(p->set_rank, *root, set);
    }
    return KILN_NONE;
}

static double load(const struct kiln_policy *p, uint32_t set)
{
    return p->sets[set].backlog_s / (p->sets[set].holders + 1e-9);
}

/* Its holders would still be at it when all others have finished. */
static bool overloaded(const struct kiln_policy *p, uint32_t set)
{
    double mean = p->backlog_s / (p->workers_alive + 1e-9);
    double cost = switch_cost(p, set);
    return load(p, set) > mean * OVERLOAD + cost && load(p, set) > 2 * cost;
}

/* The best held set that deserves one more worker.  idle: the worker would otherwise have nothing
 * to do, so that any set with more than two switches' worth of work will do. */
static uint32_t best_held(struct kiln_policy *p, const struct pol_worker *worker, uint32_t model,
                          uint32_t mine, bool idle, int64_t now_ms)
{
    uint32_t *root = &p->models[model].held_sets, found = KILN_NONE;
    uint32_t set = kiln_policy_best_set(p, root);
    for (int i = 0; i < WALK_SETS && set != KILN_NONE; i++) {
        uint32_t group = set == worker->set ? KILN_NONE : group_of_set(p, worker, set, now_ms);
        if (group != KILN_NONE) {
            double cost = switch_cost(p, set);
            if (overloaded(p, set) ||
                (mine != KILN_NONE && penalty(p, mine, group, now_ms) > 2 * cost))
                return group;
            if (idle && load(p, set) > 2 * cost &&
                (found == KILN_NONE || load(p, set) > load(p, p->groups[found].set)))
                found = group;
        }
        set = kiln_order_next(p->set_rank, *root, set);
    }
    return found;
}

static bool others(struct kiln_policy *p, const struct pol_worker *worker, const uint32_t models[2],
                   uint32_t mine, int64_t now_ms, struct choice *ret)
{
    uint32_t best = KILN_NONE;
    for (int i = 0; i < 2; i++) {
        if (models[i] == KILN_NONE)
            continue;
        uint32_t free_group = best_free(p, worker, models[i], now_ms);
        if (free_group != KILN_NONE && better(p, free_group, best))
            best = free_group;
    }
    bool idle = mine == KILN_NONE && best == KILN_NONE && worker->held_count == 0;
    for (int i = 0; i < 2; i++) {
        if (models[i] == KILN_NONE)
            continue;
        uint32_t held = best_held(p, worker, models[i], mine, idle, now_ms);
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
    if (mine == KILN_NONE) {
        if (any)
            *ret = other;
        return any;
    }
    bool leave =
        any && penalty(p, mine, other.group, now_ms) > switch_cost(p, p->groups[other.group].set);
    *ret = leave ? other : (struct choice){mine, KILN_NONE, KILN_RULE_STAY};
    return true;
}

/* Jobs of the batch: what the worker takes, but near the end no more than its share, so that all
 * workers finish together. */
static uint32_t batch_size(const struct kiln_policy *p, const struct pol_worker *worker,
                           uint32_t group)
{
    if (p->groups[group].alone)
        return 1;
    uint32_t share = (p->ready + p->workers_alive - 1) / p->workers_alive;
    return share < worker->batch_max ? share : worker->batch_max;
}

static void take_job(struct kiln_policy *p, uint32_t job, struct kiln_policy_pick *ret)
{
    uint32_t queue = p->jobs[job].queue;
    kiln_policy_job_unready(p, job);
    kiln_policy_charge(p, p->queues[queue].tenant, p->jobs[job].cost_s);
    ret->ids[ret->count++] = p->jobs[job].id;
    kiln_slots_give(&p->job_slots, job);
    p->jobs[job].id = 0;
    p->queues[queue].refs--;
    kiln_policy_drop_queue(p, queue);
}

static void take(struct kiln_policy *p, uint32_t worker_slot, const struct choice *choice,
                 struct kiln_policy_pick *ret)
{
    struct pol_worker *worker = &p->workers[worker_slot];
    uint32_t group = choice->group, set = p->groups[group].set;
    uint32_t count = batch_size(p, worker, group);
    memset(ret, 0, sizeof(*ret));
    ret->rule = choice->rule;
    p->groups[group].refs++; /* outlives its last job until the end of this function */
    uint32_t first =
        choice->job != KILN_NONE ? p->jobs[choice->job].queue : kiln_policy_best_queue(p, group);
    if (set != worker->set) {
        ret->switch_s = switch_cost(p, set);
        kiln_policy_charge(p, p->queues[first].tenant, ret->switch_s);
        p->switches++;
    }
    if (choice->job != KILN_NONE)
        take_job(p, choice->job, ret);
    while (ret->count < count) {
        uint32_t queue = kiln_policy_best_queue(p, group);
        if (queue == KILN_NONE)
            break;
        take_job(p, kiln_order_first(p->job_rank, p->queues[queue].jobs), ret);
    }
    const struct pol_group *g = &p->groups[group];
    struct kiln_cost_shape shape = {.model = p->models[p->sets[set].model].name,
                                    .width = g->width,
                                    .height = g->height,
                                    .steps = g->steps,
                                    .guidance = g->guidance,
                                    .jobs = ret->count};
    ret->compute_s = kiln_cost_compute(p->costs, &shape);
    worker->width = g->width;
    worker->height = g->height;
    worker->steps = g->steps;
    ret->tag = ++p->next_tag;
    worker->held[worker->held_count++] = (struct pol_held){ret->tag, g->alone};
    snprintf(ret->worker, sizeof(ret->worker), "%s", worker->name);
    kiln_policy_worker_takes(p, worker_slot, set);
    p->picks++;
    p->groups[group].refs--;
    kiln_policy_drop_group(p, group);
}

bool kiln_policy_pick(struct kiln_policy *p, int64_t now_ms, struct kiln_policy_pick *ret)
{
    if (now_ms != p->last_ms)
        p->epoch++;
    p->last_ms = now_ms;
    kiln_policy_wake(p, now_ms);
    for (uint32_t pass = 0; pass < 2 * HELD_MAX && p->ready > 0; pass++) {
        for (uint32_t slot = 0; slot < p->worker_span; slot++) {
            struct pol_worker *worker = &p->workers[slot];
            if (!p->worker_used[slot] || worker->tried == p->epoch ||
                worker->held_count != pass / 2 || !has_room(worker))
                continue;
            bool own = worker->set != KILN_NONE && p->sets[worker->set].ready > 0;
            struct choice choice;
            if (pass % 2 == 0 && !own)
                continue;
            if (choose(p, worker, now_ms, &choice)) {
                take(p, slot, &choice, ret);
                return true;
            }
            worker->tried = p->epoch;
        }
    }
    return false;
}
