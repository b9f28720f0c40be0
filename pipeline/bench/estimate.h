/* estimate.h - a ratio of sums over prompts, with its standard error.
 *
 *     R = sum x / sum y        error = sqrt(n / (n - 1) * sum (x - R y)^2) / sum y
 *
 * The prompts are the independent units: what one prompt's pictures and attributes share does not
 * make the error look smaller (Cochran, Sampling Techniques, 3rd ed., 6.4).  With a run's results
 * as x and an exact run's as y, R compares the two in pairs, which takes the prompts' own
 * difficulty out of the error.
 */
#ifndef KILN_BENCH_ESTIMATE_H
#define KILN_BENCH_ESTIMATE_H

#include <stddef.h>

struct kiln_estimate {
    double value, error; /* NaN: nothing to divide by; the error also for fewer than two prompts */
};

/* Pairs of which one is NaN count for nothing. */
struct kiln_estimate kiln_estimate_ratio(const double *x, const double *y, size_t count);

#endif
