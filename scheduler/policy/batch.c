/* batch.c - how many jobs to draw at once.
 *
 * A larger batch pays only while it makes a picture cheaper: on a diffusion transformer at 1024
 * pixels and more it hardly does, and a small batch begins sooner, wastes less when it is lost and
 * can be shared out at the end.  So starting from what the worker takes, the batch is halved as
 * long as half of it was measured to cost a picture no more than GAIN over the whole.  What was
 * never measured is tried now and then while much waits.  Near the end nobody takes more than its
 * share, so that all workers finish together.
 */
#include <math.h>

#include "scheduler/policy/state.h"

#define GAIN 1.03     /* a picture may cost this much more in half the batch */
#define SAMPLES_MIN 3 /* measurements that count as known */
#define TRY_EVERY 16  /* picks between trials of an unknown half */
#define TRY_BACKLOG 4 /* batches that must wait for a trial */

/* Seconds a picture takes in batches of n; 0: not known well enough. */
static double each_s(const struct kiln_policy *p, struct kiln_cost_shape *shape, uint32_t n)
{
    double seconds = 0;
    shape->jobs = n;
    return kiln_cost_measured(p->costs, shape, &seconds) >= SAMPLES_MIN ? seconds / n : 0;
}

static uint32_t worthwhile(const struct kiln_policy *p, const struct pol_worker *worker,
                           const struct pol_group *group)
{
    struct kiln_cost_shape shape = {.model = p->models[p->sets[group->set].model].name,
                                    .width = group->width,
                                    .height = group->height,
                                    .steps = group->steps,
                                    .guidance = group->guidance,
                                    .device = worker->device};
    uint32_t n = worker->batch_max;
    while (n > 1) {
        double whole_s = each_s(p, &shape, n), half_s = each_s(p, &shape, n / 2);
        if (whole_s == 0)
            return n;
        if (half_s == 0) {
            bool trial = p->picks % TRY_EVERY == 0 && group->ready >= TRY_BACKLOG * n;
            return trial ? n / 2 : n;
        }
        if (half_s > whole_s * GAIN)
            return n;
        n /= 2;
    }
    return n;
}

uint32_t kiln_policy_batch_size(struct kiln_policy *p, const struct pol_worker *worker,
                                uint32_t group)
{
    const struct pol_group *g = &p->groups[group];
    if (g->alone)
        return 1;
    double share = ceil(p->ready * worker->speed / fmax(p->speed_sum, worker->speed));
    uint32_t n = worthwhile(p, worker, g);
    return share < n ? (uint32_t)fmax(share, 1) : n;
}
