/* redis.c - streams and expiring keys in plain arrays: a simulated Redis never holds much. */
#include "tests/sim/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- ids ------------------------------------------------------------------------------------- */
struct sim_id sim_id_parse(const char *text)
{
    char *end;
    struct sim_id id = {.ms = strtoull(text, &end, 10)};
    if (*end == '-')
        id.seq = strtoull(end + 1, NULL, 10);
    return id;
}

void sim_id_text(struct sim_id id, char ret[48])
{
    snprintf(ret, 48, "%llu-%llu", (unsigned long long)id.ms, (unsigned long long)id.seq);
}

static bool after(struct sim_id a, struct sim_id b)
{
    return a.ms != b.ms ? a.ms > b.ms : a.seq > b.seq;
}

static bool equal(struct sim_id a, struct sim_id b)
{
    return a.ms == b.ms && a.seq == b.seq;
}

/* --- memory ---------------------------------------------------------------------------------- */
static void *grown(void *at, size_t count, size_t size)
{
    void *made = realloc(at, count * size);
    if (!made)
        abort();
    return made;
}

static void release_entry(struct sim_entry *entry)
{
    for (size_t i = 0; i < 2 * entry->field_count; i++)
        free(entry->texts[i]);
    free(entry->texts);
    free(entry->lengths);
}

static void release_stream(struct sim_stream *stream)
{
    for (size_t i = 0; i < stream->count; i++)
        release_entry(&stream->entries[i]);
    free(stream->entries);
}

static void release_value(struct sim_value *value)
{
    for (size_t i = 0; i < value->count; i++)
        free(value->texts[i]);
    free(value->texts);
}

void sim_redis_flush(struct sim_redis *redis)
{
    for (size_t i = 0; i < redis->stream_count; i++)
        release_stream(&redis->streams[i]);
    for (size_t i = 0; i < redis->value_count; i++)
        release_value(&redis->values[i]);
    free(redis->streams);
    free(redis->values);
    *redis = (struct sim_redis){0};
}

static void fill_entry(struct sim_entry *entry, const char *const *fields, const size_t *lengths,
                       size_t field_count)
{
    entry->field_count = field_count;
    entry->texts = grown(NULL, 2 * field_count + 1, sizeof *entry->texts);
    entry->lengths = grown(NULL, 2 * field_count + 1, sizeof *entry->lengths);
    for (size_t i = 0; i < 2 * field_count; i++) {
        entry->lengths[i] = lengths ? lengths[i] : strlen(fields[i]);
        entry->texts[i] = grown(NULL, entry->lengths[i] + 1, 1);
        memcpy(entry->texts[i], fields[i], entry->lengths[i]);
        entry->texts[i][entry->lengths[i]] = '\0';
    }
}

static struct sim_entry copy_entry(const struct sim_entry *entry)
{
    struct sim_entry made = *entry;
    fill_entry(&made, (const char *const *)entry->texts, entry->lengths, entry->field_count);
    return made;
}

struct sim_redis *sim_redis_copy(const struct sim_redis *redis)
{
    struct sim_redis *made = grown(NULL, 1, sizeof *made);
    *made = *redis;
    made->streams = grown(NULL, redis->stream_count + 1, sizeof *made->streams);
    made->values = grown(NULL, redis->value_count + 1, sizeof *made->values);
    for (size_t i = 0; i < redis->stream_count; i++) {
        struct sim_stream *stream = &made->streams[i];
        *stream = redis->streams[i];
        stream->entries = grown(NULL, stream->count + 1, sizeof *stream->entries);
        for (size_t e = 0; e < stream->count; e++)
            stream->entries[e] = copy_entry(&redis->streams[i].entries[e]);
    }
    for (size_t i = 0; i < redis->value_count; i++) {
        struct sim_value *value = &made->values[i];
        *value = redis->values[i];
        value->texts = grown(NULL, value->count + 1, sizeof *value->texts);
        for (size_t t = 0; t < value->count; t++)
            value->texts[t] = strdup(redis->values[i].texts[t]);
    }
    return made;
}

void sim_redis_restore(struct sim_redis *redis, struct sim_redis *copy)
{
    sim_redis_flush(redis);
    *redis = *copy;
    free(copy);
}

