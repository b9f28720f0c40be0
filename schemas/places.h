/* places.h - finds the things of an array by a hash: a table of their numbers.
 *
 * The things are the caller's, and so is comparing them:
 *
 *     uint32_t place = hash, n;
 *     while ((n = kiln_places_look(&table, &place)) != KILN_PLACES_NONE)
 *         if (things[n].id == id)
 *             break;
 *
 * Linear probing with 4 bytes a place and at most three of four taken, so 5 to 11 bytes a thing.
 * A thing that goes keeps its place: the caller's comparison passes over it, until a larger table
 * leaves it out.
 */
#ifndef KILN_PLACES_H
#define KILN_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#define KILN_PLACES_NONE UINT32_MAX

struct kiln_places { /* zero-initialised: none */
    uint32_t *at;    /* a number + 1, 0: free */
    uint32_t mask, taken;
};

/* The number at this place; *place moves on.  KILN_PLACES_NONE: the end of these. */
static inline uint32_t kiln_places_look(const struct kiln_places *places, uint32_t *place)
{
    return places->at ? places->at[(*place)++ & places->mask] - 1u : KILN_PLACES_NONE;
}

/* The hash of thing n.  Returns false if that thing is gone. */
typedef bool kiln_places_hash(const void *things, uint32_t n, uint32_t *ret);

/* Makes room for one more thing beside the first `count`.  Returns false without memory; the table
 * is unchanged then. */
bool kiln_places_fit(struct kiln_places *places, const void *things, uint32_t count,
                     kiln_places_hash *hash);
/* Adds a thing that is not in the table; kiln_places_fit() has made room for it. */
void kiln_places_add(struct kiln_places *places, uint32_t hash, uint32_t n);
void kiln_places_release(struct kiln_places *places); /* accepts a zeroed one */

#endif
