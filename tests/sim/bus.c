/* bus.c - storage/bus/bus.h on the simulated Redis: the same contracts, the same ways to fail.
 *
 * As the real one it connects lazily and pauses between attempts, gives a connection up after any
 * trouble, sends nothing twice by itself and lends what it has read until the next call.
 */
#include "storage/bus/bus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/wire/wire.h"
#include "storage/daemon/outage.h"
#include "tests/sim/servers.h"

#define ENTRIES_MAX 2048

struct kiln_bus {
    struct kiln_backoff backoff;
    bool connected;
    uint32_t life;
    int64_t answer_us;
    struct sim_request *kept; /* whose entries are lent */
    struct kiln_bus_entry *entries;
    char (*ids)[48];
    struct kiln_error late;
};

enum verb {
    ADD,
    GROUP,
    READ,
    READ_GROUP,
    CLAIM,
    ACK,
    DELETE_ENTRY,
    DELETE,
    LAST,
    LENGTH,
    BEAT,
    BEATS,
    PUSH,
    POP,
    PING
};

/* One command, with its answer; everything in it is its own. */
struct command {
    enum verb verb;
    char key[200], consumer[64];
    char **texts;
    size_t *lengths;
    size_t count, max;
    uint64_t number;
    int64_t ms;
    bool pending;
    /* answer */
    int code;
    struct sim_entry *found; /* deep copies */
    size_t found_count;
    char *text;
    uint64_t answer;
};

static const char *not_a_word = "";

static void *zeroed(size_t count, size_t size)
{
    void *made = calloc(count ? count : 1, size);
    if (!made)
        abort();
    return made;
}

static struct command *command_new(enum verb verb, const char *key)
{
    struct command *command = zeroed(1, sizeof *command);
    command->verb = verb;
    snprintf(command->key, sizeof command->key, "%s", key);
    return command;
}

static void keep_texts(struct command *command, const char *const *texts, const size_t *lengths,
                       size_t count)
{
    command->texts = zeroed(count, sizeof *command->texts);
    command->lengths = zeroed(count, sizeof *command->lengths);
    command->count = count;
    for (size_t i = 0; i < count; i++) {
        command->lengths[i] = lengths ? lengths[i] : strlen(texts[i]);
        command->texts[i] = zeroed(command->lengths[i] + 1, 1);
        memcpy(command->texts[i], texts[i], command->lengths[i]);
    }
}

static void release_command(void *arg)
{
    struct command *command = arg;
    for (size_t i = 0; i < command->count; i++)
        free(command->texts[i]);
    for (size_t i = 0; i < command->found_count; i++) {
        for (size_t t = 0; t < 2 * command->found[i].field_count; t++)
            free(command->found[i].texts[t]);
        free(command->found[i].texts);
        free(command->found[i].lengths);
    }
    free(command->texts);
    free(command->lengths);
    free(command->found);
    free(command->text);
    free(command);
}

/* --- the server's side ----------------------------------------------------------------------- */
static void answer_entries(struct command *command, struct sim_entry *const *entries, size_t count)
{
    command->found = zeroed(count, sizeof *command->found);
    command->found_count = count;
    for (size_t i = 0; i < count; i++) {
        struct sim_entry *to = &command->found[i];
        to->id = entries[i]->id;
        if (entries[i]->deleted) /* pending, and gone: it has no fields any more */
            continue;
        to->field_count = entries[i]->field_count;
        to->texts = zeroed(2 * to->field_count, sizeof *to->texts);
        to->lengths = zeroed(2 * to->field_count, sizeof *to->lengths);
        for (size_t t = 0; t < 2 * to->field_count; t++) {
            to->lengths[t] = entries[i]->lengths[t];
            to->texts[t] = zeroed(to->lengths[t] + 1, 1);
            memcpy(to->texts[t], entries[i]->texts[t], to->lengths[t]);
        }
    }
}

