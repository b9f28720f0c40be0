/* record.h - a bus message as a table of fields: one writer and one reader for all of them.
 *
 * Every message is a flat JSON object with "v" (KILN_WIRE_VERSION) first.  A reader passes over
 * fields it does not know, so that a newer peer may add some; what it does know must be of the
 * right type and range, once.
 */
#ifndef KILN_WIRE_RECORD_H
#define KILN_WIRE_RECORD_H

#include <stddef.h>

#include "schemas/error.h"
#include "schemas/text/json.h"
#include "schemas/text/text.h"

enum kiln_wire_type {
    KILN_WIRE_TEXT, /* char[size], any text */
    KILN_WIRE_ID,   /* char[size], a name or "" */
    KILN_WIRE_NAME, /* char[size], a name */
    KILN_WIRE_U32,
    KILN_WIRE_U64, /* 0 .. 2^63 - 1: what the ledger can store */
    KILN_WIRE_ROW, /* uint64_t, the id of a row: 1 .. 2^63 - 1 */
    KILN_WIRE_TRY, /* uint32_t, the number of an attempt: 0 (not told) .. 2^31 - 1 */
    KILN_WIRE_I64,
    KILN_WIRE_MS, /* double, a duration: 0 .. KILN_WIRE_MS_MAX */
    KILN_WIRE_BOOL,
    KILN_WIRE_ENUM /* int, written as names[value] */
};

struct kiln_wire_field {
    const char *name;
    enum kiln_wire_type type;
    bool required;
    size_t offset, size;
    const char *const *names; /* ENUM: ended by NULL */
};

#define KILN_WIRE_FIELD(record, member, kind, needed)                                              \
    {                                                                                              \
        .name = #member, .type = kind, .required = needed, .offset = offsetof(record, member),     \
        .size = sizeof(((record *)0)->member)                                                      \
    }

/* A message: what it is called in errors and the fields of its record. */
struct kiln_wire_table {
    const char *what;
    const struct kiln_wire_field *fields;
    size_t count; /* at most 64 */
    bool any_version;
};

/* Writes `{"v":1,` and the fields with a comma after each, so that the caller may add more before
 * kiln_wire_close. */
void kiln_wire_write(struct kiln_text *out, const struct kiln_wire_table *table,
                     const void *record);
/* Ends the object (dropping the last comma) and returns the text, which the caller frees; NULL: no
 * memory. */
char *kiln_wire_close(struct kiln_text *out);

/* Called for each member that is not in the table; 0 or a code with *err filled. */
typedef int kiln_wire_extra(void *arg, const struct kiln_json_value *key,
                            const struct kiln_json_value *value, struct kiln_error *err);
/* Fills the fields of *record (zeroed by the caller).  extra may be NULL.  All failures are
 * KILN_PROTOCOL. */
int kiln_wire_read(const char *text, size_t len, const struct kiln_wire_table *table, void *record,
                   kiln_wire_extra *extra, void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* Whole numbers of the bus are digits alone: no sign, no fraction, no exponent. */
bool kiln_wire_whole(const char *text, size_t len, uint64_t *ret);
/* One value into one field of *record. */
int kiln_wire_read_field(const struct kiln_wire_table *table, const struct kiln_wire_field *field,
                         const struct kiln_json_value *value, void *record,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
