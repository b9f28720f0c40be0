/* messages.c - what the bus says: heartbeats and events of the workers, control messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"

#define CONTROL_GROUP "scheduler"
#define CONTROL_CONSUMER "leader"
#define CONTROL_MAX 64
#define EVENTS_MAX 1000
#define IDS_MAX 256
#define ENTRY_ID_MAX 48
#define NEWCOMERS_MAX 2048 /* heartbeats of unknown names that are read in one round */

/* --- heartbeats ------------------------------------------------------------------------------ */
/* Collected first: acting on a heartbeat may use the bus, which is busy with the round.  Names cost
 * a client nothing, so a round reads the heartbeats of known members and of a bounded number of
 * others, which take turns. */
struct beat_list {
    struct kiln_leader *leader;
    const struct kiln_member **known; /* by name */
    struct kiln_heartbeat *at;
    size_t count, room, fresh;
    size_t next; /* of the known: none before it comes any more */
    char last_fresh[KILN_NAME_MAX + 1];
};

static int by_name(const void *a, const void *b)
{
    const struct kiln_member *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The names come in order. */
static bool want_beat(void *arg, const char *worker)
{
    struct beat_list *list = arg;
    while (list->next < list->leader->member_count &&
           strcmp(list->known[list->next]->name, worker) < 0)
        list->next++;
    if (list->next < list->leader->member_count &&
        strcmp(list->known[list->next]->name, worker) == 0)
        return true;
    if (list->fresh == NEWCOMERS_MAX || strlen(worker) > KILN_NAME_MAX ||
        strcmp(worker, list->leader->newcomer) <= 0)
        return false;
    list->fresh++;
    snprintf(list->last_fresh, sizeof(list->last_fresh), "%s", worker);
    return true;
}

static int keep_beat(void *arg, const char *worker, const char *text, size_t len)
{
    struct beat_list *list = arg;
    struct kiln_log_limit *limit = &list->leader->limits[KILN_LIMIT_HEARTBEAT];
    struct kiln_heartbeat *at = kiln_room(list->at, list->count, &list->room, sizeof(*at));
    if (!at)
        return KILN_NO_MEMORY;
    list->at = at;
    struct kiln_error err;
    struct kiln_heartbeat *beat = &list->at[list->count];
    if (kiln_heartbeat_decode(text, len, beat, &err))
        kiln_log_limited(limit, "beat_unreadable", worker, err.text);
    else if (strcmp(beat->worker, worker) != 0)
        kiln_log_limited(limit, "beat_unreadable", worker, "it names another worker");
    else
        list->count++;
    return 0;
}

static int read_beats(struct kiln_leader *leader, struct beat_list *list, struct kiln_error *err)
{
    list->known = calloc(leader->member_count + 1, sizeof(*list->known));
    if (!list->known)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of the workers");
    for (size_t i = 0; i < leader->member_count; i++)
        list->known[i] = leader->members[i];
    qsort(list->known, leader->member_count, sizeof(*list->known), by_name);
    int rc = kiln_bus_heartbeats(leader->bus, leader->pool, want_beat, keep_beat, list, err);
    free(list->known);
    if (rc == 0) /* those after the last one are next, or it begins anew */
        snprintf(leader->newcomer, sizeof(leader->newcomer), "%s",
                 list->fresh == NEWCOMERS_MAX ? list->last_fresh : "");
    return rc;
}

int kiln_read_heartbeats(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    struct beat_list list = {.leader = leader};
    int rc = read_beats(leader, &list, err);
    if (rc == 0) {
        for (size_t i = 0; i < leader->member_count; i++)
            leader->members[i]->present = false;
        for (size_t i = 0; i < list.count; i++)
            kiln_fleet_heartbeat(leader, &list.at[i], now_ms);
        kiln_fleet_expire(leader, now_ms);
    }
    free(list.at);
    return rc;
}

/* --- events ---------------------------------------------------------------------------------- */
/* Jobs that wait again: read once the entries, which are borrowed from the bus, are done with. */
struct returned {
    uint64_t jobs[IDS_MAX];
    size_t count;
};

static void read_event(struct kiln_leader *leader, struct returned *returned, const char *text,
                       size_t len)
{
    struct kiln_event event;
    struct kiln_error err;
    if (kiln_event_decode(text, len, &event, &err)) {
        kiln_log_limited(&leader->limits[KILN_LIMIT_EVENT], "event_unreadable", leader->events_key,
                         err.text);
        return;
    }
    struct kiln_member *member = kiln_fleet_find(leader, event.worker);
    switch (event.kind) {
    case KILN_EVENT_HELLO:
        if (member)
            member->bye = false;
        leader->heartbeats_due_ms = 0;
        return;
    case KILN_EVENT_BYE:
        if (member)
            member->bye = true;
        leader->heartbeats_due_ms = 0;
        return;
    case KILN_EVENT_FINISHED:
        kiln_fleet_finished(leader, &event);
        return;
    case KILN_EVENT_RETURNED:
        if (returned->count < IDS_MAX)
            returned->jobs[returned->count++] = event.job;
        else
            leader->sweep_due_ms = 0;
        return;
    case KILN_EVENT_DONE:
    case KILN_EVENT_FAILED:
    case KILN_EVENT_CANCELLED:
        return;
    }
}

static int read_events(struct kiln_leader *leader, uint32_t wait_ms, struct returned *returned,
                       struct kiln_error *err)
{
    struct kiln_bus_entries entries = {0};
    const char *stream = leader->events_key, *after = leader->events_after;
    int rc = kiln_bus_read(leader->bus, &stream, &after, 1, EVENTS_MAX, wait_ms, &entries, err);
    if (rc) {
        leader->streams_due_ms = 0; /* what comes next may be another stream */
        rc = kiln_stream_repair(leader, stream, rc, NULL, err);
        if (rc == 0)
            kiln_sleep_ms(wait_ms); /* instead of the wait that was refused */
        return rc;
    }
    for (size_t i = 0; i < entries.count; i++) {
        const struct kiln_bus_entry *entry = &entries.at[i];
        for (size_t f = 0; f < entry->field_count; f++)
            if (strcmp(entry->fields[2 * f], "event") == 0)
                read_event(leader, returned, entry->fields[2 * f + 1], entry->lengths[2 * f + 1]);
        snprintf(leader->events_after, sizeof(leader->events_after), "%s", entry->id);
    }
    return 0;
}

/* --- control messages ------------------------------------------------------------------------ */
/* Failures of the ledger end the leadership; they are kept here for the step to find.  But a
 * failure that answers a message costs only that message: it would be the same for every leader. */
static void note_ledger(struct kiln_leader *leader, const char *message, int rc,
                        const struct kiln_error *err)
{
    if (rc && kiln_ledger_refused(leader->ledger, rc))
        kiln_log_limited(&leader->limits[KILN_LIMIT_CONTROL], "message_dropped", message,
                         err->text);
    else if (rc && leader->ledger_error.code == 0)
        leader->ledger_error = *err;
}

static void cancel(struct kiln_leader *leader, const struct kiln_control *control)
{
    struct kiln_error err;
    uint64_t moved = 0, batch = 0;
    bool one = control->kind == KILN_CONTROL_CANCEL_JOB;
    int rc = 0;
    if (!control->recorded)
        rc = kiln_ledger_cancel(leader->ledger, leader->pool, one ? control->job : 0, control->id,
                                &moved, &err);
    if (rc == 0 && one)
        kiln_policy_remove(leader->policy, control->job);
    if (rc == 0 && !one)
        rc = kiln_ledger_batch_id(leader->ledger, leader->pool, control->id, &batch, &err);
    if (rc == 0 && !one)
        kiln_policy_remove_batch(leader->policy, batch);
    /* Running ones are found by reconciling: in flight, but not assigned any more. */
    leader->check_cancelled = true;
    leader->reconcile_due_ms = 0;
    note_ledger(leader, one ? "cancel_job" : control->id, rc, &err);
}

/* Drains one worker, or all.  A worker whose stream takes nothing is passed over; after an outage
 * of the bus all are told again. */
static int drain(struct kiln_leader *leader, const char *worker, struct kiln_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < leader->member_count && rc == 0; i++) {
        const struct kiln_member *member = leader->members[i];
        if (worker[0] != '\0' && strcmp(member->name, worker) != 0)
            continue;
        rc = kiln_stream_send_control(leader, member->name, KILN_CONTROL_DRAIN, 0, member->name,
                                      err);
        if (rc == 0 || kiln_bus_refusal(leader->bus) == KILN_BUS_NOT_REFUSED)
            continue;
        kiln_log_limited(&leader->limits[KILN_LIMIT_CONTROL], "order_lost", member->name,
                         err->text);
        rc = 0;
    }
    return rc;
}

