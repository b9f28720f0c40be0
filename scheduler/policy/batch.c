/* batch.c - how many jobs to render at once.
 *
 * A larger batch pays only while it makes a picture cheaper.  On a diffusion transformer at 1024
 * pixels and more it hardly does; a small batch begins sooner, wastes less when it is lost and can
 * be shared out at the end.  So the batch starts at what the worker takes and is halved as long as
 * a picture in half of it was measured to cost no more than GAIN times as much.  A size that was
 * never measured is tried now and then while much waits.  Runs from stored latents teach no costs;
 * what a batch gains is a matter of its steps, so they go by whole runs of their mode.  Near the
 * end nobody takes more than its share, so that all workers finish together.
 */
#include <math.h>

#include "scheduler/policy/state.h"

#define GAIN 1.03     /* a picture may cost this much more in half the batch */
#define SAMPLES_MIN 3 /* measurements that count as known */
#define TRY_EVERY 16  /* picks between trials of an unknown half */
#define TRY_BACKLOG 4 /* batches that must wait for a trial */

/* Seconds a picture takes in batches of n; 0: not known well enough. */
static double each_s(const struct kiln_policy *p, const struct pol_worker *worker, uint32_t group,
                     uint32_t n)
{
    double seconds = 0;
    struct kiln_cost_shape shape = kiln_policy_shape(p, group, n, worker);
    shape.mode = p->groups[group].mode;
    return kiln_cost_measured(p->costs, &shape, &seconds) >= SAMPLES_MIN ? seconds / n : 0;
}

uint32_t kiln_policy_batch_size(struct kiln_policy *p, const struct pol_worker *worker,
                                uint32_t group)
{
    const struct pol_group *g = &p->groups[group];
    if (g->alone)
        return 1;
    uint32_t n = worker->batch_max;
    while (n > 1) {
        double whole_s = each_s(p, worker, group, n), half_s = each_s(p, worker, group, n / 2);
        bool trial = p->picks % TRY_EVERY == 0 && g->ready >= TRY_BACKLOG * n;
        if (whole_s == 0 || half_s > whole_s * GAIN || (half_s == 0 && !trial))
            break;
        n /= 2;
        if (half_s == 0)
            break;
    }
    double share = ceil(p->ready * worker->speed / fmax(p->speed_sum, worker->speed));
    return share < n ? (uint32_t)fmax(share, 1) : n;
}
