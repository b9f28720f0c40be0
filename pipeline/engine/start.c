/* start.c - the state that an item starts from.
 * Every start is made here.  Today there is one kind, noise: that of a CPU torch.Generator with the
 * item's seed, at the schedule's first sigma, which is 1.
 */
#include "pipeline/engine/parts.h"

kt kiln_item_start(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item)
{
    const int64_t shape[3] = {r->e->config.transformer.channels, r->height, r->width};
    return kt_randn(s, item->in->seed, 3, shape);
}
