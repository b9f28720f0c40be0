/* text.h - a growing text, with JSON's way of writing strings and numbers.
 *
 * Memory failure is remembered in `failed` and asked for once, at the end: a chain of adds needs
 * no check after each.  Zero-initialise; kiln_text_take hands the bytes over.
 */
#ifndef KILN_TEXT_H
#define KILN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_text {
    char *at; /* NUL-terminated once anything was added */
    size_t len, size;
    bool failed;
};

void kiln_text_add(struct kiln_text *text, const char *bytes, size_t len);
void kiln_text_puts(struct kiln_text *text, const char *string);
void kiln_text_printf(struct kiln_text *text, const char *fmt, ...) KILN_PRINTF(2, 3);
/* A JSON string with its quotes.  What is no UTF-8 (a message cut in mid-character) becomes U+FFFD;
 * what steers a terminal or a page (kiln_utf8_steering) is escaped. */
void kiln_text_json(struct kiln_text *text, const char *bytes, size_t len);
/* The same with only those escapes that JSON demands, C0, quote and backslash.  For text that is
 * hashed and compared: its bytes stay the same from release to release, whatever screens are
 * spared. */
void kiln_text_json_least(struct kiln_text *text, const char *bytes, size_t len);
/* Percent encoding with capital digits, as RFC 3986 has it and whatever the locale; its unreserved
 * characters and those of `keep` stay. */
void kiln_text_percent(struct kiln_text *text, const char *string, const char *keep);
void kiln_text_u64(struct kiln_text *text, uint64_t value);
void kiln_text_i64(struct kiln_text *text, int64_t value);
/* The shortest decimal that reads back as the same double; "." in every locale. */
void kiln_text_double(struct kiln_text *text, double value);

/* Forgets the content and keeps the memory. */
void kiln_text_clear(struct kiln_text *text);
/* The bytes, malloc'd (free them), or NULL if memory was short; *text is empty again. */
char *kiln_text_take(struct kiln_text *text);
void kiln_text_release(struct kiln_text *text);

#endif
