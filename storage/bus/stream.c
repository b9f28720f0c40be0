/* stream.c - streams: append, read, acknowledge.
 *
 * Entries that were read point into Redis' reply, which lives until the next read.  A consumer
 * group that is gone after a flush of Redis is created again from the stream's beginning, so that
 * no entry is missed.
 *
 * A read whose answer was lost is not repeated here: its entries are pending for this consumer now,
 * and a second read of new entries would skip them.  The caller gets KILN_UNAVAILABLE and reads its
 * pending entries first, as after every failure.
 *
 * Asynchronous appends send a million job lines in seconds: a thousand answers may be outstanding,
 * and one system call carries 64 KiB of commands.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/bus/internal.h"

#define IN_FLIGHT_MAX 1024
#define SEND_AT (64 * 1024)               /* bytes worth a system call */
#define UNSENT_MAX (4 * 1024 * 1024)      /* bytes that Redis has not read: then wait for it */
#define READ_BYTES_MAX (32 * 1024 * 1024) /* of an answer with several entries */

/* --- appending ------------------------------------------------------------------------------- */

/* lengths NULL: the fields are NUL-terminated texts. */
static void put_append(struct kiln_bus *bus, const char *stream, uint64_t maxlen,
                       const char *const *fields, const size_t *lengths, size_t field_count)
{
    kiln_bus_command(bus, 3 + (maxlen ? 3 : 0) + 2 * field_count);
    kiln_bus_arg(bus, "XADD", 4);
    kiln_bus_arg_text(bus, stream);
    if (maxlen) {
        kiln_bus_arg(bus, "MAXLEN", 6);
        kiln_bus_arg(bus, "~", 1);
        kiln_bus_arg_u64(bus, maxlen);
    }
    kiln_bus_arg(bus, "*", 1);
    for (size_t i = 0; i < 2 * field_count; i++)
        kiln_bus_arg(bus, fields[i], lengths ? lengths[i] : strlen(fields[i]));
}

int kiln_bus_append(struct kiln_bus *bus, const char *stream, uint64_t maxlen,
                    const char *const *fields, const size_t *lengths, size_t field_count,
                    struct kiln_error *err)
{
    int rc = kiln_bus_begin(bus, err);
    if (rc != 0)
        return rc;
    put_append(bus, stream, maxlen, fields, lengths, field_count);
    return kiln_bus_replies(bus, 1, err);
}

/* Hands out the failure of an earlier append, once. */
static int late_failure(struct kiln_bus *bus, struct kiln_error *err)
{
    if (bus->late.code == 0)
        return 0;
    int rc = kiln_fail(err, bus->late.code, "an earlier append: %s", bus->late.text);
    bus->late.code = 0;
    bus->refusal = bus->late_refusal;
    return rc;
}

int kiln_bus_append_async(struct kiln_bus *bus, const char *stream, const char *const *fields,
                          const size_t *lengths, size_t field_count, struct kiln_error *err)
{
    int rc = late_failure(bus, err);
    if (rc == 0)
        rc = kiln_bus_begin(bus, err);
    if (rc != 0)
        return rc;
    size_t before = bus->out_len;
    put_append(bus, stream, 0, fields, lengths, field_count);
    if (bus->short_of_memory) {
        bus->out_len = before; /* the connection and what is in flight stay whole */
        return kiln_fail(err, KILN_NO_MEMORY, "bus: no memory for an entry of %s", stream);
    }
    bus->in_flight++;
    size_t unsent = bus->out_len - bus->out_sent;
    if (bus->in_flight >= IN_FLIGHT_MAX || unsent >= UNSENT_MAX)
        rc = kiln_bus_drain(bus, bus->in_flight / 2, err);
    else if (unsent >= SEND_AT)
        rc = kiln_bus_send(bus, err);
    if (rc != 0)
        bus->late.code = 0; /* told now */
    return rc;
}

