/* fleet.c - the members of the fleet and what each has in its hands.
 *
 * A heartbeat is a worker's word on what it holds; the leader's own memory adds what is on its way.
 * A member is alive while its beats keep changing: the age is measured here, from one reading to
 * the next, so neither a flushed Redis nor anybody's wall clock can make a worker look dead before
 * a whole lease has passed with the bus answering.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/clock.h"
#include "schemas/log.h"
#include "schemas/room.h"

#define LEASE_SLACK_MS 500
#define FIRST_READ_MS 1000 /* from a worker's first beat until it has read its stream */
#define LEARN_SLACK_MS 2000
#define NEXT_MAX 3 /* assignments that may have begun since the last beat */

struct kiln_member *kiln_fleet_find(const struct kiln_leader *leader, const char *name)
{
    for (size_t i = 0; i < leader->member_count; i++)
        if (strcmp(leader->members[i]->name, name) == 0)
            return leader->members[i];
    return NULL;
}

struct kiln_member *kiln_fleet_get(struct kiln_leader *leader, const char *name)
{
    struct kiln_member *member = kiln_fleet_find(leader, name);
    if (member)
        return member;
    struct kiln_member **at =
        kiln_room(leader->members, leader->member_count, &leader->member_room, sizeof(*at));
    if (!at)
        return NULL;
    leader->members = at;
    member = calloc(1, sizeof(*member));
    if (!member)
        return NULL;
    snprintf(member->name, sizeof(member->name), "%s", name);
    leader->members[leader->member_count++] = member;
    return member;
}

struct kiln_assigned *kiln_fleet_assigned(const struct kiln_member *member, const char *id)
{
    for (uint32_t i = 0; i < member->hand_count; i++)
        if (strcmp(member->hand[i]->id, id) == 0)
            return member->hand[i];
    return NULL;
}

struct kiln_assigned *kiln_fleet_hand(struct kiln_member *member, const char *id, int64_t now_ms)
{
    if (member->hand_count == KILN_GUARD_MAX)
        return NULL;
    struct kiln_assigned *assigned = calloc(1, sizeof(*assigned));
    if (!assigned)
        return NULL;
    snprintf(assigned->id, sizeof(assigned->id), "%s", id);
    assigned->since_ms = now_ms;
    member->hand[member->hand_count++] = assigned;
    return assigned;
}

void kiln_fleet_drop(struct kiln_member *member, struct kiln_assigned *assigned)
{
    for (uint32_t i = 0; i < member->hand_count; i++) {
        if (member->hand[i] != assigned)
            continue;
        member->hand_count--;
        memmove(&member->hand[i], &member->hand[i + 1],
                (member->hand_count - i) * sizeof(member->hand[0]));
        free(assigned);
        return;
    }
}

static void remember_finished(struct kiln_member *member, const char *id)
{
    snprintf(member->finished[member->finished_turn++ % KILN_FINISHED_MAX],
             sizeof(member->finished[0]), "%s", id);
}

static void free_member(struct kiln_member *member)
{
    while (member->hand_count > 0)
        kiln_fleet_drop(member, member->hand[0]);
    free(member);
}

void kiln_fleet_clear(struct kiln_leader *leader)
{
    for (size_t i = 0; i < leader->member_count; i++)
        free_member(leader->members[i]);
    free(leader->members);
    leader->members = NULL;
    leader->member_count = leader->member_room = 0;
}

/* --- losing ----------------------------------------------------------------------------------- */
/* A crash is the doing of what was in the engine or is on its way from there; of what lies ahead in
 * the worker's hands only the next few are suspects, since a beat may be a moment old.  So one job
 * does not make suspects of all that a worker has ahead, each to be drawn alone; and one that kills
 * its worker at once is met sooner or later, as what lies before it is drawn or given elsewhere.
 * What no beat has named was taken out of the stream a moment before the end: it may have been the
 * reading of it.  `next` counts on through the hand. */
