/* pick.c - the order in which workers are served, and the assignment that one of them gets.
 *
 * Idle workers come first, among them those whose own set has work: so nobody opens a set while
 * its holder is idle, and nobody gets a second assignment while another worker has none.  The set
 * that an idle worker replaces is the one that nobody has asked for longest.  Work is given ahead
 * only shortly before a worker is idle: until then it can still go to the first idle worker.
 */
#include <stdio.h>
#include <string.h>

#include "scheduler/policy/state.h"
#include "schemas/wire/wire.h"

#define WALK_WORKERS 8 /* idle workers looked at for one that had the set before, */
#define WALK_FILES 64  /* or at least has its files, */
#define WALK_ALL 1024  /* or alone has the files that a group failed without */
#define OTHERS_WALK 16 /* groups of a set looked at for those that ... */
#define GROUPS_MAX 8   /* differ only in the steps left, of which so many share an assignment */
#define SLOW 1.5       /* so many times slower than the fastest counts as slow at the end */

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

/* Moves jobs of the group into the assignment, job first, until it has `count`. */
static void fill(struct kiln_policy *p, uint32_t group, uint32_t job, uint32_t count, bool urgent,
                 double each_s, struct kiln_policy_pick *ret)
{
    const struct kiln_reuse_look again = {0}; /* who was found a latent looks for it again */
    p->groups[group].refs++;                  /* outlives its last job until the end */
    for (; ret->count < count && job != KILN_NONE; job = next_job(p, group, urgent)) {
        const struct pol_job *j = &p->jobs[job];
        ret->looks[ret->count] = j->unplaced || p->groups[group].skip > 0 ? again : j->look;
        ret->ids[ret->count++] = j->id;
        const uint32_t tenant = p->queues[j->queue].tenant;
        kiln_policy_job_unready(p, job);
        kiln_policy_charge(p, tenant, each_s);
        kiln_policy_drop_job(p, job);
    }
    p->groups[group].refs--;
    kiln_policy_drop_group(p, group);
}

/* Groups whose jobs differ from those of this one only in the steps they have left, backfill or not
 * as those of this one; how many, or 0 if there may be more than were looked at. */
static uint32_t others_of(struct kiln_policy *p, const struct pol_worker *worker, uint32_t group,
                          bool backfill, uint32_t ret[GROUPS_MAX])
{
    const struct pol_group *g = &p->groups[group];
    uint32_t count = 0, other = kiln_treap_first(p->group_rank, p->sets[g->set].groups);
    for (int i = 0; i < OTHERS_WALK && other != KILN_NONE && count < GROUPS_MAX; i++) {
        const struct pol_group *o = &p->groups[other];
        if (other != group && pol_renders_alike(o, g) && o->ready > 0 && !o->alone &&
            pol_is_backfill(&p->group_rank[other]) == backfill &&
            kiln_policy_allowed(p, worker, other))
            ret[count++] = other;
        other = kiln_treap_next(p->group_rank, p->sets[g->set].groups, other);
    }
    return other == KILN_NONE ? count : 0;
}

/* When all such jobs fit one assignment, it has them all: the worker cuts it where that is faster
 * there, and else runs one call where there would have been several. */
static void add_last(struct kiln_policy *p, const struct pol_worker *worker, uint32_t group,
                     bool backfill, uint32_t count, struct kiln_policy_pick *ret)
{
    uint32_t others[GROUPS_MAX], jobs = ret->count;
    const uint32_t n =
        p->groups[group].ready > 0 ? 0 : others_of(p, worker, group, backfill, others);
    for (uint32_t i = 0; i < n; i++)
        jobs += p->groups[others[i]].ready;
    for (uint32_t i = 0; i < n && jobs <= count; i++) {
        const uint32_t ready = p->groups[others[i]].ready;
        const struct kiln_cost_shape shape = kiln_policy_shape(p, others[i], ready, worker);
        const double compute_s = kiln_cost_compute(p->costs, &shape);
        ret->compute_s += compute_s;
        fill(p, others[i], next_job(p, others[i], false), ret->count + ready, false,
             compute_s / ready, ret);
    }
}

static void take(struct kiln_policy *p, uint32_t worker_slot, const struct pol_choice *choice,
                 int64_t now_ms, struct kiln_policy_pick *ret)
{
    struct pol_worker *worker = &p->workers[worker_slot];
    uint32_t group = choice->group, set = p->groups[group].set;
    struct pol_group *g = &p->groups[group];
    const uint32_t most = kiln_policy_batch_size(p, worker, group);
    const uint32_t count = most < g->ready ? most : g->ready;
    const bool backfill = pol_is_backfill(&p->group_rank[group]);
    memset(ret, 0, sizeof(*ret));
    ret->rule = choice->rule;
    ret->skip = g->skip;
    g->refs++; /* outlives its last job until the end of this function */
    bool urgent = choice->rule == KILN_RULE_OVERDUE;
    uint32_t job = choice->job != KILN_NONE ? choice->job : next_job(p, group, urgent);
    expect(p, worker, group, job, count, ret);
    fill(p, group, job, count, urgent, ret->compute_s / count, ret);
    if (!g->alone)
        add_last(p, worker, group, backfill, most, ret);
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
    double least = kiln_policy_regret_s(p, w) + kiln_policy_load_s(p, w, set);
    bool fetches = kiln_policy_fetches(p, w, set) > 0;
    for (int i = 0; i < (fetches ? WALK_FILES : WALK_WORKERS) && other != KILN_NONE; i++) {
        const struct pol_worker *o = &p->workers[other];
        bool needed = o->set != KILN_NONE && p->sets[o->set].ready > 0;
        if (o->in_flight_count == 0 && !needed && o->speed >= w->speed &&
            kiln_policy_allowed(p, o, group)) {
            double loses = kiln_policy_regret_s(p, o) + kiln_policy_load_s(p, o, set);
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
    struct pol_choice choice;
    if (w->tried == p->epoch)
        return false;
    bool any = kiln_policy_choose(p, w, now_ms, &choice) && !too_slow(p, w, choice.group);
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
