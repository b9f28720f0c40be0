/* heartbeats.c - heartbeats and receipts: the small keys that live for a while.
 *
 * A heartbeat and its time to live are set in one MULTI: a value without its expiry would make a
 * dead worker look alive for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"
#include "schemas/wire/wire.h"
#include "storage/bus/internal.h"

#define SCAN_ROUNDS_MAX 100000 /* of a thousand keys: more keys are not Kiln's */
#define BEATS_AT_ONCE 1000     /* read in one round trip */

/* Sends `MULTI, value command, expiry command, EXEC`, of which the two in the middle are built. */
static int put_with_expiry(struct kiln_bus *bus, const char *const value[4], size_t value_count,
                           const char *expire, uint64_t ttl, struct kiln_error *err)
{
    int rc = kiln_bus_begin(bus, err);
    if (rc != 0)
        return rc;
    KILN_BUS_PUT(bus, "MULTI");
    kiln_bus_words(bus, value_count, value);
    KILN_BUS_PUT(bus, expire, value[1], KILN_BUS_NUMBER(ttl));
    KILN_BUS_PUT(bus, "EXEC");
    return kiln_bus_replies(bus, 4, err);
}

int kiln_bus_heartbeat(struct kiln_bus *bus, const char *key, const char *beat, uint32_t ttl_ms,
                       struct kiln_error *err)
{
    return put_with_expiry(bus, (const char *const[]){"HSET", key, "beat", beat}, 4, "PEXPIRE",
                           ttl_ms, err);
}

int kiln_bus_push(struct kiln_bus *bus, const char *list, const char *value, uint32_t ttl_s,
                  struct kiln_error *err)
{
    return put_with_expiry(bus, (const char *const[]){"RPUSH", list, value, NULL}, 3, "EXPIRE",
                           ttl_s, err);
}

int kiln_bus_pop(struct kiln_bus *bus, const char *list, uint32_t wait_ms, char **ret_value,
                 struct kiln_error *err)
{
    redisReply *reply;
    char seconds[32];
    int rc = kiln_bus_begin(bus, err);
    if (rc != 0)
        return rc;
    snprintf(seconds, sizeof seconds, "%u.%03u", wait_ms / 1000, wait_ms % 1000);
    if (wait_ms)
        KILN_BUS_PUT(bus, "BLPOP", list, seconds);
    else
        KILN_BUS_PUT(bus, "LPOP", list); /* a BLPOP of 0 seconds would wait for ever */
    rc = kiln_bus_reply(bus, wait_ms, &reply, err);
    if (rc != 0)
        return rc;
    const redisReply *value = reply->type == REDIS_REPLY_STRING ? reply
                              : reply->type == REDIS_REPLY_ARRAY && reply->elements == 2
                                  ? reply->element[1]
                                  : NULL;
    char *copy = value && value->str ? strdup(value->str) : NULL;
    if (value && !copy)
        rc = kiln_fail(err, KILN_NO_MEMORY, "bus: no memory for a receipt");
    else
        *ret_value = copy;
    freeReplyObject(reply);
    return rc;
}

int kiln_bus_delete(struct kiln_bus *bus, const char *key, struct kiln_error *err)
{
    return kiln_bus_run(bus, err, KILN_BUS_WORDS("DEL", key));
}

/* --- all heartbeats of a pool ---------------------------------------------------------------- */

/* The keys found so far; SCAN may return a key twice. */
struct keys {
    char **at;
    size_t count, room;
};

static void release_keys(struct keys *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        free(keys->at[i]);
    free(keys->at);
}

static int add_key(struct keys *keys, const char *key, struct kiln_error *err)
{
    char **at = kiln_room(keys->at, keys->count, &keys->room, sizeof *at);
    if (at)
        keys->at = at;
    char *copy = at ? strdup(key) : NULL;
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "bus: no memory for a list of workers");
    keys->at[keys->count++] = copy;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Leaves each wanted key once, in order. */
