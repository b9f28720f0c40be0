/* measure.h - the numbers that tests judge by: the largest error, a PSNR, the median of times.
 *
 * fmax() and every comparison pass a NaN over: it is the other value that they keep.  Here a NaN
 * is as bad as can be, wherever it stands.
 */
#ifndef KILN_TEST_MEASURE_H
#define KILN_TEST_MEASURE_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* The worst error so far and one more, neither below 0: the larger one, or infinity for a NaN. */
static inline double test_worse(double worst, double error)
{
    return isnan(error) ? INFINITY : error > worst ? error : worst;
}

/* Peak signal to noise ratio in dB of `count` values of which the largest could be `peak`.
 * squares: the sum of their squared errors; -infinity where that is not a number. */
static inline double test_decibels(double peak, double squares, size_t count)
{
    if (isnan(squares))
        return -INFINITY;
    return 10 * log10(peak * peak * (double)count / fmax(squares, 1e-30));
}

static inline int test_by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The one in the middle of an odd number of values, which are sorted by it: values[0] is the
 * smallest one then. */
static inline double test_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, test_by_size);
    return values[count / 2];
}

#endif
