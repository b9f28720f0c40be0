/* digest_map.c - open addressing with linear steps, at most three quarters full. */
#include "scheduler/cli/jobs/enqueue/digest_map.h"

#include <stdlib.h>
#include <string.h>

struct kiln_digest_slot {
    uint64_t high;
    uint32_t low, number; /* number 0: free */
};

/* The slot of a digest, or the free one where it belongs. */
static struct kiln_digest_slot *find(const struct kiln_digest_map *map, uint64_t high, uint32_t low)
{
    size_t at = (size_t)high & (map->size - 1);
    for (;;) {
        struct kiln_digest_slot *slot = &map->slots[at];
        if (slot->number == 0 || (slot->high == high && slot->low == low))
            return slot;
        at = (at + 1) & (map->size - 1);
    }
}

/* Doubles and puts every entry in its new place. */
static int grow(struct kiln_digest_map *map)
{
    struct kiln_digest_map bigger = {.size = map->size ? map->size * 2 : 1024, .used = map->used};
    bigger.slots = calloc(bigger.size, sizeof *bigger.slots);
    if (!bigger.slots)
        return -1;
    for (size_t i = 0; i < map->size; i++)
        if (map->slots[i].number)
            *find(&bigger, map->slots[i].high, map->slots[i].low) = map->slots[i];
    free(map->slots);
    *map = bigger;
    return 0;
}

uint32_t *kiln_digest_map_at(struct kiln_digest_map *map, const uint8_t digest[32])
{
    uint64_t high;
    uint32_t low;
    memcpy(&high, digest, sizeof high);
    memcpy(&low, digest + sizeof high, sizeof low);
    if ((map->used + 1) * 4 > map->size * 3 && grow(map) != 0)
        return NULL;
    struct kiln_digest_slot *slot = find(map, high, low);
    if (slot->number == 0) {
        slot->high = high;
        slot->low = low;
        map->used++;
    }
    return &slot->number;
}

uint32_t *kiln_digest_map_find(const struct kiln_digest_map *map, const uint8_t digest[32])
{
    uint64_t high;
    uint32_t low;
    memcpy(&high, digest, sizeof high);
    memcpy(&low, digest + sizeof high, sizeof low);
    struct kiln_digest_slot *slot = map->size ? find(map, high, low) : NULL;
    return slot && slot->number ? &slot->number : NULL;
}

void kiln_digest_map_release(struct kiln_digest_map *map)
{
    free(map->slots);
    *map = (struct kiln_digest_map){0};
}
