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

/* Whether the donor may say all that the target says; false is certain. */
static inline bool kiln_reuse_block_serves(const struct kiln_reuse_block *target,
                                           const struct kiln_reuse_block *donor)
{
    return target->subject == donor->subject && (target->said & ~donor->said) == 0;
}

#endif
