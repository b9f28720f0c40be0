/* index.c - keeps the levels of the policy in order.
 *
 * A change at the bottom is carried up: the queue takes the rank of its first job, the group that
 * of its first queue, the set that of its first group.  Nothing at one level is moved unless its
 * rank really changed.
 */
#include <math.h>

#include "scheduler/policy/state.h"

static int64_t round_of(const struct kiln_policy *p, uint32_t tenant)
{
    return (int64_t)p->tenants[tenant].round;
}

static int64_t class_of(const struct pol_job *job)
{
    return job->priority <= -KILN_PRIORITY_MAX;
}

static int64_t virtual_ms(const struct pol_job *job)
{
    return job->queued_ms - job->priority * AGEING_MS;
}

/* Puts slot at (hi, lo) of an order, takes it out, or leaves it, as `wanted` and the key say. */
static void place(struct kiln_treap_node *nodes, uint32_t *root, uint32_t slot, bool *listed,
                  bool wanted, int64_t hi, int64_t lo)
{
    if (*listed && wanted && nodes[slot].hi == hi && nodes[slot].lo == lo)
        return;
    if (*listed)
        kiln_treap_remove(nodes, root, slot);
    if (wanted) {
        nodes[slot].hi = hi;
        nodes[slot].lo = lo;
        kiln_treap_insert(nodes, root, slot);
    }
    *listed = wanted;
}

static void place_queue(struct kiln_policy *p, uint32_t queue)
{
    struct pol_queue *q = &p->queues[queue];
    uint32_t head = kiln_treap_first(p->job_rank, q->jobs);
    int64_t hi = 0, lo = 0;
    if (head != KILN_NONE) {
        hi = class_of(&p->jobs[head]) << 40 | round_of(p, q->tenant);
        lo = virtual_ms(&p->jobs[head]);
    }
    place(p->queue_rank, &p->groups[q->group].queues, queue, &q->listed, head != KILN_NONE, hi, lo);
}

static void place_group(struct kiln_policy *p, uint32_t group)
{
    struct pol_group *g = &p->groups[group];
    uint32_t head = kiln_treap_first(p->queue_rank, g->queues);
    bool any = head != KILN_NONE;
    place(p->group_rank, &p->sets[g->set].groups, group, &g->listed, any,
          any ? p->queue_rank[head].hi : 0, any ? p->queue_rank[head].lo : 0);
}

/* The most loaded first; in steps of a few percent, so that a job more or less moves nothing. */
static void place_load(struct kiln_policy *p, uint32_t set)
{
    struct pol_set *s = &p->sets[set];
    bool wanted = s->holders > 0 && s->ready > 0;
    double load_ms = wanted ? 1000 * s->backlog_s / fmax(s->holder_speed, 1e-3) : 0;
    place(p->set_load, &p->models[s->model].loaded_sets, set, &s->loaded, wanted,
          -(int64_t)(24 * log2(1 + load_ms)), 0);
}

void kiln_policy_place_set(struct kiln_policy *p, uint32_t set)
{
    struct pol_set *s = &p->sets[set];
    struct pol_model *model = &p->models[s->model];
    uint32_t head = kiln_treap_first(p->group_rank, s->groups);
    bool any = head != KILN_NONE, held = s->holders > 0;
    if (s->listed && s->in_held != held) {
        kiln_treap_remove(p->set_rank, s->in_held ? &model->held_sets : &model->free_sets, set);
        s->listed = false;
    }
    s->in_held = held;
    place(p->set_rank, held ? &model->held_sets : &model->free_sets, set, &s->listed, any,
          any ? p->group_rank[head].hi : 0, any ? p->group_rank[head].lo : 0);
    place_load(p, set);
}

static void place_promise(struct kiln_policy *p, uint32_t set)
{
    struct pol_set *s = &p->sets[set];
    uint32_t head = kiln_treap_first(p->job_due, s->deadlines);
    bool any = head != KILN_NONE;
    place(p->set_due, &p->models[s->model].promised_sets, set, &s->promised, any,
          any ? p->job_due[head].hi : 0, 0);
}

static void place_upwards(struct kiln_policy *p, uint32_t queue)
{
    uint32_t group = p->queues[queue].group;
    place_queue(p, queue);
    place_group(p, group);
    kiln_policy_place_set(p, p->groups[group].set);
}

