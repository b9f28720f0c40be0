/* digests.c - see digests.h. */
#include "scheduler/gallery/meaning/digests.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/treap.h" /* KILN_NONE */
#include "schemas/room.h"

_Static_assert(KILN_NONE == KILN_PLACES_NONE, "both say: none");

void kiln_digests_release(struct kiln_digests *digests)
{
    free(digests->at);
    kiln_places_release(&digests->places);
    memset(digests, 0, sizeof *digests);
}

bool kiln_digests_valid(const char *hex)
{
    uint8_t digest[KILN_SHA256_SIZE];
    return kiln_unhex(hex, sizeof digest, digest);
}

static uint32_t hash_of(const uint8_t *digest)
{
    uint32_t hash;
    memcpy(&hash, digest, sizeof hash); /* any bytes of a hash are a hash */
    return hash;
}

static bool hash_at(const void *things, uint32_t n, uint32_t *ret)
{
    const struct kiln_digests *digests = things;
    *ret = hash_of(digests->at[n]);
    return true;
}

static uint32_t find(const struct kiln_digests *digests, const uint8_t *digest)
{
    uint32_t place = hash_of(digest), n;
    while ((n = kiln_places_look(&digests->places, &place)) != KILN_PLACES_NONE)
        if (memcmp(digests->at[n], digest, KILN_SHA256_SIZE) == 0)
            break;
    return n;
}

static bool grow(struct kiln_digests *digests)
{
    uint8_t(*at)[KILN_SHA256_SIZE] =
        kiln_room(digests->at, digests->count, &digests->room, sizeof *at);
    if (!at)
        return false;
    digests->at = at;
    return kiln_places_fit(&digests->places, digests, digests->count, hash_at);
}

uint32_t kiln_digests_find(const struct kiln_digests *digests, const char *hex)
{
    uint8_t digest[KILN_SHA256_SIZE];
    return kiln_unhex(hex, sizeof digest, digest) ? find(digests, digest) : KILN_NONE;
}

uint32_t kiln_digests_put(struct kiln_digests *digests, const char *hex)
{
    uint8_t digest[KILN_SHA256_SIZE];
    if (!kiln_unhex(hex, sizeof digest, digest))
        return KILN_NONE;
    const uint32_t known = find(digests, digest);
    if (known != KILN_NONE || !grow(digests))
        return known;
    memcpy(digests->at[digests->count], digest, sizeof digest);
    kiln_places_add(&digests->places, hash_of(digest), digests->count);
    return digests->count++;
}

void kiln_digests_hex(const struct kiln_digests *digests, uint32_t number,
                      char ret[2 * KILN_SHA256_SIZE + 1])
{
    kiln_hex(digests->at[number], KILN_SHA256_SIZE, ret);
}
