/* memo.h - vectors of texts by the hash of the text; the one that was longest not asked for goes
 * when it is full.  No locks. */
#ifndef KILN_EMBEDDING_MEMO_H
#define KILN_EMBEDDING_MEMO_H

#include <stddef.h>
#include <stdint.h>

struct kiln_memo;

struct kiln_memo_key {
    uint64_t high, low;
};
struct kiln_memo_key kiln_memo_key(const char *text);

/* Room for `rows` vectors of `dims` bytes, all taken at once; NULL: no memory. */
struct kiln_memo *kiln_memo_new(size_t rows, size_t dims);
void kiln_memo_free(struct kiln_memo *memo); /* accepts NULL */
/* The vector, from now on the one that was asked for last; NULL: it is not there.  Valid until the
 * next put. */
const int8_t *kiln_memo_find(struct kiln_memo *memo, struct kiln_memo_key key);
void kiln_memo_put(struct kiln_memo *memo, struct kiln_memo_key key, const int8_t *row);

#endif
