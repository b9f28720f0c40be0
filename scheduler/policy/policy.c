/* policy.c - the policy's memory, and how jobs and workers come and go.
 *
 * Every row lives in a slab taken by kiln_policy_new; adding a job finds or makes its model, set,
 * group, tenant and queue, and undoes what it made when a later table is full.
 */
#include "scheduler/policy/policy.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/state.h"

static const struct kiln_policy_limits default_limits = {
    .jobs = 1u << 20, .sets = 1u << 15, .groups = 1u << 16, .tenants = 4096, .workers = 4096};

/* All arrays that are taken at the start, and how long each is. */
enum limit { JOBS, QUEUES, GROUPS, SETS, TENANTS, WORKERS, MODELS, RING, LIMITS };
#define SLAB(field, limit)                                                                         \
    {                                                                                              \
        offsetof(struct kiln_policy, field), sizeof(*((struct kiln_policy *)0)->field), limit      \
    }
static const struct {
    size_t offset, size;
    enum limit limit;
} slabs[] = {
    SLAB(jobs, JOBS),           SLAB(job_rank, JOBS),       SLAB(job_due, JOBS),
    SLAB(queues, QUEUES),       SLAB(queue_rank, QUEUES),   SLAB(groups, GROUPS),
    SLAB(group_rank, GROUPS),   SLAB(sets, SETS),           SLAB(set_rank, SETS),
    SLAB(set_due, SETS),        SLAB(set_load, SETS),       SLAB(set_hot, SETS),
    SLAB(tenants, TENANTS),     SLAB(tenant_used, TENANTS), SLAB(workers, WORKERS),
    SLAB(worker_used, WORKERS), SLAB(worker_room, WORKERS), SLAB(holder_rank, WORKERS),
    SLAB(disks, WORKERS),       SLAB(models, MODELS),       SLAB(fine, RING),
    SLAB(coarse, RING),         SLAB(asking_sets, SETS),
};
#define SLABS (sizeof(slabs) / sizeof(slabs[0]))

/* The slot tables of the first seven limits. */
#define TABLES(p)                                                                                  \
    {                                                                                              \
        &p->job_slots, &p->queue_slots, &p->group_slots, &p->set_slots, &p->tenant_slots,          \
            &p->worker_slots, &p->model_slots                                                      \
    }

int kiln_policy_new(const struct kiln_policy_limits *limits, const struct kiln_cost_model *costs,
                    struct kiln_policy **ret, struct kiln_error *err)
{
    struct kiln_policy_limits max = limits ? *limits : default_limits;
    max.jobs = max.jobs ? max.jobs : default_limits.jobs;
    max.sets = max.sets ? max.sets : default_limits.sets;
    max.groups = max.groups ? max.groups : default_limits.groups;
    max.tenants = max.tenants ? max.tenants : default_limits.tenants;
    max.workers = max.workers ? max.workers : default_limits.workers;
    const uint32_t counts[LIMITS] = {max.jobs,    max.groups * 2, max.groups, max.sets,
                                     max.tenants, max.workers,    MODELS_MAX, BUCKETS};
    struct kiln_policy *p = calloc(1, sizeof(*p));
    bool whole = p != NULL;
    for (size_t i = 0; i < SLABS && whole; i++) {
        void *slab = calloc(counts[slabs[i].limit], slabs[i].size);
        memcpy((char *)p + slabs[i].offset, &slab, sizeof(slab));
        whole = slab != NULL;
    }
    struct kiln_slots *tables[] = TABLES(p);
    for (size_t i = 0; i < RING && whole; i++)
        whole = kiln_slots_init(tables[i], counts[i], NULL) == 0;
    if (!whole) {
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
    struct kiln_slots *tables[] = TABLES(p);
    for (size_t i = 0; i < RING; i++)
        kiln_slots_release(tables[i]);
    for (size_t i = 0; i < SLABS; i++) {
        void *slab;
        memcpy(&slab, (char *)p + slabs[i].offset, sizeof(slab));
        free(slab);
    }
    free(p);
}

/* --- jobs ------------------------------------------------------------------------------------ */
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

