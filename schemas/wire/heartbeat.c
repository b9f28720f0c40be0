/* heartbeat.c - the heartbeat of a worker: its lease, what it holds, what it has resident and on
 * its disk.
 *
 * What it holds is two lists on the wire and one here: readers of before minor 3 refuse a beat
 * whose `held` has more than four entries, and pass over `held_more`, which they do not know.
 */
#include <inttypes.h>
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
    BEAT(trouble_ms, KILN_WIRE_U32, false),    BEAT(middle_steps, KILN_WIRE_U32, false),
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

static void write_files(struct kiln_text *out, const struct kiln_heartbeat *beat)
{
    kiln_text_puts(out, ",\"lora_files\":[");
    for (uint32_t i = 0; i < beat->file_count && i < KILN_HEARTBEAT_FILES_MAX; i++)
        kiln_text_printf(out, "%s\"%0*" PRIx64 "\"", i > 0 ? "," : "", KILN_LORA_KEY_DIGITS,
                         beat->files[i]);
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
    if (beat->files_told)
        write_files(&out, beat);
    return kiln_wire_close(&out);
}

struct reading {
    struct kiln_heartbeat *beat;
    bool held, more; /* these lists were read */
};

/* Whether there was room for it, and it is one. */
typedef bool take_entry(struct kiln_heartbeat *beat, const char *text, size_t len);

static bool take_id(struct kiln_heartbeat *beat, const char *text, size_t len)
{
    if (beat->held_count == KILN_HEARTBEAT_HELD_MAX ||
        !kiln_name_valid(text, len, KILN_WIRE_ID_MAX))
        return false;
    memcpy(beat->held[beat->held_count++], text, len + 1);
    return true;
}

static bool take_file(struct kiln_heartbeat *beat, const char *text, size_t len)
{
    if (len != KILN_LORA_KEY_DIGITS || strspn(text, "0123456789abcdef") != len)
        return false;
    if (beat->file_count < KILN_HEARTBEAT_FILES_MAX)
        beat->files[beat->file_count] = kiln_lora_digits(text);
    beat->file_count++;
    return true;
}

/* rule: what a list of these must be. */
static int read_list(struct kiln_heartbeat *beat, const char *name, const char *rule, bool *seen,
                     const struct kiln_json_value *value, take_entry *take, struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value entry;
    char text[KILN_WIRE_ID_MAX + 1];
    size_t len;
    if (*seen)
        return kiln_fail(err, KILN_PROTOCOL, "heartbeat: field \"%s\" must be given once", name);
    *seen = true;
    if (value->type != KILN_JSON_ARRAY ||
        kiln_json_open(&reader, value->text, value->len, KILN_JSON_ARRAY, err))
        return kiln_fail(err, KILN_PROTOCOL, "heartbeat: field \"%s\" must be a list", name);
    for (bool more = true;;) {
        if (kiln_json_next(&reader, NULL, &entry, &more, err))
            return kiln_fail(err, KILN_PROTOCOL, "heartbeat: field \"%s\" is not valid", name);
        if (!more)
            return 0;
        if (entry.type != KILN_JSON_STRING || !kiln_json_string(&entry, text, sizeof text, &len) ||
            !take(beat, text, len))
            return kiln_fail(err, KILN_PROTOCOL, "heartbeat: field \"%s\" must list %s", name,
                             rule);
    }
}

#define TEXT(number) #number
#define NUMBER(number) TEXT(number)
#define IDS                                                                                        \
    "ids of up to " NUMBER(KILN_WIRE_ID_MAX) " characters, " NUMBER(                               \
        KILN_HEARTBEAT_HELD_MAX) " in all"
#define FILES "the first " NUMBER(KILN_LORA_KEY_DIGITS) " digits of hashes"

static int read_lists(void *arg, const struct kiln_json_value *key,
                      const struct kiln_json_value *value, struct kiln_error *err)
{
    struct reading *reading = arg;
    struct kiln_heartbeat *beat = reading->beat;
    if (kiln_json_equals(key, "held"))
        return read_list(beat, "held", IDS, &reading->held, value, take_id, err);
    if (kiln_json_equals(key, "held_more"))
        return read_list(beat, "held_more", IDS, &reading->more, value, take_id, err);
    if (kiln_json_equals(key, "lora_files"))
        return read_list(beat, "lora_files", FILES, &beat->files_told, value, take_file, err);
    return 0;
}

int kiln_heartbeat_decode(const char *text, size_t len, struct kiln_heartbeat *ret,
                          struct kiln_error *err)
{
    struct kiln_heartbeat beat;
    memset(&beat, 0, sizeof beat);
    beat.places = KILN_HEARTBEAT_UNTOLD;
    struct reading reading = {.beat = &beat};
    int code = kiln_wire_read(text, len, &table, &beat, read_lists, &reading, err);
    /* More files than there is room for: the list counts as none, since a file that it left out
     * would count as missing. */
    if (beat.file_count > KILN_HEARTBEAT_FILES_MAX) {
        memset(beat.files, 0, sizeof beat.files);
        beat.file_count = 0;
        beat.files_told = false;
    }
    if (!code)
        *ret = beat;
    return code;
}
