/* error.c - what the errors of Redis mean to Kiln.
 *
 * Two questions about each: which code a caller is given, and whether Redis declined one command
 * only or would decline the next one as well.  The first words of an error decide, which are part
 * of Redis' interface; the rest of the text is for people.
 */
#include <string.h>

#include "storage/bus/internal.h"

struct error_row {
    const char *prefix;
    int code;
    enum kiln_bus_refusal refusal;
    const char *advice;
};

#define NOT KILN_BUS_NOT_REFUSED

/* What passes by itself is UNAVAILABLE or FULL, what needs a person is DENIED or CONFIG. */
static const struct error_row rows[] = {
    {"OOM ", KILN_FULL, NOT, "Redis has reached maxmemory"},
    {"MISCONF ", KILN_FULL, NOT, "Redis cannot write to its disk"},
    {"NOAUTH ", KILN_DENIED, NOT, "see the setting redis_password_file"},
    {"WRONGPASS ", KILN_DENIED, NOT, "see the settings redis and redis_password_file"},
    {"ERR AUTH ", KILN_DENIED, NOT, "see the setting redis_password_file"},
    {"NOPERM ", KILN_DENIED, KILN_BUS_NOT_ALLOWED, "the Redis user lacks this right"},
    {"LOADING ", KILN_UNAVAILABLE, NOT, "Redis reads its data from disk"},
    {"BUSY ", KILN_UNAVAILABLE, NOT, NULL},
    {"READONLY ", KILN_UNAVAILABLE, NOT, "this Redis is a replica"},
    {"MASTERDOWN ", KILN_UNAVAILABLE, NOT, NULL},
    {"CLUSTERDOWN ", KILN_UNAVAILABLE, NOT, NULL},
    {"TRYAGAIN ", KILN_UNAVAILABLE, NOT, NULL},
    {"NOREPLICAS ", KILN_UNAVAILABLE, NOT, "Redis has fewer replicas than it asks for"},
    {"ERR max number of clients", KILN_UNAVAILABLE, NOT, "Redis has reached maxclients"},
    {"MOVED ", KILN_UNSUPPORTED, NOT, "the setting redis must name the node that holds this pool"},
    {"BUSYGROUP ", KILN_EXISTS, KILN_BUS_REFUSED, NULL},
    {"NOGROUP ", KILN_NOT_FOUND, KILN_BUS_REFUSED, NULL},
    {"EXECABORT ", KILN_FULL, NOT, "a command of the transaction was refused"},
    {"ERR DB index", KILN_CONFIG, NOT, "see the database number in the setting redis"},
    {"WRONGTYPE ", KILN_PROTOCOL, KILN_BUS_WRONG_TYPE, "another program has used this key"},
    {"ERR The stream has exhausted", KILN_PROTOCOL, KILN_BUS_EXHAUSTED,
     "an entry with the greatest possible id was written to this stream"},
};
static const struct error_row any = {"", KILN_PROTOCOL, KILN_BUS_REFUSED, NULL};

int kiln_bus_reply_error(const redisReply *reply, enum kiln_bus_refusal *ret_refusal,
                         struct kiln_error *err)
{
    const struct error_row *row = &any;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && row == &any; i++)
        if (strncmp(reply->str, rows[i].prefix, strlen(rows[i].prefix)) == 0)
            row = &rows[i];
    *ret_refusal = row->refusal;
    return kiln_fail(err, row->code, "Redis: %.200s%s%s", reply->str, row->advice ? "; " : "",
                     row->advice ? row->advice : "");
}

enum kiln_bus_refusal kiln_bus_refusal(const struct kiln_bus *bus)
{
    return bus->refusal;
}