/* What a client was told is in the intake stream stays there, unless Redis loses more than that. */
static void add(struct command *command, int64_t now_ms)
{
    bool hint = strstr(command->key, ":events") != NULL;
    if ((hint && sim_fleet.no_events) ||
        (!strstr(command->key, ":intake") && sim_chance(sim_fleet.drop_entry))) {
        sim_log("an entry of %s is lost", command->key);
        return;
    }
    for (int times = sim_chance(sim_fleet.double_entry) ? 2 : 1; times > 0; times--)
        sim_redis_add(&sim_fleet.data, command->key, command->number,
                      (const char *const *)command->texts, command->lengths, command->count / 2,
                      now_ms);
    sim_wake(&sim_fleet.data, true);
}

static void read_group(struct command *command, int64_t now_ms)
{
    struct sim_entry *found[ENTRIES_MAX];
    struct sim_redis *data = &sim_fleet.data;
    int64_t count = command->verb == CLAIM
                        ? sim_redis_claim(data, command->key, command->consumer, command->ms,
                                          command->max, now_ms, found)
                        : sim_redis_read_group(data, command->key, command->consumer,
                                               command->pending, command->max, now_ms, found);
    if (count < 0) { /* the client makes the group and asks again */
        sim_redis_group(data, command->key);
        count = command->verb == CLAIM
                    ? 0
                    : sim_redis_read_group(data, command->key, command->consumer, command->pending,
                                           command->max, now_ms, found);
    }
    answer_entries(command, found, (size_t)count);
    for (size_t i = 0; sim_fleet.ack_at_once && i < command->found_count; i++) {
        sim_redis_delete_entry(data, command->key, command->found[i].id);
        sim_redis_ack(data, command->key, command->found[i].id);
    }
}

static void list_beats(struct command *command, int64_t now_ms)
{
    struct sim_redis *data = &sim_fleet.data;
    command->found = zeroed(data->value_count, sizeof *command->found);
    for (size_t i = 0; i < data->value_count; i++) {
        const struct sim_value *value = &data->values[i];
        if (strncmp(value->key, command->key, strlen(command->key)) != 0 ||
            value->expires_ms <= now_ms)
            continue;
        struct sim_entry *to = &command->found[command->found_count++];
        to->field_count = 1;
        to->texts = zeroed(2, sizeof *to->texts);
        to->lengths = zeroed(2, sizeof *to->lengths);
        to->texts[0] = strdup(value->key + strlen(command->key));
        to->texts[1] = strdup(value->texts[0]);
        to->lengths[1] = strlen(value->texts[0]);
    }
}

static bool writes(const struct command *command)
{
    return command->verb == ADD || command->verb == GROUP || command->verb == BEAT ||
           command->verb == PUSH;
}

static void serve(void *arg)
{
    struct command *command = arg;
    struct sim_redis *data = &sim_fleet.data;
    int64_t now_ms = sim_server_ms(&sim_fleet.redis);
    struct sim_entry *found[ENTRIES_MAX];
    const struct sim_stream *stream;
    if (sim_fleet.redis.full && writes(command)) {
        command->code = KILN_FULL;
        return;
    }
    switch (command->verb) {
    case ADD:
        add(command, now_ms);
        return;
    case GROUP:
        sim_redis_group(data, command->key);
        return;
    case READ:
        answer_entries(command, found,
                       sim_redis_read(data, command->key, sim_id_parse(command->consumer),
                                      command->max, found));
        return;
    case READ_GROUP:
    case CLAIM:
        read_group(command, now_ms);
        return;
    case ACK:
        for (size_t i = 0; i < command->count; i++) {
            sim_redis_delete_entry(data, command->key, sim_id_parse(command->texts[i]));
            sim_redis_ack(data, command->key, sim_id_parse(command->texts[i]));
        }
        return;
    case DELETE_ENTRY:
        sim_redis_delete_entry(data, command->key, sim_id_parse(command->texts[0]));
        return;
    case DELETE:
        sim_redis_delete(data, command->key);
        return;
    case LAST:
        stream = sim_redis_stream(data, command->key);
        command->text = zeroed(48, 1);
        for (size_t i = 0; stream && i < stream->count; i++)
            if (!stream->entries[i].deleted)
                sim_id_text(stream->entries[i].id, command->text);
        return;
    case LENGTH:
        command->answer =
            sim_redis_read(data, command->key, (struct sim_id){0, 0}, ENTRIES_MAX, found);
        return;
    case BEAT:
        sim_redis_set(data, command->key, command->texts[0], now_ms + command->ms);
        return;
    case BEATS:
        list_beats(command, now_ms);
        return;
    case PUSH:
        sim_redis_push(data, command->key, command->texts[0], now_ms + command->ms);
        sim_wake(&sim_fleet.data, true);
        return;
    case POP:
        command->text = sim_redis_pop(data, command->key, now_ms);
        return;
    case PING:
        return;
    }
}

