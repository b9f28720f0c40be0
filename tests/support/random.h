/* random.h - a small seeded generator, so that a failing test can be run again. */
#ifndef KILN_TEST_RANDOM_H
#define KILN_TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct test_random {
    uint64_t state; /* the seed; any value */
};

/* SplitMix64. */
static inline uint64_t test_random_u64(struct test_random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0 .. below - 1 */
static inline uint32_t test_random_below(struct test_random *random, uint32_t below)
{
    return (uint32_t)(test_random_u64(random) % below);
}

static inline void test_random_fill(struct test_random *random, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)test_random_u64(random);
}

#endif
