/* digests.h - SHA-256 hashes numbered in the order in which they came: 0, 1, 2, ...
 *
 * 32 bytes a hash and at most 11 for finding it, so that a million prompts need 43 MB; as texts
 * they needed twice that.  No lock: the catalogue has one.
 */
#ifndef KILN_GALLERY_DIGESTS_H
#define KILN_GALLERY_DIGESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/digest.h"
#include "schemas/places.h"

struct kiln_digests { /* zero-initialised: none */
    uint8_t (*at)[KILN_SHA256_SIZE];
    struct kiln_places places;
    uint32_t count;
    size_t room;
};

void kiln_digests_release(struct kiln_digests *digests);
/* hex: 64 lower-case digits.  KILN_NONE: it is unknown, or no such text. */
uint32_t kiln_digests_find(const struct kiln_digests *digests, const char *hex);
/* Its number, which may be new.  KILN_NONE: no memory, or no such text. */
uint32_t kiln_digests_put(struct kiln_digests *digests, const char *hex);
/* The text of a number, which must be one. */
void kiln_digests_hex(const struct kiln_digests *digests, uint32_t number,
                      char ret[2 * KILN_SHA256_SIZE + 1]);
bool kiln_digests_valid(const char *hex);

#endif
