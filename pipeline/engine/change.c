/* change.c - how much the first step changes of the latent that a run starts from.
 *
 * A run from a stored latent gets its first prediction of the clean latent from one step: the state
 * x0 at sigma s0 becomes x1 at s1 along the velocity (x1 - x0) / (s1 - s0), and sigma 0 is where
 * that leads:
 *
 *     a' = x0 + s0 / (s0 - s1) * (x1 - x0)
 *
 * Where steps replace a share of their noise, x1 is the state before that, and s1 its sigma.
 *
 * change = rms(a' - a) / rms(a) for the start a.  Hardly any change where the prompts differ means
 * that the prompt is not heeded, and a large one that prompt and start contradict each other.  A
 * caller who knows the bounds of good runs gives a run outside them up after this step.
 *
 * The measure reads what the step has read and written, so it changes no bit of any item, and its
 * sums are of one item.  The other items of the group go on with their steps; the rows of an item
 * that was given up are computed with theirs, and counted.
 */
#include "pipeline/engine/parts.h"

/* The item's part of the group's latents, a view. */
static kt part(struct kt_scope *s, kt latents, int i)
{
    const int64_t shape[3] = {kt_size(latents, 1), kt_size(latents, 2), kt_size(latents, 3)};
    return kt_reshape(s, kt_narrow(s, latents, 0, i, 1), 3, shape);
}

bool kiln_change_before(const struct kiln_run *r, struct kt_scope *s,
                        const struct kiln_group *group, kt latents, kt ret[KILN_GROUP_MAX])
{
    bool any = false;
    for (int i = 0; i < group->count; i++) {
        const struct kiln_item *item = group->items[i];
        const bool wanted =
            r->phase == r->phases && !item->ended && item->latent && item->in->change_most > 0;
        ret[i] = wanted ? kt_copy(s, part(s, latents, i)) : NULL;
        any = any || wanted;
    }
    return any;
}

struct kt_fetch *kiln_change_fetch(const struct kiln_run *r, const struct kiln_group *group,
                                   kt latents, const kt before[KILN_GROUP_MAX])
{
    const struct kiln_schedule *schedule = &r->phase->schedule;
    const double far = (double)schedule->sigmas[0] / -(double)schedule->strides[0];
    struct kt_scope *own = kt_scope_new(r->e->device); /* its failure is not that of the step */
    kt changes[KILN_GROUP_MAX];
    for (int i = 0; i < group->count; i++) {
        struct kiln_item *item = group->items[i];
        if (!before[i]) {
            changes[i] = kt_zeros(own, KT_F32, 1, (int64_t[]){1});
            continue;
        }
        kt clean = kt_add(own, kt_affine(own, before[i], 1 - far, 0),
                          kt_affine(own, part(own, latents, i), far, 0));
        changes[i] = kt_relative_difference(own, clean, item->latent);
    }
    struct kt_fetch *fetch = kt_fetch_start(own, kt_cat(own, changes, (size_t)group->count, 0));
    kt_scope_free(own);
    for (int i = 0; i < group->count; i++)
        group->items[i]->measured = before[i] && fetch;
    return fetch;
}

static void refuse(struct kiln_item *item, double change)
{
    const DiffusionZItem *in = item->in;
    struct kiln_error err;
    kiln_fail(&err, KILN_BAD_INPUT,
              "the first step changes the start by %.4g of its own size; runs that come out right "
              "change it by %.4g to %.4g",
              change, in->change_least, in->change_most);
    kiln_item_end(item, &err);
    item->out->start_refused = 1;
}

void kiln_change_take(const struct kiln_group *group, const float *changes)
{
    for (int i = 0; i < group->count; i++) {
        struct kiln_item *item = group->items[i];
        const double change = (double)changes[i];
        if (!item->measured || item->ended)
            continue;
        item->measured = false;
        if (!(change >= item->in->change_least && change <= item->in->change_most))
            refuse(item, change);
        item->out->change = change;
    }
}