static bool lies_behind(const struct kiln_member *member, const struct kiln_assigned *assigned,
                        uint32_t *next)
{
    if (!member->tells || !assigned->seen || assigned->begun)
        return false;
    return ++*next > NEXT_MAX;
}

static void lose_hand(struct kiln_assigned *assigned, bool clean)
{
    assigned->held = assigned->beaten = assigned->inherited = false;
    assigned->lost = true;
    assigned->clean = clean;
}

void kiln_fleet_lose(struct kiln_leader *leader, struct kiln_member *member, bool clean)
{
    uint32_t next = 0;
    kiln_policy_worker_remove(leader->policy, member->name);
    for (uint32_t i = 0; i < member->hand_count; i++) {
        struct kiln_assigned *assigned = member->hand[i];
        if (!assigned->lost)
            lose_hand(assigned, clean || lies_behind(member, assigned, &next));
    }
    member->known = false;
    leader->reconcile_due_ms = 0;
}

/* For people alone: nothing depends on it, so a failure is no more than a line of the log. */
static void tell_lost(struct kiln_leader *leader, const struct kiln_member *member,
                      int64_t silent_ms)
{
    struct kiln_error err;
    kiln_metric_add(KILN_METRIC_LEASES_LOST, 0, 1);
    kiln_log(KILN_LOG_WARNING, "worker_lost", kiln_f("worker", "%s", member->name),
             kiln_f("silent_s", "%.1f", (double)silent_ms / 1000),
             kiln_f("assignments", "%u", member->hand_count));
    if (kiln_ledger_worker_lost(leader->ledger, leader->pool, member->name, (uint64_t)silent_ms,
                                &err))
        kiln_log(KILN_LOG_DEBUG, "state_untold", kiln_f("error", "%s", err.text));
}

void kiln_fleet_expire(struct kiln_leader *leader, int64_t now_ms)
{
    for (size_t i = 0; i < leader->member_count; i++) {
        struct kiln_member *member = leader->members[i];
        if (member->bye && !member->present && member->known) {
            kiln_log(KILN_LOG_INFO, "worker_left", kiln_f("worker", "%s", member->name));
            kiln_fleet_lose(leader, member, true);
            continue;
        }
        /* While the bus was away nobody could be heard: the lease starts again. */
        int64_t heard =
            member->changed_ms > leader->bus_back_ms ? member->changed_ms : leader->bus_back_ms;
        if (now_ms - heard <= leader->lease_ms + LEASE_SLACK_MS)
            continue;
        if (member->known)
            tell_lost(leader, member, now_ms - heard);
        kiln_fleet_lose(leader, member, false);
    }
    /* A member of which nothing is left is forgotten. */
    for (size_t i = 0; i < leader->member_count;) {
        struct kiln_member *member = leader->members[i];
        if (!member->known && member->hand_count == 0) {
            kiln_fleet_drop_stream(leader, member->name);
            leader->members[i] = leader->members[--leader->member_count];
            free_member(member);
        } else {
            i++;
        }
    }
}

/* --- beats ----------------------------------------------------------------------------------- */
static bool just_finished(const struct kiln_member *member, const char *id)
{
    for (uint32_t i = 0; i < KILN_FINISHED_MAX; i++)
        if (strcmp(member->finished[i], id) == 0)
            return true;
    return false;
}

static bool names(const struct kiln_heartbeat *beat, const char *id)
{
    for (uint32_t i = 0; i < beat->held_count; i++)
        if (strcmp(beat->held[i], id) == 0)
            return true;
    return false;
}

/* Another process under the worker's name.  What its predecessor had in its hands is lost with it;
 * but what nobody has named yet was most likely sent while there was nobody to read it: it waits
 * for the new process, which reads the same stream, and is none of its predecessor's crashes. */
