/* clock.h - what time it is, in milliseconds: for waits and durations by a clock that nobody sets and
 * that never goes back, for what people read by the wall's.
 */
#ifndef KILN_CLOCK_H
#define KILN_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline double kiln_ms_of(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Since some moment before this machine's programs began. */
static inline double kiln_monotonic_ms(void)
{
    return kiln_ms_of(CLOCK_MONOTONIC);
}

/* The same, whole ones. */
static inline int64_t kiln_clock_ms(void)
{
    return (int64_t)kiln_monotonic_ms();
}

/* Since 1970, by a clock that may be set at any time. */
static inline int64_t kiln_wall_ms(void)
{
    return (int64_t)kiln_ms_of(CLOCK_REALTIME);
}

#endif
