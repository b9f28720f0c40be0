/* places.c - see places.h. */
#include "schemas/places.h"

#include <stdlib.h>

#define FIRST_PLACES 64 /* a power of two, as later ones */

void kiln_places_add(struct kiln_places *places, uint32_t hash, uint32_t n)
{
    uint32_t place = hash & places->mask;
    while (places->at[place])
        place = (place + 1) & places->mask;
    places->at[place] = n + 1;
    places->taken++;
}

bool kiln_places_fit(struct kiln_places *places, const void *things, uint32_t count,
                     kiln_places_hash *hash)
{
    const uint32_t size = places->at ? places->mask + 1 : 0;
    uint32_t larger = FIRST_PLACES, live = 0, value;
    if (places->taken < size / 4 * 3)
        return true;
    for (uint32_t n = 0; n < count; n++)
        live += hash(things, n, &value);
    while (live >= larger / 2) /* so that the next time is far, also if things come and go */
        larger *= 2;
    struct kiln_places fresh = {.at = calloc(larger, sizeof *fresh.at), .mask = larger - 1};
    if (!fresh.at)
        return false;
    for (uint32_t n = 0; n < count; n++)
        if (hash(things, n, &value))
            kiln_places_add(&fresh, value, n);
    kiln_places_release(places);
    *places = fresh;
    return true;
}

void kiln_places_release(struct kiln_places *places)
{
    free(places->at);
    *places = (struct kiln_places){0};
}