/* --- streams --------------------------------------------------------------------------------- */
struct sim_stream *sim_redis_stream(struct sim_redis *redis, const char *key)
{
    for (size_t i = 0; i < redis->stream_count; i++)
        if (strcmp(redis->streams[i].key, key) == 0)
            return &redis->streams[i];
    return NULL;
}

static struct sim_stream *make_stream(struct sim_redis *redis, const char *key)
{
    struct sim_stream *stream = sim_redis_stream(redis, key);
    if (stream)
        return stream;
    redis->streams = grown(redis->streams, redis->stream_count + 1, sizeof *redis->streams);
    stream = &redis->streams[redis->stream_count++];
    *stream = (struct sim_stream){0};
    snprintf(stream->key, sizeof stream->key, "%s", key);
    return stream;
}

static void drop_first(struct sim_stream *stream, size_t count)
{
    for (size_t i = 0; i < count; i++)
        release_entry(&stream->entries[i]);
    memmove(stream->entries, stream->entries + count,
            (stream->count - count) * sizeof *stream->entries);
    stream->count -= count;
}

void sim_redis_add(struct sim_redis *redis, const char *key, uint64_t maxlen,
                   const char *const *fields, const size_t *lengths, size_t field_count,
                   int64_t now_ms)
{
    struct sim_stream *stream = make_stream(redis, key);
    struct sim_id id = {.ms = (uint64_t)now_ms};
    if (!after(id, stream->last)) /* the clock went back, or two in one millisecond */
        id = (struct sim_id){stream->last.ms, stream->last.seq + 1};
    stream->last = id;
    stream->entries = grown(stream->entries, stream->count + 1, sizeof *stream->entries);
    struct sim_entry *entry = &stream->entries[stream->count++];
    *entry = (struct sim_entry){.id = id};
    fill_entry(entry, fields, lengths, field_count);
    if (maxlen && stream->count > maxlen)
        drop_first(stream, stream->count - maxlen);
}

bool sim_redis_group(struct sim_redis *redis, const char *key)
{
    struct sim_stream *stream = make_stream(redis, key);
    if (stream->grouped)
        return false;
    stream->grouped = true;
    stream->delivered = (struct sim_id){0, 0};
    return true;
}

size_t sim_redis_read(struct sim_redis *redis, const char *key, struct sim_id from, size_t max,
                      struct sim_entry **ret)
{
    struct sim_stream *stream = sim_redis_stream(redis, key);
    size_t count = 0;
    for (size_t i = 0; stream && i < stream->count && count < max; i++)
        if (!stream->entries[i].deleted && after(stream->entries[i].id, from))
            ret[count++] = &stream->entries[i];
    return count;
}

int64_t sim_redis_read_group(struct sim_redis *redis, const char *key, const char *consumer,
                             bool pending, size_t max, int64_t now_ms, struct sim_entry **ret)
{
    struct sim_stream *stream = sim_redis_stream(redis, key);
    int64_t count = 0;
    if (!stream || !stream->grouped)
        return -1;
    for (size_t i = 0; i < stream->count && (size_t)count < max; i++) {
        struct sim_entry *entry = &stream->entries[i];
        bool own = entry->pending && strcmp(entry->consumer, consumer) == 0;
        bool fresh = !entry->deleted && after(entry->id, stream->delivered);
        if (pending ? !own : !fresh)
            continue;
        if (!pending) {
            entry->pending = true;
            snprintf(entry->consumer, sizeof entry->consumer, "%s", consumer);
            stream->delivered = entry->id;
        }
        entry->delivered_ms = now_ms;
        ret[count++] = entry;
    }
    return count;
}

/* XAUTOCLAIM looks at `max` entries a page and lets go of those that are gone; the bus asks for
 * pages until one brings something. */
int64_t sim_redis_claim(struct sim_redis *redis, const char *key, const char *consumer,
                        int64_t idle_ms, size_t max, int64_t now_ms, struct sim_entry **ret)
{
    struct sim_stream *stream = sim_redis_stream(redis, key);
    int64_t count = 0;
    size_t looked = 0;
    if (!stream || !stream->grouped)
        return -1;
    for (size_t i = 0; i < stream->count && (looked < max || count == 0); i++) {
        struct sim_entry *entry = &stream->entries[i];
        if (!entry->pending || now_ms - entry->delivered_ms < idle_ms)
            continue;
        looked = looked == max ? 1 : looked + 1;
        if (entry->deleted) {
            entry->pending = false;
            continue;
        }
        snprintf(entry->consumer, sizeof entry->consumer, "%s", consumer);
        entry->delivered_ms = now_ms;
        ret[count++] = entry;
    }
    return count;
}

