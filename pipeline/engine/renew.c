/* renew.c - noise that the steps of some models replace (`noise` of kiln.json, sampler.h).
 *
 * The noise of an item's step k, counted from 1 over all phases of the run, is that of a CPU
 * torch.Generator with the seed kiln_seed_for("kiln step k", the item's seed).  So it is the same
 * in any batch, and each step has another.
 *
 * It is added behind the step and is no part of its graph, as masks are (mask.c): a recorded step
 * serves models of both kinds, and models without `noise` do no more than before.
 */
#include <stdio.h>

#include "pipeline/engine/parts.h"
#include "schemas/digest.h"

static struct kiln_renewal renewal(const struct kiln_run *r, int step)
{
    return kiln_renewal_of(r->e->renewed, (double)r->phase->schedule.sigmas[step + 1]);
}

bool kiln_renews(const struct kiln_run *r, int step)
{
    return renewal(r, step).add > 0;
}

kt kiln_renew(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item, kt state,
              int step)
{
    const struct kiln_renewal by = renewal(r, step);
    const int64_t shape[3] = {kt_size(state, 0), kt_size(state, 1), kt_size(state, 2)};
    char purpose[KILN_PURPOSE_MAX + 1];
    snprintf(purpose, sizeof purpose, "kiln step %d", r->phase->row + step + 1);
    kt noise = kt_randn(s, kiln_seed_for(purpose, item->in->seed), 3, shape);
    return kt_mixed(s, (kt[]){state, noise}, (double[]){by.keep, by.add}, 2);
}
