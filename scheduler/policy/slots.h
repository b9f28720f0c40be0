/* slots.h - which slots of a slab are in use, found by a hash of their content.
 *
 * The slab itself is the caller's; this allocates and frees slot numbers, and chains those of equal
 * hash.  The caller compares:
 *
 *     for (s = kiln_slots_find(&t, hash); s != KILN_NONE; s = kiln_slots_next(&t, s))
 *         if (things[s].id == id) ...
 *
 * All memory is taken at the start.
 */
#ifndef KILN_SLOTS_H
#define KILN_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/policy/treap.h" /* KILN_NONE */
#include "schemas/error.h"

struct kiln_slots {
    uint32_t *buckets; /* first slot of a chain */
    uint32_t *chain;   /* the next one; of free slots the next free one */
    uint32_t *hashes;  /* of the slots in use */
    uint32_t mask, capacity, free, used;
};

int kiln_slots_init(struct kiln_slots *slots, uint32_t capacity,
                    struct kiln_error *err) KILN_MUST_CHECK;
void kiln_slots_release(struct kiln_slots *slots); /* takes a zeroed one */

/* The first slot of this hash, and the next one after it; KILN_NONE at the end. */
uint32_t kiln_slots_find(const struct kiln_slots *slots, uint32_t hash);
uint32_t kiln_slots_next(const struct kiln_slots *slots, uint32_t slot);
/* A free slot, from now on in use under this hash; KILN_NONE when all are. */
uint32_t kiln_slots_alloc(struct kiln_slots *slots, uint32_t hash);
void kiln_slots_free(struct kiln_slots *slots, uint32_t slot);

uint32_t kiln_hash_u64(uint64_t value);
/* FNV-1a of len bytes, going on from seed. */
uint32_t kiln_hash_bytes(uint32_t seed, const void *bytes, size_t len);

#endif
