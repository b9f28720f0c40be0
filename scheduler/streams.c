/* streams.c - sending to workers, and streams that take no entries.
 *
 * Another program may have put a value of another type under a stream's name, or an entry with the
 * greatest possible id into the stream.  That is repaired where nothing is lost by it.  Until then
 * a worker's stream that takes nothing costs that one worker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/leader.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/text/utc.h"

#define CHECK_MAX_MS 5000 /* between looks whether the stream of events began anew */

void kiln_sleep_ms(uint32_t ms)
{
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&ts, NULL);
}

/* --- repairing ------------------------------------------------------------------------------- */
/* Tells `kiln doctor`, which looks when the events began, that nothing was lost. */
static void mark_events(struct kiln_leader *leader)
{
    char at[32];
    kiln_time_text(kiln_wall_ms(), at, sizeof(at));
    const char *const fields[] = {KILN_WIRE_REMADE, at};
    (void)!kiln_bus_append(leader->bus, leader->events_key, 0, fields, NULL, 1, NULL);
}

int kiln_stream_repair(struct kiln_leader *leader, const char *key, int rc, bool *ret_repaired,
                       struct kiln_error *err)
{
    enum kiln_bus_refusal refusal = kiln_bus_refusal(leader->bus);
    bool repaired = false;
    if (ret_repaired)
        *ret_repaired = false;
    /* A right that the scheduler lacks is a matter for its operator, as is a Redis that is away. */
    if (rc == 0 || refusal == KILN_BUS_NOT_REFUSED || refusal == KILN_BUS_NOT_ALLOWED)
        return rc;
    struct kiln_error why = *err;
    rc = kiln_bus_repair(leader->bus, key, true, &repaired, err);
    kiln_log_limited(&leader->limits[KILN_LIMIT_KEY], repaired ? "key_deleted" : "key_unusable",
                     key, why.text);
    if (ret_repaired)
        *ret_repaired = repaired;
    if (repaired && strcmp(key, leader->events_key) == 0)
        mark_events(leader);
    return rc && kiln_bus_refusal(leader->bus) == KILN_BUS_NOT_REFUSED ? rc : 0;
}

/* --- sending --------------------------------------------------------------------------------- */
int kiln_stream_send(struct kiln_leader *leader, const char *worker, const char *field,
                     const char *text, struct kiln_error *err)
{
    char key[KILN_KEY_MAX];
    const char *fields[2] = {field, text};
    kiln_wire_key(key, sizeof(key), leader->pool, "worker", worker);
    int rc = kiln_bus_append(leader->bus, key, 0, fields, NULL, 1, err);
    if (rc == 0 || kiln_bus_refusal(leader->bus) == KILN_BUS_NOT_REFUSED)
        return rc;
    struct kiln_error why = *err;
    rc = kiln_stream_repair(leader, key, rc, NULL, &why);
    /* Tried again in any case: the second answer says whether the bus is away. */
    return rc ? rc : kiln_bus_append(leader->bus, key, 0, fields, NULL, 1, err);
}

int kiln_stream_send_control(struct kiln_leader *leader, const char *worker,
                             enum kiln_control_kind kind, uint64_t job, const char *id,
                             struct kiln_error *err)
{
    struct kiln_control control = {.kind = kind, .job = job};
    snprintf(control.id, sizeof(control.id), "%s", id);
    char *text = kiln_control_encode(&control);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a control message");
    int rc = kiln_stream_send(leader, worker, "order", text, err);
    free(text);
    return rc;
}

void kiln_stream_hint(struct kiln_leader *leader, const char *worker, enum kiln_control_kind kind,
                      uint64_t job, const char *id)
{
    struct kiln_error err;
    if (kiln_stream_send_control(leader, worker, kind, job, id, &err))
        kiln_log(KILN_LOG_WARNING, "order_lost", kiln_f("error", "%s", err.text));
}

void kiln_stream_delete(struct kiln_leader *leader, const char *worker)
{
    char key[KILN_KEY_MAX];
    struct kiln_error err;
    kiln_wire_key(key, sizeof(key), leader->pool, "worker", worker);
    if (kiln_bus_delete(leader->bus, key, &err))
        kiln_log(KILN_LOG_DEBUG, "stream_left", kiln_f("error", "%s", err.text));
}

