/* variety.c - captions of items with variety: the noise of pipeline/text/variety.h fades as sigma
 * falls, so such an item has another caption in each of its first steps.
 *
 * Features stay in the cache as they are; the noise is added behind it, item by item.  A caption is
 * refined when its step is queued, in front of the step's graph, which reads it from the same
 * buffer as ever: so items with and without variety share graphs and groups.  Refining is two small
 * blocks, 0.2 % of a forward at 1024 px.
 */
#include "pipeline/text/variety.h"
#include "pipeline/engine/parts.h"

void kiln_variety_prepare(struct kiln_run *r, struct kiln_item *item, kt features)
{
    const struct kiln_engine *e = r->e;
    struct kiln_error err;
    size_t before, after;
    if (kiln_tokenizer_turn(e->tokenizer, &before, &after, &err)) {
        kt_scope_fail(item->scope, &err);
        return;
    }
    item->features = features;
    item->feature_noise = kiln_variety_noise(item->scope, features, item->in->seed, before, after);
}

static double weight(const struct kiln_run *r, const struct kiln_item *item, int step)
{
    return kiln_variety_weight(item->in->variety, (double)r->phase->schedule.sigmas[step]);
}

kt kiln_variety_caption(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item,
                        int step)
{
    const double now = weight(r, item, step);
    if (now > 0) {
        kt plain = kt_to(s, item->features, KT_F32);
        kt noisy = kt_add(s, plain, kt_affine(s, item->feature_noise, now, 0));
        return kiln_caption(r->set->transformer, s, noisy);
    }
    return step > 0 && weight(r, item, step - 1) > 0 ? item->caption : NULL;
}