/* --- tenants ------------------------------------------------------------------------------------
 */
static void tenant_list(struct kiln_policy *p, uint32_t tenant)
{
    p->tenant_used[tenant].hi = (int64_t)(p->tenants[tenant].used_s * 1000);
    p->tenant_used[tenant].lo = 0;
    kiln_treap_insert(p->tenant_used, &p->active_tenants, tenant);
}

static void tenant_ready(struct kiln_policy *p, uint32_t tenant)
{
    struct pol_tenant *t = &p->tenants[tenant];
    if (t->ready++ > 0)
        return;
    /* Who was away neither keeps old credit nor pays for having been served before: it joins at
     * the level of whoever is being served. */
    t->used_s = fmax(t->used_s, p->served_used_s);
    t->round = t->round > p->served_round ? t->round : p->served_round;
    tenant_list(p, tenant);
}

static void tenant_unready(struct kiln_policy *p, uint32_t tenant)
{
    if (--p->tenants[tenant].ready == 0)
        kiln_treap_remove(p->tenant_used, &p->active_tenants, tenant);
}

void kiln_policy_charge(struct kiln_policy *p, uint32_t tenant, double seconds)
{
    /* Alone there is nobody to be fair to, and charging would only push rounds along. */
    bool listed = p->tenants[tenant].ready > 0;
    if (kiln_treap_count(p->tenant_used, p->active_tenants) < (listed ? 2u : 1u))
        return;
    if (listed)
        kiln_treap_remove(p->tenant_used, &p->active_tenants, tenant);
    struct pol_tenant *t = &p->tenants[tenant];
    p->served_used_s = fmax(p->served_used_s, t->used_s);
    p->served_round = t->round > p->served_round ? t->round : p->served_round;
    double quantum = QUANTUM_S * (p->workers_alive > 0 ? p->workers_alive : 1);
    t->used_s += seconds;
    t->spent_s += seconds;
    while (t->spent_s >= quantum) {
        t->spent_s -= quantum;
        t->round++;
    }
    if (listed)
        tenant_list(p, tenant);
}

/* --- backlog --------------------------------------------------------------------------------- */
/* An estimate is looked up again once the model has learned this much. */
#define COST_TURNS 32

static bool outdated(const struct kiln_policy *p, uint64_t at)
{
    return at == 0 || kiln_cost_turn(p->costs) + 1 >= at + COST_TURNS;
}

/* Sums of floats drift; an empty set is exactly empty. */
static void add_backlog(struct kiln_policy *p, uint32_t set, double seconds)
{
    struct pol_set *s = &p->sets[set];
    s->backlog_s = s->ready ? fmax(0, s->backlog_s + seconds) : 0;
    p->backlog_s = p->ready ? fmax(0, p->backlog_s + seconds) : 0;
}

double kiln_policy_unit_s(struct kiln_policy *p, uint32_t group)
{
    struct pol_group *g = &p->groups[group];
    if (!outdated(p, g->costs_at))
        return g->unit_s;
    const struct kiln_cost_shape shape = {.model = p->models[p->sets[g->set].model].name,
                                          .width = g->width,
                                          .height = g->height,
                                          .steps = g->steps,
                                          .guidance = g->guidance,
                                          .jobs = 1};
    double unit_s = kiln_cost_compute(p->costs, &shape);
    add_backlog(p, g->set, g->ready * (unit_s - g->unit_s));
    g->unit_s = unit_s;
    g->costs_at = kiln_cost_turn(p->costs) + 1;
    return unit_s;
}

double kiln_policy_switch_s(struct kiln_policy *p, uint32_t set)
{
    struct pol_set *s = &p->sets[set];
    if (outdated(p, s->costs_at)) {
        s->switch_s = kiln_cost_switch(p->costs, p->models[s->model].name, s->lora_set);
        s->costs_at = kiln_cost_turn(p->costs) + 1;
    }
    return s->switch_s;
}

double kiln_policy_heat(struct kiln_policy *p, uint32_t set, double more)
{
    struct pol_set *s = &p->sets[set];
    double gone_s = (double)(p->last_ms - s->heat_ms) / 1000;
    s->heat = (gone_s > 0 ? s->heat * exp(-gone_s / HEAT_S) : s->heat) + more;
    s->heat_ms = p->last_ms;
    return s->heat;
}

