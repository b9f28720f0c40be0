/* why.c - what the command line and the metrics show: counts, groups, and why a job waits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/policy/state.h"
#include "schemas/wire/wire.h"

#define WALK_MAX 1000 /* groups of a set that are summed up for an answer */
#define OVERHEAD 0.5  /* share of the work: the switches that the upper estimate allows for */

void kiln_policy_counts(const struct kiln_policy *p, struct kiln_policy_counts *ret)
{
    *ret = (struct kiln_policy_counts){
        .waiting = p->job_slots.used,
        .sleeping = kiln_treap_count(p->job_rank, p->sleepers),
        .groups = p->group_slots.used,
        .sets = p->set_slots.used,
        .workers = p->workers_alive,
        .picks = p->picks,
        .switches = p->switches,
        .backlog_s = p->backlog_s,
    };
}

size_t kiln_policy_groups(const struct kiln_policy *p, struct kiln_policy_group *ret, size_t max)
{
    size_t count = 0;
    for (uint32_t group = 0; group < p->group_slots.capacity && count < max; group++) {
        const struct pol_group *g = &p->groups[group];
        if (!g->listed)
            continue;
        const struct pol_set *s = &p->sets[g->set];
        struct kiln_policy_group *out = &ret[count++];
        *out = (struct kiln_policy_group){.model = p->models[s->model].name,
                                          .lora_set = s->lora_set,
                                          .mode = g->mode,
                                          .width = g->width,
                                          .height = g->height,
                                          .steps = g->steps,
                                          .skip = g->skip,
                                          .jobs = g->ready,
                                          .holders = s->holders,
                                          .guidance = g->guidance,
                                          .backlog_s = g->ready * g->unit_s,
                                          .queued_ms = INT64_MAX,
                                          .alone = g->alone};
        uint32_t queue = kiln_treap_first(p->queue_rank, g->queues);
        for (; queue != KILN_NONE; queue = kiln_treap_next(p->queue_rank, g->queues, queue)) {
            uint32_t job = kiln_treap_first(p->job_rank, p->queues[queue].jobs);
            if (job != KILN_NONE && p->jobs[job].queued_ms < out->queued_ms)
                out->queued_ms = p->jobs[job].queued_ms;
        }
    }
    return count;
}

/* --- one job --------------------------------------------------------------------------------- */
const char *kiln_policy_reason_name(enum kiln_policy_reason reason)
{
    static const char *const names[] = {"backoff",  "no_worker", "promise", "suspect",
                                        "backfill", "tenant",    "holders", "unopened"};
    return names[reason];
}

/* Whether some worker's release knows its mode and its files of LoRAs; it waits for one. */
static bool release_is_there(const struct kiln_policy *p, const struct pol_group *group)
{
    bool known = group->minor == 0;
    for (uint32_t i = 0; i < p->worker_span && !known; i++)
        known = p->worker_used[i] && p->workers[i].minor >= group->minor;
    return known;
}

static enum kiln_policy_reason reason_of(const struct kiln_policy *p, uint32_t job)
{
    const struct pol_job *j = &p->jobs[job];
    const struct pol_queue *queue = &p->queues[j->queue];
    const struct pol_group *group = &p->groups[queue->group];
    const struct pol_set *set = &p->sets[group->set];
    if (j->wake_ms)
        return KILN_REASON_BACKOFF;
    const bool whole_pool = set->model == p->pool_model; /* any worker can render it */
    if ((whole_pool ? p->workers_alive : p->models[set->model].workers) == 0 ||
        !release_is_there(p, group))
        return KILN_REASON_NO_WORKER;
    if (j->has_deadline && p->job_due[job].hi <= p->horizon_ms)
        return KILN_REASON_DEADLINE;
    if (group->alone)
        return KILN_REASON_SUSPECT;
    if (j->priority <= KILN_PRIORITY_BACKFILL)
        return KILN_REASON_BACKFILL;
    uint32_t least = kiln_treap_first(p->tenant_used, p->active_tenants);
    if (least != KILN_NONE && least != queue->tenant &&
        p->tenants[least].round < p->tenants[queue->tenant].round)
        return KILN_REASON_TENANT; /* one that is behind in rounds waits somewhere */
    return set->holders > 0 ? KILN_REASON_HOLDERS : KILN_REASON_UNOPENED;
}

