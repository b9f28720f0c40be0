/* wire.c - keys of the bus, intake entries, and the small messages: control messages, events,
 * receipts.
 *
 * Intake entries are the only ones with several fields: any Redis client writes them by hand,
 * and the job line in them stays the text its sender wrote.  All others are one JSON object in
 * one field.
 */
#include "schemas/wire/wire.h"

#include <stdio.h>
#include <string.h>

#include "schemas/names.h"
#include "schemas/text/utf8.h"
#include "schemas/wire/record.h"

size_t kiln_wire_key(char *out, size_t size, const char *pool, const char *part, const char *id)
{
    int len = id ? snprintf(out, size, "kiln:{%s}:%s:%s", pool, part, id)
                 : snprintf(out, size, "kiln:{%s}:%s", pool, part);
    return len > 0 ? (size_t)len : 0;
}

bool kiln_wire_last_id(const char *id)
{
    static const char last_ms[] = "18446744073709551615-";
    return strncmp(id, last_ms, sizeof last_ms - 1) == 0;
}

/* --- intake -------------------------------------------------------------------------------- */

enum intake_field { BATCH, JOB, KEY, TOKEN, SOURCE, GONE, ON_DONE, INDEX, END, INTAKE_FIELDS };
static const char *const intake_names[INTAKE_FIELDS] = {
    "batch", "job", "key", "token", "source", "gone", "on_done", "index", "end"};

/* INTAKE_FIELDS for any other name. */
static enum intake_field intake_field_of(const char *name, size_t len)
{
    int at = 0;
    while (at < INTAKE_FIELDS &&
           (strlen(intake_names[at]) != len || memcmp(name, intake_names[at], len) != 0))
        at++;
    return (enum intake_field)at;
}

static int read_count(const char *what, const char *text, size_t len, uint64_t max, uint64_t *ret,
                      struct kiln_error *err)
{
    if (!kiln_wire_whole(text, len, ret) || *ret > max)
        return kiln_fail(err, KILN_PROTOCOL,
                         "intake: field \"%s\" must be a whole number of up to %llu", what,
                         (unsigned long long)max);
    return 0;
}

static int read_intake_field(enum intake_field field, const char *value, size_t len,
                             struct kiln_intake_entry *entry, struct kiln_error *err)
{
    uint64_t number;
    int code = 0;
    if (field == BATCH) {
        entry->batch = value;
        if (!kiln_name_valid(value, len, KILN_BATCH_NAME_MAX))
            code = kiln_fail(err, KILN_PROTOCOL,
                             "intake: field \"batch\" must be up to %d " KILN_NAME_RULE,
                             KILN_BATCH_NAME_MAX);
    } else if (field == JOB) {
        entry->job = value;
        entry->job_len = len; /* its content is checked line by line, by kiln_job_line_parse */
    } else if (field == KEY) {
        entry->key = value;
        if (len == 0 || len > KILN_INTAKE_KEY_MAX || memchr(value, '\0', len) ||
            !kiln_utf8_valid(value, len, NULL))
            code = kiln_fail(err, KILN_PROTOCOL,
                             "intake: field \"key\" must be a text of 1 to %d bytes",
                             KILN_INTAKE_KEY_MAX);
    } else if (field == TOKEN) {
        entry->token = value;
        if (!kiln_name_valid(value, len, KILN_WIRE_ID_MAX))
            code = kiln_fail(err, KILN_PROTOCOL,
                             "intake: field \"token\" must be up to %d " KILN_NAME_RULE,
                             KILN_WIRE_ID_MAX);
    } else if (field == SOURCE) {
        entry->source = value;
        if (!kiln_name_valid(value, len, KILN_BATCH_NAME_MAX))
            code = kiln_fail(err, KILN_PROTOCOL,
                             "intake: field \"source\" must be up to %d " KILN_NAME_RULE,
                             KILN_BATCH_NAME_MAX);
    } else if (field == GONE) {
        entry->gone = value;
        if (len == 0 || len > KILN_INTAKE_GONE_MAX || memchr(value, '\0', len) ||
            !kiln_utf8_valid(value, len, NULL))
            code = kiln_fail(err, KILN_PROTOCOL,
                             "intake: field \"gone\" must be keys, a line each, of up to %d bytes",
                             KILN_INTAKE_GONE_MAX);
    } else if (field == ON_DONE) {
        entry->on_done = value;
        bool printable = len > 0 && len <= KILN_INTAKE_URL_MAX;
        for (size_t i = 0; i < len && printable; i++)
            printable = value[i] > ' ' && value[i] <= '~';
        if (!printable)
            code = kiln_fail(err, KILN_PROTOCOL,
                             "intake: field \"on_done\" must be a URL of up to %d bytes of ASCII",
                             KILN_INTAKE_URL_MAX);
    } else if (field == INDEX) {
        code = read_count("index", value, len, UINT32_MAX, &number, err);
        entry->has_index = !code;
        entry->index = code ? 0 : (uint32_t)number;
    } else if (field == END) {
        code = read_count("end", value, len, KILN_BATCH_JOBS_MAX, &number, err);
        entry->has_end = !code;
        entry->end = code ? 0 : number;
    }
    return code;
}