int kiln_bus_flush(struct kiln_bus *bus, struct kiln_error *err)
{
    bus->refusal = KILN_BUS_NOT_REFUSED;
    int rc = bus->context ? kiln_bus_drain(bus, 0, err) : 0;
    if (rc != 0) {
        bus->late.code = 0;
        return rc;
    }
    return late_failure(bus, err);
}

/* --- lending entries ------------------------------------------------------------------------- */

/* Ends the loan of the last reading. */
static void forget(struct kiln_bus *bus)
{
    if (bus->lent)
        freeReplyObject(bus->lent);
    free(bus->entries);
    free(bus->texts);
    free(bus->lengths);
    bus->lent = NULL;
    bus->entries = NULL;
    bus->texts = NULL;
    bus->lengths = NULL;
}

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING;
}

/* [id, [name, value, ...]]; the second is nil for a pending entry that was deleted. */
static bool is_entry(const redisReply *entry)
{
    if (entry->type != REDIS_REPLY_ARRAY || entry->elements != 2 || !is_text(entry->element[0]))
        return false;
    const redisReply *fields = entry->element[1];
    if (fields->type == REDIS_REPLY_NIL)
        return true;
    if (fields->type != REDIS_REPLY_ARRAY || fields->elements % 2 != 0)
        return false;
    for (size_t i = 0; i < fields->elements; i++)
        if (!is_text(fields->element[i]))
            return false;
    return true;
}

/* Counts the entries and texts of a list of entries; false if it is none. */
static bool measure(const redisReply *list, size_t *entries, size_t *texts)
{
    if (list->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < list->elements; i++) {
        if (!is_entry(list->element[i]))
            return false;
        *texts += list->element[i]->element[1]->elements;
    }
    *entries += list->elements;
    return true;
}

struct lender {
    struct kiln_bus *bus;
    size_t entries, texts; /* lent so far */
};

/* The list was measured: there is room, and every type is what it must be. */
static void lend_list(struct lender *lender, const char *stream, const redisReply *list)
{
    struct kiln_bus *bus = lender->bus;
    for (size_t i = 0; i < list->elements; i++) {
        const redisReply *entry = list->element[i], *fields = entry->element[1];
        bus->entries[lender->entries++] = (struct kiln_bus_entry){
            .stream = stream,
            .id = entry->element[0]->str,
            .field_count = fields->type == REDIS_REPLY_ARRAY ? fields->elements / 2 : 0,
            .fields = bus->texts + lender->texts,
            .lengths = bus->lengths + lender->texts,
        };
        for (size_t j = 0; fields->type == REDIS_REPLY_ARRAY && j < fields->elements; j++) {
            bus->texts[lender->texts] = fields->element[j]->str;
            bus->lengths[lender->texts++] = fields->element[j]->len;
        }
    }
}

static int make_room(struct kiln_bus *bus, size_t entries, size_t texts, struct kiln_error *err)
{
    bus->entries = calloc(entries + 1, sizeof *bus->entries);
    bus->texts = calloc(texts + 1, sizeof *bus->texts);
    bus->lengths = calloc(texts + 1, sizeof *bus->lengths);
    if (bus->entries && bus->texts && bus->lengths)
        return 0;
    forget(bus);
    return kiln_fail(err, KILN_NO_MEMORY, "bus: no memory for %zu entries", entries);
}

static int no_sense(struct kiln_bus *bus, struct kiln_error *err)
{
    forget(bus);
    return kiln_fail(err, KILN_PROTOCOL, "Redis: the answer to a read of streams is invalid");
}

