/* bpe.h - byte pair encoding: the bytes of one word to ids, by a list of merges in order of rank.
 * No files, Unicode or regular expressions here: ids stand for strings, and a merge replaces two
 * neighbouring ids by a third.
 */
#ifndef KILN_BPE_H
#define KILN_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

/* Ids that grow; the caller frees at. */
struct kiln_ids {
    int32_t *at;
    size_t count, size;
};
int kiln_ids_add(struct kiln_ids *ids, int32_t id, struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_bpe;

/* byte_ids: what each of the 256 bytes starts as.  NULL when memory is short. */
struct kiln_bpe *kiln_bpe_new(const int32_t byte_ids[256], size_t merges);
void kiln_bpe_free(struct kiln_bpe *bpe); /* accepts NULL */

/* Adds a merge of left and right; a pair added twice keeps the later rank.  Ids are >= 0; at most
 * `merges` pairs. */
void kiln_bpe_add(struct kiln_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t merged);

/* Appends the ids of one word. */
int kiln_bpe_encode(const struct kiln_bpe *bpe, const uint8_t *word, size_t len,
                    struct kiln_ids *ids, struct kiln_error *err) KILN_MUST_CHECK;

#endif
