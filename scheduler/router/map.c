/* map.c - see map.h. */
#include "scheduler/router/map.h"

#include <stdlib.h>

uint64_t kiln_map_hash(const char *bytes, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    hash ^= hash >> 29;
    hash *= 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 32;
    return hash ? hash : 1;
}

static bool grow(struct kiln_map *map)
{
    struct kiln_map larger = {.size = map->size ? map->size * 2 : 64, .count = map->count};
    larger.keys = calloc(larger.size, sizeof *larger.keys);
    larger.values = calloc(larger.size, sizeof *larger.values);
    if (!larger.keys || !larger.values) {
        kiln_map_release(&larger);
        return false;
    }
    for (size_t i = 0; i < map->size; i++) {
        if (!map->keys[i])
            continue;
        size_t at = map->keys[i] & (larger.size - 1);
        while (larger.keys[at])
            at = (at + 1) & (larger.size - 1);
        larger.keys[at] = map->keys[i];
        larger.values[at] = map->values[i];
    }
    kiln_map_release(map);
    *map = larger;
    return true;
}

uint32_t *kiln_map_put(struct kiln_map *map, uint64_t key, uint32_t fresh)
{
    if (map->count * 2 >= map->size && !grow(map))
        return NULL;
    size_t i = key & (map->size - 1);
    while (map->keys[i] && map->keys[i] != key)
        i = (i + 1) & (map->size - 1);
    if (!map->keys[i]) {
        map->keys[i] = key;
        map->values[i] = fresh;
        map->count++;
    }
    return &map->values[i];
}

void kiln_map_release(struct kiln_map *map)
{
    free(map->keys);
    free(map->values);
    *map = (struct kiln_map){0};
}
