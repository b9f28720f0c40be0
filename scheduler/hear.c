/* hear.c - what the bus says: heartbeats, events of the workers, orders of the operators. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/log.h"
#include "schemas/room.h"
#include "storage/backoff.h"

#define CONTROL_GROUP "scheduler"
#define CONTROL_CONSUMER "leader"
#define ORDERS_MAX 64
#define EVENTS_MAX 1000
#define IDS_MAX 256
#define ENTRY_ID_MAX 48

/* --- beats ----------------------------------------------------------------------------------- */
/* Collected first: acting on a beat may use the bus, which is busy with the round. */
struct beat_list {
    struct kiln_beat *at;
    size_t count, room;
};

static int keep_beat(void *arg, const char *worker, const char *text, size_t len)
{
    struct beat_list *list = arg;
    struct kiln_beat *at = kiln_room(list->at, list->count, &list->room, sizeof(*at));
    if (!at)
        return KILN_NO_MEMORY;
    list->at = at;
    struct kiln_error err;
    struct kiln_beat *beat = &list->at[list->count];
    if (kiln_beat_decode(text, len, beat, &err))
        kiln_log(KILN_LOG_WARNING, "beat_unreadable", kiln_f("worker", "%s", worker),
                 kiln_f("error", "%s", err.text));
    else if (strcmp(beat->worker, worker) != 0)
        kiln_log(KILN_LOG_WARNING, "beat_unreadable", kiln_f("worker", "%s", worker),
                 kiln_f("error", "it names %s", beat->worker));
    else
        list->count++;
    return 0;
}

int kiln_hear_beats(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    struct beat_list list = {0};
    int rc = kiln_bus_beats(leader->bus, leader->pool, keep_beat, &list, err);
    if (rc == 0) {
        for (size_t i = 0; i < leader->member_count; i++)
            leader->members[i]->present = false;
        for (size_t i = 0; i < list.count; i++)
            kiln_fleet_beat(leader, &list.at[i], now_ms);
        kiln_fleet_expire(leader, now_ms);
    }
    free(list.at);
    return rc;
}

/* --- events ---------------------------------------------------------------------------------- */
/* Events are read while their entries are borrowed; what needs the ledger or the bus comes after.
 */
struct heard {
    uint64_t returned[IDS_MAX]; /* jobs that wait again */
    size_t returned_count;
};

static void hear_event(struct kiln_leader *leader, struct heard *heard, const char *text,
                       size_t len)
{
    struct kiln_event event;
    struct kiln_error err;
    if (kiln_event_decode(text, len, &event, &err)) {
        kiln_log(KILN_LOG_WARNING, "event_unreadable", kiln_f("error", "%s", err.text));
        return;
    }
    struct kiln_member *member = kiln_fleet_find(leader, event.worker);
    switch (event.kind) {
    case KILN_EVENT_HELLO:
        if (member)
            member->bye = false;
        leader->beats_due_ms = 0;
        return;
    case KILN_EVENT_BYE:
        if (member)
            member->bye = true;
        leader->beats_due_ms = 0;
        return;
    case KILN_EVENT_FINISHED:
        kiln_fleet_finished(leader, &event);
        return;
    case KILN_EVENT_RETURNED:
        if (heard->returned_count < IDS_MAX)
            heard->returned[heard->returned_count++] = event.job;
        else
            leader->sweep_due_ms = 0;
        return;
    case KILN_EVENT_DONE:
    case KILN_EVENT_FAILED:
    case KILN_EVENT_CANCELLED:
        return;
    }
}

static int hear_events(struct kiln_leader *leader, uint32_t wait_ms, struct heard *heard,
                       struct kiln_error *err)
{
    struct kiln_bus_entries entries = {0};
    const char *stream = leader->events_key, *after = leader->events_after;
    int rc = kiln_bus_read(leader->bus, &stream, &after, 1, EVENTS_MAX, wait_ms, &entries, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < entries.count; i++) {
        const struct kiln_bus_entry *entry = &entries.at[i];
        for (size_t f = 0; f < entry->field_count; f++)
            if (strcmp(entry->fields[2 * f], "event") == 0)
                hear_event(leader, heard, entry->fields[2 * f + 1], entry->lengths[2 * f + 1]);
        snprintf(leader->events_after, sizeof(leader->events_after), "%s", entry->id);
    }
    return 0;
}

/* --- orders ---------------------------------------------------------------------------------- */
/* The ledger's failures end the leadership; here they are kept for the step to find. */
static void note_ledger(struct kiln_leader *leader, int rc, const struct kiln_error *err)
{
    if (rc && leader->ledger_error.code == 0)
        leader->ledger_error = *err;
}

