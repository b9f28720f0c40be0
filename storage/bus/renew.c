/* renew.c - streams that have used up their ids.
 *
 * Whoever may append may name the id, the greatest there is among them, and after that one Redis
 * takes no other, for ever.  Such a stream is removed and made anew; what somebody else puts there
 * in between (another scheduler that does the same, and a client's entry) is not touched: WATCH.
 */
#include <stdlib.h>
#include <string.h>

#include "storage/bus/internal.h"

#define LAST_ID "18446744073709551615-18446744073709551615"

/* The value of one name of XINFO STREAM's answer: name, value, name, value, ... */
static const redisReply *member(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (reply->element[i]->str && strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1];
    return NULL;
}

int kiln_bus_exhausted(struct kiln_bus *bus, const char *stream, bool *ret_exhausted,
                       uint64_t *ret_length, struct kiln_error *err)
{
    redisReply *reply;
    struct kiln_error why;
    *ret_exhausted = false;
    *ret_length = 0;
    int rc = kiln_bus_ask(bus, &reply, &why, KILN_BUS_WORDS("XINFO", "STREAM", stream));
    if (rc)
        return strstr(why.text, "no such key") ? 0 : kiln_fail(err, rc, "%s", why.text);
    const redisReply *last = member(reply, "last-generated-id"), *length = member(reply, "length");
    *ret_exhausted = last && last->str && strcmp(last->str, LAST_ID) == 0;
    *ret_length = length ? (uint64_t)length->integer : 0;
    freeReplyObject(reply);
    return 0;
}

/* As one transaction, which comes to nothing if the key has changed since it was watched. */
static int replace(struct kiln_bus *bus, const char *stream, const char *group, bool *ret_renewed,
                   struct kiln_error *err)
{
    redisReply *reply;
    int rc = kiln_bus_begin(bus, err);
    if (rc)
        return rc;
    KILN_BUS_PUT(bus, "MULTI");
    KILN_BUS_PUT(bus, "DEL", stream);
    KILN_BUS_PUT(bus, "XGROUP", "CREATE", stream, group, "0", "MKSTREAM");
    KILN_BUS_PUT(bus, "EXEC");
    rc = kiln_bus_replies(bus, 3, err);
    int last = bus->context ? kiln_bus_reply(bus, 0, &reply, rc ? NULL : err) : rc;
    if (last)
        return rc ? rc : last;
    *ret_renewed = reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return rc;
}

int kiln_bus_renew(struct kiln_bus *bus, const char *stream, const char *group, bool *ret_renewed,
                   struct kiln_error *err)
{
    bool exhausted;
    uint64_t length;
    int rc = kiln_bus_exhausted(bus, stream, &exhausted, &length, err);
    if (rc || !exhausted || length > 0)
        return rc;
    rc = kiln_bus_tell(bus, err, KILN_BUS_WORDS("WATCH", stream));
    if (rc == 0)
        rc = kiln_bus_exhausted(bus, stream, &exhausted, &length, err);
    if (rc == 0 && exhausted && length == 0)
        return replace(bus, stream, group, ret_renewed, err);
    if (bus->context && kiln_bus_tell(bus, NULL, KILN_BUS_WORDS("UNWATCH")))
        kiln_bus_drop(bus); /* it must not watch any longer: its next transaction would fail */
    return rc;
}
