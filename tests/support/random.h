/* random.h - a small seeded generator, so that a failing test can be run again. */
#ifndef KILN_TEST_RANDOM_H
#define KILN_TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/random.h"

struct test_random {
    uint64_t state; /* the seed; any value */
};

static inline uint64_t test_random_u64(struct test_random *random)
{
    return kiln_random_next(&random->state);
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