/* --- jobs ------------------------------------------------------------------------------------ */
static void count_ready(struct kiln_policy *p, const struct pol_job *job, int sign)
{
    uint32_t group = p->queues[job->queue].group;
    struct pol_group *g = &p->groups[group];
    struct pol_set *set = &p->sets[g->set];
    double unit_s = kiln_policy_unit_s(p, group);
    g->ready += (uint32_t)sign;
    set->ready += (uint32_t)sign;
    p->models[set->model].ready += (uint32_t)sign;
    p->ready += (uint32_t)sign;
    add_backlog(p, g->set, sign * unit_s);
    if (set->ready <= 1)
        kiln_policy_place_hot(p, g->set);
}

void kiln_policy_job_ready(struct kiln_policy *p, uint32_t job)
{
    struct pol_job *j = &p->jobs[job];
    struct pol_queue *queue = &p->queues[j->queue];
    uint32_t set = p->groups[queue->group].set;
    kiln_policy_heat(p, set, 1);
    tenant_ready(p, queue->tenant);
    p->job_rank[job].hi = (class_of(j) << 52) + virtual_ms(j);
    p->job_rank[job].lo = (int64_t)j->id;
    kiln_treap_insert(p->job_rank, &queue->jobs, job);
    count_ready(p, j, +1);
    place_upwards(p, j->queue);
    if (j->promise) {
        kiln_policy_promise(p, job);
        kiln_treap_insert(p->job_due, &p->sets[set].deadlines, job);
        place_promise(p, set);
    }
}

void kiln_policy_job_unready(struct kiln_policy *p, uint32_t job)
{
    struct pol_job *j = &p->jobs[job];
    struct pol_queue *queue = &p->queues[j->queue];
    uint32_t set = p->groups[queue->group].set;
    tenant_unready(p, queue->tenant);
    kiln_treap_remove(p->job_rank, &queue->jobs, job);
    count_ready(p, j, -1);
    place_upwards(p, j->queue);
    if (j->promise) {
        kiln_policy_unpromise(p, job);
        kiln_treap_remove(p->job_due, &p->sets[set].deadlines, job);
        place_promise(p, set);
    }
}

void kiln_policy_wake(struct kiln_policy *p, int64_t now_ms)
{
    for (;;) {
        uint32_t job = kiln_treap_first(p->job_rank, p->sleepers);
        if (job == KILN_NONE || p->jobs[job].wake_ms > now_ms)
            return;
        kiln_treap_remove(p->job_rank, &p->sleepers, job);
        p->jobs[job].wake_ms = 0;
        kiln_policy_job_ready(p, job);
        p->epoch++;
    }
}

/* --- the first of each level, with ranks put right ------------------------------------------- */
uint32_t kiln_policy_best_queue(struct kiln_policy *p, uint32_t group)
{
    for (;;) {
        uint32_t queue = kiln_treap_first(p->queue_rank, p->groups[group].queues);
        if (queue == KILN_NONE)
            return queue;
        int64_t hi = p->queue_rank[queue].hi;
        place_queue(p, queue);
        if (p->queue_rank[queue].hi == hi)
            return queue;
    }
}

uint32_t kiln_policy_best_group(struct kiln_policy *p, uint32_t set)
{
    for (;;) {
        uint32_t group = kiln_treap_first(p->group_rank, p->sets[set].groups);
        if (group == KILN_NONE)
            return group;
        struct kiln_treap_node old = p->group_rank[group];
        kiln_policy_best_queue(p, group);
        place_group(p, group);
        if (p->group_rank[group].hi == old.hi && p->group_rank[group].lo == old.lo)
            return group;
    }
}

uint32_t kiln_policy_best_set(struct kiln_policy *p, uint32_t *root)
{
    for (;;) {
        uint32_t set = kiln_treap_first(p->set_rank, *root);
        if (set == KILN_NONE)
            return set;
        struct kiln_treap_node old = p->set_rank[set];
        kiln_policy_best_group(p, set);
        kiln_policy_place_set(p, set);
        if (p->set_rank[set].hi == old.hi && p->set_rank[set].lo == old.lo)
            return set;
    }
}
