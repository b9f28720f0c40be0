/* repair.c - removes streams that another program has made useless: a value of another type under
 * the stream's name, or a stream whose last id is the greatest possible one, so that it accepts no
 * entry.
 *
 * The owner of the name removes the key.  Meanwhile another process may have done the same, and a
 * client may have appended to the new stream: WATCH then cancels the removal.  The key's consumer
 * group is lost too; readers create it again from the beginning of the stream.
 */
#include <string.h>

#include "schemas/wire/wire.h"
#include "storage/bus/internal.h"

/* The value of one name of XINFO STREAM's answer: name, value, name, value, ... */
static const redisReply *member(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (reply->element[i]->str && strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1];
    return NULL;
}

/* Sets the refusal to what is wrong with the stream; *ret_length: its number of entries. */
static int look(struct kiln_bus *bus, const char *stream, uint64_t *ret_length,
                struct kiln_error *err)
{
    redisReply *reply;
    struct kiln_error why;
    *ret_length = 0;
    int rc = kiln_bus_request(bus, &reply, &why, KILN_BUS_WORDS("XINFO", "STREAM", stream));
    if (rc && strstr(why.text, "no such key")) {
        bus->refusal = KILN_BUS_NOT_REFUSED;
        return 0;
    }
    if (rc)
        return kiln_fail(err, rc, "%s", why.text);
    const redisReply *last = member(reply, "last-generated-id"), *length = member(reply, "length");
    bool exhausted = last && last->str && kiln_wire_last_id(last->str);
    *ret_length = length ? (uint64_t)length->integer : 0;
    freeReplyObject(reply);
    if (!exhausted)
        return 0;
    bus->refusal = KILN_BUS_EXHAUSTED;
    return kiln_fail(err, KILN_PROTOCOL,
                     "stream %s: an entry with the greatest possible id was written to it", stream);
}

int kiln_bus_look(struct kiln_bus *bus, const char *stream, struct kiln_error *err)
{
    uint64_t length;
    return look(bus, stream, &length, err);
}

/* An id that every stream with a history refuses.  Redis checks the rights, the type of the key and
 * whether the stream is exhausted before it compares ids.  A stream without a history accepts the
 * entry, so the same transaction deletes it, and no reader sees it. */
#define PROBE_ID "0-1"

int kiln_bus_probe(struct kiln_bus *bus, const char *stream, struct kiln_error *err)
{
    int rc = kiln_bus_begin(bus, err);
    if (rc != 0)
        return rc;
    KILN_BUS_PUT(bus, "MULTI");
    KILN_BUS_PUT(bus, "XADD", stream, "NOMKSTREAM", PROBE_ID, "probe", "");
    KILN_BUS_PUT(bus, "XDEL", stream, PROBE_ID);
    KILN_BUS_PUT(bus, "EXEC");
    rc = kiln_bus_replies(bus, 4, err);
    return bus->refusal == KILN_BUS_REFUSED ? 0 : rc; /* the id is smaller than the last one */
}

/* One transaction, which does nothing if the key has changed since it was watched. */
static int remove_watched(struct kiln_bus *bus, const char *key, bool *ret_removed,
                          struct kiln_error *err)
{
    redisReply *reply;
    int rc = kiln_bus_begin(bus, err);
    if (rc)
        return rc;
    KILN_BUS_PUT(bus, "MULTI");
    KILN_BUS_PUT(bus, "DEL", key);
    KILN_BUS_PUT(bus, "EXEC");
    rc = kiln_bus_replies(bus, 2, err);
    enum kiln_bus_refusal refusal = bus->refusal;
    int last = bus->context ? kiln_bus_reply(bus, 0, &reply, rc ? NULL : err) : rc;
    if (rc && bus->context)
        bus->refusal = refusal; /* EXEC only repeats that a command before it was refused */
    if (last)
        return rc ? rc : last;
    *ret_removed = reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return rc;
}

int kiln_bus_repair(struct kiln_bus *bus, const char *stream, bool read_first, bool *ret_repaired,
                    struct kiln_error *err)
{
    uint64_t length = 0;
    *ret_repaired = false;
    if (bus->refusal != KILN_BUS_WRONG_TYPE && bus->refusal != KILN_BUS_EXHAUSTED)
        return 0;
    int rc = kiln_bus_run(bus, err, KILN_BUS_WORDS("WATCH", stream));
    if (rc)
        return rc;
    rc = look(bus, stream, &length, err);
    bool useless = rc && (bus->refusal == KILN_BUS_WRONG_TYPE ||
                          (bus->refusal == KILN_BUS_EXHAUSTED && (length == 0 || !read_first)));
    if (useless)
        return remove_watched(bus, stream, ret_repaired, err);
    rc = bus->refusal == KILN_BUS_EXHAUSTED ? 0 : rc; /* its entries are read first */
    if (bus->context && kiln_bus_run(bus, NULL, KILN_BUS_WORDS("UNWATCH")))
        kiln_bus_drop(bus); /* it must not watch any longer: its next transaction would fail */
    return rc;
}
