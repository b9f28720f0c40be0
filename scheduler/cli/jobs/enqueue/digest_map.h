/* digest_map.h - a number for each text that was met, by its SHA-256: 16 bytes an entry.
 *
 * It keeps only 96 bits of each digest, so ten million jobs need a few hundred MB, not their texts.
 */
#ifndef KILN_ENQUEUE_DIGEST_MAP_H
#define KILN_ENQUEUE_DIGEST_MAP_H

#include <stddef.h>
#include <stdint.h>

struct kiln_digest_slot;

struct kiln_digest_map {
    struct kiln_digest_slot *slots; /* NULL while empty */
    size_t size, used;              /* size: a power of two */
};

/* The number of a digest, 0 if it is new; borrowed until the next call.  The caller sets it to
 * something else than 0.  NULL: no memory. */
uint32_t *kiln_digest_map_at(struct kiln_digest_map *map, const uint8_t digest[32]);
/* The same without making an entry; NULL if there is none. */
uint32_t *kiln_digest_map_find(const struct kiln_digest_map *map, const uint8_t digest[32]);
void kiln_digest_map_release(struct kiln_digest_map *map);

#endif
