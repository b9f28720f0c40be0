/* json.h - a strict JSON reader (RFC 8259) for texts whose shape is known: job lines and bus
 * messages.
 *
 * It reads the text once, allocates nothing and returns parts of the text, so that a job line takes
 * about a microsecond.  General JSON (style files, results) is read by jansson; a test checks that
 * both accept the same texts.  Beyond the RFC it refuses invalid UTF-8, \u0000, lone surrogates and
 * nesting deeper than KILN_JSON_DEPTH.  Whole numbers keep all 64 bits: seeds need them.
 *
 *     struct kiln_json_reader reader;
 *     int code = kiln_json_open(&reader, text, len, KILN_JSON_OBJECT, err);
 *     while (!code && !(code = kiln_json_next(&reader, &key, &value, &more, err)) && more)
 *         ...
 */
#ifndef KILN_JSON_H
#define KILN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_JSON_DEPTH 16

enum kiln_json_type {
    KILN_JSON_NULL,
    KILN_JSON_FALSE,
    KILN_JSON_TRUE,
    KILN_JSON_NUMBER,
    KILN_JSON_STRING,
    KILN_JSON_ARRAY,
    KILN_JSON_OBJECT
};

/* A checked value; text lies in the reader's text and is borrowed from it. */
struct kiln_json_value {
    enum kiln_json_type type;
    bool escaped;     /* STRING: has backslashes, so text is not yet what it means */
    const char *text; /* STRING: between the quotes; ARRAY, OBJECT: with their brackets */
    size_t len;
};

struct kiln_json_reader {
    const char *start, *at, *end;
    char close; /* the bracket that ends the object or array */
    bool first;
};

/* Starts on the members of an object or the elements of an array that fills all of text. */
int kiln_json_open(struct kiln_json_reader *reader, const char *text, size_t len,
                   enum kiln_json_type type, struct kiln_error *err) KILN_MUST_CHECK;
/* The next member (key NULL for arrays); *ret_more false at the end, after which nothing may
 * follow.  KILN_BAD_INPUT names the byte, counted from 1. */
int kiln_json_next(struct kiln_json_reader *reader, struct kiln_json_value *key,
                   struct kiln_json_value *value, bool *ret_more,
                   struct kiln_error *err) KILN_MUST_CHECK;

/* "a number", "text", ...: for messages. */
const char *kiln_json_type_name(enum kiln_json_type type);
/* Decodes a STRING into out with a NUL; false if it needs more than size bytes. */
bool kiln_json_string(const struct kiln_json_value *value, char *out, size_t size, size_t *ret_len);
/* The same, malloc'd; NULL: no memory. */
char *kiln_json_string_copy(const struct kiln_json_value *value, size_t *ret_len);
bool kiln_json_equals(const struct kiln_json_value *value, const char *string);
/* NUMBER to a whole number; 8.0 and 8e0 are whole too.  False: not whole or out of range. */
bool kiln_json_u64(const struct kiln_json_value *value, uint64_t *ret);
bool kiln_json_i64(const struct kiln_json_value *value, int64_t *ret);
/* False: not finite in a double. */
bool kiln_json_double(const struct kiln_json_value *value, double *ret);

#endif