/* --- the client's side ----------------------------------------------------------------------- */
int kiln_bus_open(const struct kiln_config *config, struct kiln_bus **ret, struct kiln_error *err)
{
    (void)err;
    struct kiln_bus *bus = zeroed(1, sizeof *bus);
    bus->answer_us = (int64_t)(kiln_config_number(config, KILN_KEY_STATEMENT_TIMEOUT_S) * SIM_S);
    *ret = bus;
    return 0;
}

void kiln_bus_limit(struct kiln_bus *bus, uint32_t limit_ms)
{
    int64_t limit_us = (int64_t)limit_ms * SIM_MS;
    bus->answer_us = limit_us < bus->answer_us ? limit_us : bus->answer_us;
}

static void forget(struct kiln_bus *bus)
{
    sim_request_end(bus->kept);
    free(bus->entries);
    free(bus->ids);
    bus->kept = NULL;
    bus->entries = NULL;
    bus->ids = NULL;
}

void kiln_bus_close(struct kiln_bus *bus)
{
    if (!bus)
        return;
    forget(bus);
    free(bus);
}

static int begin(struct kiln_bus *bus, struct kiln_error *err)
{
    struct sim_server *redis = &sim_fleet.redis;
    if (bus->connected && bus->life == redis->life)
        return 0;
    bus->connected = false;
    kiln_backoff_wait(&bus->backoff);
    sim_sleep(redis->quick_us);
    if (redis->down) {
        kiln_backoff_failed(&bus->backoff);
        return kiln_fail(err, KILN_UNAVAILABLE, "Redis: connection refused");
    }
    kiln_backoff_reset(&bus->backoff);
    bus->connected = true;
    bus->life = redis->life;
    return 0;
}

/* Sends the command, which is handed over.  On success *ret_request keeps its answer alive. */
static int ask(struct kiln_bus *bus, struct command *command, int64_t extra_us,
               struct sim_request **ret_request, struct kiln_error *err)
{
    int rc = begin(bus, err);
    if (rc) {
        release_command(command);
        return rc;
    }
    struct sim_request *request;
    enum sim_answer answer = sim_send(&sim_fleet.redis, serve, command, release_command,
                                      bus->answer_us + extra_us, &request);
    if (answer == SIM_ANSWERED)
        rc = command->code ? kiln_fail(err, command->code, "Redis: OOM") : 0;
    else if (answer == SIM_CUT)
        rc = kiln_fail(err, KILN_UNAVAILABLE, "Redis: the connection was closed");
    else
        rc = kiln_fail(err, KILN_TIMEOUT, "Redis: no answer within the time limit");
    bus->connected = bus->connected && answer == SIM_ANSWERED;
    if (rc == 0 && ret_request)
        *ret_request = request;
    else
        sim_request_end(request);
    return rc;
}

static void lend(struct kiln_bus *bus, const struct command *command, const char *stream,
                 struct kiln_bus_entries *ret)
{
    bus->entries = zeroed(command->found_count, sizeof *bus->entries);
    bus->ids = zeroed(command->found_count, sizeof *bus->ids);
    for (size_t i = 0; i < command->found_count; i++) {
        const struct sim_entry *entry = &command->found[i];
        sim_id_text(entry->id, bus->ids[i]);
        bus->entries[i] = (struct kiln_bus_entry){
            .stream = stream,
            .id = bus->ids[i],
            .field_count = entry->field_count,
            .fields = entry->texts ? (const char *const *)entry->texts : &not_a_word,
            .lengths = entry->lengths,
        };
    }
    *ret = (struct kiln_bus_entries){bus->entries, command->found_count};
}