static int act_on(struct kiln_leader *leader, const struct kiln_control *control,
                  struct kiln_error *err)
{
    kiln_log(control->kind == KILN_CONTROL_ASK ? KILN_LOG_DEBUG : KILN_LOG_INFO, "order",
             kiln_f("kind", "%s", kiln_control_name(control->kind)),
             kiln_f("job", "%llu", (unsigned long long)control->job),
             kiln_f("id", "%s", control->id));
    switch (control->kind) {
    case KILN_CONTROL_CANCEL_JOB:
    case KILN_CONTROL_CANCEL_BATCH:
        cancel(leader, control);
        return 0;
    case KILN_CONTROL_DRAIN:
        return drain(leader, control->id, err);
    case KILN_CONTROL_WAKE:
        leader->load_due_ms = 0;
        leader->sweep_due_ms = 0;
        leader->pauses_due_ms = 0;
        return 0;
    case KILN_CONTROL_ASK:
        return kiln_answer(leader, control, err);
    case KILN_CONTROL_DROP: /* refused before: from a scheduler to a worker only */
        return 0;
    }
    return 0;
}

/* An entry is one message in one field.  An entry with several is refused as a whole: a part of it
 * would be lost without notice. */
static int decode_entry(const struct kiln_bus_entry *entry, struct kiln_control *ret,
                        struct kiln_error *err)
{
    size_t at = 0, count = 0;
    for (size_t f = 0; f < entry->field_count; f++)
        if (strcmp(entry->fields[2 * f], "order") == 0) {
            at = f;
            count++;
        }
    if (count != 1)
        return kiln_fail(err, KILN_PROTOCOL, "an entry has one field \"order\", this one %zu",
                         count);
    int rc = kiln_control_decode(entry->fields[2 * at + 1], entry->lengths[2 * at + 1], ret, err);
    if (rc == 0 && ret->kind == KILN_CONTROL_DROP)
        return kiln_fail(err, KILN_PROTOCOL, "the order drop is for a worker's stream");
    return rc;
}

