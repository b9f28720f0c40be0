/* clock.h - a clock that never goes back, for tests. */
#ifndef KILN_TEST_CLOCK_H
#define KILN_TEST_CLOCK_H

#include <time.h>

static inline double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

#endif