/* Seconds of work in the set that ranks before the group. */
static double before_group_s(const struct kiln_policy *p, uint32_t group)
{
    const struct pol_set *set = &p->sets[p->groups[group].set];
    double sum = 0;
    uint32_t other = kiln_treap_first(p->group_rank, set->groups);
    for (int i = 0; i < WALK_MAX && other != KILN_NONE && other != group; i++) {
        sum += p->groups[other].ready * p->groups[other].unit_s;
        other = kiln_treap_next(p->group_rank, set->groups, other);
    }
    return sum;
}

/* Seconds until the first holder of the set, or the first worker of all, is idle. */
static double free_s(const struct kiln_policy *p, const struct pol_set *set, int64_t now_ms)
{
    uint32_t worker = kiln_treap_first(p->holder_rank, set->ranked_holders);
    if (worker == KILN_NONE)
        worker = kiln_treap_first(p->worker_room, p->models[p->pool_model].rooms);
    return worker == KILN_NONE ? p->batch_s
                               : fmax(0, (double)(p->workers[worker].free_ms - now_ms) / 1000);
}

/* The three times.  A set with holders goes on at their speed, and more may join.  One without
 * waits for the sets before it, which the whole fleet works off. */
static void estimate(const struct kiln_policy *p, uint32_t job, int64_t now_ms,
                     struct kiln_policy_why *ret)
{
    uint32_t group = p->queues[p->jobs[job].queue].group;
    const struct pol_group *g = &p->groups[group];
    const struct pol_set *set = &p->sets[g->set];
    double speed = fmax(p->speed_sum, 1e-3), first_s = free_s(p, set, now_ms);
    double own_s = (ret->place - 1) * g->unit_s, set_s = own_s + before_group_s(p, group);
    double all_s = fmax(p->backlog_s - g->unit_s, 0) / speed, load_s = p->load_s;
    if (set->holders > 0) {
        ret->start_s = first_s + set_s / fmax(set->holder_speed, 1e-3);
        ret->low_s = own_s / speed;
        ret->high_s = ret->start_s + fmax(set->backlog_s / fmax(set->holder_speed, 1e-3), all_s);
    } else {
        uint32_t root = p->models[set->model].free_sets;
        double sets = fmax(kiln_treap_count(p->set_rank, root), 1);
        double share = set->listed ? kiln_treap_rank(p->set_rank, root, g->set) / sets : 1;
        ret->start_s = first_s + load_s + share * all_s + set_s;
        ret->low_s = fmin(first_s, ret->start_s);
        ret->high_s = first_s + load_s + all_s * (1 + OVERHEAD) + set_s;
    }
    ret->high_s += 2 * (p->batch_s + load_s);
    if (p->jobs[job].has_deadline) {
        double due_s = fmax(0, (double)(p->job_due[job].hi - now_ms) / 1000);
        ret->high_s = fmin(ret->high_s, fmax(due_s, ret->low_s));
        ret->start_s = fmin(ret->start_s, ret->high_s);
    }
}

/* Whether every worker says that it lacks a file of the set. */
static bool is_nowhere(const struct kiln_policy *p, uint32_t set)
{
    for (uint32_t i = 0; i < p->worker_span; i++)
        if (p->worker_used[i] && kiln_policy_fetches(p, &p->workers[i], set) == 0)
            return false;
    return true;
}

