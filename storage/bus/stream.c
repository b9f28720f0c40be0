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
#define NEWEST_MAX 1000                   /* entries of a millisecond */
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
        kiln_bus_arg_text(bus, KILN_BUS_NUMBER(maxlen));
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

/* List i of an answer, with its stream.  XREAD answers [[stream, entries], ...] or nil, XAUTOCLAIM
 * [cursor, entries, deleted ids]: then the caller names the stream, claimed.  NULL: not so. */
static const redisReply *list_at(const redisReply *reply, size_t i, const char *claimed,
                                 const char **ret_stream)
{
    const redisReply *pair = claimed ? reply : reply->element[i];
    bool fits = pair->type == REDIS_REPLY_ARRAY && pair->elements >= 2 &&
                is_text(pair->element[0]) && pair->element[1]->type == REDIS_REPLY_ARRAY;
    if (fits)
        *ret_stream = claimed ? claimed : pair->element[0]->str;
    return fits ? pair->element[1] : NULL;
}

/* The list was measured: there is room, and every type is what it must be. */
static void lend_list(struct kiln_bus *bus, const char *stream, const redisReply *list,
                      size_t *entries, size_t *texts)
{
    for (size_t i = 0; i < list->elements; i++) {
        const redisReply *entry = list->element[i], *fields = entry->element[1];
        bus->entries[(*entries)++] = (struct kiln_bus_entry){
            .stream = stream,
            .id = entry->element[0]->str,
            .field_count = fields->elements / 2,
            .fields = bus->texts + *texts,
            .lengths = bus->lengths + *texts,
        };
        for (size_t j = 0; j < fields->elements; j++) {
            bus->texts[*texts] = fields->element[j]->str;
            bus->lengths[(*texts)++] = fields->element[j]->len;
        }
    }
}

/* Takes the reply over and lends what it holds; `claimed` as for list_at. */
static int lend(struct kiln_bus *bus, redisReply *reply, const char *claimed,
                struct kiln_bus_entries *ret, struct kiln_error *err)
{
    size_t lists = claimed ? 1 : reply->elements, entries = 0, texts = 0;
    const char *stream;
    bus->lent = reply;
    bool fits = reply->type == REDIS_REPLY_ARRAY || (reply->type == REDIS_REPLY_NIL && !claimed);
    for (size_t i = 0; fits && i < lists; i++) {
        const redisReply *list = list_at(reply, i, claimed, &stream);
        fits = list != NULL;
        for (size_t j = 0; fits && j < list->elements; j++) {
            fits = is_entry(list->element[j]);
            texts += fits ? list->element[j]->element[1]->elements : 0;
        }
        entries += fits ? list->elements : 0;
    }
    if (!fits) {
        kiln_bus_end_loan(bus);
        return kiln_fail(err, KILN_PROTOCOL, "Redis: the answer to a read of streams is invalid");
    }
    bus->entries = calloc(entries + 1, sizeof *bus->entries);
    bus->texts = calloc(texts + 1, sizeof *bus->texts);
    bus->lengths = calloc(texts + 1, sizeof *bus->lengths);
    if (!bus->entries || !bus->texts || !bus->lengths) {
        kiln_bus_end_loan(bus);
        return kiln_fail(err, KILN_NO_MEMORY, "bus: no memory for %zu entries", entries);
    }
    entries = texts = 0;
    for (size_t i = 0; i < lists; i++) {
        const redisReply *list = list_at(reply, i, claimed, &stream);
        lend_list(bus, stream, list, &entries, &texts);
    }
    *ret = (struct kiln_bus_entries){bus->entries, entries};
    return 0;
}

/* --- reading within bounds ------------------------------------------------------------------- */

/* Anyone may append entries of any size, and Redis counts what it sends by entries alone.  So an
 * answer that grows too large ends the connection, and fewer entries are asked for until answers
 * are small again.  One entry is read however large it is: Redis bounds it. */
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

/* Entries that were pending before are so still, and may be asked for again. */
static int read_group(struct kiln_bus *bus, const char *stream, const char *group,
                      const char *consumer, bool pending, uint32_t max, uint32_t block_ms,
                      redisReply **ret, struct kiln_error *err)
{
    bool block = block_ms > 0 && !pending, large; /* BLOCK 0 would be for ever */
    const char *after = pending ? "0" : ">";
    int rc;
    do {
        uint32_t count = entries_to_ask(bus, max);
        rc = kiln_bus_begin(bus, err);
        if (rc != 0)
            return rc;
        if (block)
            KILN_BUS_PUT(bus, "XREADGROUP", "GROUP", group, consumer, "COUNT",
                         KILN_BUS_NUMBER(count), "BLOCK", KILN_BUS_NUMBER(block_ms), "STREAMS",
                         stream, after);
        else
            KILN_BUS_PUT(bus, "XREADGROUP", "GROUP", group, consumer, "COUNT",
                         KILN_BUS_NUMBER(count), "STREAMS", stream, after);
        rc = read_reply(bus, count, block ? block_ms : 0, ret, &large, err);
    } while (large && pending);
    return rc;
}

