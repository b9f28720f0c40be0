/* reconcile.c - the ledger's assigned jobs against what is in flight at the workers.
 *
 * Every quarter of a lease, and at once when a worker was lost or jobs were cancelled:
 *   lost        the worker is gone (lease expiry: fleet.c): its jobs return now, as crashed.  Not
 *               counted are those unread in its stream, and those well behind the engine by its
 *               last heartbeat.
 *   missing     a live worker does not name the assignment: after one lease its jobs return.  They
 *               count only if some heartbeat had named it (else a flushed Redis took it away).
 *   orphaned    a worker names an assignment of which nothing is assigned: it must drop it.
 *   refused     the store of a live worker refuses its pictures, and another one is able: its jobs
 *               return, and the worker must drop them.  None counts.
 *   cancelled   a job of an assignment in flight is assigned no more: the worker must stop it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"

#define UNREAD_MAX 64
#define ORPHAN_ROUNDS 2

/* --- what the ledger says -------------------------------------------------------------------- */
struct assigned_rows {
    struct kiln_assigned_job *at;
    size_t count, room;
};

static int keep_row(void *arg, const struct kiln_assigned_job *row)
{
    struct assigned_rows *rows = arg;
    struct kiln_assigned_job *at = kiln_room(rows->at, rows->count, &rows->room, sizeof(*at));
    if (!at)
        return KILN_NO_MEMORY;
    rows->at = at;
    rows->at[rows->count++] = *row;
    return 0;
}

static void mark_row(struct kiln_leader *leader, const struct kiln_assigned_job *row,
                     int64_t now_ms)
{
    struct kiln_member *member = kiln_fleet_get(leader, row->worker);
    if (!member)
        return;
    if (!member->known && member->changed_ms == 0)
        member->changed_ms = now_ms; /* no heartbeat yet: it has one lease for the first */
    struct kiln_assigned *assigned = kiln_fleet_assigned(member, row->assignment);
    if (!assigned)
        assigned = kiln_fleet_add(member, row->assignment, now_ms);
    if (!assigned)
        return; /* a later round has room */
    uint32_t at = 0;
    while (at < assigned->count && assigned->jobs[at] != row->id)
        at++;
    if (at == KILN_ASSIGN_MAX)
        return;
    assigned->count = at == assigned->count ? at + 1 : assigned->count;
    assigned->jobs[at] = row->id;
    assigned->attempts[at] = row->attempt;
    assigned->open[at] = true;
    assigned->alone = assigned->alone || row->crashes > 0;
}

/* --- unread entries -------------------------------------------------------------------------- */
struct unread {
    char ids[UNREAD_MAX][KILN_WIRE_ID_MAX + 1];
    char entries[UNREAD_MAX][48];
    size_t count;
};

/* Finds lost assignments in the worker's stream and deletes them there.  Assignments for its next
 * process stay. */
static void take_unread(struct kiln_leader *leader, const struct kiln_member *member,
                        struct unread *ret)
{
    char key[KILN_KEY_MAX];
    const char *stream = key, *after = "0";
    struct kiln_bus_entries entries = {0};
    struct kiln_error err;
    ret->count = 0;
    kiln_wire_key(key, sizeof(key), leader->pool, "worker", member->name);
    if (kiln_bus_read(leader->bus, &stream, &after, 1, UNREAD_MAX, 0, &entries, &err) != 0)
        return;
    for (size_t i = 0; i < entries.count; i++) {
        const struct kiln_bus_entry *entry = &entries.at[i];
        struct kiln_assignment assignment = {0};
        if (entry->field_count == 0 || strcmp(entry->fields[0], "assign") != 0 ||
            kiln_assignment_decode(entry->fields[1], entry->lengths[1], &assignment, &err))
            continue;
        const struct kiln_assigned *assigned = kiln_fleet_assigned(member, assignment.id);
        if (!assigned || assigned->lost) {
            snprintf(ret->ids[ret->count], sizeof(ret->ids[0]), "%s", assignment.id);
            snprintf(ret->entries[ret->count++], sizeof(ret->entries[0]), "%s", entry->id);
        }
        kiln_assignment_release(&assignment);
    }
    for (size_t i = 0; i < ret->count; i++)
        if (kiln_bus_delete_entry(leader->bus, stream, ret->entries[i], &err))
            kiln_log(KILN_LOG_WARNING, "unread_left", kiln_f("error", "%s", err.text));
}

