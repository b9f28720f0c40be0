/* ranks.c - keeps the levels of the policy in order.
 *
 * A change at the bottom is carried up: the queue takes the rank of its first job, the group that
 * of its first queue, the set that of its first group.  Nothing at one level is moved unless its
 * rank really changed.
 */
#include <math.h>

#include "scheduler/policy/state.h"

#define BACKFILL_MS (INT64_C(1) << 52) /* ranks a backfill job behind all others of its queue */

void kiln_policy_place(struct kiln_treap_node *nodes, uint32_t *root, uint32_t slot, bool *listed,
                       const struct kiln_treap_node *key)
{
    if (*listed && key && nodes[slot].hi == key->hi && nodes[slot].lo == key->lo)
        return;
    if (*listed)
        kiln_treap_remove(nodes, root, slot);
    if (key) {
        nodes[slot].hi = key->hi;
        nodes[slot].lo = key->lo;
        kiln_treap_insert(nodes, root, slot);
    }
    *listed = key != NULL;
}

/* --- jobs, queues, groups, sets -------------------------------------------------------------- */
static bool is_backfill(const struct pol_job *job)
{
    return job->priority <= KILN_PRIORITY_BACKFILL;
}

static int64_t virtual_ms(const struct pol_job *job)
{
    return job->queued_ms - job->priority * AGEING_MS;
}

static void place_queue(struct kiln_policy *p, uint32_t queue)
{
    struct pol_queue *q = &p->queues[queue];
    uint32_t head = kiln_treap_first(p->job_rank, q->jobs);
    struct kiln_treap_node key = {0};
    if (head != KILN_NONE) {
        const struct pol_job *job = &p->jobs[head];
        key.hi = (is_backfill(job) ? BACKFILL_RANK : 0) + (int64_t)p->tenants[q->tenant].round;
        key.lo = virtual_ms(job);
    }
    kiln_policy_place(p->queue_rank, &p->groups[q->group].queues, queue, &q->listed,
                      head != KILN_NONE ? &key : NULL);
}

static void place_group(struct kiln_policy *p, uint32_t group)
{
    struct pol_group *g = &p->groups[group];
    uint32_t head = kiln_treap_first(p->queue_rank, g->queues);
    kiln_policy_place(p->group_rank, &p->sets[g->set].groups, group, &g->listed,
                      head != KILN_NONE ? &p->queue_rank[head] : NULL);
}

void kiln_policy_place_set(struct kiln_policy *p, uint32_t set)
{
    struct pol_set *s = &p->sets[set];
    struct pol_model *model = &p->models[s->model];
    uint32_t head = kiln_treap_first(p->group_rank, s->groups);
    bool held = s->holders > 0;
    if (s->in_held != held)
        kiln_policy_place(p->set_rank, s->in_held ? &model->held_sets : &model->free_sets, set,
                          &s->listed, NULL);
    s->in_held = held;
    kiln_policy_place(p->set_rank, held ? &model->held_sets : &model->free_sets, set, &s->listed,
                      head != KILN_NONE ? &p->group_rank[head] : NULL);
    /* The most loaded first, in steps of a few percent, so that one job more moves nothing. */
    double load_ms = 1000 * s->backlog_s / fmax(s->holder_speed, 1e-3);
    const struct kiln_treap_node load = {.hi = -(int64_t)(24 * log2(1 + load_ms))};
    kiln_policy_place(p->set_load, &model->loaded_sets, set, &s->loaded,
                      held && s->ready > 0 ? &load : NULL);
}

static void place_upwards(struct kiln_policy *p, uint32_t queue)
{
    uint32_t group = p->queues[queue].group;
    place_queue(p, queue);
    place_group(p, group);
    kiln_policy_place_set(p, p->groups[group].set);
}

