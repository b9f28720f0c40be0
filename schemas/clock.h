/* clock.h - the time in milliseconds: monotonic for waits and durations, the wall clock for people.
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

/* Monotonic. */
static inline double kiln_monotonic_ms(void)
{
    return kiln_ms_of(CLOCK_MONOTONIC);
}

/* The same as an integer. */
static inline int64_t kiln_clock_ms(void)
{
    return (int64_t)kiln_monotonic_ms();
}

/* The monotonic time in wait_ms from now, for pthread_cond_timedwait. */
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

/* Since 1970; may be set at any time. */
static inline int64_t kiln_wall_ms(void)
{
    return (int64_t)kiln_ms_of(CLOCK_REALTIME);
}

#endif
