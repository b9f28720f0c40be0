/* mask.c - inpainting: where an item keeps its start, and where it is rendered anew.
 *
 * As in ZImageInpaintPipeline of diffusers (0.42.1): after each step the kept values are set to
 * those of the start at the sigma that the step has led to, with the noise that the run began with;
 * after the last one they are the start itself.  So the model sees a whole picture at every step,
 * and renders the rest to match.
 *
 *     x = (1 - mask) * ((1 - sigma) * start + sigma * noise) + mask * x
 *
 * The blend is queued behind the step and is no part of its graph, which stays that of every other
 * run of the shape.  It is of one item, so its bits do not depend on the item's neighbours.
 */
#include "pipeline/engine/parts.h"

/* Whether all values are from 0 to 1; else the item is ended. */
static bool is_mask(struct kiln_item *item, const float *values, int64_t count)
{
    struct kiln_error err;
    for (int64_t i = 0; i < count; i++)
        if (!(values[i] >= 0 && values[i] <= 1)) {
            kiln_fail(&err, KILN_BAD_INPUT, "the mask has %g (value %lld): must be 0 to 1",
                      (double)values[i], (long long)i);
            kiln_item_end(item, &err);
            return false;
        }
    return true;
}

void kiln_mask_take(struct kiln_run *r, struct kiln_item *item)
{
    const struct kiln_phase *p = r->phase;
    const int64_t shape[3] = {1, p->height, p->width}; /* of all channels */
    if (!item->in->start_mask || !is_mask(item, item->in->start_mask, p->height * p->width))
        return;
    item->mask = kt_from_host(item->scope, item->in->start_mask, KT_F32, KT_F32, 3, shape);
    item->kept = kt_affine(item->scope, item->mask, -1, 1);
}

kt kiln_mask_apply(struct kt_scope *s, const struct kiln_item *item, kt latent, float sigma)
{
    kt start = kt_noised(s, item->latent, item->noise, (double)sigma);
    kt kept = kt_multiply(s, start, item->kept);
    return kt_add(s, kept, kt_multiply(s, latent, item->mask));
}