/* A consumer group: a message sent while nobody leads is acted on once somebody does. */
static int read_entries(struct kiln_leader *leader, struct kiln_bus_entries *entries,
                        struct kiln_error *err)
{
    bool pending = !leader->control_caught_up; /* of a predecessor, or of a broken round */
    int rc = pending ? kiln_bus_group(leader->bus, leader->control_key, CONTROL_GROUP, err) : 0;
    rc = rc ? rc
            : kiln_bus_read_group(leader->bus, leader->control_key, CONTROL_GROUP, CONTROL_CONSUMER,
                                  pending, CONTROL_MAX, 0, entries, err);
    leader->control_caught_up = rc == 0 && (entries->count == 0 || !pending);
    if (rc == KILN_NO_MEMORY) { /* they are large: the next read asks for fewer */
        kiln_log_limited(&leader->limits[KILN_LIMIT_CONTROL], "orders_put_off", leader->control_key,
                         err->text);
        entries->count = 0;
        return 0;
    }
    return kiln_stream_repair(leader, leader->control_key, rc, NULL, err);
}

static int read_control(struct kiln_leader *leader, struct kiln_error *err)
{
    struct kiln_bus_entries entries = {0};
    struct kiln_control messages[CONTROL_MAX]; /* copies, since the entries are borrowed */
    char ids[CONTROL_MAX][ENTRY_ID_MAX];
    const char *list[CONTROL_MAX];
    size_t message_count = 0, entry_count = 0;
    int rc = read_entries(leader, &entries, err);
    if (rc || entries.count == 0)
        return rc;
    for (; entry_count < entries.count && entry_count < CONTROL_MAX; entry_count++) {
        const struct kiln_bus_entry *entry = &entries.at[entry_count];
        struct kiln_error why;
        list[entry_count] = ids[entry_count];
        snprintf(ids[entry_count], ENTRY_ID_MAX, "%s", entry->id);
        leader->probe_due = leader->probe_due || kiln_wire_last_id(entry->id);
        if (decode_entry(entry, &messages[message_count], &why) == 0)
            message_count++;
        else
            kiln_log_limited(&leader->limits[KILN_LIMIT_CONTROL], "order_refused", entry->id,
                             why.text);
    }
    for (size_t i = 0; i < message_count && rc == 0 && leader->ledger_error.code == 0; i++)
        rc = act_on(leader, &messages[i], err);
    if (rc || leader->ledger_error.code) { /* not acknowledged: it is read again */
        leader->control_caught_up = false;
        return rc;
    }
    rc = kiln_bus_ack(leader->bus, leader->control_key, CONTROL_GROUP, list, entry_count, err);
    return kiln_stream_repair(leader, leader->control_key, rc, NULL, err);
}

int kiln_read_messages(struct kiln_leader *leader, uint32_t wait_ms, struct kiln_error *err)
{
    struct returned returned = {0};
    int rc = read_control(leader, err);
    rc = rc ? rc : read_events(leader, wait_ms, &returned, err);
    struct kiln_error ledger_err;
    for (size_t i = 0; i < returned.count && leader->ledger_error.code == 0; i++)
        note_ledger(leader, "returned", kiln_load_one(leader, returned.jobs[i], &ledger_err),
                    &ledger_err);
    return rc;
}
