/* times.h - an open loop: when requests are meant to begin, and how long they took from then on. */
#ifndef KILN_BENCH_TIMES_H
#define KILN_BENCH_TIMES_H

#include <jansson.h>
#include <stdint.h>

#include "schemas/error.h"

/* In seconds from the start, with exponential pauses (Poisson); the same for a seed.  Returns how
 * many are before `seconds`, at most `max`. */
uint32_t kiln_bench_arrivals(double rate, double seconds, uint64_t seed, double *due_s,
                             uint32_t max);

struct kiln_bench_times { /* zero-initialised: none */
    double *at_ms;
    uint32_t count, room;
    uint32_t failed; /* requests without the answer that was wanted; they have no time */
};
/* Room for `more` times beside those that are there. */
int kiln_bench_times_fit(struct kiln_bench_times *times, uint32_t more,
                         struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bench_times_release(struct kiln_bench_times *times);
/* One more, if there is room. */
void kiln_bench_times_add(struct kiln_bench_times *times, double ms);
/* share: 0.99 for p99.  Sorts the times; 0 without any. */
double kiln_bench_times_at(struct kiln_bench_times *times, double share);
/* Prints a line, or appends an object to list (NULL: prints).  seconds: of the load. */
void kiln_bench_times_report(struct kiln_bench_times *times, const char *name, double seconds,
                             json_t *list);

#endif