static void cancel(struct kiln_leader *leader, const struct kiln_order *order)
{
    struct kiln_error err;
    uint64_t moved = 0, batch = 0;
    bool one = order->kind == KILN_ORDER_CANCEL_JOB;
    int rc = order->recorded ? 0
                             : kiln_ledger_cancel(leader->ledger, leader->pool,
                                                  one ? order->job : 0, order->id, &moved, &err);
    if (rc == 0 && one)
        kiln_policy_remove(leader->policy, order->job);
    if (rc == 0 && !one)
        rc = kiln_ledger_batch_id(leader->ledger, leader->pool, order->id, &batch, &err);
    if (rc == 0 && !one)
        kiln_policy_remove_batch(leader->policy, batch);
    /* Running ones are found by reconciling: in a worker's hands, but not assigned any more. */
    leader->check_cancelled = true;
    leader->reconcile_due_ms = 0;
    note_ledger(leader, rc == KILN_NOT_FOUND ? 0 : rc, &err);
}

static int drain(struct kiln_leader *leader, const char *worker, struct kiln_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < leader->member_count && rc == 0; i++) {
        const struct kiln_member *member = leader->members[i];
        if (worker[0] == '\0' || strcmp(member->name, worker) == 0)
            rc = kiln_fleet_order(leader, member->name, KILN_ORDER_DRAIN, 0, member->name, err);
    }
    return rc;
}

static int obey(struct kiln_leader *leader, const struct kiln_order *order, struct kiln_error *err)
{
    kiln_log(KILN_LOG_INFO, "order", kiln_f("kind", "%d", (int)order->kind),
             kiln_f("job", "%llu", (unsigned long long)order->job), kiln_f("id", "%s", order->id));
    switch (order->kind) {
    case KILN_ORDER_CANCEL_JOB:
    case KILN_ORDER_CANCEL_BATCH:
        cancel(leader, order);
        return 0;
    case KILN_ORDER_DRAIN:
        return drain(leader, order->id, err);
    case KILN_ORDER_WAKE:
        leader->load_due_ms = 0;
        leader->sweep_due_ms = 0;
        leader->holds_due_ms = 0;
        return 0;
    case KILN_ORDER_ASK:
        return kiln_answer(leader, order, err);
    case KILN_ORDER_DROP: /* from a scheduler to a worker only */
        return 0;
    }
    return 0;
}

static size_t decode_orders(const struct kiln_bus_entries *entries, struct kiln_order *orders,
                            char (*ids)[ENTRY_ID_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < entries->count && i < ORDERS_MAX; i++) {
        const struct kiln_bus_entry *entry = &entries->at[i];
        snprintf(ids[i], ENTRY_ID_MAX, "%s", entry->id);
        for (size_t f = 0; f < entry->field_count && count < ORDERS_MAX; f++) {
            struct kiln_error why;
            if (strcmp(entry->fields[2 * f], "order") != 0)
                continue;
            if (kiln_order_decode(entry->fields[2 * f + 1], entry->lengths[2 * f + 1],
                                  &orders[count], &why) == 0)
                count++;
            else
                kiln_log(KILN_LOG_WARNING, "order_unreadable", kiln_f("error", "%s", why.text));
        }
    }
    return count;
}

/* A consumer group, so that an order given while nobody leads is obeyed once somebody does. */
static int hear_orders(struct kiln_leader *leader, struct kiln_error *err)
{
    struct kiln_bus_entries entries = {0};
    struct kiln_order orders[ORDERS_MAX];
    char ids[ORDERS_MAX][ENTRY_ID_MAX];
    const char *list[ORDERS_MAX];
    bool pending = !leader->control_caught_up; /* of a predecessor, or of a broken round */
    int rc = pending ? kiln_bus_group(leader->bus, leader->control_key, CONTROL_GROUP, err) : 0;
    if (rc == 0)
        rc = kiln_bus_read_group(leader->bus, leader->control_key, CONTROL_GROUP, CONTROL_CONSUMER,
                                 pending, ORDERS_MAX, 0, &entries, err);
    leader->control_caught_up = rc == 0 && (entries.count == 0 || !pending);
    if (rc || entries.count == 0)
        return rc;
    size_t entry_count = entries.count < ORDERS_MAX ? entries.count : ORDERS_MAX;
    size_t count = decode_orders(&entries, orders, ids);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = obey(leader, &orders[i], err);
    if (rc || leader->ledger_error.code) /* not acknowledged: it is read again */
        return rc;
    for (size_t i = 0; i < entry_count; i++)
        list[i] = ids[i];
    return kiln_bus_ack(leader->bus, leader->control_key, CONTROL_GROUP, list, entry_count, err);
}

int kiln_hear(struct kiln_leader *leader, uint32_t wait_ms, struct kiln_error *err)
{
    struct heard heard = {0};
    int rc = hear_orders(leader, err);
    if (rc == 0)
        rc = hear_events(leader, wait_ms, &heard, err);
    struct kiln_error ledger_err;
    for (size_t i = 0; i < heard.returned_count && leader->ledger_error.code == 0; i++)
        note_ledger(leader, kiln_load_one(leader, heard.returned[i], &ledger_err), &ledger_err);
    return rc;
}
