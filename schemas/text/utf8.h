/* utf8.h - the strict test of UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above
 * U+10FFFF.  All text from users is checked here once. */
#ifndef KILN_UTF8_H
#define KILN_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length 1..4 of the valid sequence at text[0], or 0 if there is none within len bytes. */
size_t kiln_utf8_length(const char *text, size_t len);

/* Whether all of text is valid; *ret_at (may be NULL) receives the offset of the first bad byte. */
bool kiln_utf8_valid(const char *text, size_t len, size_t *ret_at);

/* Whether text has no byte above 0x7f. */
bool kiln_utf8_ascii(const char *text, size_t len);

/* The code point of the valid sequence of len bytes at text[0] if it is invisible and controls how
 * a terminal shows text, else -1: C0, DEL, C1, the line and paragraph separators U+2028/9, and
 * U+202A-202E, U+2066-2069, which change the direction of text. */
int kiln_utf8_steering(const char *text, size_t len);

/* How many bytes at text are printable ASCII other than '"' and '\\', tested eight at a time: most
 * of a JSON string. */
size_t kiln_plain_run(const char *text, size_t len);

/* The length of text without an incomplete character at its end. */
size_t kiln_utf8_whole(const char *text, size_t len);

/* Copies a NUL-terminated text, cut between two characters if it does not fit. */
void kiln_utf8_copy(char *out, size_t size, const char *text);

/* Makes text[0..len) valid: invalid bytes and NUL become '?'. */
void kiln_utf8_clean(char *text, size_t len);

/* Writes the 1..4 bytes of a code point; returns how many. */
size_t kiln_utf8_encode(unsigned code, char out[4]);

#endif
