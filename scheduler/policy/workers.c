/* workers.c - the workers: what they have, what is in flight there, who would take work.
 *
 * A worker with room is in two orders.  Among those of its model the least busy and the one that is
 * free first come in front: so idle workers come longest idle first, and the set that is replaced
 * is the one that nobody has asked for.  Among the holders of its set, of the idle ones the last
 * used comes first, so that the others age.  Holders without room come behind.
 *
 * When a worker will be idle follows from what its assignments were expected to take.  Each
 * release, and each heartbeat that shows one less in flight, corrects it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/policy/state.h"

#define NO_ROOM 1000 /* in the order of holders: behind all that have */
#define USUAL 0.1    /* weight of one more assignment in batch_s */

/* --- order ----------------------------------------------------------------------------------- */
/* `rendered` is what the last heartbeat said, less what has been released since.  So an assignment
 * rendered in between counts as busy until the next heartbeat, and no worker is idle by mistake. */
static uint32_t busy_of(const struct pol_worker *worker)
{
    return worker->in_flight_count > worker->rendered ? worker->in_flight_count - worker->rendered
                                                      : 0;
}

/* Seconds of the last `count` assignments in flight. */
static double last_s(const struct pol_worker *worker, uint32_t count)
{
    double seconds = 0;
    for (uint32_t i = worker->in_flight_count - count; i < worker->in_flight_count; i++)
        seconds += (double)worker->in_flight[i].expected_s;
    return seconds;
}

/* One ahead hides the way of a message while an assignment takes longer than that way.  Of short
 * ones several are ahead, and more are on their way to the store: the limit is their time.  What is
 * expected is the mean of the worker's kind; a worker that is slower, or renders nothing just now,
 * shows it by the age of its oldest assignment that is not rendered. */
static bool takes_short(const struct pol_worker *worker, int64_t now_ms)
{
    uint32_t busy = busy_of(worker);
    bool slow =
        worker->rendered < worker->in_flight_count &&
        (double)(now_ms - worker->in_flight[worker->rendered].since_ms) > IN_FLIGHT_S * 1000;
    return !slow && worker->in_flight_count < worker->capacity_short &&
           worker->finished >= KNOWN_MIN && last_s(worker, busy > 0 ? busy - 1 : 0) < AHEAD_S &&
           last_s(worker, worker->in_flight_count) < IN_FLIGHT_S;
}

static bool has_room(const struct pol_worker *worker, int64_t now_ms)
{
    if (worker->draining || worker->batch_max == 0)
        return false;
    if (worker->in_flight_count > 0 && worker->in_flight[worker->in_flight_count - 1].alone)
        return false;
    uint32_t usual = worker->capacity < IN_FLIGHT_LONG ? worker->capacity : IN_FLIGHT_LONG;
    return worker->in_flight_count < usual || takes_short(worker, now_ms);
}

static struct kiln_treap_node holder_key(const struct pol_worker *worker)
{
    return (struct kiln_treap_node){.hi = worker->room ? worker->busy : NO_ROOM + worker->busy,
                                    .lo = worker->busy == 0 ? -worker->free_ms : worker->free_ms};
}

void kiln_policy_place_worker(struct kiln_policy *p, uint32_t worker)
{
    struct pol_worker *w = &p->workers[worker];
    bool holds = w->set != KILN_NONE;
    w->room = has_room(w, p->last_ms);
    w->busy = busy_of(w);
    const struct kiln_treap_node room = {.hi = w->busy, .lo = w->free_ms}, key = holder_key(w);
    kiln_policy_place(p->worker_room, &p->models[w->model].rooms, worker, &w->in_rooms,
                      w->room ? &room : NULL);
    if (holds) {
        kiln_policy_place(p->holder_rank, &p->sets[w->set].ranked_holders, worker, &holds, &key);
        kiln_policy_place_hot(p, w->set);
    }
}