static void succeed(struct kiln_leader *leader, struct kiln_member *member,
                    const struct kiln_heartbeat *beat, int64_t now_ms)
{
    uint32_t next = 0;
    kiln_policy_worker_remove(leader->policy, member->name);
    for (uint32_t i = 0; i < member->hand_count; i++) {
        struct kiln_assigned *assigned = member->hand[i];
        if (assigned->lost)
            continue;
        if (assigned->seen && !names(beat, assigned->id)) {
            lose_hand(assigned, lies_behind(member, assigned, &next));
            continue;
        }
        assigned->held = assigned->beaten = false;
        assigned->since_ms = assigned->inherited ? assigned->since_ms : now_ms;
        assigned->inherited = true;
    }
    member->known = false;
    leader->reconcile_due_ms = 0;
}

/* After the policy knows the new process: what is on its way to it fills its hands. */
static void hold_inherited(struct kiln_leader *leader, struct kiln_member *member)
{
    for (uint32_t i = 0; i < member->hand_count; i++) {
        struct kiln_assigned *assigned = member->hand[i];
        if (!assigned->inherited || assigned->held || assigned->lost)
            continue;
        assigned->held = true;
        if (assigned->tag == 0)
            assigned->tag = UINT64_MAX - ++leader->assignments;
        kiln_policy_adopt(leader->policy, member->name, assigned->tag, assigned->alone);
    }
}

/* Two processes of one name: the one that started later is the worker, the other is told to end.
 * False if this beat is the other's. */
static bool right_incarnation(struct kiln_leader *leader, struct kiln_member *member,
                              const struct kiln_heartbeat *beat, int64_t now_ms)
{
    if (!member->known || strcmp(member->incarnation, beat->incarnation) == 0)
        return true;
    struct kiln_error err;
    if (beat->started_ms < member->started_ms) {
        if (member->warned_ms && now_ms - member->warned_ms < leader->lease_ms)
            return false; /* told a moment ago; the wrong one of the two may have read it */
        member->warned_ms = now_ms;
        kiln_log(KILN_LOG_ERROR, "worker_twice", kiln_f("worker", "%s", member->name),
                 kiln_f("host", "%s", beat->host), kiln_f("pid", "%u", beat->pid),
                 kiln_f("effect", "%s", "the older one is told to end"));
        if (kiln_fleet_send_control(leader, member->name, KILN_CONTROL_DRAIN, 0, beat->incarnation,
                                    &err))
            kiln_log(KILN_LOG_WARNING, "order_lost", kiln_f("error", "%s", err.text));
        return false;
    }
    kiln_log(KILN_LOG_INFO, "worker_restarted", kiln_f("worker", "%s", member->name),
             kiln_f("assignments", "%u", member->hand_count));
    succeed(leader, member, beat, now_ms);
    return true;
}

/* Brings the hand in line with what the beat names. */
static void compare_hand(struct kiln_leader *leader, struct kiln_member *member,
                         const struct kiln_heartbeat *beat, int64_t now_ms)
{
    for (uint32_t i = 0; i < member->hand_count; i++)
        member->hand[i]->beaten = false;
    for (uint32_t i = 0; i < beat->held_count; i++) {
        struct kiln_assigned *assigned = kiln_fleet_assigned(member, beat->held[i]);
        if (!assigned && just_finished(member, beat->held[i]))
            continue; /* the beat is older than the event */
        if (!assigned)
            assigned = kiln_fleet_hand(member, beat->held[i], now_ms);
        if (!assigned || assigned->lost)
            continue;
        assigned->beaten = assigned->seen = true;
        assigned->inherited = false;
        if (!assigned->held) {
            assigned->held = true;
            if (assigned->tag == 0)
                assigned->tag = UINT64_MAX - ++leader->assignments;
            kiln_policy_adopt(leader->policy, member->name, assigned->tag, assigned->alone);
        }
    }
    for (uint32_t i = 0; i < member->hand_count; i++) {
        struct kiln_assigned *assigned = member->hand[i];
        bool arrived = assigned->seen || now_ms - assigned->since_ms > leader->lease_ms;
        if (assigned->inherited &&
            now_ms - assigned->since_ms > leader->lease_ms / 4 + FIRST_READ_MS) {
            /* Not found: the process before took it out and died before it could say so. */
            kiln_policy_release(leader->policy, member->name, assigned->tag);
            lose_hand(assigned, false);
            leader->reconcile_due_ms = 0;
            continue;
        }
        if (!assigned->held || assigned->beaten || !arrived || assigned->inherited)
            continue;
        assigned->held = false;
        assigned->since_ms = now_ms;
        kiln_policy_release(leader->policy, member->name, assigned->tag);
    }
}

