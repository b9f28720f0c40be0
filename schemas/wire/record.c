/* record.c - writes and reads messages by their tables of fields.
 *
 * Peers of different age talk to each other while a fleet is being updated.  So an unknown
 * field is passed over, a known one must be right, and a message of another protocol version is
 * refused as a whole: half-understood work would be worse than none.
 */
#include "schemas/wire/record.h"

#include <stdint.h>
#include <string.h>

#include "schemas/names.h"
#include "schemas/wire/wire.h"

static void write_value(struct kiln_text *out, const struct kiln_wire_field *field, const void *at)
{
    switch (field->type) {
    case KILN_WIRE_TEXT:
    case KILN_WIRE_ID:
    case KILN_WIRE_NAME:
        kiln_text_json(out, at, strnlen(at, field->size));
        break;
    case KILN_WIRE_U32:
    case KILN_WIRE_TRY:
        kiln_text_u64(out, *(const uint32_t *)at);
        break;
    case KILN_WIRE_U64:
    case KILN_WIRE_ROW:
        kiln_text_u64(out, *(const uint64_t *)at);
        break;
    case KILN_WIRE_I64:
        kiln_text_i64(out, *(const int64_t *)at);
        break;
    case KILN_WIRE_MS:
        kiln_text_double(out, *(const double *)at);
        break;
    case KILN_WIRE_BOOL:
        kiln_text_puts(out, *(const bool *)at ? "true" : "false");
        break;
    case KILN_WIRE_ENUM:
        kiln_text_printf(out, "\"%s\"", field->names[*(const int *)at]);
        break;
    }
}

void kiln_wire_write(struct kiln_text *out, const struct kiln_wire_table *table, const void *record)
{
    kiln_text_printf(out, "{\"v\":%d,", KILN_WIRE_VERSION);
#ifdef KILN_WIRE_EXTRA /* a field of a later release, in the test of upgrades */
    kiln_text_puts(out, KILN_WIRE_EXTRA);
#endif
    for (size_t i = 0; i < table->count; i++) {
        const struct kiln_wire_field *field = &table->fields[i];
        kiln_text_printf(out, "\"%s\":", field->name);
        write_value(out, field, (const char *)record + field->offset);
        kiln_text_add(out, ",", 1);
    }
}

char *kiln_wire_close(struct kiln_text *out)
{
    if (!out->failed && out->len > 0 && out->at[out->len - 1] == ',')
        out->len--;
    kiln_text_add(out, "}", 1);
    return kiln_text_take(out);
}

static int wrong(const struct kiln_wire_table *table, const struct kiln_wire_field *field,
                 const char *rule, struct kiln_error *err)
{
    return kiln_fail(err, KILN_PROTOCOL, "%s: field \"%s\" must be %s", table->what, field->name,
                     rule);
}

static int read_text(const struct kiln_wire_table *table, const struct kiln_wire_field *field,
                     const struct kiln_json_value *value, char *at, struct kiln_error *err)
{
    size_t len;
    if (value->type != KILN_JSON_STRING || !kiln_json_string(value, at, field->size, &len))
        return kiln_fail(err, KILN_PROTOCOL, "%s: field \"%s\" must be a text of up to %zu bytes",
                         table->what, field->name, field->size - 1);
    if (field->type == KILN_WIRE_NAME && len == 0)
        return wrong(table, field, "a name, not empty", err);
    if (field->type != KILN_WIRE_TEXT && len > 0 && !kiln_name_valid(at, len, field->size))
        return wrong(table, field, "made of " KILN_NAME_RULE, err);
    return 0;
}

static uint64_t greatest(enum kiln_wire_type type)
{
    return type == KILN_WIRE_U32 ? UINT32_MAX : type == KILN_WIRE_TRY ? INT32_MAX : INT64_MAX;
}

