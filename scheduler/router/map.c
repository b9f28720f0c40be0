/* map.c - see map.h. */
#include "scheduler/router/map.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mixed(uint64_t hash, uint64_t with)
{
    hash = (hash ^ with) * 0xbf58476d1ce4e5b9u;
    return hash ^ hash >> 32;
}

/* All of up to eight bytes, some of them twice. */
static uint64_t few(const unsigned char *bytes, size_t len)
{
    uint32_t first, last;
    if (len < sizeof first)
        return len ? (uint64_t)bytes[0] << 16 | (uint64_t)bytes[len / 2] << 8 | bytes[len - 1] : 0;
    memcpy(&first, bytes, sizeof first);
    memcpy(&last, bytes + len - sizeof last, sizeof last);
    return (uint64_t)first << 32 | last;
}

uint64_t kiln_map_hash(const char *bytes, size_t len)
{
    uint64_t hash = len * 0x9e3779b97f4a7c15u, part;
    for (; len > sizeof part; len -= sizeof part, bytes += sizeof part) {
        memcpy(&part, bytes, sizeof part);
        hash = mixed(hash, part);
    }
    hash = mixed(mixed(hash, few((const unsigned char *)bytes, len)), 0x94d049bb133111ebu);
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
