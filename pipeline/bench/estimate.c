/* estimate.c - see estimate.h. */
#include "pipeline/bench/estimate.h"

#include <math.h>

struct kiln_estimate kiln_estimate_ratio(const double *x, const double *y, size_t count)
{
    double sum_x = 0, sum_y = 0, squares = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(x[i]) && !isnan(y[i])) {
            sum_x += x[i];
            sum_y += y[i];
            used++;
        }
    if (sum_y == 0)
        return (struct kiln_estimate){NAN, NAN};
    const double ratio = sum_x / sum_y;
    for (size_t i = 0; i < count; i++)
        if (!isnan(x[i]) && !isnan(y[i])) {
            const double off = x[i] - ratio * y[i];
            squares += off * off;
        }
    const double n = (double)used;
    return (struct kiln_estimate){ratio,
                                  used < 2 ? NAN : sqrt(n / (n - 1) * squares) / fabs(sum_y)};
}
