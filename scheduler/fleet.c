/* fleet.c - the members of the fleet, their leases, and the assignments in flight at each.
 *
 * A heartbeat is a worker's word on what it has; the leader's own memory adds what is on its way. A
 * member is alive while its heartbeats keep changing.  Their age is measured here, from one reading
 * to the next: neither a flushed Redis nor anybody's wall clock can make a worker look lost before
 * a whole lease has passed with the bus answering.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/clock.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"

#define LEASE_SLACK_MS 500
#define FIRST_READ_MS 1000 /* from a worker's first heartbeat until it has read its stream */
#define LEARN_SLACK_MS 2000
#define NEXT_MAX 3 /* assignments that may have begun since the last heartbeat */

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
    for (uint32_t i = 0; i < member->assignment_count; i++)
        if (strcmp(member->assignments[i]->id, id) == 0)
            return member->assignments[i];
    return NULL;
}

struct kiln_assigned *kiln_fleet_add(struct kiln_member *member, const char *id, int64_t now_ms)
{
    if (member->assignment_count == KILN_ASSIGNED_MAX)
        return NULL;
    struct kiln_assigned *assigned = calloc(1, sizeof(*assigned));
    if (!assigned)
        return NULL;
    snprintf(assigned->id, sizeof(assigned->id), "%s", id);
    assigned->assigned_ms = assigned->since_ms = now_ms;
    member->assignments[member->assignment_count++] = assigned;
    return assigned;
}

void kiln_fleet_drop(struct kiln_member *member, struct kiln_assigned *assigned)
{
    for (uint32_t i = 0; i < member->assignment_count; i++) {
        if (member->assignments[i] != assigned)
            continue;
        member->assignment_count--;
        memmove(&member->assignments[i], &member->assignments[i + 1],
                (member->assignment_count - i) * sizeof(member->assignments[0]));
        free(assigned);
        return;
    }
}

