/* policy_why.c - what people ask of the policy: counts, groups, and why a job waits. */
#include <stdio.h>

#include "scheduler/policy_state.h"

void kiln_policy_counts(const struct kiln_policy *p, struct kiln_policy_counts *ret)
{
    *ret = (struct kiln_policy_counts){
        .waiting = p->job_slots.used,
        .sleeping = kiln_order_count(p->job_rank, p->sleepers),
        .groups = p->group_slots.used,
        .sets = p->set_slots.used,
        .workers = p->workers_alive,
        .picks = p->picks,
        .switches = p->switches,
        .backlog_s = p->backlog_s,
    };
}

static void each_in_set(const struct kiln_policy *p, uint32_t set, kiln_policy_each_group *each,
                        void *arg)
{
    const struct pol_set *s = &p->sets[set];
    uint32_t group = kiln_order_first(p->group_rank, s->groups);
    for (; group != KILN_NONE; group = kiln_order_next(p->group_rank, s->groups, group)) {
        const struct pol_group *g = &p->groups[group];
        struct kiln_policy_group out = {.model = p->models[s->model].name,
                                        .lora_set = s->lora_set,
                                        .width = g->width,
                                        .height = g->height,
                                        .steps = g->steps,
                                        .jobs = g->ready,
                                        .holders = s->holders,
                                        .guidance = g->guidance,
                                        .backlog_s = g->ready * g->unit_s,
                                        .alone = g->alone};
        each(arg, &out);
    }
}

static void each_in_order(const struct kiln_policy *p, uint32_t root, kiln_policy_each_group *each,
                          void *arg)
{
    uint32_t set = kiln_order_first(p->set_rank, root);
    for (; set != KILN_NONE; set = kiln_order_next(p->set_rank, root, set))
        each_in_set(p, set, each, arg);
}

void kiln_policy_groups(const struct kiln_policy *p, kiln_policy_each_group *each, void *arg)
{
    for (uint32_t model = 0; model < MODELS_MAX; model++) {
        if (p->models[model].refs == 0)
            continue;
        each_in_order(p, p->models[model].held_sets, each, arg);
        each_in_order(p, p->models[model].free_sets, each, arg);
    }
}

/* Any worker that can draw this model. */
static bool served(const struct kiln_policy *p, uint32_t model)
{
    return model == p->pool_model ? p->workers_alive > 0 : p->models[model].workers > 0;
}

int kiln_policy_why(const struct kiln_policy *p, uint64_t id, int64_t now_ms, char *out,
                    size_t size, struct kiln_error *err)
{
    uint32_t job = kiln_policy_find_job(p, id);
    if (job == KILN_NONE)
        return kiln_fail(err, KILN_NOT_FOUND, "job %llu does not wait here",
                         (unsigned long long)id);
    const struct pol_job *j = &p->jobs[job];
    const struct pol_queue *queue = &p->queues[j->queue];
    const struct pol_group *group = &p->groups[queue->group];
    const struct pol_set *set = &p->sets[group->set];
    const char *model = p->models[set->model].name;
    if (j->wake_ms) {
        snprintf(out, size, "backing off: not before %.1f s from now",
                 (double)(j->wake_ms - now_ms) / 1000);
        return 0;
    }
    if (!served(p, set->model)) {
        snprintf(out, size, "no live worker serves %s", *model ? model : "this pool");
        return 0;
    }
    uint32_t place = kiln_order_rank(p->job_rank, queue->jobs, job) + 1;
    int len = snprintf(out, size, "place %u of %u in %ux%u, %u steps, LoRA set '%s': ", place,
                       group->ready, group->width, group->height, group->steps, set->lora_set);
    if (len < 0 || (size_t)len >= size)
        return 0;
    out += len, size -= (size_t)len;
    if (j->promise && p->job_due[job].hi <= p->horizon_ms)
        snprintf(out, size, "urgent: its max_wait_s ends soon, it goes next");
    else if (group->alone)
        snprintf(out, size, "it crashed a worker before and waits for one with empty hands");
    else if (set->holders > 0)
        snprintf(out, size, "its set is served by %u worker(s), %s among them", set->holders,
                 p->workers[kiln_order_first(p->worker_hand, set->hands)].name);
    else
        snprintf(out, size,
                 "no worker has its set; they stay on theirs while the penalty of waiting is "
                 "below the cost of switching (%.2f s)",
                 kiln_cost_switch(p->costs, model, set->lora_set));
    return 0;
}

/* When the first busy worker of the model would take work ahead. */
static int64_t room_ms(const struct kiln_policy *p, uint32_t model)
{
    uint32_t worker = kiln_order_after(p->worker_room, p->models[model].rooms, 0);
    return worker == KILN_NONE ? INT64_MAX : p->workers[worker].free_ms - kiln_policy_lead_ms(p);
}

int64_t kiln_policy_next_ms(const struct kiln_policy *p, int64_t now_ms)
{
    int64_t next = INT64_MAX, reserve_ms = (int64_t)(kiln_policy_reserve_s(p) * 1000);
    uint32_t job = kiln_order_first(p->job_rank, p->sleepers);
    if (job != KILN_NONE)
        next = p->jobs[job].wake_ms;
    for (uint32_t model = 0; model < MODELS_MAX; model++) {
        int64_t room = p->models[model].refs && p->ready ? room_ms(p, model) : INT64_MAX;
        next = room > now_ms && room < next ? room : next;
        uint32_t set = p->models[model].refs == 0
                           ? KILN_NONE
                           : kiln_order_first(p->set_due, p->models[model].promised_sets);
        if (set == KILN_NONE)
            continue;
        uint32_t due_job = kiln_order_first(p->job_due, p->sets[set].deadlines);
        int64_t due = p->job_due[due_job].hi - reserve_ms;
        due = due <= now_ms ? due + reserve_ms / 2 : due;
        if (due > now_ms && due < next)
            next = due;
    }
    return next;
}
