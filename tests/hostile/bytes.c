/* bytes.c - see bytes.h. */
#include "tests/hostile/bytes.h"

#include <stdlib.h>
#include <string.h>

void hostile_append(struct hostile_bytes *to, const void *at, size_t len)
{
    char *grown = realloc(to->at, to->len + len + 1);
    if (!grown)
        abort();
    memcpy(grown + to->len, at, len);
    to->at = grown;
    to->len += len;
    to->at[to->len] = '\0';
}

void hostile_append_text(struct hostile_bytes *to, const char *text)
{
    hostile_append(to, text, strlen(text));
}

struct hostile_bytes hostile_copy(const void *at, size_t len)
{
    struct hostile_bytes bytes = {0};
    hostile_append(&bytes, at, len);
    return bytes;
}

struct hostile_bytes hostile_text(const char *text)
{
    return hostile_copy(text, strlen(text));
}

void hostile_release(struct hostile_bytes *bytes)
{
    free(bytes->at);
    *bytes = (struct hostile_bytes){0};
}
