/* slots.c - slot numbers in chains: one for each bucket and one of the free slots. */
#include "scheduler/policy/slots.h"

#include <stdlib.h>
#include <string.h>

int kiln_slots_init(struct kiln_slots *slots, uint32_t capacity, struct kiln_error *err)
{
    uint32_t buckets = 16;
    while (buckets < capacity && buckets < (1u << 30))
        buckets *= 2;
    memset(slots, 0, sizeof(*slots));
    slots->buckets = malloc(buckets * sizeof(uint32_t));
    slots->chain = malloc(((size_t)capacity + 1) * sizeof(uint32_t));
    slots->hashes = malloc(((size_t)capacity + 1) * sizeof(uint32_t));
    if (!slots->buckets || !slots->chain || !slots->hashes) {
        kiln_slots_release(slots);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a table of %u slots", capacity);
    }
    memset(slots->buckets, 0xff, buckets * sizeof(uint32_t));
    slots->mask = buckets - 1;
    slots->capacity = capacity;
    for (uint32_t i = 0; i < capacity; i++)
        slots->chain[i] = i + 1 < capacity ? i + 1 : KILN_NONE;
    slots->free = capacity ? 0 : KILN_NONE;
    return 0;
}

void kiln_slots_release(struct kiln_slots *slots)
{
    free(slots->buckets);
    free(slots->chain);
    free(slots->hashes);
    memset(slots, 0, sizeof(*slots));
}

uint32_t kiln_slots_find(const struct kiln_slots *slots, uint32_t hash)
{
    uint32_t slot = slots->buckets[hash & slots->mask];
    while (slot != KILN_NONE && slots->hashes[slot] != hash)
        slot = slots->chain[slot];
    return slot;
}

uint32_t kiln_slots_next(const struct kiln_slots *slots, uint32_t slot)
{
    uint32_t hash = slots->hashes[slot];
    do
        slot = slots->chain[slot];
    while (slot != KILN_NONE && slots->hashes[slot] != hash);
    return slot;
}

uint32_t kiln_slots_alloc(struct kiln_slots *slots, uint32_t hash)
{
    uint32_t slot = slots->free;
    if (slot == KILN_NONE)
        return KILN_NONE;
    slots->free = slots->chain[slot];
    slots->hashes[slot] = hash;
    slots->chain[slot] = slots->buckets[hash & slots->mask];
    slots->buckets[hash & slots->mask] = slot;
    slots->used++;
    return slot;
}

void kiln_slots_free(struct kiln_slots *slots, uint32_t slot)
{
    uint32_t *link = &slots->buckets[slots->hashes[slot] & slots->mask];
    while (*link != slot)
        link = &slots->chain[*link];
    *link = slots->chain[slot];
    slots->chain[slot] = slots->free;
    slots->free = slot;
    slots->used--;
}

uint32_t kiln_hash_u64(uint64_t value)
{
    value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdull;
    value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53ull;
    return (uint32_t)(value ^ (value >> 33));
}

uint32_t kiln_hash_bytes(uint32_t seed, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint32_t hash = seed ^ 2166136261u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * 16777619u;
    return hash ^ (hash >> 15);
}
