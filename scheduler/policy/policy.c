/* policy.c - the policy's memory, and how jobs and workers come and go.
 *
 * Every row lives in a slab taken by kiln_policy_new; adding a job finds or makes its model, set,
 * group, tenant and queue, and undoes what it made when a later table is full.
 */
#include "scheduler/policy/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/state.h"

static const struct kiln_policy_limits default_limits = {
    .jobs = 1u << 20, .sets = 1u << 15, .groups = 1u << 16, .tenants = 4096, .workers = 4096};

static uint32_t limit_or(uint32_t given, uint32_t otherwise)
{
    return given ? given : otherwise;
}

static int take_slabs(struct kiln_policy *p, const struct kiln_policy_limits *max)
{
    uint32_t queues = max->groups * 2;
    p->jobs = calloc(max->jobs, sizeof(*p->jobs));
    p->queues = calloc(queues, sizeof(*p->queues));
    p->groups = calloc(max->groups, sizeof(*p->groups));
    p->sets = calloc(max->sets, sizeof(*p->sets));
    p->tenants = calloc(max->tenants, sizeof(*p->tenants));
    p->workers = calloc(max->workers, sizeof(*p->workers));
    p->models = calloc(MODELS_MAX, sizeof(*p->models));
    p->worker_used = calloc(max->workers, sizeof(*p->worker_used));
    p->job_rank = calloc(max->jobs, sizeof(*p->job_rank));
    p->job_due = calloc(max->jobs, sizeof(*p->job_due));
    p->queue_rank = calloc(queues, sizeof(*p->queue_rank));
    p->group_rank = calloc(max->groups, sizeof(*p->group_rank));
    p->set_rank = calloc(max->sets, sizeof(*p->set_rank));
    p->set_due = calloc(max->sets, sizeof(*p->set_due));
    p->set_load = calloc(max->sets, sizeof(*p->set_load));
    p->set_hot = calloc(max->sets, sizeof(*p->set_hot));
    p->tenant_used = calloc(max->tenants, sizeof(*p->tenant_used));
    p->worker_room = calloc(max->workers, sizeof(*p->worker_room));
    p->worker_hand = calloc(max->workers, sizeof(*p->worker_hand));
    p->fine = calloc(BUCKETS, sizeof(*p->fine));
    p->coarse = calloc(BUCKETS, sizeof(*p->coarse));
    bool all = p->jobs && p->queues && p->groups && p->sets && p->tenants && p->workers &&
               p->models && p->worker_used && p->job_rank && p->job_due && p->queue_rank &&
               p->group_rank && p->set_rank && p->set_due && p->set_load && p->set_hot &&
               p->tenant_used && p->worker_room && p->worker_hand && p->fine && p->coarse;
    if (!all || kiln_slots_init(&p->job_slots, max->jobs, NULL) ||
        kiln_slots_init(&p->queue_slots, queues, NULL) ||
        kiln_slots_init(&p->group_slots, max->groups, NULL) ||
        kiln_slots_init(&p->set_slots, max->sets, NULL) ||
        kiln_slots_init(&p->tenant_slots, max->tenants, NULL) ||
        kiln_slots_init(&p->worker_slots, max->workers, NULL) ||
        kiln_slots_init(&p->model_slots, MODELS_MAX, NULL))
        return KILN_NO_MEMORY;
    return 0;
}

int kiln_policy_new(const struct kiln_policy_limits *limits, const struct kiln_cost_model *costs,
                    struct kiln_policy **ret, struct kiln_error *err)
{
    struct kiln_policy_limits max = limits ? *limits : default_limits;
    max.jobs = limit_or(max.jobs, default_limits.jobs);
    max.sets = limit_or(max.sets, default_limits.sets);
    max.groups = limit_or(max.groups, default_limits.groups);
    max.tenants = limit_or(max.tenants, default_limits.tenants);
    max.workers = limit_or(max.workers, default_limits.workers);
    struct kiln_policy *p = calloc(1, sizeof(*p));
    if (!p || take_slabs(p, &max)) {
        kiln_policy_free(p);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a queue of %u jobs", max.jobs);
    }
    p->costs = costs;
    p->sleepers = p->active_tenants = p->hot_sets = KILN_NONE;
    p->horizon_ms = p->horizon_at_ms = INT64_MIN;
    p->epoch = 1;
    p->load_s = kiln_cost_switch(costs, "", "");
    p->pool_model = kiln_policy_get_model(p, "");
    p->models[p->pool_model].refs = 1;
    *ret = p;
    return 0;
}

void kiln_policy_free(struct kiln_policy *p)
{
    if (!p)
        return;
    struct kiln_slots *tables[] = {&p->job_slots,  &p->queue_slots,  &p->group_slots,
                                   &p->set_slots,  &p->tenant_slots, &p->worker_slots,
                                   &p->model_slots};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        kiln_slots_release(tables[i]);
    void *slabs[] = {p->jobs,       p->queues,     p->groups,   p->sets,        p->tenants,
                     p->workers,    p->models,     p->job_rank, p->worker_used, p->job_due,
                     p->queue_rank, p->group_rank, p->set_rank, p->set_due,     p->tenant_used,
                     p->set_load,   p->set_hot,    p->fine,     p->coarse,      p->worker_room,
                     p->worker_hand};
    for (size_t i = 0; i < sizeof(slabs) / sizeof(slabs[0]); i++)
        free(slabs[i]);
    free(p);
}

/* --- jobs ---------------------------------------------------------------------------------------
 */
