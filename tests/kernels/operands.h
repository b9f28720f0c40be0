/* operands.h - rows of numbers in either format, for tests of the kernels' references. */
#ifndef KILN_TEST_OPERANDS_H
#define KILN_TEST_OPERANDS_H

#include <stdlib.h>

#include "kernels/floats.h"
#include "tests/support/random.h"

/* `count` values of about unit size; the caller frees them. */
static inline void *values(struct test_random *random, int64_t count, enum kiln_float f)
{
    void *p = malloc((size_t)count * sizeof(float));
    if (!p)
        abort();
    for (int64_t i = 0; i < count; i++)
        kiln_store(p, i, (float)test_random_below(random, 4001) / 1000.0f - 2.0f, f);
    return p;
}

/* Rows of n values, `pitch` apart, with `gap` in between. */
static inline void *rows_of(struct test_random *random, int64_t rows, int64_t n, int64_t pitch,
                            float gap, enum kiln_float f)
{
    void *p = values(random, rows * pitch, f);
    for (int64_t i = 0; i < rows * pitch; i++)
        if (i % pitch >= n)
            kiln_store(p, i, gap, f);
    return p;
}

/* Value i of them. */
static inline double at(const void *p, int64_t i, enum kiln_float f)
{
    return (double)kiln_load(p, i, f);
}

#endif
