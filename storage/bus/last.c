/* last.c - where a stream stands. */
#include <stdio.h>
#include <string.h>

#include "storage/bus/internal.h"

int kiln_bus_last_id(struct kiln_bus *bus, const char *stream, char *ret, size_t size,
                     struct kiln_error *err)
{
    redisReply *reply;
    int rc =
        kiln_bus_ask(bus, &reply, err, KILN_BUS_WORDS("XREVRANGE", stream, "+", "-", "COUNT", "1"));
    if (rc != 0)
        return rc;
    const char *id = "";
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
        reply->element[0]->type == REDIS_REPLY_ARRAY && reply->element[0]->elements == 2 &&
        reply->element[0]->element[0]->type == REDIS_REPLY_STRING)
        id = reply->element[0]->element[0]->str;
    if (strlen(id) < size)
        memcpy(ret, id, strlen(id) + 1);
    else
        rc = kiln_fail(err, KILN_PROTOCOL, "Redis: the newest id of %s makes no sense", stream);
    freeReplyObject(reply);
    return rc;
}