static uint32_t at_most(uint32_t value, uint32_t bound)
{
    return value < bound ? value : bound;
}

/* How much the worker may be given, of its own word and of what is on its way to it.  Of those it
 * names, some may have been finished while the beat was on its way: these were drawn. */
static void fill_hands(struct kiln_policy_worker *report, const struct kiln_heartbeat *beat,
                       uint32_t held, uint32_t named)
{
    uint32_t coming = held - named, ended = beat->held_count - named;
    uint32_t room = at_most(beat->room, KILN_HEARTBEAT_HELD_MAX); /* more it could not name */
    report->capacity = held + (room > coming ? room - coming : 0);
    if (beat->places ==
        KILN_HEARTBEAT_UNTOLD) { /* one is running and one ahead; the rest is drawn */
        report->capacity_short = 0;
        report->rendered = report->capacity > 2 ? report->capacity - 2 : 0;
        return;
    }
    uint32_t places = at_most(beat->places, KILN_HEARTBEAT_HELD_MAX);
    uint32_t drawn = at_most(beat->drawn, beat->held_count);
    report->capacity_short = held + (places > coming ? places - coming : 0);
    report->rendered = drawn > ended ? drawn - ended : 0;
}

/* Marks what the engine may have had: what is drawn, the one that is running and all before it (of
 * two batches that overlap the later one is told).  When none is, the next one is about to. */
static void mark_begun(struct kiln_member *member, const struct kiln_heartbeat *beat,
                       uint32_t drawn)
{
    uint32_t named = 0, begun = drawn;
    bool runs = false;
    for (uint32_t i = 0; i < member->hand_count; i++) {
        if (!member->hand[i]->beaten)
            continue;
        named++;
        if (strcmp(member->hand[i]->id, beat->running) != 0)
            continue;
        runs = true;
        begun = named > begun ? named : begun;
    }
    begun += !runs;
    named = 0;
    for (uint32_t i = 0; i < member->hand_count; i++)
        if (member->hand[i]->beaten)
            member->hand[i]->begun = ++named <= begun;
    member->tells = beat->places != KILN_HEARTBEAT_UNTOLD;
}

/* A worker of another protocol could not read its assignments: they would come back for ever. */
static bool same_protocol(struct kiln_member *member, const struct kiln_heartbeat *beat)
{
    if (beat->version == KILN_WIRE_VERSION)
        return true;
    if (!member->foreign)
        kiln_log(KILN_LOG_ERROR, "worker_foreign", kiln_f("worker", "%s", member->name),
                 kiln_f("host", "%s", beat->host), kiln_f("speaks", "%u", beat->version),
                 kiln_f("this", "%d", KILN_WIRE_VERSION),
                 kiln_f("effect", "%s", "nothing is assigned to it; install the same release"));
    member->foreign = true;
    return false;
}