/* Takes out what is deleted and owed to nobody. */
static void tidy(struct sim_stream *stream)
{
    size_t kept = 0;
    for (size_t i = 0; i < stream->count; i++) {
        struct sim_entry *entry = &stream->entries[i];
        if (entry->deleted && !entry->pending)
            release_entry(entry);
        else
            stream->entries[kept++] = *entry;
    }
    stream->count = kept;
}

static struct sim_entry *find(struct sim_stream *stream, struct sim_id id)
{
    for (size_t i = 0; stream && i < stream->count; i++)
        if (equal(stream->entries[i].id, id))
            return &stream->entries[i];
    return NULL;
}

void sim_redis_ack(struct sim_redis *redis, const char *key, struct sim_id id)
{
    struct sim_stream *stream = sim_redis_stream(redis, key);
    struct sim_entry *entry = find(stream, id);
    if (entry) {
        entry->pending = false;
        tidy(stream);
    }
}

void sim_redis_delete_entry(struct sim_redis *redis, const char *key, struct sim_id id)
{
    struct sim_stream *stream = sim_redis_stream(redis, key);
    struct sim_entry *entry = find(stream, id);
    if (entry) {
        entry->deleted = true;
        tidy(stream);
    }
}

/* --- keys ------------------------------------------------------------------------------------ */
static struct sim_value *find_value(struct sim_redis *redis, const char *key)
{
    for (size_t i = 0; i < redis->value_count; i++)
        if (strcmp(redis->values[i].key, key) == 0)
            return &redis->values[i];
    return NULL;
}

static void drop_value(struct sim_redis *redis, struct sim_value *value)
{
    release_value(value);
    *value = redis->values[--redis->value_count];
}

static struct sim_value *live(struct sim_redis *redis, const char *key, int64_t now_ms)
{
    struct sim_value *value = find_value(redis, key);
    if (value && value->expires_ms <= now_ms) {
        drop_value(redis, value);
        return NULL;
    }
    return value;
}

void sim_redis_push(struct sim_redis *redis, const char *key, const char *text, int64_t expires_ms)
{
    struct sim_value *value = find_value(redis, key);
    if (!value) {
        redis->values = grown(redis->values, redis->value_count + 1, sizeof *redis->values);
        value = &redis->values[redis->value_count++];
        *value = (struct sim_value){0};
        snprintf(value->key, sizeof value->key, "%s", key);
    }
    value->texts = grown(value->texts, value->count + 1, sizeof *value->texts);
    value->texts[value->count++] = strdup(text);
    value->expires_ms = expires_ms;
}

void sim_redis_set(struct sim_redis *redis, const char *key, const char *text, int64_t expires_ms)
{
    struct sim_value *value = find_value(redis, key);
    if (value)
        drop_value(redis, value);
    sim_redis_push(redis, key, text, expires_ms);
}

const char *sim_redis_get(struct sim_redis *redis, const char *key, int64_t now_ms)
{
    const struct sim_value *value = live(redis, key, now_ms);
    return value ? value->texts[0] : NULL;
}

char *sim_redis_pop(struct sim_redis *redis, const char *key, int64_t now_ms)
{
    struct sim_value *value = live(redis, key, now_ms);
    if (!value)
        return NULL;
    char *text = value->texts[0];
    memmove(value->texts, value->texts + 1, --value->count * sizeof *value->texts);
    if (value->count == 0)
        drop_value(redis, value);
    return text;
}

void sim_redis_delete(struct sim_redis *redis, const char *key)
{
    struct sim_value *value = find_value(redis, key);
    struct sim_stream *stream = sim_redis_stream(redis, key);
    if (value)
        drop_value(redis, value);
    if (stream) {
        release_stream(stream);
        *stream = redis->streams[--redis->stream_count];
    }
}
