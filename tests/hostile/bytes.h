/* bytes.h - strings with a length, since hostile ones contain NUL. */
#ifndef KILN_TEST_HOSTILE_BYTES_H
#define KILN_TEST_HOSTILE_BYTES_H

#include <stddef.h>

struct hostile_bytes {
    char *at; /* malloc'd, with a NUL behind it; NULL = none */
    size_t len;
};

struct hostile_bytes hostile_copy(const void *at, size_t len);
struct hostile_bytes hostile_text(const char *text);
void hostile_append(struct hostile_bytes *to, const void *at, size_t len);
void hostile_append_text(struct hostile_bytes *to, const char *text);
void hostile_release(struct hostile_bytes *bytes); /* accepts none, and makes it none */

#endif
