/* start.c - the state that a phase starts from.
 *
 * Every start is made here, and a run can start in five ways:
 *
 *     noise       that of a CPU torch.Generator with the item's seed, at the schedule's first
 *                 sigma, which is 1 or little less
 *     a latent    (1 - sigma) * latent + sigma * noise, with that noise; several latents become one
 *                 first (combine.c)
 *     a picture   the same with a sample of the VAE's encoder in place of the latent.  As in
 *                 diffusers the sample takes the first draw of the seed's generator and the noise
 *                 the second one
 *     hand-over   the same with the prediction of the phase before, at a smaller size, enlarged, in
 *                 place of the latent
 *     difference  the same with latent + (prediction of the item's prompt - prediction of the
 *                 latent's own prompt) in place of the latent, both from that noise: what the two
 *                 prompts have in common cancels out, and the rest of the picture stays.  Measured
 *                 with the sketch model: a changed colour is right in 95 of 100 prompts with three
 *                 of eight steps skipped, and in 77 without the difference
 *
 * The small phase starts from the noise that the seed has at its size.  So a picture rendered
 * coarse first resembles the small picture of its seed, which people choose by.  The noise of a
 * hand-over is what the seed has at the size after it: it begins with the same values, at other
 * places.  That does no harm: of 80 prompts
 * (tests/quality/three.jsonl, the sketch model, 4+3 at 512 px) 95.0 % came out right in every word,
 * as with noise of another seed for the small phase.
 */
#include "pipeline/engine/parts.h"

static kt noise_of(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item,
                   const struct kiln_phase *phase)
{
    const int64_t shape[3] = {r->e->config.transformer.channels, phase->height, phase->width};
    return kt_randn(s, item->in->seed, 3, shape);
}

/* Whether the item has noise of the phase's size. */
static bool has_noise(const struct kiln_item *item, const struct kiln_phase *phase)
{
    return item->noise && kt_size(item->noise, 1) == phase->height &&
           kt_size(item->noise, 2) == phase->width;
}

/* --- starts that an item brings --------------------------------------------------------------- */

/* Of the size of the first phase: of a coarse run that leaves steps out, the small one. */
static void take_latent(struct kiln_run *r, struct kiln_item *item)
{
    const struct kiln_phase *p = r->phases;
    const int64_t shape[3] = {r->e->config.transformer.channels, p->height, p->width};
    kt latent = kiln_combine_starts(item, shape);
    if (item->ended)
        return;
    if (r->batch->by_difference) /* its predictions start from noise */
        item->start = latent;
    else
        item->latent = latent;
    if (item->in->start_mask || r->batch->by_difference) /* which several parts of it need */
        item->noise = noise_of(r, item->scope, item, p);
}

/* Encodes the item's picture in strips of *arg rows (0: in one piece).  Two draws of a generator
 * equal one of twice the size if their sizes are multiples of 16, as those of 16 channels are. */
static void encode_picture(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *one,
                           void *arg)
{
    struct kiln_item *item = one->items[0];
    const struct kiln_phase *p = r->phase;
    const int64_t width = r->batch->width, height = r->batch->height, bytes = width * height * 3;
    const int64_t channels = r->e->config.transformer.channels;
    const int64_t draws[4] = {2, channels, p->height, p->width};
    struct kiln_error err;
    kt picture =
        kt_of_rgb8(s, kt_from_host(s, item->in->start_rgb, KT_U8, KT_U8, 1, &bytes), height, width);
    kt both = kt_randn(s, item->in->seed, 4, draws);
    kt first = kt_reshape(s, kt_narrow(s, both, 0, 0, 1), 3, draws + 1);
    kt second = kt_reshape(s, kt_narrow(s, both, 0, 1, 1), 3, draws + 1);
    kt latent = kiln_vae_encode_strips(r->e->vae, s, picture, first, *(const int *)arg);
    if (kt_scope_check(s, &err))
        return;
    item->latent = kt_keep(item->scope, latent);
    item->noise = kt_keep(item->scope, second);
}

static void take_picture(struct kiln_run *r, struct kiln_item *item)
{
    struct kiln_error err;
    int code = kiln_vae_need_encoder(r->e->vae, &err);
    if (code == KILN_NO_MEMORY) { /* which graphs may occupy */
        kiln_memory_release(r, true);
        code = kiln_vae_need_encoder(r->e->vae, &err);
    }
    code = code ? code : kiln_memory_try_strips(r, item, false, encode_picture, &err);
    if (code)
        kiln_item_end(item, &err);
}

void kiln_start_take(struct kiln_run *r, struct kiln_item *item)
{
    if (!kiln_item_alive(item))
        return;
    if (item->in->start_latent)
        take_latent(r, item);
    if (item->in->start_rgb)
        take_picture(r, item);
    if (!item->ended)
        kiln_mask_take(r, item);
}

/* --- the state of a phase --------------------------------------------------------------------- */

kt kiln_start_state(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item)
{
    const struct kiln_phase *p = r->phase;
    if (item->state)
        return item->state;
    kt noise = has_noise(item, p) ? item->noise : noise_of(r, s, item, p);
    return item->latent ? kt_noised(s, item->latent, noise, (double)p->schedule.sigmas[0]) : noise;
}

/* --- the result of a phase -------------------------------------------------------------------- */

kt kiln_start_result(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item,
                     kt latent)
{
    if (r->phase->result != KILN_RESULT_AFTER)
        return kt_copy(s, latent);
    return kt_add(s, item->start, kt_add(s, latent, kt_affine(s, item->before, -1, 0)));
}

void kiln_start_keep(const struct kiln_run *r, struct kiln_item *item, kt result)
{
    kt *place = r->phase->result == KILN_RESULT_BEFORE  ? &item->before
                : r->phase->result == KILN_RESULT_STATE ? &item->state
                                                        : &item->latent;
    kt_drop(item->scope, *place);
    *place = kt_keep(item->scope, result);
    if (place != &item->state) {
        kt_drop(item->scope, item->state);
        item->state = NULL;
    }
    if (r->phase->result != KILN_RESULT_AFTER)
        return;
    kt_drop(item->scope, item->start);
    kt_drop(item->scope, item->before);
    item->start = item->before = NULL;
}

void kiln_start_prepare_noise(struct kiln_run *r, const struct kiln_group *group)
{
    struct kiln_error err;
    if (r->phase == kiln_run_full(r) || r->phase->result == KILN_RESULT_STATE)
        return;
    for (int i = 0; i < group->count; i++) {
        struct kiln_item *item = group->items[i];
        if (item->ended || has_noise(item, r->phase + 1))
            continue;
        struct kt_scope *s = kt_scope_new(r->e->device);
        kt noise = noise_of(r, s, item, r->phase + 1);
        if (kt_scope_check(s, &err) == 0) { /* else it is made when its phase begins */
            kt_drop(item->scope, item->noise);
            item->noise = kt_keep(item->scope, noise);
        }
        kt_scope_free(s);
    }
}
