/* seen.h - which texts a run of enqueue has seen: a hash table of 16 bytes an entry.
 *
 * Texts are told apart by 96 bits of their SHA-256 alone, so that ten million jobs need a few
 * hundred MB and not the texts themselves.
 */
#ifndef KILN_ENQUEUE_SEEN_H
#define KILN_ENQUEUE_SEEN_H

#include <stddef.h>
#include <stdint.h>

struct kiln_seen_slot;

struct kiln_seen {
    struct kiln_seen_slot *slots; /* NULL while empty */
    size_t size, used;            /* size: a power of two */
};

/* The number kept with the text of this digest, 0 when it is new; borrowed until the next call.
 * The caller makes it something else than 0.  NULL: no memory. */
uint32_t *kiln_seen_number(struct kiln_seen *seen, const uint8_t digest[32]);
void kiln_seen_release(struct kiln_seen *seen);

#endif
