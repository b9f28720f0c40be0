/* block.h - two numbers of a prompt that sort out most donors before the guard compares facts.
 *
 * If the guard takes a donor for a target as reworded or saying more, both have the same subject,
 * and what the target says the donor says too.  So an index by the subject finds every donor that
 * the guard would take, and the guard decides among them.
 */
#ifndef KILN_REUSE_BLOCK_H
#define KILN_REUSE_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/reuse/facts.h"

struct kiln_reuse_block {
    uint64_t subject; /* a hash of the nouns, numbers, names, unknown words, styles: in any order */
    uint64_t said;    /* a Bloom filter of the colours, sizes, details and places */
};

struct kiln_reuse_block kiln_reuse_block_of(const struct kiln_facts *facts);

/* Whether a donor of the same subject may say all that the target says; false is certain. */
static inline bool kiln_reuse_said_serves(uint64_t target, uint64_t donor)
{
    return (target & ~donor) == 0;
}

#endif