/* Takes over a reply of XREAD's shape, [[stream, entries], ...], or nil. */
static int lend_streams(struct kiln_bus *bus, redisReply *reply, struct kiln_bus_entries *ret,
                        struct kiln_error *err)
{
    size_t entries = 0, texts = 0;
    bus->lent = reply;
    bool fits = reply->type == REDIS_REPLY_ARRAY || reply->type == REDIS_REPLY_NIL;
    for (size_t i = 0; fits && i < reply->elements; i++) {
        const redisReply *one = reply->element[i];
        fits = one->type == REDIS_REPLY_ARRAY && one->elements == 2 && is_text(one->element[0]) &&
               measure(one->element[1], &entries, &texts);
    }
    if (!fits)
        return no_sense(bus, err);
    int rc = make_room(bus, entries, texts, err);
    if (rc != 0)
        return rc;
    struct lender lender = {.bus = bus};
    for (size_t i = 0; i < reply->elements; i++)
        lend_list(&lender, reply->element[i]->element[0]->str, reply->element[i]->element[1]);
    *ret = (struct kiln_bus_entries){bus->entries, lender.entries};
    return 0;
}

/* --- reading within bounds ------------------------------------------------------------------- */

/* Anyone may append entries of any size, and Redis counts what it sends by entries alone.  So an
 * answer that grows too large is given up with its connection, and fewer entries are asked for
 * until answers are small again.  One entry is read however large it is: Redis bounds it. */
static uint32_t entries_to_ask(const struct kiln_bus *bus, uint32_t max)
{
    return bus->read_max > 0 && bus->read_max < max ? bus->read_max : max;
}

/* The reply to a command for up to count entries.  *ret_large: that was too many of them. */
static int read_reply(struct kiln_bus *bus, uint32_t count, int64_t extra_ms, redisReply **ret,
                      bool *ret_large, struct kiln_error *err)
{
    bus->reply_max = count > 1 ? READ_BYTES_MAX : 0;
    bus->reply_bytes = 0;
    int rc = kiln_bus_reply(bus, extra_ms, ret, err);
    *ret_large = rc != 0 && bus->reply_max > 0 && bus->reply_bytes > bus->reply_max;
    bus->reply_max = 0;
    if (*ret_large)
        bus->read_max = count / 4 > 0 ? count / 4 : 1;
    else if (rc == 0 && bus->read_max > 0 && bus->reply_bytes < READ_BYTES_MAX / 4)
        bus->read_max = bus->read_max < UINT32_MAX / 2 ? bus->read_max * 2 : 0;
    return rc;
}

/* --- groups ---------------------------------------------------------------------------------- */

int kiln_bus_group(struct kiln_bus *bus, const char *stream, const char *group,
                   struct kiln_error *err)
{
    int rc =
        kiln_bus_run(bus, err, KILN_BUS_WORDS("XGROUP", "CREATE", stream, group, "0", "MKSTREAM"));
    return rc == KILN_EXISTS ? 0 : rc;
}

static int read_group_once(struct kiln_bus *bus, const char *stream, const char *group,
                           const char *consumer, bool pending, uint32_t max, uint32_t block_ms,
                           redisReply **ret, bool *ret_large, struct kiln_error *err)
{
    bool block = block_ms > 0 && !pending; /* BLOCK 0 would be for ever */
    uint32_t count = entries_to_ask(bus, max);
    int rc = kiln_bus_begin(bus, err);
    *ret_large = false;
    if (rc != 0)
        return rc;
    kiln_bus_command(bus, block ? 11 : 9);
    kiln_bus_arg_text(bus, "XREADGROUP");
    kiln_bus_arg_text(bus, "GROUP");
    kiln_bus_arg_text(bus, group);
    kiln_bus_arg_text(bus, consumer);
    kiln_bus_arg_text(bus, "COUNT");
    kiln_bus_arg_u64(bus, count);
    if (block) {
        kiln_bus_arg_text(bus, "BLOCK");
        kiln_bus_arg_u64(bus, block_ms);
    }
    kiln_bus_arg_text(bus, "STREAMS");
    kiln_bus_arg_text(bus, stream);
    kiln_bus_arg_text(bus, pending ? "0" : ">");
    return read_reply(bus, count, block ? block_ms : 0, ret, ret_large, err);
}