/* --- sets and models ------------------------------------------------------------------------- */
void kiln_policy_plan_set(struct kiln_policy *p, uint32_t worker, uint32_t set)
{
    struct pol_worker *w = &p->workers[worker];
    uint32_t old = w->set;
    if (old == set)
        return;
    if (old != KILN_NONE)
        kiln_treap_remove(p->holder_rank, &p->sets[old].ranked_holders, worker);
    bool cold = set != KILN_NONE && kiln_policy_switch_kind(p, w, set) == KILN_SWITCH_COLD;
    w->set = set;
    if (set != KILN_NONE) {
        struct pol_set *s = &p->sets[set];
        const struct kiln_treap_node key = holder_key(w);
        bool listed = false;
        s->holders++;
        s->holder_speed += w->speed;
        s->refs++;
        kiln_policy_place(p->holder_rank, &s->ranked_holders, worker, &listed, &key);
        kiln_policy_place_set(p, set);
        kiln_policy_place_hot(p, set);
        if (cold)
            w->recent[w->recent_turn++ % RECENT_MAX] = kiln_policy_set_hash(s);
    }
    if (old != KILN_NONE) {
        struct pol_set *s = &p->sets[old];
        s->holders--;
        s->holder_speed = s->holders ? s->holder_speed - w->speed : 0;
        s->refs--;
        kiln_policy_place_set(p, old);
        kiln_policy_place_hot(p, old);
        kiln_policy_drop_set(p, old);
    }
}

static void set_model(struct kiln_policy *p, uint32_t worker, uint32_t model)
{
    struct pol_worker *w = &p->workers[worker];
    uint32_t old = w->model;
    if (old == model)
        return;
    if (old != KILN_NONE)
        kiln_policy_place(p->worker_room, &p->models[old].rooms, worker, &w->in_rooms, NULL);
    if (model != KILN_NONE)
        p->models[model].refs++, p->models[model].workers++;
    w->model = model;
    if (old != KILN_NONE) {
        p->models[old].refs--, p->models[old].workers--;
        kiln_policy_drop_model(p, old);
    }
}

/* --- assignments ----------------------------------------------------------------------------- */
static void recount_free(struct pol_worker *worker, int64_t now_ms)
{
    worker->free_ms = now_ms + (int64_t)(last_s(worker, busy_of(worker)) * 1000);
}

void kiln_policy_add_assignment(struct kiln_policy *p, uint32_t worker,
                                const struct pol_assignment *assignment, int64_t now_ms)
{
    struct pol_worker *w = &p->workers[worker];
    w->in_flight[w->in_flight_count] = *assignment;
    w->in_flight[w->in_flight_count++].since_ms = now_ms;
    if (assignment->set != KILN_NONE)
        p->sets[assignment->set].refs++;
    int64_t from_ms = w->free_ms > now_ms ? w->free_ms : now_ms;
    w->free_ms = from_ms + (int64_t)((double)assignment->expected_s * 1000);
    p->batch_s += USUAL * ((double)assignment->expected_s - p->batch_s);
    kiln_policy_place_worker(p, worker);
}

void kiln_policy_adopt(struct kiln_policy *p, const char *name, uint64_t tag, bool alone)
{
    uint32_t slot = kiln_policy_find_worker(p, name);
    if (slot == KILN_NONE || p->workers[slot].in_flight_count == IN_FLIGHT_MAX)
        return;
    const struct pol_assignment found = {.tag = tag, .set = KILN_NONE, .alone = alone};
    kiln_policy_add_assignment(p, slot, &found, p->last_ms);
}

static void drop_assignment(struct kiln_policy *p, struct pol_worker *worker, uint32_t at)
{
    uint32_t set = worker->in_flight[at].set;
    worker->in_flight_count--;
    memmove(&worker->in_flight[at], &worker->in_flight[at + 1],
            (worker->in_flight_count - at) * sizeof(worker->in_flight[0]));
    if (set == KILN_NONE)
        return;
    p->sets[set].refs--;
    kiln_policy_drop_set(p, set);
}

static void release(struct kiln_policy *p, const char *name, uint64_t tag, bool finished)
{
    uint32_t slot = kiln_policy_find_worker(p, name), i = 0;
    struct pol_worker *worker = slot == KILN_NONE ? NULL : &p->workers[slot];
    while (worker && i < worker->in_flight_count && worker->in_flight[i].tag != tag)
        i++;
    if (!worker || i == worker->in_flight_count)
        return;
    bool taken = worker->in_flight[i].taken;
    worker->finished += finished;
    if (!taken && worker->rendered > 0) { /* one of these: the worker takes no more than before */
        worker->rendered--;
        worker->capacity -= worker->capacity > 0;
    }
    drop_assignment(p, worker, i);
    /* It never began there: the worker ends with the set of what is before it. */
    if (taken && i > 0 && i == worker->in_flight_count && worker->in_flight[i - 1].set != KILN_NONE)
        kiln_policy_plan_set(p, slot, worker->in_flight[i - 1].set);
    recount_free(worker, p->last_ms);
    kiln_policy_place_worker(p, slot);
    p->epoch++;
}

void kiln_policy_release(struct kiln_policy *p, const char *name, uint64_t tag)
{
    release(p, name, tag, false);
}