/* --- returning ------------------------------------------------------------------------------- */
int kiln_return_assignment(struct kiln_leader *leader, const struct kiln_member *member,
                           const struct kiln_assigned *assigned, const struct kiln_return *how,
                           enum kiln_return_cause cause, struct kiln_error *err)
{
    struct kiln_return returns[KILN_ASSIGN_MAX];
    int states[KILN_ASSIGN_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < assigned->count; i++) {
        if (!assigned->open[i])
            continue;
        returns[count] = *how;
        returns[count].id = assigned->jobs[i];
        returns[count++].attempt = assigned->attempts[i];
    }
    int rc = count ? kiln_ledger_return(leader->ledger, returns, count, states, err) : 0;
    if (rc || count == 0)
        return rc;
    uint32_t failed = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (states[i] < 0) /* another attempt by now */
            continue;
        const bool ended = states[i] == KILN_JOB_FAILED;
        const int code = ended && how->crashed ? KILN_POISONED : how->code;
        failed += ended;
        kiln_metric_add(KILN_METRIC_JOBS_RETURNED, cause, 1);
        if (ended || code != KILN_OK)
            kiln_metric_add(ended ? KILN_METRIC_FAILURES : KILN_METRIC_RETRIES, (uint32_t)code, 1);
        if (states[i] == KILN_JOB_QUEUED)
            rc = kiln_load_one(leader, returns[i].id, err);
    }
    kiln_log(KILN_LOG_WARNING, "assignment_returned", kiln_f("assignment", "%s", assigned->id),
             kiln_f("worker", "%s", member->name), kiln_f("jobs", "%zu", count),
             kiln_f("failed", "%u", failed), kiln_f("reason", "%s", how->reason));
    return rc;
}

int kiln_take_back(struct kiln_leader *leader, const struct kiln_member *member,
                   const struct kiln_assigned *assigned, const char *reason,
                   enum kiln_return_cause cause, struct kiln_error *err)
{
    struct kiln_return how = {.code = KILN_OK, .reason = reason};
    int rc = kiln_return_assignment(leader, member, assigned, &how, cause, err);
    if (rc == 0)
        kiln_stream_hint(leader, member->name, KILN_CONTROL_DROP, 0, assigned->id);
    return rc;
}

/* Whether another live worker, which nothing refuses, has the model of this one. */
static bool another_is_able(const struct kiln_leader *leader, const struct kiln_member *member)
{
    for (size_t i = 0; i < leader->member_count; i++) {
        const struct kiln_member *other = leader->members[i];
        if (other != member && other->known && other->present && other->able &&
            strcmp(other->model, member->model) == 0)
            return true;
    }
    return false;
}

/* Jobs of it that are not assigned any more, if the event that says why was lost (an outage of the
 * bus, a lost worker): returned ones wait again, and without this only the next sweep would find
 * them. */
static int load_returned(struct kiln_leader *leader, const struct kiln_assigned *assigned,
                         struct kiln_error *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < assigned->count && rc == 0; i++)
        if (!assigned->open[i])
            rc = kiln_load_one(leader, assigned->jobs[i], err);
    return rc;
}