int kiln_bus_read_group(struct kiln_bus *bus, const char *stream, const char *group,
                        const char *consumer, bool pending, uint32_t max, uint32_t block_ms,
                        struct kiln_bus_entries *ret, struct kiln_error *err)
{
    redisReply *reply;
    kiln_bus_end_loan(bus);
    int rc = read_group(bus, stream, group, consumer, pending, max, block_ms, &reply, err);
    if (rc == KILN_NOT_FOUND) {
        rc = kiln_bus_group(bus, stream, group, err);
        if (rc == 0)
            rc = read_group(bus, stream, group, consumer, pending, max, block_ms, &reply, err);
    }
    return rc ? rc : lend(bus, reply, NULL, ret, err);
}

int kiln_bus_claim(struct kiln_bus *bus, const char *stream, const char *group,
                   const char *consumer, uint32_t idle_ms, uint32_t max,
                   struct kiln_bus_entries *ret, struct kiln_error *err)
{
    char cursor[64] = "0-0";
    for (;;) {
        redisReply *reply; /* [next cursor, entries, ids that are gone] */
        bool large;
        uint32_t count = entries_to_ask(bus, max);
        kiln_bus_end_loan(bus);
        int rc = kiln_bus_begin(bus, err);
        if (rc != 0)
            return rc;
        KILN_BUS_PUT(bus, "XAUTOCLAIM", stream, group, consumer, KILN_BUS_NUMBER(idle_ms), cursor,
                     "COUNT", KILN_BUS_NUMBER(count));
        rc = read_reply(bus, count, 0, &reply, &large, err);
        if (rc == KILN_NOT_FOUND) { /* no group: nothing is pending */
            *ret = (struct kiln_bus_entries){0};
            return kiln_bus_group(bus, stream, group, err);
        }
        if (rc == 0)
            rc = lend(bus, reply, stream, ret, err);
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

int kiln_bus_read(struct kiln_bus *bus, const char *const *streams, const char *const *after,
                  size_t stream_count, uint32_t max, uint32_t block_ms,
                  struct kiln_bus_entries *ret, struct kiln_error *err)
{
    redisReply *reply;
    bool large;
    int rc;
    kiln_bus_end_loan(bus);
    do {
        uint32_t count = entries_to_ask(bus, max);
        rc = kiln_bus_begin(bus, err);
        if (rc != 0)
            return rc;
        kiln_bus_command(bus, (block_ms ? 6 : 4) + 2 * stream_count);
        kiln_bus_arg_text(bus, "XREAD");
        kiln_bus_arg_text(bus, "COUNT");
        kiln_bus_arg_text(bus, KILN_BUS_NUMBER(count));
        if (block_ms) {
            kiln_bus_arg_text(bus, "BLOCK");
            kiln_bus_arg_text(bus, KILN_BUS_NUMBER(block_ms));
        }
        kiln_bus_arg_text(bus, "STREAMS");
        put_ids(bus, streams, stream_count);
        put_ids(bus, after, stream_count);
        rc = read_reply(bus, count, block_ms, &reply, &large, err);
    } while (large);
    return rc ? rc : lend(bus, reply, NULL, ret, err);
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

int kiln_bus_newest(struct kiln_bus *bus, const char *stream, struct kiln_bus_entries *entries,
                    const struct kiln_bus_entry **ret, struct kiln_error *err)
{
    char last[64] = "", before[64];
    const char *after = before;
    *ret = NULL;
    int rc = kiln_bus_last_id(bus, stream, last, sizeof last, err);
    if (rc || !last[0])
        return rc;
    /* Reads all entries of that millisecond, and perhaps one more: the last is the newest. */
    unsigned long long ms = strtoull(last, NULL, 10);
    snprintf(before, sizeof before, "%llu-0", ms > 0 ? ms - 1 : 0);
    rc = kiln_bus_read(bus, &stream, &after, 1, NEWEST_MAX, 0, entries, err);
    if (rc == 0 && entries->count > 0)
        *ret = &entries->at[entries->count - 1];
    return rc;
}

const char *kiln_bus_field(const struct kiln_bus_entry *entry, const char *name)
{
    for (size_t i = 0; i < entry->field_count; i++)
        if (strcmp(entry->fields[2 * i], name) == 0)
            return entry->fields[2 * i + 1];
    return "";
}