void kiln_policy_finish(struct kiln_policy *p, const char *name, uint64_t tag)
{
    release(p, name, tag, true);
}

/* --- coming and going ------------------------------------------------------------------------ */
static void count_speed(struct kiln_policy *p)
{
    p->speed_sum = p->speed_max = 0;
    for (uint32_t i = 0; i < p->worker_span; i++) {
        const struct pol_worker *worker = &p->workers[i];
        if (!p->worker_used[i] || worker->draining)
            continue;
        p->speed_sum += worker->speed;
        p->speed_max = fmax(p->speed_max, worker->speed);
    }
}

int kiln_policy_worker_set(struct kiln_policy *p, const char *name,
                           const struct kiln_policy_worker *report, struct kiln_error *err)
{
    uint32_t slot = kiln_policy_find_worker(p, name);
    if (slot == KILN_NONE)
        slot = kiln_policy_make_worker(p, name);
    uint32_t model = slot == KILN_NONE ? KILN_NONE : kiln_policy_get_model(p, report->model);
    if (model == KILN_NONE)
        return kiln_fail(err, KILN_FULL, "no room for worker %s", name);
    struct pol_worker *worker = &p->workers[slot];
    uint32_t was_busy = busy_of(worker);
    set_model(p, slot, model);
    worker->capacity = report->capacity;
    worker->capacity_short =
        report->capacity_short < IN_FLIGHT_MAX ? report->capacity_short : IN_FLIGHT_MAX;
    worker->rendered = report->rendered;
    worker->batch_max = report->batch_max < KILN_ASSIGN_MAX ? report->batch_max : KILN_ASSIGN_MAX;
    snprintf(worker->device, sizeof(worker->device), "%s", report->device ? report->device : "");
    const double speed = kiln_cost_speed(p->costs, "", worker->device);
    const bool recount = worker->draining != report->draining || speed != worker->speed;
    if (worker->set != KILN_NONE)
        p->sets[worker->set].holder_speed += speed - worker->speed;
    worker->speed = speed;
    worker->draining = report->draining;
    worker->minor = report->minor;
    kiln_policy_set_files(p, slot, report->files, report->file_count);
    const uint32_t busy = busy_of(worker);
    if (busy < was_busy)
        recount_free(worker, p->last_ms);
    if (report->left_s > 0 && busy > 0) {
        /* The running batch ends in left_s, perhaps sooner than was expected; what is behind it
         * takes its time.  A late one changes nothing: the work that is ahead already hides the
         * way of the next. */
        double ends_s = report->left_s + last_s(worker, busy - 1);
        int64_t free_ms = p->last_ms + (int64_t)(ends_s * 1000);
        worker->free_ms = free_ms < worker->free_ms ? free_ms : worker->free_ms;
    }
    /* With work in flight the worker will end with that work's set, whatever it reports now; idle,
     * its own word counts.  Resident sets are kept under the pool's model. */
    if (worker->in_flight_count == 0) {
        uint32_t set = kiln_policy_get_set(p, p->pool_model, report->lora_set);
        bool same = worker->set != KILN_NONE &&
                    strcmp(p->sets[worker->set].lora_set, report->lora_set) == 0;
        if (set != KILN_NONE && !same)
            kiln_policy_plan_set(p, slot, set);
        else if (set != KILN_NONE)
            kiln_policy_drop_set(p, set);
    }
    if (recount)
        count_speed(p);
    kiln_policy_place_worker(p, slot);
    p->epoch++;
    return 0;
}

void kiln_policy_worker_remove(struct kiln_policy *p, const char *name)
{
    uint32_t slot = kiln_policy_find_worker(p, name);
    if (slot == KILN_NONE)
        return;
    struct pol_worker *worker = &p->workers[slot];
    kiln_policy_plan_set(p, slot, KILN_NONE);
    set_model(p, slot, KILN_NONE);
    while (worker->in_flight_count > 0)
        drop_assignment(p, worker, worker->in_flight_count - 1);
    kiln_slots_free(&p->worker_slots, slot);
    p->worker_used[slot] = false;
    p->workers_alive--;
    count_speed(p);
    p->epoch++;
}

void kiln_policy_worker_suspend(struct kiln_policy *p, const char *name)
{
    uint32_t slot = kiln_policy_find_worker(p, name);
    if (slot == KILN_NONE || p->workers[slot].draining)
        return;
    p->workers[slot].draining = true;
    count_speed(p);
    kiln_policy_place_worker(p, slot);
    p->epoch++;
}
