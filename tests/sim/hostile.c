/* hostile.c - somebody who may write to Redis and writes what no program of ours would.
 *
 * The messages are those of tests/hostile: each field spoiled in its turn.  Jobs that come of them
 * by chance are nobody's guarantee; what is guaranteed to the others holds as if nobody sent these.
 */
#include <stdio.h>
#include <string.h>

#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "tests/hostile/shapes.h"
#include "tests/sim/plan.h"

#define BATCHES 8 /* the ledger in memory has few */
#define BEAT_MS 400

static void append(struct kiln_bus *bus, const char *part, const char *id,
                   const struct hostile_entry *entry)
{
    char key[160];
    const char *fields[2 * HOSTILE_FIELDS_MAX];
    size_t lengths[2 * HOSTILE_FIELDS_MAX];
    struct kiln_error err;
    kiln_wire_key(key, sizeof key, SIM_POOL, part, id);
    for (size_t i = 0; i < 2 * entry->count; i++) {
        fields[i] = entry->texts[i].at;
        lengths[i] = entry->texts[i].len;
    }
    if (kiln_bus_append(bus, key, 0, fields, lengths, entry->count, &err))
        sim_log("nothing of it got through");
}

static void send_line(struct kiln_bus *bus, struct test_random *random, unsigned number)
{
    char batch[32], token[32];
    struct hostile_entry entry;
    snprintf(batch, sizeof batch, "h-%u", number % BATCHES);
    snprintf(token, sizeof token, "ht-%u", number % 4);
    hostile_intake(random, batch, token, &entry);
    append(bus, "intake", NULL, &entry);
    hostile_entry_release(&entry);
}

static void send_message(struct kiln_bus *bus, struct test_random *random, const char *part,
                         const char *id, const char *field, enum hostile_kind kind)
{
    struct hostile_entry entry = {{hostile_text(field), hostile_message(random, kind)}, 1};
    append(bus, part, id, &entry);
    hostile_entry_release(&entry);
}

/* One that can be read is a worker that everybody may have: it would be given jobs. */
static void send_beat(struct kiln_bus *bus, struct test_random *random)
{
    char key[96];
    struct hostile_bytes text = hostile_message(random, HOSTILE_BEAT);
    struct kiln_heartbeat beat;
    struct kiln_error err;
    kiln_wire_key(key, sizeof key, SIM_POOL, "beat", "h-nobody");
    if (kiln_heartbeat_decode(text.at, strlen(text.at), &beat, &err) != 0 &&
        kiln_bus_heartbeat(bus, key, text.at, BEAT_MS, &err) != 0)
        sim_log("the heartbeat did not get through");
    hostile_release(&text);
}

static void send_something(struct kiln_bus *bus, struct test_random *random, unsigned number)
{
    const char *worker = sim_chance(500) ? "w0" : "w1";
    uint32_t what = sim_below(100);
    if (what < 45)
        send_line(bus, random, number);
    else if (what < 62)
        send_message(bus, random, "events", NULL, "event", HOSTILE_EVENT);
    else if (what < 79)
        send_message(bus, random, "control", NULL, "order", HOSTILE_ORDER);
    else if (what < 84)
        send_message(bus, random, "worker", worker, "order", HOSTILE_ORDER);
    else if (what < 92)
        send_message(bus, random, "worker", worker, "assign", HOSTILE_ASSIGNMENT);
    else
        send_beat(bus, random);
}

int sim_hostile_program(void *arg)
{
    struct kiln_config *config = sim_config();
    struct test_random random = {sim_between(1, 1 << 30)};
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    (void)arg;
    if (kiln_bus_open(config, &bus, &err))
        return 1;
    for (unsigned number = 0; sim_now() < sim_plan.heals_at; number++) {
        sim_sleep(sim_between(10, 600) * SIM_MS);
        send_something(bus, &random, number);
    }
    kiln_bus_close(bus);
    kiln_config_free(config);
    return 0;
}