static int return_lost(struct kiln_leader *leader, struct kiln_member *member,
                       struct kiln_error *err)
{
    struct unread unread;
    char reason[KILN_NAME_MAX + 64];
    int rc = 0;
    take_unread(leader, member, &unread);
    for (uint32_t i = 0; i < member->assignment_count && rc == 0;) {
        struct kiln_assigned *assigned = member->assignments[i];
        if (!assigned->lost) {
            i++;
            continue;
        }
        bool idle = assigned->clean;
        for (size_t k = 0; k < unread.count; k++)
            idle = idle || strcmp(unread.ids[k], assigned->id) == 0;
        snprintf(reason, sizeof(reason), "worker %s %s", member->name,
                 idle ? "ended before it began" : "was lost");
        struct kiln_return how = {
            .code = idle ? KILN_OK : KILN_UNAVAILABLE, .reason = reason, .crashed = !idle};
        rc = kiln_return_assignment(leader, member, assigned, &how,
                                    idle ? KILN_CAUSE_UNBEGUN : KILN_CAUSE_CRASHED, err);
        rc = rc ? rc : load_returned(leader, assigned, err);
        if (rc == 0)
            kiln_fleet_drop(member, assigned);
    }
    return rc;
}

/* --- the round ------------------------------------------------------------------------------- */
static int reconcile_member(struct kiln_leader *leader, struct kiln_member *member, int64_t now_ms,
                            struct kiln_error *err)
{
    bool lost = false, yields = member->yields && another_is_able(leader, member);
    char reason[KILN_NAME_MAX + 64];
    for (uint32_t i = 0; i < member->assignment_count; i++)
        lost = lost || member->assignments[i]->lost;
    int rc = lost ? return_lost(leader, member, err) : 0;
    for (uint32_t i = 0; i < member->assignment_count && rc == 0;) {
        struct kiln_assigned *assigned = member->assignments[i];
        bool due = now_ms - assigned->since_ms > leader->lease_ms;
        uint32_t open = 0;
        for (uint32_t k = 0; k < assigned->count; k++) {
            open += assigned->open[k];
            if (!assigned->open[k] && assigned->in_flight && leader->check_cancelled)
                kiln_stream_hint(leader, member->name, KILN_CONTROL_CANCEL_JOB, assigned->jobs[k],
                                 "");
        }
        if (!assigned->in_flight && open == 0) { /* the next one takes its place */
            rc = load_returned(leader, assigned, err);
            kiln_fleet_drop(member, assigned);
            continue;
        }
        if (!assigned->in_flight && due && member->known) {
            struct kiln_return how = {.code = assigned->seen ? KILN_STALE : KILN_OK,
                                      .reason = assigned->seen
                                                    ? "its worker does not hold it any more"
                                                    : "it never reached its worker"};
            rc = kiln_return_assignment(leader, member, assigned, &how, KILN_CAUSE_MISSING, err);
            if (rc == 0)
                kiln_fleet_drop(member, assigned);
            continue;
        }
        if (open > 0 && yields) {
            snprintf(reason, sizeof(reason), "the store refuses the pictures of worker %s",
                     member->name);
            rc = kiln_take_back(leader, member, assigned, reason, KILN_CAUSE_REFUSED, err);
        } else if (open > 0) {
            assigned->orphan_rounds = 0;
        } else if (assigned->named && ++assigned->orphan_rounds >= ORPHAN_ROUNDS) {
            assigned->orphan_rounds = 0;
            kiln_stream_hint(leader, member->name, KILN_CONTROL_DROP, 0, assigned->id);
        }
        i++;
    }
    return rc;
}

int kiln_reconcile(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    struct assigned_rows rows = {0};
    int rc = kiln_ledger_assigned(leader->ledger, leader->pool, keep_row, &rows, err);
    if (rc == 0) {
        for (size_t i = 0; i < leader->member_count; i++)
            for (uint32_t k = 0; k < leader->members[i]->assignment_count; k++)
                memset(leader->members[i]->assignments[k]->open, 0, sizeof(bool) * KILN_ASSIGN_MAX);
        for (size_t i = 0; i < rows.count; i++)
            mark_row(leader, &rows.at[i], now_ms);
        for (size_t i = 0; i < leader->member_count && rc == 0; i++)
            rc = reconcile_member(leader, leader->members[i], now_ms, err);
        leader->check_cancelled = false;
    }
    free(rows.at);
    return rc;
}