    uint32_t slot = kiln_slots_alloc(&p->job_slots, kiln_hash_u64(job->id));
    p->jobs[slot] = (struct pol_job){.id = job->id,
                                     .batch_id = job->batch_id,
                                     .queued_ms = job->queued_ms,
                                     .wake_ms = job->not_before_ms,
                                     .has_deadline = job->max_wait_s > 0,
                                     .queue = queue,
                                     .confirmed = p->sweep,
                                     .priority = (int8_t)job->priority,
                                     .asks = job->asks};
    if (job->asks)
        kiln_policy_note_asking(p, queue, true);
    p->queues[queue].refs++;
    struct pol_group *group = &p->groups[p->queues[queue].group];
    if (group->avoid && job->not_before_ms + AVOID_MS > group->avoid_until_ms)
        group->avoid_until_ms = job->not_before_ms + AVOID_MS;
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

/* A job as it was added, without its times and the worker that it avoids; borrowed. */
static struct kiln_policy_job describe(const struct kiln_policy *p, uint32_t slot)
{
    const struct pol_job *j = &p->jobs[slot];
    const struct pol_queue *queue = &p->queues[j->queue];
    const struct pol_group *group = &p->groups[queue->group];
    const struct pol_set *set = &p->sets[group->set];
    return (struct kiln_policy_job){.id = j->id,
                                    .batch_id = j->batch_id,
                                    .model = p->models[set->model].name,
                                    .lora_set = set->lora_set,
                                    .tenant = p->tenants[queue->tenant].name,
                                    .width = group->width,
                                    .height = group->height,
                                    .steps = group->steps,
                                    .mode = group->mode,
                                    .skip = group->skip,
                                    .skip_coarse = group->skip_coarse,
                                    .guidance = group->guidance,
                                    .priority = j->priority,
                                    .alone = group->alone};
}

void kiln_policy_expect(struct kiln_policy *p, uint64_t id, const struct kiln_donor *donor,
                        const struct kiln_reuse_look *look)
{
    const uint32_t skip = donor->job ? donor->step : 0;
    const uint32_t slot = kiln_policy_find_job(p, id);
    if (slot == KILN_NONE)
        return;
    struct pol_job *j = &p->jobs[slot];
    j->look = *look;
    j->unplaced = false;
    const uint32_t old = j->queue, tenant = p->queues[old].tenant;
    const struct pol_group *group = &p->groups[p->queues[old].group];
    const bool coarse = skip > 0 && donor->coarse;
    if ((group->skip == skip && group->skip_coarse == coarse) || group->alone || group->avoid)
        return;
    struct kiln_policy_job other = describe(p, slot);
    other.skip = skip;
    other.skip_coarse = coarse;
    const uint32_t queue = queue_for(p, &other);
    j->unplaced = queue == KILN_NONE;
    if (j->unplaced) /* no room for the group: it is an expectation only */
        return;
    p->queues[queue].refs++;
    if (j->wake_ms == 0) {
        p->tenants[tenant].ready++; /* its tenant has not been away in between */
        kiln_policy_job_unready(p, slot);
        kiln_policy_heat(p, group->set, -1);
        j->queue = queue;
        kiln_policy_job_ready(p, slot);
        p->tenants[tenant].ready--;
    }
    j->queue = queue;
    p->queues[old].refs--;
    kiln_policy_drop_queue(p, old);
    p->epoch++;
}

static void remove_slot(struct kiln_policy *p, uint32_t slot)
{
    if (p->jobs[slot].wake_ms)
        kiln_treap_remove(p->job_rank, &p->sleepers, slot);
    else
        kiln_policy_job_unready(p, slot);
    kiln_policy_drop_job(p, slot);
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
        if (p->jobs[slot].id == 0)
            continue;
        const struct kiln_policy_job job = describe(p, slot);
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
