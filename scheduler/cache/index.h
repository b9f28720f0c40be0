/* index.h - the donors in memory, found by a key.
 *
 * A key stands for everything that must be equal for a hit: prompt, size, steps, model and whether
 * the donor was rendered coarse first.  Donors of one key are a pool; weights says which files
 * rendered them, so that a model exchanged under its name has no donors of before.  All memory
 * grows with the donors, about 64 bytes each, up to a bound given at the start.  No I/O, no locks;
 * one call takes less than a microsecond, and looks at KILN_POOL_LOOK donors of a key at most.
 */
#ifndef KILN_DONOR_INDEX_H
#define KILN_DONOR_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_DONOR_KEY 16  /* bytes */
#define KILN_POOL_LOOK 256 /* donors of a key that are looked at; further ones are not */

struct kiln_donor_index;

struct kiln_donor_entry {
    uint64_t job;
    uint8_t key[KILN_DONOR_KEY];
    uint64_t weights; /* a hash */
    uint32_t uses;
};

/* The donors of a key and these weights. */
struct kiln_donor_pool {
    uint32_t donors;
    uint64_t job;  /* of the one that was used least */
    uint32_t uses; /* of that one */
};

struct kiln_donor_index *kiln_donor_index_new(uint32_t donors_max); /* NULL: no memory */
void kiln_donor_index_free(struct kiln_donor_index *index);         /* accepts NULL */
uint32_t kiln_donor_index_count(const struct kiln_donor_index *index);

/* Adds a donor or replaces the one of this job, which keeps its uses if they are more.  KILN_FULL
 * at the bound, KILN_NO_MEMORY. */
int kiln_donor_index_put(struct kiln_donor_index *index,
                         const struct kiln_donor_entry *entry) KILN_MUST_CHECK;
/* Whether it was there. */
bool kiln_donor_index_remove(struct kiln_donor_index *index, uint64_t job);
/* One more picture begins from it. */
void kiln_donor_index_use(struct kiln_donor_index *index, uint64_t job);
/* Zeroed if there are none. */
struct kiln_donor_pool kiln_donor_index_pool(const struct kiln_donor_index *index,
                                             const uint8_t key[KILN_DONOR_KEY], uint64_t weights);

#endif