static void pick_keys(struct keys *keys, size_t prefix, kiln_bus_want_heartbeat *want, void *arg)
{
    size_t kept = 0;
    if (keys->count > 0)
        qsort(keys->at, keys->count, sizeof *keys->at, by_text);
    for (size_t i = 0; i < keys->count; i++) {
        bool twice = i + 1 < keys->count && strcmp(keys->at[i], keys->at[i + 1]) == 0;
        if (!twice && (!want || want(arg, keys->at[i] + prefix)))
            keys->at[kept++] = keys->at[i];
        else
            free(keys->at[i]);
    }
    keys->count = kept;
}

/* One page of SCAN; moves the cursor. */
static int scan_page(struct kiln_bus *bus, const char *pattern, char cursor[32], struct keys *keys,
                     struct kiln_error *err)
{
    redisReply *reply;
    int rc = kiln_bus_request(bus, &reply, err,
                              KILN_BUS_WORDS("SCAN", cursor, "MATCH", pattern, "COUNT", "1000"));
    if (rc != 0)
        return rc;
    bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                reply->element[0]->type == REDIS_REPLY_STRING &&
                reply->element[1]->type == REDIS_REPLY_ARRAY;
    if (!fits)
        rc = kiln_fail(err, KILN_PROTOCOL, "Redis: the answer to SCAN makes no sense");
    else
        snprintf(cursor, 32, "%s", reply->element[0]->str);
    for (size_t i = 0; rc == 0 && i < reply->element[1]->elements; i++)
        if (reply->element[1]->element[i]->type == REDIS_REPLY_STRING)
            rc = add_key(keys, reply->element[1]->element[i]->str, err);
    freeReplyObject(reply);
    return rc;
}

/* The beats of `count` keys, in one round trip. */
static int read_beats(struct kiln_bus *bus, char *const *keys, size_t count, size_t prefix,
                      kiln_bus_each_heartbeat *each, void *arg, struct kiln_error *err)
{
    int first = kiln_bus_begin(bus, err);
    if (first != 0)
        return first;
    for (size_t i = 0; i < count; i++)
        KILN_BUS_PUT(bus, "HGET", keys[i], "beat");
    for (size_t i = 0; i < count; i++) {
        redisReply *reply; /* nil: expired since the scan */
        int rc = kiln_bus_reply(bus, 0, &reply, first ? NULL : err);
        if (rc == 0) {
            if (reply->type == REDIS_REPLY_STRING && first == 0)
                first = each(arg, keys[i] + prefix, reply->str, reply->len);
            freeReplyObject(reply);
        } else if (first == 0 && bus->refusal != KILN_BUS_WRONG_TYPE) {
            first = rc; /* but a key of another type is nobody's beat */
        }
        if (!bus->context)
            break;
    }
    return first;
}

int kiln_bus_heartbeats(struct kiln_bus *bus, const char *pool, kiln_bus_want_heartbeat *want,
                        kiln_bus_each_heartbeat *each, void *arg, struct kiln_error *err)
{
    char pattern[KILN_NAME_MAX + 32], cursor[32] = "0";
    size_t prefix = kiln_wire_key(pattern, sizeof pattern, pool, "beat", "*") - 1;
    struct keys keys = {0};
    int rc = 0;
    for (int round = 0; rc == 0; round++) {
        rc = round < SCAN_ROUNDS_MAX ? scan_page(bus, pattern, cursor, &keys, err)
                                     : kiln_fail(err, KILN_FULL, "Redis holds too many keys");
        if (strcmp(cursor, "0") == 0)
            break;
    }
    if (rc == 0)
        pick_keys(&keys, prefix, want, arg);
    for (size_t i = 0; rc == 0 && i < keys.count; i += BEATS_AT_ONCE) {
        size_t left = keys.count - i;
        rc = read_beats(bus, keys.at + i, left < BEATS_AT_ONCE ? left : BEATS_AT_ONCE, prefix, each,
                        arg, err);
    }
    release_keys(&keys);
    return rc;
}