/* Finds or makes the rows above a job; KILN_NONE, with nothing left behind, when one is full. */
static uint32_t queue_for(struct kiln_policy *p, const struct kiln_policy_job *job)
{
    uint32_t model = kiln_policy_get_model(p, job->model);
    if (model == KILN_NONE)
        return KILN_NONE;
    uint32_t set = kiln_policy_get_set(p, model, job->lora_set);
    if (set == KILN_NONE) {
        kiln_policy_drop_model(p, model);
        return KILN_NONE;
    }
    uint32_t group = kiln_policy_get_group(p, set, job);
    if (group == KILN_NONE) {
        kiln_policy_drop_set(p, set);
        return KILN_NONE;
    }
    uint32_t tenant = kiln_policy_get_tenant(p, job->tenant);
    uint32_t queue = tenant == KILN_NONE ? KILN_NONE : kiln_policy_get_queue(p, group, tenant);
    if (queue == KILN_NONE) {
        kiln_policy_drop_group(p, group);
        if (tenant != KILN_NONE)
            kiln_policy_drop_tenant(p, tenant);
    }
    return queue;
}

int kiln_policy_add(struct kiln_policy *p, const struct kiln_policy_job *job,
                    struct kiln_error *err)
{
    uint32_t known = kiln_policy_find_job(p, job->id);
    if (known != KILN_NONE) {
        p->jobs[known].confirmed = p->sweep;
        return kiln_fail(err, KILN_EXISTS, "job %llu waits already", (unsigned long long)job->id);
    }
    if (p->job_slots.used == p->job_slots.capacity)
        return kiln_fail(err, KILN_FULL, "%u jobs wait in memory", p->job_slots.used);
    uint32_t queue = queue_for(p, job);
    if (queue == KILN_NONE)
        return kiln_fail(err, KILN_FULL, "no room for the group or tenant of job %llu",
                         (unsigned long long)job->id);

    uint32_t slot = kiln_slots_take(&p->job_slots, kiln_hash_u64(job->id));
    p->jobs[slot] = (struct pol_job){.id = job->id,
                                     .batch_id = job->batch_id,
                                     .queued_ms = job->queued_ms,
                                     .wake_ms = job->not_before_ms,
                                     .promise = job->max_wait_s > 0,
                                     .queue = queue,
                                     .confirmed = p->sweep,
                                     .priority = (int8_t)job->priority};
    p->queues[queue].refs++;
    p->job_due[slot].hi = job->queued_ms + (int64_t)job->max_wait_s * 1000;
    p->job_due[slot].lo = (int64_t)job->id;
    p->epoch++;
    if (job->not_before_ms > p->last_ms) {
        p->job_rank[slot].hi = job->not_before_ms;
        p->job_rank[slot].lo = (int64_t)job->id;
        kiln_treap_insert(p->job_rank, &p->sleepers, slot);
    } else {
        p->jobs[slot].wake_ms = 0;
        kiln_policy_job_ready(p, slot);
    }
    return 0;
}

static void remove_slot(struct kiln_policy *p, uint32_t slot)
{
    uint32_t queue = p->jobs[slot].queue;
    if (p->jobs[slot].wake_ms)
        kiln_treap_remove(p->job_rank, &p->sleepers, slot);
    else
        kiln_policy_job_unready(p, slot);
    kiln_slots_give(&p->job_slots, slot);
    p->jobs[slot].id = 0;
    p->queues[queue].refs--;
    kiln_policy_drop_queue(p, queue);
}

bool kiln_policy_remove(struct kiln_policy *p, uint64_t id)
{
    uint32_t slot = kiln_policy_find_job(p, id);
    if (slot == KILN_NONE)
        return false;
    remove_slot(p, slot);
    return true;
}

uint32_t kiln_policy_remove_where(struct kiln_policy *p, kiln_policy_matches *matches,
                                  const void *arg)
{
    uint32_t removed = 0;
    for (uint32_t slot = 0; slot < p->job_slots.capacity; slot++) {
        const struct pol_job *j = &p->jobs[slot];
        if (j->id == 0)
            continue;
        const struct pol_queue *queue = &p->queues[j->queue];
        const struct pol_group *group = &p->groups[queue->group];
        const struct pol_set *set = &p->sets[group->set];
        const struct kiln_policy_job job = {.id = j->id,
                                            .batch_id = j->batch_id,
                                            .model = p->models[set->model].name,
                                            .lora_set = set->lora_set,
                                            .tenant = p->tenants[queue->tenant].name,
                                            .width = group->width,
                                            .height = group->height,
                                            .steps = group->steps,
                                            .guidance = group->guidance,
                                            .priority = j->priority,
                                            .alone = group->alone};
        if (!matches(arg, &job))
            continue;
        remove_slot(p, slot);
        removed++;
    }
    return removed;
}

static bool of_batch(const void *arg, const struct kiln_policy_job *job)
{
    return job->batch_id == *(const uint64_t *)arg;
}

uint32_t kiln_policy_remove_batch(struct kiln_policy *p, uint64_t batch_id)
{
    return kiln_policy_remove_where(p, of_batch, &batch_id);
}

void kiln_policy_sweep_begin(struct kiln_policy *p)
{
    p->sweep++;
}

uint32_t kiln_policy_sweep_end(struct kiln_policy *p)
{
    uint32_t removed = 0;
    for (uint32_t slot = 0; slot < p->job_slots.capacity; slot++) {
        if (p->jobs[slot].id == 0 || p->jobs[slot].confirmed == p->sweep)
            continue;
        remove_slot(p, slot);
        removed++;
    }
    return removed;
}

bool kiln_policy_has(const struct kiln_policy *p, uint64_t id)
{
    return kiln_policy_find_job(p, id) != KILN_NONE;
}