int kiln_intake_decode(const char *const *fields, const size_t *lengths, size_t count,
                       struct kiln_intake_entry *ret, struct kiln_error *err)
{
    struct kiln_intake_entry entry = {0};
    bool given[INTAKE_FIELDS + 1] = {false};
    for (size_t i = 0; i < count; i++) {
        enum intake_field field = intake_field_of(fields[2 * i], lengths[2 * i]);
        if (field != INTAKE_FIELDS && given[field])
            return kiln_fail(err, KILN_PROTOCOL, "intake: field \"%s\" is given twice",
                             intake_names[field]);
        given[field] = true;
        int code = read_intake_field(field, fields[2 * i + 1], lengths[2 * i + 1], &entry, err);
        if (code)
            return code;
    }
    if (!entry.batch)
        return kiln_fail(err, KILN_PROTOCOL, "intake: field \"batch\" is missing");
    if (!entry.job && !entry.has_end && !entry.gone)
        return kiln_fail(err, KILN_PROTOCOL, "intake: an entry needs \"job\", \"gone\" or \"end\"");
    if (entry.job && entry.gone)
        return kiln_fail(err, KILN_PROTOCOL, "intake: an entry has \"job\" or \"gone\", not both");
    if (entry.on_done && !entry.has_end)
        return kiln_fail(err, KILN_PROTOCOL, "intake: an entry with \"on_done\" needs \"end\"");
    *ret = entry;
    return 0;
}

/* --- control messages ---------------------------------------------------------------------- */

static const char *const control_names[] = {"cancel_job", "cancel_batch", "drop", "drain",
                                            "wake",       "ask",          NULL};

static const struct kiln_wire_field control_fields[] = {
    {"kind", KILN_WIRE_ENUM, true, offsetof(struct kiln_control, kind), sizeof(int), control_names},
    KILN_WIRE_FIELD(struct kiln_control, job, KILN_WIRE_U64, false),
    KILN_WIRE_FIELD(struct kiln_control, id, KILN_WIRE_ID, false),
    KILN_WIRE_FIELD(struct kiln_control, recorded, KILN_WIRE_BOOL, false),
    KILN_WIRE_FIELD(struct kiln_control, donors, KILN_WIRE_BOOL, false),
};
static const struct kiln_wire_table control_table = {
    "order", control_fields, sizeof control_fields / sizeof control_fields[0], false};

const char *kiln_control_name(enum kiln_control_kind kind)
{
    return control_names[kind];
}

char *kiln_control_encode(const struct kiln_control *control)
{
    struct kiln_text out = {0};
    kiln_wire_write(&out, &control_table, control);
    return kiln_wire_close(&out);
}

int kiln_control_decode(const char *text, size_t len, struct kiln_control *ret,
                        struct kiln_error *err)
{
    struct kiln_control control = {0};
    int code = kiln_wire_read(text, len, &control_table, &control, NULL, NULL, err);
    if (code)
        return code;
    if (control.kind == KILN_CONTROL_CANCEL_JOB && control.job == 0)
        return kiln_fail(err, KILN_PROTOCOL, "order: cancel_job needs \"job\"");
    bool needs_id = control.kind == KILN_CONTROL_CANCEL_BATCH ||
                    control.kind == KILN_CONTROL_DROP || control.kind == KILN_CONTROL_ASK;
    if (needs_id && control.id[0] == '\0')
        return kiln_fail(err, KILN_PROTOCOL, "order: %s needs \"id\"", control_names[control.kind]);
    if (control.kind != KILN_CONTROL_CANCEL_BATCH && strlen(control.id) > KILN_WIRE_ID_MAX)
        return kiln_fail(err, KILN_PROTOCOL, "order: \"id\" of %s has more than %d characters",
                         control_names[control.kind], KILN_WIRE_ID_MAX);
    *ret = control;
    return 0;
}

/* --- events -------------------------------------------------------------------------------- */

static const char *const event_names[] = {"hello",    "bye",       "done",     "failed",
                                          "returned", "cancelled", "finished", NULL};

