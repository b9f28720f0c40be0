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

/* The moment so far ahead, as pthread_cond_timedwait takes it. */
static inline struct timespec kiln_deadline_in(int wait_ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += wait_ms / 1000;
    at.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

/* Since 1970, by a clock that may be set at any time. */
static inline int64_t kiln_wall_ms(void)
{
    return (int64_t)kiln_ms_of(CLOCK_REALTIME);
}

#endif
