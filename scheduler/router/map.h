/* map.h - a hash table from 64-bit hashes of words to numbers. */
#ifndef KILN_ROUTER_MAP_H
#define KILN_ROUTER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kiln_map {
    uint64_t *keys; /* 0: free */
    uint32_t *values;
    size_t size, count; /* size is a power of two */
};

/* The value of a key, or NULL. */
static inline const uint32_t *kiln_map_get(const struct kiln_map *map, uint64_t key)
{
    if (map->count == 0)
        return NULL;
    for (size_t i = key & (map->size - 1); map->keys[i]; i = (i + 1) & (map->size - 1))
        if (map->keys[i] == key)
            return &map->values[i];
    return NULL;
}

/* The place of a key's value, which is `fresh` if the key is new; NULL: no memory.  Valid until the
 * next call. */
uint32_t *kiln_map_put(struct kiln_map *map, uint64_t key, uint32_t fresh);
void kiln_map_release(struct kiln_map *map);

/* Eight bytes at a time, mixed so that its low bits may be an index; never 0.  Not to be stored: it
 * differs with the order of bytes in a number. */
uint64_t kiln_map_hash(const char *bytes, size_t len);

#endif
