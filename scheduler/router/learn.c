/* learn.c - see learn.h. */
#include "scheduler/router/learn.h"

#include <math.h>

static double logit(double p)
{
    return log(p / (1 - p));
}

int kiln_learn_bias(struct kiln_ratings lora, struct kiln_ratings pool)
{
    const double most = KILN_LEARN_MOST / 1000.0, rated = (double)lora.rated;
    const double mean = ((double)pool.liked + 1) / ((double)pool.rated + 2);
    const double own = (KILN_LEARN_PRIOR * mean + (double)lora.liked) / (KILN_LEARN_PRIOR + rated);
    const double difference = fmin(fmax(logit(own) - logit(mean), -most), most);
    return (int)lround(1000 * difference * rated / (rated + KILN_LEARN_HALF));
}