static const struct kiln_wire_field event_fields[] = {
    {"kind", KILN_WIRE_ENUM, true, offsetof(struct kiln_event, kind), sizeof(int), event_names},
    KILN_WIRE_FIELD(struct kiln_event, worker, KILN_WIRE_ID, false),
    KILN_WIRE_FIELD(struct kiln_event, assignment, KILN_WIRE_ID, false),
    KILN_WIRE_FIELD(struct kiln_event, job, KILN_WIRE_U64, false),
    KILN_WIRE_FIELD(struct kiln_event, attempt, KILN_WIRE_TRY, false),
    KILN_WIRE_FIELD(struct kiln_event, compute_ms, KILN_WIRE_MS, false),
    KILN_WIRE_FIELD(struct kiln_event, switch_ms, KILN_WIRE_MS, false),
    KILN_WIRE_FIELD(struct kiln_event, fetch_ms, KILN_WIRE_MS, false),
};
static const struct kiln_wire_table event_table = {
    "event", event_fields, sizeof event_fields / sizeof event_fields[0], false};

char *kiln_event_encode(const struct kiln_event *event)
{
    struct kiln_text out = {0};
    kiln_wire_write(&out, &event_table, event);
    kiln_text_printf(&out, "\"code\":\"%s\",", kiln_code_name(event->code));
    return kiln_wire_close(&out);
}

#define CODE_UNTOLD (-1)

static int read_event_extra(void *arg, const struct kiln_json_value *key,
                            const struct kiln_json_value *value, struct kiln_error *err)
{
    struct kiln_event *event = arg;
    char name[64];
    if (!kiln_json_equals(key, "code"))
        return 0;
    if (event->code != CODE_UNTOLD)
        return kiln_fail(err, KILN_PROTOCOL, "event: field \"code\" must be given once");
    if (value->type != KILN_JSON_STRING || !kiln_json_string(value, name, sizeof name, NULL))
        return kiln_fail(err, KILN_PROTOCOL,
                         "event: field \"code\" must be the name of an error code");
    /* A newer peer may know a code that this program does not: still an error, cause unknown. */
    int code = kiln_code_by_name(name);
    event->code = code >= 0 ? code : KILN_INTERNAL;
    return 0;
}

int kiln_event_decode(const char *text, size_t len, struct kiln_event *ret, struct kiln_error *err)
{
    struct kiln_event event = {.code = CODE_UNTOLD};
    int code = kiln_wire_read(text, len, &event_table, &event, read_event_extra, &event, err);
    /* What an event of this kind is about. */
    const bool greets = event.kind == KILN_EVENT_HELLO || event.kind == KILN_EVENT_BYE;
    const bool finished = event.kind == KILN_EVENT_FINISHED;
    const char *missing = NULL;
    if (!greets && !finished && event.job == 0)
        missing = "job";
    else if (finished && event.assignment[0] == '\0')
        missing = "assignment";
    else if ((greets || finished) && event.worker[0] == '\0')
        missing = "worker";
    if (missing && !code)
        code = kiln_fail(err, KILN_PROTOCOL, "event: %s needs \"%s\"", event_names[event.kind],
                         missing);
    if (event.code == CODE_UNTOLD)
        event.code = KILN_OK;
    if (!code)
        *ret = event;
    return code;
}

/* --- receipts ------------------------------------------------------------------------------ */

static const struct kiln_wire_field receipt_fields[] = {
    KILN_WIRE_FIELD(struct kiln_receipt, batch, KILN_WIRE_ID, true),
    KILN_WIRE_FIELD(struct kiln_receipt, accepted, KILN_WIRE_U64, true),
    KILN_WIRE_FIELD(struct kiln_receipt, duplicate, KILN_WIRE_U64, true),
    KILN_WIRE_FIELD(struct kiln_receipt, refused, KILN_WIRE_U64, true),
    KILN_WIRE_FIELD(struct kiln_receipt, first_refusal, KILN_WIRE_TEXT, false),
    KILN_WIRE_FIELD(struct kiln_receipt, first_key, KILN_WIRE_TEXT, false),
    KILN_WIRE_FIELD(struct kiln_receipt, last_key, KILN_WIRE_TEXT, false),
};
static const struct kiln_wire_table receipt_table = {
    "receipt", receipt_fields, sizeof receipt_fields / sizeof receipt_fields[0], false};

char *kiln_receipt_encode(const struct kiln_receipt *receipt)
{
    struct kiln_text out = {0};
    kiln_wire_write(&out, &receipt_table, receipt);
    return kiln_wire_close(&out);
}

int kiln_receipt_decode(const char *text, size_t len, struct kiln_receipt *ret,
                        struct kiln_error *err)
{
    struct kiln_receipt receipt = {0};
    int code = kiln_wire_read(text, len, &receipt_table, &receipt, NULL, NULL, err);
    if (!code)
        *ret = receipt;
    return code;
}
