/* heartbeat.c - the heartbeat of a worker: its lease, what it holds and what it has resident.
 *
 * What it holds is two lists on the wire and one here: readers of before minor 3 refuse a beat
 * whose `held` has more than four entries, and pass over `held_more`, which they do not know.
 */
#include <string.h>

#include "schemas/names.h"
#include "schemas/wire/record.h"
#include "schemas/wire/wire.h"

#define HELD_FIRST 4 /* in `held`; the others follow in `held_more` */
#define BEAT(member, kind, needed) KILN_WIRE_FIELD(struct kiln_heartbeat, member, kind, needed)

static const struct kiln_wire_field fields[] = {
    BEAT(worker, KILN_WIRE_NAME, true),        BEAT(incarnation, KILN_WIRE_NAME, true),
    BEAT(host, KILN_WIRE_TEXT, false),         BEAT(device, KILN_WIRE_TEXT, false),
    BEAT(engine, KILN_WIRE_TEXT, false),       BEAT(model, KILN_WIRE_TEXT, false),
    BEAT(lora_set, KILN_WIRE_TEXT, false),     BEAT(pid, KILN_WIRE_U32, false),
    BEAT(version, KILN_WIRE_U32, true),        BEAT(width, KILN_WIRE_U32, false),
    BEAT(height, KILN_WIRE_U32, false),        BEAT(room, KILN_WIRE_U32, true),
    BEAT(batch_max, KILN_WIRE_U32, true),      BEAT(step, KILN_WIRE_U32, false),
    BEAT(steps, KILN_WIRE_U32, false),         BEAT(draining, KILN_WIRE_BOOL, false),
    BEAT(done, KILN_WIRE_U64, false),          BEAT(failed, KILN_WIRE_U64, false),
    BEAT(started_ms, KILN_WIRE_I64, false),    BEAT(sent_ms, KILN_WIRE_I64, false),
    BEAT(deaf_ms, KILN_WIRE_U32, false),       BEAT(device_class, KILN_WIRE_TEXT, false),
    BEAT(running, KILN_WIRE_TEXT, false),      BEAT(minor, KILN_WIRE_U32, false),
    BEAT(release, KILN_WIRE_TEXT, false),      BEAT(ready_ms, KILN_WIRE_U64, false),
    BEAT(wanted_ms, KILN_WIRE_U64, false),     BEAT(computed_ms, KILN_WIRE_U64, false),
    BEAT(drawn, KILN_WIRE_U32, false),         BEAT(places, KILN_WIRE_U32, false),
    BEAT(coarse_steps, KILN_WIRE_U32, false),  BEAT(trouble, KILN_WIRE_TEXT, false),
    BEAT(trouble_code, KILN_WIRE_TEXT, false), BEAT(trouble_error, KILN_WIRE_TEXT, false),
    BEAT(trouble_ms, KILN_WIRE_U32, false),
};
/* Any version is read, so that `kiln workers` can show one that is too old or too new. */
static const struct kiln_wire_table table = {"heartbeat", fields, sizeof fields / sizeof fields[0],
                                             true};

static void write_ids(struct kiln_text *out, const char *name, const struct kiln_heartbeat *beat,
                      uint32_t from, uint32_t end)
{
    kiln_text_json(out, name, strlen(name));
    kiln_text_puts(out, ":[");
    for (uint32_t i = from; i < end; i++) {
        kiln_text_puts(out, i > from ? "," : "");
        kiln_text_json(out, beat->held[i], strlen(beat->held[i]));
    }
    kiln_text_puts(out, "]");
}

char *kiln_heartbeat_encode(const struct kiln_heartbeat *beat)
{
    struct kiln_text out = {0};
    kiln_wire_write(&out, &table, beat);
    uint32_t count =
        beat->held_count < KILN_HEARTBEAT_HELD_MAX ? beat->held_count : KILN_HEARTBEAT_HELD_MAX;
    uint32_t first = count < HELD_FIRST ? count : HELD_FIRST;
    write_ids(&out, "held", beat, 0, first);
    if (count > first) {
        kiln_text_puts(&out, ",");
        write_ids(&out, "held_more", beat, first, count);
    }
    return kiln_wire_close(&out);
}

struct reading {
    struct kiln_heartbeat *beat;
    bool held, more; /* these lists were read */
};

/* One list after the other, however long each is. */
static int read_held(void *arg, const struct kiln_json_value *key,
                     const struct kiln_json_value *value, struct kiln_error *err)
{
    struct reading *reading = arg;
    struct kiln_heartbeat *beat = reading->beat;
    struct kiln_json_reader reader;
    bool is_more = kiln_json_equals(key, "held_more");
    if (!is_more && !kiln_json_equals(key, "held"))
        return 0;
    bool *seen = is_more ? &reading->more : &reading->held;
    if (*seen)
        return kiln_fail(err, KILN_PROTOCOL, "heartbeat: field \"%s\" must be given once",
                         is_more ? "held_more" : "held");
    *seen = true;
    if (value->type != KILN_JSON_ARRAY ||
        kiln_json_open(&reader, value->text, value->len, KILN_JSON_ARRAY, err))
        return kiln_fail(err, KILN_PROTOCOL, "heartbeat: field \"held\" must be a list");
    for (;;) {
        struct kiln_json_value id;
        bool more;
        size_t len;
        if (kiln_json_next(&reader, NULL, &id, &more, err))
            return kiln_fail(err, KILN_PROTOCOL, "heartbeat: field \"held\" is not valid");
        if (!more)
            return 0;
        if (beat->held_count == KILN_HEARTBEAT_HELD_MAX)
            return kiln_fail(
                err, KILN_PROTOCOL,
                "heartbeat: fields \"held\" and \"held_more\" have more than %d entries",
                KILN_HEARTBEAT_HELD_MAX);
        char *at = beat->held[beat->held_count];
        if (id.type != KILN_JSON_STRING || !kiln_json_string(&id, at, sizeof beat->held[0], &len) ||
            !kiln_name_valid(at, len, KILN_WIRE_ID_MAX))
            return kiln_fail(err, KILN_PROTOCOL,
                             "heartbeat: field \"held\" must list ids of up to %d characters",
                             KILN_WIRE_ID_MAX);
        beat->held_count++;
    }
}

int kiln_heartbeat_decode(const char *text, size_t len, struct kiln_heartbeat *ret,
                          struct kiln_error *err)
{
    struct kiln_heartbeat beat;
    memset(&beat, 0, sizeof beat);
    beat.places = KILN_HEARTBEAT_UNTOLD;
    struct reading reading = {.beat = &beat};
    int code = kiln_wire_read(text, len, &table, &beat, read_held, &reading, err);
    if (!code)
        *ret = beat;
    return code;
}
