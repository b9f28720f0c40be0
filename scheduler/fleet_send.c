/* fleet_send.c - what the leader appends to the streams of its workers, and what it does with a
 * stream that takes nothing: another program has put something else under its name, or an entry
 * with the greatest possible id into it.  That is repaired where nothing is lost by it; until then
 * it costs this one worker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/log.h"

int kiln_fleet_send(struct kiln_leader *leader, const char *worker, const char *field,
                    const char *text, struct kiln_error *err)
{
    char key[KILN_KEY_MAX];
    bool mended = false;
    struct kiln_error why;
    const char *fields[2] = {field, text};
    kiln_wire_key(key, sizeof(key), leader->pool, "worker", worker);
    int rc = kiln_bus_append(leader->bus, key, 0, fields, NULL, 1, err);
    if (rc == 0 || kiln_bus_refusal(leader->bus) == KILN_BUS_NOT_REFUSED)
        return rc;
    why = *err;
    int mending = kiln_leader_mend(leader, key, rc, &mended, &why);
    /* Tried again in any case: whether the bus is away is what the second answer says. */
    return mending ? mending : kiln_bus_append(leader->bus, key, 0, fields, NULL, 1, err);
}

/* From then on a beat now and then looks whether the stream takes entries, so that no job has to be
 * assigned to find it out. */
void kiln_fleet_mute(struct kiln_leader *leader, struct kiln_member *member, int64_t now_ms)
{
    member->mute_until_ms = now_ms + leader->lease_ms;
    kiln_policy_worker_suspend(leader->policy, member->name);
}

bool kiln_fleet_is_mute(struct kiln_leader *leader, struct kiln_member *member, int64_t now_ms)
{
    char key[KILN_KEY_MAX];
    struct kiln_error err;
    if (member->mute_until_ms == 0 || now_ms < member->mute_until_ms)
        return member->mute_until_ms > 0;
    kiln_wire_key(key, sizeof(key), leader->pool, "worker", member->name);
    int rc = kiln_bus_probe(leader->bus, key, &err);
    bool mended = false;
    if (rc)
        rc = kiln_leader_mend(leader, key, rc, &mended, &err) || !mended;
    member->mute_until_ms = rc ? now_ms + leader->lease_ms : 0;
    return rc != 0;
}

int kiln_fleet_send_control(struct kiln_leader *leader, const char *worker,
                            enum kiln_control_kind kind, uint64_t job, const char *id,
                            struct kiln_error *err)
{
    struct kiln_control order = {.kind = kind, .job = job};
    snprintf(order.id, sizeof(order.id), "%s", id);
    char *text = kiln_control_encode(&order);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an order");
    int rc = kiln_fleet_send(leader, worker, "order", text, err);
    free(text);
    return rc;
}

void kiln_fleet_drop_stream(struct kiln_leader *leader, const char *worker)
{
    char key[KILN_KEY_MAX];
    struct kiln_error err;
    kiln_wire_key(key, sizeof(key), leader->pool, "worker", worker);
    if (kiln_bus_delete(leader->bus, key, &err))
        kiln_log(KILN_LOG_DEBUG, "stream_left", kiln_f("error", "%s", err.text));
}
