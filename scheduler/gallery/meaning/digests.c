/* digests.c - see digests.h. */
#include "scheduler/gallery/meaning/digests.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/slots.h" /* KILN_NONE */
#include "schemas/room.h"

#define FIRST_PLACES 64 /* a power of two, as later ones */

void kiln_digests_release(struct kiln_digests *digests)
{
    free(digests->at), free(digests->places);
    memset(digests, 0, sizeof *digests);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const char *hex, uint8_t ret[KILN_SHA256_SIZE])
{
    for (size_t i = 0; i < KILN_SHA256_SIZE; i++) {
        const int high = digit(hex[2 * i]), low = high < 0 ? -1 : digit(hex[2 * i + 1]);
        if (low < 0)
            return false;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return hex[2 * KILN_SHA256_SIZE] == '\0';
}

bool kiln_digests_valid(const char *hex)
{
    uint8_t digest[KILN_SHA256_SIZE];
    return read_hex(hex, digest);
}

/* Where the digest is, or the free place where it would be.  There is a free one. */
static uint32_t place_of(const struct kiln_digests *digests, const uint8_t *digest)
{
    uint32_t at;
    memcpy(&at, digest, sizeof at); /* any bytes of a hash are a hash */
    for (at &= digests->mask; digests->places[at]; at = (at + 1) & digests->mask)
        if (memcmp(digests->at[digests->places[at] - 1], digest, KILN_SHA256_SIZE) == 0)
            break;
    return at;
}

/* So that at most three of four places are taken. */
static bool grow(struct kiln_digests *digests)
{
    const uint32_t size = digests->places ? digests->mask + 1 : 0;
    uint8_t(*at)[KILN_SHA256_SIZE] =
        kiln_room(digests->at, digests->count, &digests->room, sizeof *at);
    if (!at)
        return false;
    digests->at = at;
    if (digests->count < size / 4 * 3)
        return true;
    const uint32_t larger = size ? 2 * size : FIRST_PLACES;
    uint32_t *places = calloc(larger, sizeof *places);
    if (!places)
        return false;
    free(digests->places);
    digests->places = places;
    digests->mask = larger - 1;
    for (uint32_t i = 0; i < digests->count; i++)
        places[place_of(digests, at[i])] = i + 1;
    return true;
}

uint32_t kiln_digests_find(const struct kiln_digests *digests, const char *hex)
{
    uint8_t digest[KILN_SHA256_SIZE];
    if (digests->count == 0 || !read_hex(hex, digest))
        return KILN_NONE;
    const uint32_t number = digests->places[place_of(digests, digest)];
    return number ? number - 1 : KILN_NONE;
}

uint32_t kiln_digests_put(struct kiln_digests *digests, const char *hex)
{
    uint8_t digest[KILN_SHA256_SIZE];
    if (!read_hex(hex, digest) || !grow(digests))
        return KILN_NONE;
    uint32_t *place = &digests->places[place_of(digests, digest)];
    if (*place == 0) {
        memcpy(digests->at[digests->count++], digest, sizeof digest);
        *place = digests->count;
    }
    return *place - 1;
}

void kiln_digests_hex(const struct kiln_digests *digests, uint32_t number,
                      char ret[2 * KILN_SHA256_SIZE + 1])
{
    kiln_hex(digests->at[number], KILN_SHA256_SIZE, ret);
}
