/* workers.c - the workers: what they have, what is in their hands, who would take work.
 *
 * A worker with room stands in two orders: among those of its model, the least busy and the one
 * that is free first in front, so that idle workers come longest idle first and the set that goes
 * is the one nobody has asked for; and among the holders of its set, where of the idle ones the
 * last used comes first, so that the others age.  Holders without room stand behind.
 *
 * When its hands will be empty is what was expected of the assignments in them; each release and
 * each heartbeat that shows one less puts it right.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/policy/state.h"

#define NO_ROOM 1000 /* in the order of holders: behind all that have */
#define USUAL 0.1    /* weight of one more assignment in what assignments usually take */

/* --- order ----------------------------------------------------------------------------------- */
/* What is past drawing is what the last heartbeat said, less what has left the hands since: so what
 * was drawn in between counts as busy until the next one, and an idle worker is never imagined. */
static uint32_t busy_of(const struct pol_worker *worker)
{
    return worker->held_count > worker->drawn ? worker->held_count - worker->drawn : 0;
}

/* Seconds of the last `count` of its hands. */
static double last_s(const struct pol_worker *worker, uint32_t count)
{
    double seconds = 0;
    for (uint32_t i = worker->held_count - count; i < worker->held_count; i++)
        seconds += (double)worker->held[i].expected_s;
    return seconds;
}

/* What is expected is the mean of the worker's kind.  One that is slower, or that draws nothing
 * just now, shows it: the oldest that is not drawn stays in its hands. */
static bool is_slow(const struct pol_worker *worker, int64_t now_ms)
{
    return worker->drawn < worker->held_count &&
           (double)(now_ms - worker->held[worker->drawn].since_ms) > HANDS_S * 1000;
}

/* One ahead hides the way of a message while an assignment takes longer than that way.  Of short
 * ones several lie ahead, and more are on their way to the store: the limit is their time. */
static bool takes_short(const struct pol_worker *worker, int64_t now_ms)
{
    uint32_t busy = busy_of(worker);
    return !is_slow(worker, now_ms) && worker->held_count < worker->most &&
           worker->finished >= KNOWN_MIN && last_s(worker, busy > 0 ? busy - 1 : 0) < AHEAD_S &&
           last_s(worker, worker->held_count) < HANDS_S;
}

static bool has_room(const struct pol_worker *worker, int64_t now_ms)
{
    if (worker->draining || worker->batch_max == 0)
        return false;
    if (worker->held_count > 0 && worker->held[worker->held_count - 1].alone)
        return false;
    uint32_t usual = worker->capacity < USUAL_MAX ? worker->capacity : USUAL_MAX;
    return worker->held_count < usual || takes_short(worker, now_ms);
}

static void replace(struct kiln_treap_node *nodes, uint32_t *root, uint32_t slot, int64_t hi,
                    int64_t lo)
{
    if (nodes[slot].hi == hi && nodes[slot].lo == lo)
        return;
    kiln_treap_remove(nodes, root, slot);
    nodes[slot].hi = hi;
    nodes[slot].lo = lo;
    kiln_treap_insert(nodes, root, slot);
}

static void place_room(struct kiln_policy *p, uint32_t worker)
{
    struct pol_worker *w = &p->workers[worker];
    uint32_t *root = &p->models[w->model].rooms;
    if (w->in_rooms && !w->room)
        kiln_treap_remove(p->worker_room, root, worker);
    else if (w->in_rooms)
        replace(p->worker_room, root, worker, w->busy, w->free_ms);
    if (!w->in_rooms && w->room) {
        p->worker_room[worker].hi = w->busy;
        p->worker_room[worker].lo = w->free_ms;
        kiln_treap_insert(p->worker_room, root, worker);
    }
    w->in_rooms = w->room;
}

static void hand_key(struct kiln_policy *p, uint32_t worker, int64_t *ret_hi, int64_t *ret_lo)
{
    const struct pol_worker *w = &p->workers[worker];
    *ret_hi = w->room ? w->busy : NO_ROOM + w->busy;
    *ret_lo = w->busy == 0 ? -w->free_ms : w->free_ms;
}