/* Reads until something has come or block_ms is over; make() builds the command anew each time. */
static int read_until(struct kiln_bus *bus, struct command *(*make)(const void *how),
                      const void *how, const char *stream, uint32_t block_ms,
                      struct kiln_bus_entries *ret, struct kiln_error *err)
{
    int64_t until = sim_now() + (int64_t)block_ms * SIM_MS;
    for (;;) {
        forget(bus);
        struct command *command = make(how);
        int rc = ask(bus, command, (int64_t)block_ms * SIM_MS, &bus->kept, err);
        if (rc)
            return rc;
        if (command->found_count > 0 || sim_now() >= until) {
            lend(bus, command, stream, ret);
            return 0;
        }
        (void)sim_wait(&sim_fleet.data, until);
    }
}

/* --- streams --------------------------------------------------------------------------------- */
int kiln_bus_append(struct kiln_bus *bus, const char *stream, uint64_t maxlen,
                    const char *const *fields, const size_t *lengths, size_t field_count,
                    struct kiln_error *err)
{
    struct command *command = command_new(ADD, stream);
    keep_texts(command, fields, lengths, 2 * field_count);
    command->number = maxlen;
    return ask(bus, command, 0, NULL, err);
}

int kiln_bus_append_async(struct kiln_bus *bus, const char *stream, const char *const *fields,
                          const size_t *lengths, size_t field_count, struct kiln_error *err)
{
    if (bus->late.code) {
        *err = bus->late;
        bus->late.code = 0;
        return err->code;
    }
    struct kiln_error why;
    if (kiln_bus_append(bus, stream, 0, fields, lengths, field_count, &why))
        bus->late = why;
    return 0;
}

int kiln_bus_flush(struct kiln_bus *bus, struct kiln_error *err)
{
    int rc = bus->late.code;
    if (rc && err)
        *err = bus->late;
    bus->late.code = 0;
    return rc;
}

int kiln_bus_group(struct kiln_bus *bus, const char *stream, const char *group,
                   struct kiln_error *err)
{
    (void)group; /* no stream of Kiln's has more than one */
    return ask(bus, command_new(GROUP, stream), 0, NULL, err);
}

struct reading {
    enum verb verb;
    const char *stream, *word; /* the consumer, or the id after which */
    bool pending;
    uint32_t max;
    int64_t idle_ms;
};

static struct command *make_reading(const void *how)
{
    const struct reading *reading = how;
    struct command *command = command_new(reading->verb, reading->stream);
    snprintf(command->consumer, sizeof command->consumer, "%s", reading->word);
    command->pending = reading->pending;
    command->max = reading->max < ENTRIES_MAX ? reading->max : ENTRIES_MAX;
    command->ms = reading->idle_ms;
    return command;
}

int kiln_bus_read_group(struct kiln_bus *bus, const char *stream, const char *group,
                        const char *consumer, bool pending, uint32_t max, uint32_t block_ms,
                        struct kiln_bus_entries *ret, struct kiln_error *err)
{
    (void)group;
    struct reading reading = {READ_GROUP, stream, consumer, pending, max, 0};
    return read_until(bus, make_reading, &reading, stream, pending ? 0 : block_ms, ret, err);
}

int kiln_bus_claim(struct kiln_bus *bus, const char *stream, const char *group,
                   const char *consumer, uint32_t idle_ms, uint32_t max,
                   struct kiln_bus_entries *ret, struct kiln_error *err)
{
    (void)group;
    struct reading reading = {CLAIM, stream, consumer, false, max, idle_ms};
    return read_until(bus, make_reading, &reading, stream, 0, ret, err);
}

int kiln_bus_ack(struct kiln_bus *bus, const char *stream, const char *group,
                 const char *const *ids, size_t count, struct kiln_error *err)
{
    (void)group;
    if (count == 0)
        return 0;
    struct command *command = command_new(ACK, stream);
    keep_texts(command, ids, NULL, count);
    return ask(bus, command, 0, NULL, err);
}

