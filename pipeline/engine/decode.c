/* decode.c - queues what follows an item's last step: the decode in the device's side stream, the
 * smaller sizes, and the copies to the host.
 *
 * A decode that does not fit into memory is repeated in strips, then in strips of fewer rows; their
 * pixels may differ by a rounding.
 */
#include "pipeline/engine/parts.h"

/* Decodes the latent to bytes in all sizes, in strips of *arg rows (0: in one piece), and copies
 * everything to the host. */
static void queue_results(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *one,
                          void *arg)
{
    struct kiln_item *item = one->items[0];
    const int rows = *(const int *)arg;
    kt_follow(s, item->scope);
    kt sources[KILN_FETCHES] = {
        [KILN_FETCH_LATENT] = item->latent, [KILN_FETCH_TRAJECTORY] = item->trajectory};
    if (!r->batch->skip_decode) {
        kt picture = kiln_vae_decode_strips(r->e->vae, s, item->latent, rows);
        kt bad = sources[KILN_FETCH_BAD] = kt_zeros(s, KT_I32, 1, (int64_t[]){1});
        sources[KILN_FETCH_PIXELS] = kt_rgb8(s, picture, bad);
    }
    for (int i = 0; i < DIFFUSIONZ_SMALLER_MAX; i++) {
        struct kt_downscale to = {.width = (uint32_t)r->batch->width,
                                  .height = (uint32_t)r->batch->height};
        if (kiln_run_smaller(r, i, &to.out_width, &to.out_height))
            sources[KILN_FETCH_SMALLER + i] = kt_downscale(s, sources[KILN_FETCH_PIXELS], &to);
    }
    for (int i = 0; i < KILN_FETCHES; i++) {
        kt_fetch_free(item->fetches[i]);
        item->fetches[i] = sources[i] ? kt_fetch_start(s, sources[i]) : NULL;
    }
}

void kiln_decode_item(struct kiln_run *r, struct kiln_item *item)
{
    if (kiln_memory_is_tight(r))
        kiln_steps_drain(r);
    if (!kiln_item_alive(item))
        return;
    struct kiln_error err;
    if (kiln_memory_try_strips(r, item, !kiln_memory_is_tight(r), queue_results, &err))
        kiln_item_end(item, &err);
}
