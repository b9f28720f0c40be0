/* redis.h - what Kiln uses of Redis, in memory: streams with consumer groups, keys that expire.
 *
 * One command is one call, hence atomic.  Time comes in as Redis' own clock in milliseconds; ids of
 * entries are made of it and only grow while a stream lives.  test_redis.c runs the same random
 * commands here and on a real server.
 */
#ifndef KILN_SIM_REDIS_H
#define KILN_SIM_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_id {
    uint64_t ms, seq;
};

struct sim_entry {
    struct sim_id id;
    size_t field_count;
    char **texts; /* 2 x field_count */
    size_t *lengths;
    bool deleted;
    /* of the one group */
    bool pending;
    int64_t delivered_ms;
    char consumer[32];
};

struct sim_stream {
    char key[200];
    struct sim_entry *entries; /* in order of id; deleted ones stay while they are pending */
    size_t count;
    struct sim_id last;
    bool grouped;            /* the group exists */
    struct sim_id delivered; /* the group has been given all up to this one */
};

struct sim_value { /* a heartbeat or a receipt list */
    char key[200];
    char **texts;
    size_t count;
    int64_t expires_ms; /* INT64_MAX: never */
};

struct sim_redis {
    struct sim_stream *streams;
    size_t stream_count;
    struct sim_value *values;
    size_t value_count;
};

/* Everything is gone. */
void sim_redis_flush(struct sim_redis *redis);
/* A copy of its own, and back: what a crash between two syncs loses. */
struct sim_redis *sim_redis_copy(const struct sim_redis *redis);
void sim_redis_restore(struct sim_redis *redis, struct sim_redis *copy);

struct sim_stream *sim_redis_stream(struct sim_redis *redis, const char *key); /* NULL: none */
void sim_redis_add(struct sim_redis *redis, const char *key, uint64_t maxlen,
                   const char *const *fields, const size_t *lengths, size_t field_count,
                   int64_t now_ms);
/* False: it was there. */
bool sim_redis_group(struct sim_redis *redis, const char *key);

/* The reads fill at most max borrowed entries and return how many. */
size_t sim_redis_read(struct sim_redis *redis, const char *key, struct sim_id after, size_t max,
                      struct sim_entry **ret);
/* -1: there is no such group. */
int64_t sim_redis_read_group(struct sim_redis *redis, const char *key, const char *consumer,
                             bool pending, size_t max, int64_t now_ms, struct sim_entry **ret);
int64_t sim_redis_claim(struct sim_redis *redis, const char *key, const char *consumer,
                        int64_t idle_ms, size_t max, int64_t now_ms, struct sim_entry **ret);
void sim_redis_ack(struct sim_redis *redis, const char *key, struct sim_id id);
void sim_redis_delete_entry(struct sim_redis *redis, const char *key, struct sim_id id);
void sim_redis_delete(struct sim_redis *redis, const char *key);

void sim_redis_set(struct sim_redis *redis, const char *key, const char *text, int64_t expires_ms);
const char *sim_redis_get(struct sim_redis *redis, const char *key, int64_t now_ms);
void sim_redis_push(struct sim_redis *redis, const char *key, const char *text, int64_t expires_ms);
/* malloc'd, or NULL. */
char *sim_redis_pop(struct sim_redis *redis, const char *key, int64_t now_ms);

struct sim_id sim_id_parse(const char *text); /* "0" and "5-1" */
void sim_id_text(struct sim_id id, char ret[48]);

#endif