void kiln_policy_place_hot(struct kiln_policy *p, uint32_t set)
{
    struct pol_set *s = &p->sets[set];
    uint32_t holder = kiln_treap_first(p->holder_rank, s->ranked_holders);
    const struct pol_worker *worker = holder != KILN_NONE ? &p->workers[holder] : NULL;
    bool wanted = s->ready > 0 && worker && worker->room;
    const struct kiln_treap_node key = {.hi = wanted ? worker->busy : 0,
                                        .lo = wanted ? worker->free_ms : 0};
    kiln_policy_place(p->set_hot, &p->hot_sets, set, &s->hot, wanted ? &key : NULL);
}

static void place_due(struct kiln_policy *p, uint32_t set)
{
    struct pol_set *s = &p->sets[set];
    uint32_t head = kiln_treap_first(p->job_due, s->deadlines);
    const struct kiln_treap_node key = {.hi = head != KILN_NONE ? p->job_due[head].hi : 0};
    kiln_policy_place(p->set_due, &p->models[s->model].due_sets, set, &s->has_due,
                      head != KILN_NONE ? &key : NULL);
}

/* --- tenants --------------------------------------------------------------------------------- */
static void tenant_list(struct kiln_policy *p, uint32_t tenant)
{
    p->tenant_used[tenant].hi = (int64_t)(p->tenants[tenant].used_s * 1000);
    p->tenant_used[tenant].lo = 0;
    kiln_treap_insert(p->tenant_used, &p->active_tenants, tenant);
}

void kiln_policy_charge(struct kiln_policy *p, uint32_t tenant, double seconds)
{
    struct pol_tenant *t = &p->tenants[tenant];
    bool listed = t->ready > 0;
    /* Alone there is nobody to be fair to, and charging would only push rounds along. */
    if (kiln_treap_count(p->tenant_used, p->active_tenants) < (listed ? 2u : 1u))
        return;
    if (listed)
        kiln_treap_remove(p->tenant_used, &p->active_tenants, tenant);
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

/* --- jobs come and go ------------------------------------------------------------------------ */
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
    kiln_policy_add_backlog(p, g->set, sign * unit_s);
    if (set->ready <= 1)
        kiln_policy_place_hot(p, g->set);
}

void kiln_policy_job_ready(struct kiln_policy *p, uint32_t job)
{
    struct pol_job *j = &p->jobs[job];
    struct pol_queue *queue = &p->queues[j->queue];
    uint32_t set = p->groups[queue->group].set;
    kiln_policy_heat(p, set, 1);
    struct pol_tenant *t = &p->tenants[queue->tenant];
    if (t->ready++ == 0) {
        /* A tenant that was away neither keeps old credit nor pays for earlier service: it joins at
         * the level of the tenant that is being served. */
        t->used_s = fmax(t->used_s, p->served_used_s);
        t->round = t->round > p->served_round ? t->round : p->served_round;
        tenant_list(p, queue->tenant);
    }
    p->job_rank[job].hi = (is_backfill(j) ? BACKFILL_MS : 0) + virtual_ms(j);
    p->job_rank[job].lo = (int64_t)j->id;
    kiln_treap_insert(p->job_rank, &queue->jobs, job);
    count_ready(p, j, +1);
    place_upwards(p, j->queue);
    if (j->has_deadline) {
        kiln_policy_add_deadline(p, job);
        kiln_treap_insert(p->job_due, &p->sets[set].deadlines, job);
        place_due(p, set);
    }
}

void kiln_policy_job_unready(struct kiln_policy *p, uint32_t job)
{
    struct pol_job *j = &p->jobs[job];
    struct pol_queue *queue = &p->queues[j->queue];
    uint32_t set = p->groups[queue->group].set;
    if (--p->tenants[queue->tenant].ready == 0)
        kiln_treap_remove(p->tenant_used, &p->active_tenants, queue->tenant);
    kiln_treap_remove(p->job_rank, &queue->jobs, job);
    count_ready(p, j, -1);
    place_upwards(p, j->queue);
    if (j->has_deadline) {
        kiln_policy_remove_deadline(p, job);
        kiln_treap_remove(p->job_due, &p->sets[set].deadlines, job);
        place_due(p, set);
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

/* --- the first of each level, with ranks corrected ------------------------------------------- */
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