void kiln_fleet_heartbeat(struct kiln_leader *leader, const struct kiln_heartbeat *beat,
                          int64_t now_ms)
{
    struct kiln_member *member = kiln_fleet_find(leader, beat->worker);
    if (!member && leader->member_count >= KILN_FLEET_MAX) {
        kiln_hush_log(&leader->hush[KILN_HUSH_HEARTBEAT], "fleet_full", beat->worker,
                      "more workers than one scheduler leads");
        return;
    }
    member = kiln_fleet_get(leader, beat->worker);
    if (!member || !right_incarnation(leader, member, beat, now_ms))
        return;
    member->present = true;
    if (member->known && member->sent_ms == beat->sent_ms)
        return;
    bool first = !member->known;
    member->foreign = member->foreign && !first;
    member->known = true;
    member->bye = member->bye && !first;
    member->sent_ms = beat->sent_ms;
    member->started_ms = beat->started_ms;
    member->changed_ms = now_ms;
    snprintf(member->incarnation, sizeof(member->incarnation), "%s", beat->incarnation);
    snprintf(member->device_class, sizeof(member->device_class), "%s", beat->device_class);
    snprintf(member->running, sizeof(member->running), "%s", beat->running);
    member->draining = beat->draining;

    uint32_t held = 0, named = 0;
    struct kiln_policy_worker report = {.model = beat->model,
                                        .lora_set = beat->lora_set,
                                        .width = beat->width,
                                        .height = beat->height,
                                        .batch_max = beat->batch_max,
                                        .device = beat->device_class,
                                        .draining = beat->draining ||
                                                    !same_protocol(member, beat) ||
                                                    kiln_fleet_is_mute(leader, member, now_ms)};
    struct kiln_error err;
    if (first && kiln_policy_worker_set(leader->policy, member->name, &report, &err))
        kiln_log(KILN_LOG_WARNING, "worker_ignored", kiln_f("error", "%s", err.text));
    if (first)
        hold_inherited(leader, member);
    compare_hand(leader, member, beat, now_ms);
    for (uint32_t i = 0; i < member->hand_count; i++) {
        held += member->hand[i]->held;
        named += member->hand[i]->held && member->hand[i]->beaten;
    }
    fill_hands(&report, beat, held, named);
    report.left_s = kiln_pace_left_s(&member->pace, beat, now_ms);
    mark_begun(member, beat, report.rendered);
    if (kiln_policy_worker_set(leader->policy, member->name, &report, &err))
        kiln_log(KILN_LOG_WARNING, "worker_ignored", kiln_f("error", "%s", err.text));
    if (first)
        kiln_log(KILN_LOG_INFO, "worker_joined", kiln_f("worker", "%s", member->name),
                 kiln_f("device", "%s", beat->device), kiln_f("engine", "%s", beat->engine));
}

/* Nothing takes longer than it was in the worker's hands: what says so is not learned from. */
static bool believable(const struct kiln_assigned *assigned, const struct kiln_event *event)
{
    double held_ms = (double)(kiln_clock_ms() - assigned->since_ms);
    return event->compute_ms + event->switch_ms <= held_ms * 1.05 + LEARN_SLACK_MS;
}

void kiln_fleet_finished(struct kiln_leader *leader, const struct kiln_event *event)
{
    struct kiln_member *member = kiln_fleet_find(leader, event->worker);
    if (!member)
        return;
    remember_finished(member, event->assignment);
    struct kiln_assigned *assigned = kiln_fleet_assigned(member, event->assignment);
    if (!assigned || assigned->lost)
        return;
    if (believable(assigned, event))
        kiln_costs_learn(leader, member, assigned, event);
    else
        kiln_hush_log(&leader->hush[KILN_HUSH_EVENT], "times_unbelievable", event->worker,
                      "it finished an assignment sooner than its times allow");
    if (assigned->held && event->compute_ms > 0)
        kiln_policy_finish(leader->policy, member->name, assigned->tag);
    else if (assigned->held) /* handed back, cancelled, failed before it began */
        kiln_policy_release(leader->policy, member->name, assigned->tag);
    /* Should a job of it still be assigned, the next reconciliation finds it and waits. */
    kiln_fleet_drop(member, assigned);
}
