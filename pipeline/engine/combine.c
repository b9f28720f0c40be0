/* combine.c - one clean latent of several: what the runs of several donors come to.
 *
 * A state x = (1 - s) * a + s * e needs noise of exactly the level s.  A mix of states of several
 * runs has other noise: a mean of two has half the variance, and an arc between two has the right
 * one only where they are at right angles, as pure noise is and states with a common picture are
 * not.  So clean latents are combined here, and start.c adds noise of the item's seed, once.
 *
 *     mean    the sum with weights 1/n.  What the donors do not share loses contrast.
 *     arcs    kernels/pictures/latent_mix.h: the length of the latents stays, so contrast does.
 *             One after the other, the k-th at 1/k of the way; or in pairs, and pairs of pairs,
 *             each side weighted by how many donors it has
 */
#include <math.h>

#include "kernels/pictures/latent_mix.h"
#include "pipeline/engine/parts.h"

_Static_assert(DIFFUSIONZ_STARTS_MAX == KILN_MIX_MAX, "one limit");

/* One start; NULL, with the item ended, if it is not finite. */
static kt take(struct kiln_item *item, struct kt_scope *s, const float *values,
               const int64_t shape[3])
{
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; i++)
        if (!isfinite(values[i])) {
            struct kiln_error err;
            kiln_fail(&err, KILN_BAD_INPUT, "the latent to start from is not finite (value %lld)",
                      (long long)i);
            kiln_item_end(item, &err);
            return NULL;
        }
    return kt_from_host(s, values, KT_F32, KT_F32, 3, shape);
}

static kt mean(struct kt_scope *s, const kt *all, int count)
{
    double weights[KILN_MIX_MAX];
    for (int i = 0; i < count; i++)
        weights[i] = 1.0 / count;
    return kt_mixed(s, all, weights, count);
}

static kt chain(struct kt_scope *s, const kt *all, int count)
{
    kt x = all[0];
    for (int i = 1; i < count; i++)
        x = kt_slerp(s, x, all[i], 1.0 / (i + 1));
    return x;
}

static kt tree(struct kt_scope *s, const kt *all, int count)
{
    kt level[KILN_MIX_MAX];
    int donors[KILN_MIX_MAX]; /* in each */
    for (int i = 0; i < count; i++) {
        level[i] = all[i];
        donors[i] = 1;
    }
    for (; count > 1; count = (count + 1) / 2) {
        for (int i = 0; i + 1 < count; i += 2) {
            const int both = donors[i] + donors[i + 1];
            level[i / 2] =
                kt_slerp(s, level[i], level[i + 1], (double)donors[i + 1] / (double)both);
            donors[i / 2] = both;
        }
        if (count % 2) {
            level[count / 2] = level[count - 1];
            donors[count / 2] = donors[count - 1];
        }
    }
    return level[0];
}

kt kiln_combine_starts(struct kiln_item *item, const int64_t shape[3])
{
    const DiffusionZItem *in = item->in;
    kt all[KILN_MIX_MAX];
    int count = 1;
    if (in->combine == DIFFUSIONZ_SINGLE || in->more_count == 0)
        return take(item, item->scope, in->start_latent, shape);
    struct kt_scope *s = kt_scope_child(item->scope);
    all[0] = take(item, s, in->start_latent, shape);
    for (; count <= in->more_count && !item->ended; count++)
        all[count] = take(item, s, in->more_latents[count - 1], shape);
    kt ret = NULL;
    if (!item->ended) {
        kt x = in->combine == DIFFUSIONZ_LERP    ? mean(s, all, count)
               : in->combine == DIFFUSIONZ_SLERP ? chain(s, all, count)
                                                 : tree(s, all, count);
        ret = kt_keep(item->scope, x);
    }
    kt_scope_free(s);
    return ret;
}