void kiln_policy_place_hot(struct kiln_policy *p, uint32_t set)
{
    struct pol_set *s = &p->sets[set];
    uint32_t hand = kiln_treap_first(p->worker_hand, s->hands);
    bool wanted = s->ready > 0 && hand != KILN_NONE && p->workers[hand].room;
    int64_t hi = wanted ? p->workers[hand].busy : 0;
    int64_t lo = wanted ? p->workers[hand].free_ms : 0;
    if (s->hot && wanted)
        replace(p->set_hot, &p->hot_sets, set, hi, lo);
    else if (s->hot)
        kiln_treap_remove(p->set_hot, &p->hot_sets, set);
    if (!s->hot && wanted) {
        p->set_hot[set].hi = hi;
        p->set_hot[set].lo = lo;
        kiln_treap_insert(p->set_hot, &p->hot_sets, set);
    }
    s->hot = wanted;
}

void kiln_policy_place_worker(struct kiln_policy *p, uint32_t worker)
{
    struct pol_worker *w = &p->workers[worker];
    w->room = has_room(w, p->last_ms);
    w->busy = busy_of(w);
    place_room(p, worker);
    if (w->set == KILN_NONE)
        return;
    int64_t hi, lo;
    hand_key(p, worker, &hi, &lo);
    replace(p->worker_hand, &p->sets[w->set].hands, worker, hi, lo);
    kiln_policy_place_hot(p, w->set);
}

/* --- sets ------------------------------------------------------------------------------------ */
static uint32_t set_hash(const struct pol_set *set)
{
    return kiln_hash_bytes(set->model + 1, set->lora_set, strlen(set->lora_set));
}

static bool had(const struct pol_worker *worker, uint32_t hash)
{
    for (uint32_t i = 0; i < RECENT_MAX; i++)
        if (worker->recent[i] == hash)
            return true;
    return false;
}

enum kiln_switch_kind kiln_policy_kind(const struct kiln_policy *p, const struct pol_worker *worker,
                                       uint32_t set)
{
    if (worker->set == set)
        return KILN_SWITCH_RESIDENT;
    return had(worker, set_hash(&p->sets[set])) ? KILN_SWITCH_WARM : KILN_SWITCH_COLD;
}

double kiln_policy_load_s(const struct kiln_policy *p, const struct pol_worker *worker,
                          uint32_t set)
{
    const struct kiln_cost_load load = {.model = p->models[p->sets[set].model].name,
                                        .lora_set = p->sets[set].lora_set,
                                        .device = worker->device,
                                        .kind = kiln_policy_kind(p, worker, set)};
    return kiln_cost_load(p->costs, &load);
}