static void free_member(struct kiln_member *member)
{
    while (member->assignment_count > 0)
        kiln_fleet_drop(member, member->assignments[0]);
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

/* --- losing ---------------------------------------------------------------------------------- */
/* Whether the assignment was surely not in the engine when its worker was lost: then the crash does
 * not count for its jobs.  The last heartbeat may be a moment old, so the next NEXT_MAX after what
 * had begun are suspects, too; `next` counts them.  What no heartbeat has named was read from the
 * stream a moment before the end: reading it may have been the cause. */
static bool is_behind(const struct kiln_member *member, const struct kiln_assigned *assigned,
                      uint32_t *next)
{
    if (!member->tells_progress || !assigned->seen || assigned->begun)
        return false;
    return ++*next > NEXT_MAX;
}

static void lose_assignment(struct kiln_assigned *assigned, bool clean)
{
    assigned->in_flight = assigned->named = assigned->inherited = false;
    assigned->lost = true;
    assigned->clean = clean;
}

/* All that is in flight there is lost.  clean: nothing crashed; else is_behind decides. */
static void lose_member(struct kiln_leader *leader, struct kiln_member *member, bool clean)
{
    uint32_t next = 0;
    kiln_policy_worker_remove(leader->policy, member->name);
    for (uint32_t i = 0; i < member->assignment_count; i++) {
        struct kiln_assigned *assigned = member->assignments[i];
        if (!assigned->lost)
            lose_assignment(assigned, clean || is_behind(member, assigned, &next));
    }
    member->known = false;
    leader->reconcile_due_ms = 0;
}

void kiln_fleet_expire(struct kiln_leader *leader, int64_t now_ms)
{
    for (size_t i = 0; i < leader->member_count; i++) {
        struct kiln_member *member = leader->members[i];
        if (member->bye && !member->present && member->known) {
            kiln_log(KILN_LOG_INFO, "worker_left", kiln_f("worker", "%s", member->name));
            lose_member(leader, member, true);
            continue;
        }
        /* No heartbeat could be read during an outage of the bus: the lease starts again. */
        int64_t heard =
            member->changed_ms > leader->bus_back_ms ? member->changed_ms : leader->bus_back_ms;
        if (now_ms - heard <= leader->lease_ms + LEASE_SLACK_MS)
            continue;
        if (member->known) {
            struct kiln_error err;
            int64_t silent_ms = now_ms - heard;
            kiln_metric_add(KILN_METRIC_LEASES_LOST, 0, 1);
            kiln_log(KILN_LOG_WARNING, "worker_lost", kiln_f("worker", "%s", member->name),
                     kiln_f("silent_s", "%.1f", (double)silent_ms / 1000),
                     kiln_f("assignments", "%u", member->assignment_count));
            /* For people alone: nothing depends on the row, so a failure is only logged. */
            if (kiln_ledger_worker_lost(leader->ledger, leader->pool, member->name,
                                        (uint64_t)silent_ms, &err))
                kiln_log(KILN_LOG_DEBUG, "state_untold", kiln_f("error", "%s", err.text));
        }
        lose_member(leader, member, false);
    }
    /* Forget members without assignments. */
    for (size_t i = 0; i < leader->member_count;) {
        struct kiln_member *member = leader->members[i];
        if (!member->known && member->assignment_count == 0) {
            kiln_stream_delete(leader, member->name);
            leader->members[i] = leader->members[--leader->member_count];
            free_member(member);
        } else {
            i++;
        }
    }
}

/* --- heartbeats ------------------------------------------------------------------------------ */
static bool names(const struct kiln_heartbeat *beat, const char *id)
{
    for (uint32_t i = 0; i < beat->held_count; i++)
        if (strcmp(beat->held[i], id) == 0)
            return true;
    return false;
}

/* Another process under the worker's name.  What its predecessor had is lost with it.  But an
 * assignment that no heartbeat has named was most likely sent while nobody read the stream: it
 * waits there for the new process, and did not crash with the old one. */
static void succeed(struct kiln_leader *leader, struct kiln_member *member,
                    const struct kiln_heartbeat *beat, int64_t now_ms)
{
    uint32_t next = 0;
    kiln_policy_worker_remove(leader->policy, member->name);
    for (uint32_t i = 0; i < member->assignment_count; i++) {
        struct kiln_assigned *assigned = member->assignments[i];
        if (assigned->lost)
            continue;
        if (assigned->seen && !names(beat, assigned->id)) {
            lose_assignment(assigned, is_behind(member, assigned, &next));
            continue;
        }
        assigned->in_flight = assigned->named = false;
        assigned->since_ms = assigned->inherited ? assigned->since_ms : now_ms;
        assigned->inherited = true;
    }
    member->known = false;
    leader->reconcile_due_ms = 0;
}

/* The policy counts it as in flight there. */
static void adopt(struct kiln_leader *leader, const struct kiln_member *member,
                  struct kiln_assigned *assigned)
{
    assigned->in_flight = true;
    if (assigned->tag == 0)
        assigned->tag = UINT64_MAX - ++leader->adopted;
    kiln_policy_adopt(leader->policy, member->name, assigned->tag, assigned->alone);
}

/* Two processes of one name: the one that started later is the worker, the other is told to end.
 * False if this beat is the other's. */
static bool right_incarnation(struct kiln_leader *leader, struct kiln_member *member,
                              const struct kiln_heartbeat *beat, int64_t now_ms)
{
    if (!member->known || strcmp(member->incarnation, beat->incarnation) == 0)
        return true;
    if (beat->started_ms < member->started_ms) {
        if (member->warned_ms && now_ms - member->warned_ms < leader->lease_ms)
            return false; /* told a moment ago; the wrong one of the two may have read it */
        member->warned_ms = now_ms;
        kiln_log(KILN_LOG_ERROR, "worker_twice", kiln_f("worker", "%s", member->name),
                 kiln_f("host", "%s", beat->host), kiln_f("pid", "%u", beat->pid),
                 kiln_f("effect", "%s", "the older one is told to end"));
        kiln_stream_hint(leader, member->name, KILN_CONTROL_DRAIN, 0, beat->incarnation);
        return false;
    }
    kiln_log(KILN_LOG_INFO, "worker_restarted", kiln_f("worker", "%s", member->name),
             kiln_f("assignments", "%u", member->assignment_count));
    succeed(leader, member, beat, now_ms);
    return true;
}

/* Brings the member's assignments in line with what the heartbeat names. */
static void compare_assignments(struct kiln_leader *leader, struct kiln_member *member,
                                const struct kiln_heartbeat *beat, int64_t now_ms)
{
    for (uint32_t i = 0; i < member->assignment_count; i++)
        member->assignments[i]->named = false;
    for (uint32_t i = 0; i < beat->held_count; i++) {
        struct kiln_assigned *assigned = kiln_fleet_assigned(member, beat->held[i]);
        bool finished = false;
        for (uint32_t k = 0; k < KILN_FINISHED_MAX; k++)
            finished = finished || strcmp(member->finished[k], beat->held[i]) == 0;
        if (!assigned && finished)
            continue; /* the heartbeat is older than the event */
        if (!assigned)
            assigned = kiln_fleet_add(member, beat->held[i], now_ms);
        if (!assigned || assigned->lost)
            continue;
        assigned->named = assigned->seen = true;
        assigned->inherited = false;
        if (!assigned->in_flight)
            adopt(leader, member, assigned);
    }
    for (uint32_t i = 0; i < member->assignment_count; i++) {
        struct kiln_assigned *assigned = member->assignments[i];
        int64_t age_ms = now_ms - assigned->since_ms;
        if (assigned->inherited && age_ms > leader->lease_ms / 4 + FIRST_READ_MS) {
            /* The new process has not found it: the old one read it and crashed before it could
             * say so. */
            kiln_policy_release(leader->policy, member->name, assigned->tag);
            lose_assignment(assigned, false);
            leader->reconcile_due_ms = 0;
        } else if (assigned->in_flight && !assigned->named && !assigned->inherited &&
                   (assigned->seen || age_ms > leader->lease_ms)) {
            assigned->in_flight = false;
            assigned->since_ms = now_ms;
            kiln_policy_release(leader->policy, member->name, assigned->tag);
        }
    }
}

static uint32_t at_most(uint32_t value, uint32_t bound)
{
    return value < bound ? value : bound;
}

/* How much the worker takes, by its own word and by what is on its way to it.  An assignment that
 * it names may have finished while the heartbeat was on its way: it was rendered. */
static void fill_report(struct kiln_policy_worker *report, const struct kiln_heartbeat *beat,
                        uint32_t in_flight, uint32_t named)
{
    uint32_t coming = in_flight - named, ended = beat->held_count - named;
    uint32_t room = at_most(beat->room, KILN_HEARTBEAT_HELD_MAX); /* more it could not name */
    report->capacity = in_flight + (room > coming ? room - coming : 0);
    if (beat->places ==
        KILN_HEARTBEAT_UNTOLD) { /* one running and one ahead; others are rendered */
        report->capacity_short = 0;
        report->rendered = report->capacity > 2 ? report->capacity - 2 : 0;
        return;
    }
    uint32_t places = at_most(beat->places, KILN_HEARTBEAT_HELD_MAX);
    uint32_t rendered = at_most(beat->drawn, beat->held_count);
    report->capacity_short = in_flight + (places > coming ? places - coming : 0);
    report->rendered = rendered > ended ? rendered - ended : 0;
}

/* Marks what the engine may have had: what is rendered, the running one and all before it (of two
 * batches that overlap the heartbeat names the later one).  If none runs, the next one may have
 * begun. */
static void mark_begun(struct kiln_member *member, const struct kiln_heartbeat *beat,
                       uint32_t rendered)
{
    uint32_t named = 0, begun = rendered;
    bool runs = false;
    for (uint32_t i = 0; i < member->assignment_count; i++) {
        if (!member->assignments[i]->named)
            continue;
        named++;
        if (strcmp(member->assignments[i]->id, beat->running) != 0)
            continue;
        runs = true;
        begun = named > begun ? named : begun;
    }
    begun += !runs;
    named = 0;
    for (uint32_t i = 0; i < member->assignment_count; i++)
        if (member->assignments[i]->named)
            member->assignments[i]->begun = ++named <= begun;
    member->tells_progress = beat->places != KILN_HEARTBEAT_UNTOLD;
}

/* A worker of another protocol could not read its assignments: they would return for ever. */
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

/* A store that answers and refuses will do so until somebody repairs it; one that is away may be
 * back at once. */
static bool must_yield(const struct kiln_heartbeat *beat)
{
    int code = kiln_code_by_name(beat->trouble_code);
    bool away = code == KILN_UNAVAILABLE || code == KILN_TIMEOUT;
    return strcmp(beat->trouble, "store") == 0 && (!away || beat->trouble_ms >= KILN_STORE_AWAY_MS);
}

void kiln_fleet_heartbeat(struct kiln_leader *leader, const struct kiln_heartbeat *beat,
                          int64_t now_ms)
{
    struct kiln_member *member = kiln_fleet_find(leader, beat->worker);
    if (!member && leader->member_count >= KILN_FLEET_MAX) {
        kiln_log_limited(&leader->limits[KILN_LIMIT_HEARTBEAT], "fleet_full", beat->worker,
                         "more workers than one scheduler leads");
        return;
    }
    member = kiln_fleet_get(leader, beat->worker);
    if (!member || !right_incarnation(leader, member, beat, now_ms))
        return;
    member->present = true;
    if (member->known && beat->sent_ms && member->sent_ms == beat->sent_ms)
        return; /* read already; without that time each counts as new */
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
    member->refused = strcmp(beat->trouble, "store") == 0;
    snprintf(member->model, sizeof(member->model), "%s", beat->model);
    if (must_yield(beat) && !member->yields)
        leader->reconcile_due_ms = 0;
    member->yields = must_yield(beat);
    member->minor = beat->minor;
    uint32_t in_flight = 0, named = 0;
    struct kiln_policy_worker report = {.model = beat->model,
                                        .lora_set = beat->lora_set,
                                        .width = beat->width,
                                        .height = beat->height,
                                        .batch_max = beat->batch_max,
                                        .device = beat->device_class,
                                        .minor = member->minor,
                                        .files = beat->files_told ? beat->files : NULL,
                                        .file_count = beat->file_count,
                                        .draining = beat->draining ||
                                                    !same_protocol(member, beat) ||
                                                    kiln_fleet_is_blocked(leader, member, now_ms)};
    struct kiln_error err;
    member->able = !report.draining && beat->trouble[0] == '\0';
    if (first && kiln_policy_worker_set(leader->policy, member->name, &report, &err))
        kiln_log(KILN_LOG_WARNING, "worker_ignored", kiln_f("error", "%s", err.text));
    for (uint32_t i = 0; first && i < member->assignment_count; i++) {
        struct kiln_assigned *assigned = member->assignments[i];
        if (assigned->inherited && !assigned->in_flight && !assigned->lost)
            adopt(leader, member, assigned);
    }
    compare_assignments(leader, member, beat, now_ms);
    for (uint32_t i = 0; i < member->assignment_count; i++) {
        in_flight += member->assignments[i]->in_flight;
        named += member->assignments[i]->in_flight && member->assignments[i]->named;
    }
    fill_report(&report, beat, in_flight, named);
    if (member->refused) /* also when what it holds has ended or gone to others */
        report.capacity = report.capacity_short = 0;
    const struct kiln_assigned *running = kiln_fleet_assigned(member, beat->running);
    struct kiln_mode mode;
    if (!running || !kiln_mode_parse(running->mode, &mode))
        mode = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    report.left_s = kiln_pace_left_s(&member->pace, beat, &mode, now_ms);
    mark_begun(member, beat, report.rendered);
    if (kiln_policy_worker_set(leader->policy, member->name, &report, &err))
        kiln_log(KILN_LOG_WARNING, "worker_ignored", kiln_f("error", "%s", err.text));
    if (first)
        kiln_log(KILN_LOG_INFO, "worker_joined", kiln_f("worker", "%s", member->name),
                 kiln_f("device", "%s", beat->device), kiln_f("engine", "%s", beat->engine));
}

void kiln_fleet_finished(struct kiln_leader *leader, const struct kiln_event *event)
{
    struct kiln_member *member = kiln_fleet_find(leader, event->worker);
    if (!member)
        return;
    snprintf(member->finished[member->finished_turn++ % KILN_FINISHED_MAX],
             sizeof(member->finished[0]), "%s", event->assignment);
    struct kiln_assigned *assigned = kiln_fleet_assigned(member, event->assignment);
    if (!assigned || assigned->lost)
        return;
    /* Nothing takes longer than it was in flight: a time that says so is not learned.  A heartbeat
     * may have told before the event that the assignment has ended. */
    double in_flight_ms = (double)(kiln_clock_ms() - assigned->assigned_ms);
    if (event->compute_ms + event->switch_ms + event->fetch_ms <=
        in_flight_ms * 1.05 + LEARN_SLACK_MS)
        kiln_costs_learn(leader, member, assigned, event);
    else if (assigned->width) /* of others, such as found after a restart, nothing is learned */
        kiln_log_limited(&leader->limits[KILN_LIMIT_EVENT], "times_unbelievable", event->worker,
                         "it finished an assignment sooner than its times allow");
    if (assigned->in_flight && event->compute_ms > 0)
        kiln_policy_finish(leader->policy, member->name, assigned->tag);
    else if (assigned->in_flight) /* returned, cancelled, failed before it began */
        kiln_policy_release(leader->policy, member->name, assigned->tag);
    /* If a job of it is still assigned, the next reconciliation finds it and waits. */
    kiln_fleet_drop(member, assigned);
}