int kiln_bus_read(struct kiln_bus *bus, const char *const *streams, const char *const *after,
                  size_t stream_count, uint32_t max, uint32_t block_ms,
                  struct kiln_bus_entries *ret, struct kiln_error *err)
{
    if (stream_count != 1) /* nobody reads several */
        return kiln_fail(err, KILN_UNSUPPORTED, "the simulated bus reads one stream at a time");
    struct reading reading = {READ, streams[0], after[0], false, max, 0};
    return read_until(bus, make_reading, &reading, streams[0], block_ms, ret, err);
}

int kiln_bus_last_id(struct kiln_bus *bus, const char *stream, char *ret, size_t size,
                     struct kiln_error *err)
{
    struct sim_request *request;
    struct command *command = command_new(LAST, stream);
    int rc = ask(bus, command, 0, &request, err);
    if (rc)
        return rc;
    snprintf(ret, size, "%s", command->text);
    sim_request_end(request);
    return 0;
}

int kiln_bus_length(struct kiln_bus *bus, const char *stream, uint64_t *ret, struct kiln_error *err)
{
    struct sim_request *request;
    struct command *command = command_new(LENGTH, stream);
    int rc = ask(bus, command, 0, &request, err);
    if (rc)
        return rc;
    *ret = command->answer;
    sim_request_end(request);
    return 0;
}

int kiln_bus_delete_entry(struct kiln_bus *bus, const char *stream, const char *id,
                          struct kiln_error *err)
{
    struct command *command = command_new(DELETE_ENTRY, stream);
    keep_texts(command, &id, NULL, 1);
    return ask(bus, command, 0, NULL, err);
}

/* --- keys ------------------------------------------------------------------------------------ */
int kiln_bus_ping(struct kiln_bus *bus, struct kiln_error *err)
{
    return ask(bus, command_new(PING, ""), 0, NULL, err);
}

int kiln_bus_heartbeat(struct kiln_bus *bus, const char *key, const char *beat, uint32_t ttl_ms,
                       struct kiln_error *err)
{
    struct command *command = command_new(BEAT, key);
    keep_texts(command, &beat, NULL, 1);
    command->ms = ttl_ms;
    return ask(bus, command, 0, NULL, err);
}

int kiln_bus_heartbeats(struct kiln_bus *bus, const char *pool, kiln_bus_want_heartbeat *want,
                        kiln_bus_each_heartbeat *each, void *arg, struct kiln_error *err)
{
    char prefix[KILN_NAME_MAX + 32];
    kiln_wire_key(prefix, sizeof prefix, pool, "beat", "");
    struct sim_request *request;
    struct command *command = command_new(BEATS, prefix);
    int rc = ask(bus, command, 0, &request, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < command->found_count && rc == 0; i++)
        if (!want || want(arg, command->found[i].texts[0]))
            rc = each(arg, command->found[i].texts[0], command->found[i].texts[1],
                      command->found[i].lengths[1]);
    sim_request_end(request);
    return rc;
}

int kiln_bus_delete(struct kiln_bus *bus, const char *key, struct kiln_error *err)
{
    return ask(bus, command_new(DELETE, key), 0, NULL, err);
}

int kiln_bus_push(struct kiln_bus *bus, const char *list, const char *value, uint32_t ttl_s,
                  struct kiln_error *err)
{
    struct command *command = command_new(PUSH, list);
    keep_texts(command, &value, NULL, 1);
    command->ms = (int64_t)ttl_s * 1000;
    return ask(bus, command, 0, NULL, err);
}

int kiln_bus_pop(struct kiln_bus *bus, const char *list, uint32_t wait_ms, char **ret_value,
                 struct kiln_error *err)
{
    int64_t until = sim_now() + (int64_t)wait_ms * SIM_MS;
    for (*ret_value = NULL; !*ret_value;) {
        struct sim_request *request;
        struct command *command = command_new(POP, list);
        int rc = ask(bus, command, 0, &request, err);
        if (rc)
            return rc;
        *ret_value = command->text ? strdup(command->text) : NULL;
        sim_request_end(request);
        if (!*ret_value && sim_now() >= until)
            return 0;
        if (!*ret_value)
            (void)sim_wait(&sim_fleet.data, until);
    }
    return 0;
}