void kiln_policy_worker_takes(struct kiln_policy *p, uint32_t worker, uint32_t set)
{
    struct pol_worker *w = &p->workers[worker];
    uint32_t old = w->set;
    if (old == set)
        return;
    if (old != KILN_NONE)
        kiln_treap_remove(p->worker_hand, &p->sets[old].hands, worker);
    w->set = set;
    if (set != KILN_NONE) {
        struct pol_set *s = &p->sets[set];
        s->holders++;
        s->holder_speed += w->speed;
        s->refs++;
        hand_key(p, worker, &p->worker_hand[worker].hi, &p->worker_hand[worker].lo);
        kiln_treap_insert(p->worker_hand, &s->hands, worker);
        kiln_policy_place_set(p, set);
        kiln_policy_place_hot(p, set);
        if (!had(w, set_hash(s)))
            w->recent[w->recent_turn++ % RECENT_MAX] = set_hash(s);
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

/* --- sizes ----------------------------------------------------------------------------------- */
uint32_t kiln_policy_size_hash(const struct pol_group *group)
{
    return kiln_hash_u64((uint64_t)group->width << 32 | group->height);
}

bool kiln_policy_drew(const struct pol_worker *worker, const struct pol_group *group)
{
    uint32_t hash = kiln_policy_size_hash(group);
    for (uint32_t i = 0; i < SIZES_MAX; i++)
        if (worker->sizes[i] == hash)
            return true;
    return false;
}

/* --- hands ----------------------------------------------------------------------------------- */
/* What is still in the hands, from now on. */
static void recount_free(struct pol_worker *worker, int64_t now_ms)
{
    worker->free_ms = now_ms + (int64_t)(last_s(worker, busy_of(worker)) * 1000);
}

/* What it draws now will be drawn sooner than was expected; what lies behind that takes its time.
 * Who is late gets no more for it: work that lies ahead already hides the way of the next. */
static void end_sooner(struct pol_worker *worker, double left_s, int64_t now_ms)
{
    uint32_t busy = busy_of(worker);
    if (left_s <= 0 || busy == 0)
        return;
    int64_t free_ms = now_ms + (int64_t)((left_s + last_s(worker, busy - 1)) * 1000);
    worker->free_ms = free_ms < worker->free_ms ? free_ms : worker->free_ms;
}

int64_t kiln_policy_lead_ms(const struct kiln_policy *p)
{
    return LEAD_MS + (int64_t)(1000 * fmin(p->load_s, LEAD_LOAD_S));
}

void kiln_policy_take_up(struct kiln_policy *p, uint32_t worker, const struct pol_held *held,
                         int64_t now_ms)
{
    struct pol_worker *w = &p->workers[worker];
    w->held[w->held_count] = *held;
    w->held[w->held_count++].since_ms = now_ms;
    if (held->set != KILN_NONE)
        p->sets[held->set].refs++;
    int64_t from_ms = w->free_ms > now_ms ? w->free_ms : now_ms;
    w->free_ms = from_ms + (int64_t)((double)held->expected_s * 1000);
    if (held->load_s > 0)
        p->load_s += USUAL * ((double)held->load_s - p->load_s);
    p->batch_s += USUAL * ((double)held->expected_s - p->batch_s);
    kiln_policy_place_worker(p, worker);
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

static uint32_t new_worker(struct kiln_policy *p, const char *name)
{
    uint32_t hash = kiln_hash_bytes(0, name, strlen(name));
    uint32_t slot =
        strlen(name) > KILN_NAME_MAX ? KILN_NONE : kiln_slots_take(&p->worker_slots, hash);
    if (slot == KILN_NONE)
        return slot;
    p->workers[slot] =
        (struct pol_worker){.set = KILN_NONE, .model = KILN_NONE, .free_ms = p->last_ms};
    snprintf(p->workers[slot].name, sizeof(p->workers[slot].name), "%s", name);
    p->worker_used[slot] = true;
    if (slot >= p->worker_span)
        p->worker_span = slot + 1;
    p->workers_alive++;
    return slot;
}

static void worker_model(struct kiln_policy *p, uint32_t worker, uint32_t model)
{
    struct pol_worker *w = &p->workers[worker];
    uint32_t old = w->model;
    if (old == model)
        return;
    if (w->in_rooms)
        kiln_treap_remove(p->worker_room, &p->models[old].rooms, worker);
    w->in_rooms = false;
    if (model != KILN_NONE)
        p->models[model].refs++, p->models[model].workers++;
    w->model = model;
    if (old != KILN_NONE) {
        p->models[old].refs--, p->models[old].workers--;
        kiln_policy_drop_model(p, old);
    }
}

static bool set_speed(struct kiln_policy *p, struct pol_worker *worker, const char *device)
{
    snprintf(worker->device, sizeof(worker->device), "%s", device ? device : "");
    double speed = kiln_cost_speed(p->costs, "", worker->device);
    if (speed == worker->speed)
        return false;
    if (worker->set != KILN_NONE)
        p->sets[worker->set].holder_speed += speed - worker->speed;
    worker->speed = speed;
    return true;
}

int kiln_policy_worker_set(struct kiln_policy *p, const char *name,
                           const struct kiln_policy_worker *report, struct kiln_error *err)
{
    uint32_t slot = kiln_policy_find_worker(p, name);
    if (slot == KILN_NONE)
        slot = new_worker(p, name);
    uint32_t model = slot == KILN_NONE ? KILN_NONE : kiln_policy_get_model(p, report->model);
    if (model == KILN_NONE)
        return kiln_fail(err, KILN_FULL, "no room for worker %s", name);
    struct pol_worker *worker = &p->workers[slot];
    uint32_t was_busy = busy_of(worker);
    worker_model(p, slot, model);
    worker->capacity = report->capacity;
    worker->most = report->most < HELD_MAX ? report->most : HELD_MAX;
    worker->drawn = report->drawn;
    worker->batch_max = report->batch_max < KILN_ASSIGN_MAX ? report->batch_max : KILN_ASSIGN_MAX;
    bool counts = worker->draining != report->draining;
    worker->draining = report->draining;
    counts = set_speed(p, worker, report->device) || counts;
    if (busy_of(worker) < was_busy)
        recount_free(worker, p->last_ms);
    end_sooner(worker, report->left_s, p->last_ms);
    /* With something in hand it will end with that set, whatever it reports now; with empty hands
     * its own word counts.  Resident sets are kept under the pool's model. */
    if (worker->held_count == 0) {
        uint32_t set = kiln_policy_get_set(p, p->pool_model, report->lora_set);
        bool same = worker->set != KILN_NONE &&
                    strcmp(p->sets[worker->set].lora_set, report->lora_set) == 0;
        if (set != KILN_NONE && !same)
            kiln_policy_worker_takes(p, slot, set);
        else if (set != KILN_NONE)
            kiln_policy_drop_set(p, set);
    }
    if (counts)
        count_speed(p);
    kiln_policy_place_worker(p, slot);
    p->epoch++;
    return 0;
}

static void drop_held(struct kiln_policy *p, struct pol_worker *worker, uint32_t at)
{
    uint32_t set = worker->held[at].set;
    worker->held_count--;
    memmove(&worker->held[at], &worker->held[at + 1],
            (worker->held_count - at) * sizeof(worker->held[0]));
    if (set == KILN_NONE)
        return;
    p->sets[set].refs--;
    kiln_policy_drop_set(p, set);
}

void kiln_policy_worker_gone(struct kiln_policy *p, const char *name)
{
    uint32_t slot = kiln_policy_find_worker(p, name);
    if (slot == KILN_NONE)
        return;
    struct pol_worker *worker = &p->workers[slot];
    kiln_policy_worker_takes(p, slot, KILN_NONE);
    worker_model(p, slot, KILN_NONE);
    while (worker->held_count > 0)
        drop_held(p, worker, worker->held_count - 1);
    kiln_slots_give(&p->worker_slots, slot);
    p->worker_used[slot] = false;
    p->workers_alive--;
    count_speed(p);
    p->epoch++;
}

void kiln_policy_worker_rest(struct kiln_policy *p, const char *name)
{
    uint32_t slot = kiln_policy_find_worker(p, name);
    if (slot == KILN_NONE || p->workers[slot].draining)
        return;
    p->workers[slot].draining = true;
    count_speed(p);
    kiln_policy_place_worker(p, slot);
    p->epoch++;
}

void kiln_policy_hold(struct kiln_policy *p, const char *name, uint64_t tag, bool alone)
{
    uint32_t slot = kiln_policy_find_worker(p, name);
    if (slot == KILN_NONE || p->workers[slot].held_count == HELD_MAX)
        return;
    const struct pol_held held = {.tag = tag, .set = KILN_NONE, .alone = alone};
    kiln_policy_take_up(p, slot, &held, p->last_ms);
}

static void release(struct kiln_policy *p, const char *name, uint64_t tag, bool finished)
{
    uint32_t slot = kiln_policy_find_worker(p, name);
    if (slot == KILN_NONE)
        return;
    struct pol_worker *worker = &p->workers[slot];
    for (uint32_t i = 0; i < worker->held_count; i++) {
        if (worker->held[i].tag != tag)
            continue;
        bool taken = worker->held[i].taken;
        worker->finished += finished;
        if (!taken && worker->drawn > 0) { /* one of these: no more is welcome than before */
            worker->drawn--;
            worker->capacity -= worker->capacity > 0;
        }
        drop_held(p, worker, i);
        /* It never began there: the worker ends with what is before it. */
        if (taken && i > 0 && i == worker->held_count && worker->held[i - 1].set != KILN_NONE)
            kiln_policy_worker_takes(p, slot, worker->held[i - 1].set);
        recount_free(worker, p->last_ms);
        kiln_policy_place_worker(p, slot);
        p->epoch++;
        return;
    }
}

void kiln_policy_release(struct kiln_policy *p, const char *name, uint64_t tag)
{
    release(p, name, tag, false);
}

void kiln_policy_finish(struct kiln_policy *p, const char *name, uint64_t tag)
{
    release(p, name, tag, true);
}