/* Entries that were pending before are so still, and may be asked for again. */
static int read_group(struct kiln_bus *bus, const char *stream, const char *group,
                      const char *consumer, bool pending, uint32_t max, uint32_t block_ms,
                      redisReply **ret, struct kiln_error *err)
{
    bool large;
    int rc;
    do
        rc =
            read_group_once(bus, stream, group, consumer, pending, max, block_ms, ret, &large, err);
    while (large && pending);
    return rc;
}

int kiln_bus_read_group(struct kiln_bus *bus, const char *stream, const char *group,
                        const char *consumer, bool pending, uint32_t max, uint32_t block_ms,
                        struct kiln_bus_entries *ret, struct kiln_error *err)
{
    redisReply *reply;
    forget(bus);
    int rc = read_group(bus, stream, group, consumer, pending, max, block_ms, &reply, err);
    if (rc == KILN_NOT_FOUND) {
        rc = kiln_bus_group(bus, stream, group, err);
        if (rc == 0)
            rc = read_group(bus, stream, group, consumer, pending, max, block_ms, &reply, err);
    }
    return rc ? rc : lend_streams(bus, reply, ret, err);
}

/* One page of XAUTOCLAIM from the cursor on: [next cursor, entries, ids that are gone]. */
static int claim_once(struct kiln_bus *bus, const char *stream, const char *group,
                      const char *consumer, uint32_t idle_ms, uint32_t max, const char *cursor,
                      redisReply **ret, struct kiln_error *err)
{
    bool large;
    uint32_t count = entries_to_ask(bus, max);
    int rc = kiln_bus_begin(bus, err);
    if (rc != 0)
        return rc;
    kiln_bus_command(bus, 8);
    kiln_bus_arg_text(bus, "XAUTOCLAIM");
    kiln_bus_arg_text(bus, stream);
    kiln_bus_arg_text(bus, group);
    kiln_bus_arg_text(bus, consumer);
    kiln_bus_arg_u64(bus, idle_ms);
    kiln_bus_arg_text(bus, cursor);
    kiln_bus_arg_text(bus, "COUNT");
    kiln_bus_arg_u64(bus, count);
    return read_reply(bus, count, 0, ret, &large, err);
}

/* Lends the entries of [cursor, entries, deleted ids]; the answer names no stream. */
static int lend_claimed(struct kiln_bus *bus, redisReply *reply, const char *stream,
                        struct kiln_bus_entries *ret, struct kiln_error *err)
{
    size_t entries = 0, texts = 0;
    bus->lent = reply;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || !is_text(reply->element[0]) ||
        !measure(reply->element[1], &entries, &texts))
        return no_sense(bus, err);
    int rc = make_room(bus, entries, texts, err);
    if (rc != 0)
        return rc;
    struct lender lender = {.bus = bus};
    lend_list(&lender, stream, reply->element[1]);
    *ret = (struct kiln_bus_entries){bus->entries, lender.entries};
    return 0;
}

int kiln_bus_claim(struct kiln_bus *bus, const char *stream, const char *group,
                   const char *consumer, uint32_t idle_ms, uint32_t max,
                   struct kiln_bus_entries *ret, struct kiln_error *err)
{
    char cursor[64] = "0-0";
    for (;;) {
        redisReply *reply;
        forget(bus);
        int rc = claim_once(bus, stream, group, consumer, idle_ms, max, cursor, &reply, err);
        if (rc == KILN_NOT_FOUND) { /* no group: nothing is pending */
            *ret = (struct kiln_bus_entries){0};
            return kiln_bus_group(bus, stream, group, err);
        }
        if (rc == 0)
            rc = lend_claimed(bus, reply, stream, ret, err);
        if (rc != 0)
            return rc;
        /* An empty page may be followed by others until the cursor is back at the start. */
        snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        if (ret->count > 0 || strcmp(cursor, "0-0") == 0)
            return 0;
    }
}