/* From then on a heartbeat now and then checks whether the stream takes entries, so that no job has
 * to be assigned to find that out. */
void kiln_fleet_block(struct kiln_leader *leader, struct kiln_member *member, int64_t now_ms)
{
    member->blocked_until_ms = now_ms + leader->lease_ms;
    kiln_policy_worker_suspend(leader->policy, member->name);
}

bool kiln_fleet_is_blocked(struct kiln_leader *leader, struct kiln_member *member, int64_t now_ms)
{
    char key[KILN_KEY_MAX];
    struct kiln_error err;
    if (member->blocked_until_ms == 0 || now_ms < member->blocked_until_ms)
        return member->blocked_until_ms > 0;
    kiln_wire_key(key, sizeof(key), leader->pool, "worker", member->name);
    int rc = kiln_bus_probe(leader->bus, key, &err);
    bool repaired = false;
    if (rc)
        rc = kiln_stream_repair(leader, key, rc, &repaired, &err) || !repaired;
    member->blocked_until_ms = rc ? now_ms + leader->lease_ms : 0;
    return rc != 0;
}

/* --- control and events ---------------------------------------------------------------------- */
/* Stream ids "ms-seq" as numbers; "" comes before all. */
static bool id_before(const char *a, const char *b)
{
    char *a_end, *b_end;
    unsigned long long a_ms = strtoull(a, &a_end, 10), b_ms = strtoull(b, &b_end, 10);
    if (a_ms != b_ms)
        return a_ms < b_ms;
    unsigned long long a_seq = *a_end == '-' ? strtoull(a_end + 1, NULL, 10) : 0;
    unsigned long long b_seq = *b_end == '-' ? strtoull(b_end + 1, NULL, 10) : 0;
    return a_seq < b_seq;
}

/* A stream with the greatest possible id takes no more entries.  Control is read until it is empty
 * and then made anew.  Events are kept for people who look at them later, and nothing depends on
 * them: once they are read, the stream is made anew. */
static int probe_streams(struct kiln_leader *leader, bool read_all, struct kiln_error *err)
{
    int rc = kiln_bus_probe(leader->bus, leader->control_key, err);
    bool again = rc != 0; /* the next check probes once more */
    rc = kiln_stream_repair(leader, leader->control_key, rc, NULL, err);
    rc = rc ? rc : kiln_bus_probe(leader->bus, leader->events_key, err);
    if (rc && kiln_bus_refusal(leader->bus) == KILN_BUS_EXHAUSTED && read_all) {
        kiln_log_limited(&leader->limits[KILN_LIMIT_KEY], "key_deleted", leader->events_key,
                         err->text);
        rc = kiln_bus_delete(leader->bus, leader->events_key, err);
        if (rc == 0)
            mark_events(leader);
        again = true; /* until a probe finds the stream well */
    }
    again = again || rc;
    rc = kiln_stream_repair(leader, leader->events_key, rc, NULL, err);
    if (rc == 0)
        leader->probe_due = again;
    return rc;
}

/* Ids only grow while a stream lives.  After a flush, with Redis' clock behind, new events could
 * have ids below the last one read.  Then everything is read again, which is harmless. */
int kiln_streams_check(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    char last[sizeof(leader->events_after)] = "";
    int64_t half_ms = leader->lease_ms / 2;
    leader->streams_due_ms = now_ms + (half_ms < CHECK_MAX_MS ? half_ms : CHECK_MAX_MS);
    int rc = kiln_bus_last_id(leader->bus, leader->events_key, last, sizeof(last), err);
    rc = kiln_stream_repair(leader, leader->events_key, rc, NULL, err);
    if (rc)
        return rc;
    leader->probe_due = leader->probe_due || kiln_wire_last_id(last);
    bool began = leader->events_after[0] == '\0';
    if (began || id_before(last, leader->events_after))
        snprintf(leader->events_after, sizeof(leader->events_after), "%s",
                 began && last[0] ? last : "0");
    return leader->probe_due ? probe_streams(leader, !id_before(leader->events_after, last), err)
                             : 0;
}