bool kiln_wire_whole(const char *text, size_t len, uint64_t *ret)
{
    const struct kiln_json_value value = {KILN_JSON_NUMBER, false, text, len};
    for (size_t i = 0; i < len; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return len > 0 && kiln_json_u64(&value, ret);
}

/* Only a signed field takes a minus sign. */
static int read_whole(const struct kiln_wire_table *table, const struct kiln_wire_field *field,
                      const struct kiln_json_value *value, void *at, struct kiln_error *err)
{
    uint64_t number = 0;
    bool negative =
        field->type == KILN_WIRE_I64 && value->type == KILN_JSON_NUMBER && value->text[0] == '-';
    bool good = value->type == KILN_JSON_NUMBER &&
                kiln_wire_whole(value->text + negative, value->len - negative, &number);
    if (good && field->type == KILN_WIRE_ROW && (number == 0 || number > INT64_MAX))
        return wrong(table, field, "an id of 1 to 2^63 - 1", err);
    if (!good || number > greatest(field->type))
        return wrong(table, field, "a whole number in range", err);
    if (field->type == KILN_WIRE_I64)
        *(int64_t *)at = negative ? -(int64_t)number : (int64_t)number;
    else if (field->type == KILN_WIRE_U64 || field->type == KILN_WIRE_ROW)
        *(uint64_t *)at = number;
    else
        *(uint32_t *)at = (uint32_t)number;
    return 0;
}

int kiln_wire_read_field(const struct kiln_wire_table *table, const struct kiln_wire_field *field,
                         const struct kiln_json_value *value, void *record, struct kiln_error *err)
{
    void *at = (char *)record + field->offset;
    double ms;
    switch (field->type) {
    case KILN_WIRE_TEXT:
    case KILN_WIRE_ID:
    case KILN_WIRE_NAME:
        return read_text(table, field, value, at, err);
    case KILN_WIRE_U32:
    case KILN_WIRE_U64:
    case KILN_WIRE_ROW:
    case KILN_WIRE_TRY:
    case KILN_WIRE_I64:
        return read_whole(table, field, value, at, err);
    case KILN_WIRE_MS:
        /* A negative or endless duration would be learned from and never forgotten. */
        if (value->type != KILN_JSON_NUMBER || !kiln_json_double(value, &ms) || !(ms >= 0) ||
            ms > KILN_WIRE_MS_MAX)
            return wrong(table, field, "milliseconds, 0 to 30 days", err);
        *(double *)at = ms;
        return 0;
    case KILN_WIRE_BOOL:
        if (value->type != KILN_JSON_TRUE && value->type != KILN_JSON_FALSE)
            return wrong(table, field, "true or false", err);
        *(bool *)at = value->type == KILN_JSON_TRUE;
        return 0;
    case KILN_WIRE_ENUM:
        for (int i = 0; field->names[i]; i++)
            if (kiln_json_equals(value, field->names[i])) {
                *(int *)at = i;
                return 0;
            }
        return wrong(table, field, "one of the names in bus.md", err);
    }
    return kiln_fail(err, KILN_INTERNAL, "%s: field table", table->what);
}

struct reading {
    const struct kiln_wire_table *table;
    void *record;
    kiln_wire_extra *extra;
    void *arg;
    uint64_t seen; /* a bit for each field of the table */
    bool version_seen;
};

/* The bit of each field that was seen tells a second one, and at the end the missing ones. */
static int read_member(struct reading *reading, const struct kiln_json_value *key,
                       const struct kiln_json_value *value, struct kiln_error *err)
{
    const struct kiln_wire_table *table = reading->table;
    if (kiln_json_equals(key, "v")) {
        if (reading->version_seen)
            return kiln_fail(err, KILN_PROTOCOL, "%s: field \"v\" must be given once", table->what);
        reading->version_seen = true;
        uint64_t version;
        if (value->type != KILN_JSON_NUMBER || !kiln_wire_whole(value->text, value->len, &version))
            return kiln_fail(err, KILN_PROTOCOL, "%s: \"v\" must be a whole number", table->what);
        if (version != KILN_WIRE_VERSION && !table->any_version)
            return kiln_fail(err, KILN_PROTOCOL,
                             "%s: it is of protocol version %llu, this program speaks %d",
                             table->what, (unsigned long long)version, KILN_WIRE_VERSION);
        return 0;
    }
    for (size_t i = 0; i < table->count; i++) {
        if (!kiln_json_equals(key, table->fields[i].name))
            continue;
        if (reading->seen & (uint64_t)1 << i)
            return wrong(table, &table->fields[i], "given once", err);
        reading->seen |= (uint64_t)1 << i;
        return kiln_wire_read_field(table, &table->fields[i], value, reading->record, err);
    }
    return reading->extra ? reading->extra(reading->arg, key, value, err) : 0;
}

int kiln_wire_read(const char *text, size_t len, const struct kiln_wire_table *table, void *record,
                   kiln_wire_extra *extra, void *arg, struct kiln_error *err)
{
    struct reading reading = {table, record, extra, arg, 0, false};
    struct kiln_json_reader reader;
    struct kiln_error inner;
    if (len > KILN_MESSAGE_MAX)
        return kiln_fail(err, KILN_PROTOCOL, "%s: %zu bytes; the limit is %d", table->what, len,
                         KILN_MESSAGE_MAX);
    int code = kiln_json_open(&reader, text, len, KILN_JSON_OBJECT, &inner);
    for (bool more = true; !code;) {
        struct kiln_json_value key, value;
        code = kiln_json_next(&reader, &key, &value, &more, &inner);
        if (code || !more)
            break;
        code = read_member(&reading, &key, &value, err);
        if (code)
            return code;
    }
    if (code)
        return kiln_fail(err, KILN_PROTOCOL, "%s: %s", table->what, inner.text);
    if (!reading.version_seen)
        return kiln_fail(err, KILN_PROTOCOL, "%s: field \"v\" is missing", table->what);
    for (size_t i = 0; i < table->count; i++)
        if (table->fields[i].required && !(reading.seen & (uint64_t)1 << i))
            return kiln_fail(err, KILN_PROTOCOL, "%s: field \"%s\" is missing", table->what,
                             table->fields[i].name);
    return 0;
}