static void put_ids(struct kiln_bus *bus, const char *const *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kiln_bus_arg_text(bus, ids[i]);
}

/* XACK only forgets who was reading; without XDEL the entry would stay in the stream for ever. */
int kiln_bus_ack(struct kiln_bus *bus, const char *stream, const char *group,
                 const char *const *ids, size_t count, struct kiln_error *err)
{
    int rc = count ? kiln_bus_begin(bus, err) : 0;
    if (rc != 0 || count == 0)
        return rc;
    kiln_bus_command(bus, 3 + count);
    kiln_bus_arg_text(bus, "XACK");
    kiln_bus_arg_text(bus, stream);
    kiln_bus_arg_text(bus, group);
    put_ids(bus, ids, count);
    kiln_bus_command(bus, 2 + count);
    kiln_bus_arg_text(bus, "XDEL");
    kiln_bus_arg_text(bus, stream);
    put_ids(bus, ids, count);
    return kiln_bus_replies(bus, 2, err);
}

/* --- plain reading --------------------------------------------------------------------------- */

static int read_once(struct kiln_bus *bus, const char *const *streams, const char *const *after,
                     size_t stream_count, uint32_t max, uint32_t block_ms, redisReply **ret,
                     bool *ret_large, struct kiln_error *err)
{
    uint32_t count = entries_to_ask(bus, max);
    int rc = kiln_bus_begin(bus, err);
    *ret_large = false;
    if (rc != 0)
        return rc;
    kiln_bus_command(bus, (block_ms ? 6 : 4) + 2 * stream_count);
    kiln_bus_arg_text(bus, "XREAD");
    kiln_bus_arg_text(bus, "COUNT");
    kiln_bus_arg_u64(bus, count);
    if (block_ms) {
        kiln_bus_arg_text(bus, "BLOCK");
        kiln_bus_arg_u64(bus, block_ms);
    }
    kiln_bus_arg_text(bus, "STREAMS");
    put_ids(bus, streams, stream_count);
    put_ids(bus, after, stream_count);
    return read_reply(bus, count, block_ms, ret, ret_large, err);
}

int kiln_bus_read(struct kiln_bus *bus, const char *const *streams, const char *const *after,
                  size_t stream_count, uint32_t max, uint32_t block_ms,
                  struct kiln_bus_entries *ret, struct kiln_error *err)
{
    redisReply *reply;
    bool large;
    int rc;
    forget(bus);
    do
        rc = read_once(bus, streams, after, stream_count, max, block_ms, &reply, &large, err);
    while (large);
    return rc ? rc : lend_streams(bus, reply, ret, err);
}

int kiln_bus_length(struct kiln_bus *bus, const char *stream, uint64_t *ret, struct kiln_error *err)
{
    redisReply *reply;
    int rc = kiln_bus_request(bus, &reply, err, KILN_BUS_WORDS("XLEN", stream));
    if (rc != 0)
        return rc;
    *ret = (uint64_t)reply->integer;
    freeReplyObject(reply);
    return 0;
}

int kiln_bus_delete_entry(struct kiln_bus *bus, const char *stream, const char *id,
                          struct kiln_error *err)
{
    return kiln_bus_run(bus, err, KILN_BUS_WORDS("XDEL", stream, id));
}

int kiln_bus_last_id(struct kiln_bus *bus, const char *stream, char *ret, size_t size,
                     struct kiln_error *err)
{
    redisReply *reply;
    int rc = kiln_bus_request(bus, &reply, err,
                              KILN_BUS_WORDS("XREVRANGE", stream, "+", "-", "COUNT", "1"));
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
        rc = kiln_fail(err, KILN_PROTOCOL, "Redis: the newest id of %s is invalid", stream);
    freeReplyObject(reply);
    return rc;
}