static void say(const struct kiln_policy *p, uint32_t job, int64_t now_ms,
                struct kiln_policy_why *why)
{
    const struct pol_group *group = &p->groups[p->queues[p->jobs[job].queue].group];
    const struct pol_set *set = &p->sets[group->set];
    const char *model = p->models[set->model].name;
    char *out = why->text;
    size_t size = sizeof(why->text);
    switch (why->reason) {
    case KILN_REASON_BACKOFF:
        snprintf(out, size, "backing off: not before %.1f s from now",
                 (double)(p->jobs[job].wake_ms - now_ms) / 1000);
        return;
    case KILN_REASON_NO_WORKER:
        if (p->workers_alive > 0 && !release_is_there(p, group) &&
            group->minor == KILN_WIRE_MINOR_FILES)
            snprintf(out, size,
                     "its LoRAs are files of the registry, and all live workers are of an older "
                     "release that does not fetch these; it waits for a newer worker");
        else if (p->workers_alive > 0 && !release_is_there(p, group))
            snprintf(out, size,
                     "its mode is %s, and all live workers are of an older release that does not "
                     "know this mode; it waits for a newer worker",
                     group->mode);
        else
            snprintf(out, size, "no live worker serves %s", *model ? model : "this pool");
        return;
    case KILN_REASON_DEADLINE:
        snprintf(out, size,
                 "its deadline (max_wait_s) is near: it goes before all jobs without an urgent "
                 "deadline");
        return;
    case KILN_REASON_SUSPECT:
        snprintf(out, size, "it crashed a worker before and waits for an idle one");
        return;
    case KILN_REASON_BACKFILL:
        snprintf(out, size,
                 "it is backfill (priority %d): it goes when no other job wants the "
                 "capacity",
                 p->jobs[job].priority);
        return;
    case KILN_REASON_TENANT:
        snprintf(out, size,
                 "tenant %s has used its GPU-seconds of this round; tenants that have used "
                 "fewer go first",
                 p->tenants[p->queues[p->jobs[job].queue].tenant].name);
        return;
    case KILN_REASON_HOLDERS:
        snprintf(out, size,
                 "its LoRA set is resident in %u worker%s, %s among them; %.1f GPU-seconds "
                 "of work wait for it",
                 set->holders, set->holders == 1 ? "" : "s",
                 p->workers[kiln_treap_first(p->holder_rank, set->ranked_holders)].name,
                 set->backlog_s);
        return;
    case KILN_REASON_UNOPENED:
        snprintf(out, size,
                 "its LoRA set is resident in no worker%s; workers keep theirs while the "
                 "penalty of waiting is below the cost of switching (%.2f s)",
                 is_nowhere(p, group->set) ? ", and no worker has all its files on disk" : "",
                 kiln_cost_switch(p->costs, model, set->lora_set));
        return;
    }
}

int kiln_policy_why(const struct kiln_policy *p, uint64_t id, int64_t now_ms,
                    struct kiln_policy_why *ret, struct kiln_error *err)
{
    uint32_t job = kiln_policy_find_job(p, id);
    if (job == KILN_NONE)
        return kiln_fail(err, KILN_NOT_FOUND, "job %llu does not wait here",
                         (unsigned long long)id);
    const struct pol_job *j = &p->jobs[job];
    const struct pol_queue *queue = &p->queues[j->queue];
    const struct pol_group *group = &p->groups[queue->group];
    bool asleep = j->wake_ms != 0;
    *ret = (struct kiln_policy_why){
        .reason = reason_of(p, job),
        .place = asleep ? 1 : kiln_treap_rank(p->job_rank, queue->jobs, job) + 1,
        .of = group->ready,
        .holders = p->sets[group->set].holders};
    estimate(p, job, now_ms, ret);
    if (asleep) {
        double pause_s = fmax(0, (double)(j->wake_ms - now_ms) / 1000);
        ret->start_s += pause_s, ret->low_s += pause_s, ret->high_s += pause_s;
    }
    if (ret->reason == KILN_REASON_NO_WORKER)
        ret->start_s = ret->low_s = ret->high_s = INFINITY;
    say(p, job, now_ms, ret);
    return 0;
}

/* --- when to look again ---------------------------------------------------------------------- */
int64_t kiln_policy_next_ms(const struct kiln_policy *p, int64_t now_ms)
{
    int64_t next = INT64_MAX, reserve_ms = (int64_t)(kiln_policy_reserve_s(p) * 1000);
    const int64_t lead_ms = kiln_policy_lead_ms(p);
    uint32_t job = kiln_treap_first(p->job_rank, p->sleepers);
    if (job != KILN_NONE)
        next = p->jobs[job].wake_ms;
    for (uint32_t model = 0; model < MODELS_MAX; model++) {
        const struct pol_model *m = &p->models[model];
        if (m->refs == 0)
            continue;
        /* When the first busy worker of the model would take work ahead. */
        uint32_t worker = p->ready ? kiln_treap_after(p->worker_room, m->rooms, 0) : KILN_NONE;
        int64_t room = worker == KILN_NONE ? INT64_MAX : p->workers[worker].free_ms - lead_ms;
        next = room > now_ms && room < next ? room : next;
        uint32_t set = kiln_treap_first(p->set_due, m->due_sets);
        if (set == KILN_NONE)
            continue;
        uint32_t due_job = kiln_treap_first(p->job_due, p->sets[set].deadlines);
        int64_t due = p->job_due[due_job].hi - reserve_ms;
        due = due <= now_ms ? due + reserve_ms / 2 : due;
        if (due > now_ms && due < next)
            next = due;
    }
    return next;
}
