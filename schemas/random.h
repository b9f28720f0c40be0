/* random.h - a small generator of numbers that need not be secret: SplitMix64 (Steele, Lea, Flood,
 * OOPSLA 2014).  The same seed gives the same numbers, on every machine. */
#ifndef KILN_RANDOM_H
#define KILN_RANDOM_H

#include <stdint.h>

/* The next 64 bits; *state is the seed before the first call, any value. */
static inline uint64_t kiln_random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In (0, 1), neither end included. */
static inline double kiln_random_share(uint64_t *state)
{
    return ((double)(kiln_random_next(state) >> 11) + 0.5) * 0x1p-53;
}

#endif
