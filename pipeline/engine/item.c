/* item.c - items of a batch and groups of them: memory for results, cancel, errors. */
#include <stdlib.h>
#include <string.h>

#include "kernels/pictures/downscale.h"
#include "pipeline/engine/parts.h"

void kiln_outputs_release(DiffusionZOutput *outputs, int count)
{
    for (int i = 0; i < count; i++) {
        free(outputs[i].error_msg);
        free(outputs[i].rgb);
        free(outputs[i].latent);
        free(outputs[i].trajectory);
        free(outputs[i].sigmas);
        for (int k = 0; k < DIFFUSIONZ_SMALLER_MAX; k++)
            free(outputs[i].smaller[k]);
        outputs[i] = (DiffusionZOutput){0};
    }
}

void kiln_item_release(struct kiln_item *item)
{
    for (int i = 0; i < KILN_FETCHES; i++)
        kt_fetch_free(item->fetches[i]);
    memset(item->fetches, 0, sizeof item->fetches);
    kt_scope_free(item->scope);
    item->scope = NULL;
    item->caption = item->negative = item->latent = item->noise = item->state = NULL;
    item->trajectory = NULL;
    item->mask = item->kept = item->start_caption = item->start = item->before = NULL;
    item->features = item->feature_noise = NULL;
}

void kiln_item_end(struct kiln_item *item, const struct kiln_error *err)
{
    if (item->ended)
        return;
    item->ended = true;
    kiln_outputs_release(item->out, 1);
    item->out->error_code = err->code;
    item->out->error_msg = strdup(err->text);
    kiln_item_release(item);
}

bool kiln_item_alive(struct kiln_item *item)
{
    struct kiln_error err;
    if (item->ended)
        return false;
    if (kt_scope_check(item->scope, &err))
        kiln_item_end(item, &err);
    else if (item->in->cancel && __atomic_load_n(item->in->cancel, __ATOMIC_ACQUIRE)) {
        kiln_fail(&err, KILN_CANCELLED, "cancelled on request");
        kiln_item_end(item, &err);
    }
    return !item->ended;
}

bool kiln_run_smaller(const struct kiln_run *r, int i, uint32_t *ret_width, uint32_t *ret_height)
{
    const DiffusionZBatch *b = r->batch;
    return !b->skip_decode && i < b->smaller_count &&
           kiln_downscale_fit((uint32_t)b->width, (uint32_t)b->height, (uint32_t)b->smaller[i],
                              ret_width, ret_height);
}

bool kiln_item_allocate(const struct kiln_run *r, struct kiln_item *item)
{
    const DiffusionZBatch *b = r->batch;
    DiffusionZOutput *out = item->out;
    const struct kiln_phase *full = kiln_run_full(r);
    size_t n = (size_t)(r->e->config.transformer.channels * full->height * full->width);
    size_t steps = (size_t)r->steps;
    bool ok = (out->latent = malloc(n * sizeof *out->latent)) != NULL;
    if (!b->skip_decode)
        ok = (out->rgb = malloc((size_t)b->width * (size_t)b->height * 3)) != NULL && ok;
    for (int i = 0; i < DIFFUSIONZ_SMALLER_MAX; i++) {
        uint32_t w, h;
        if (kiln_run_smaller(r, i, &w, &h))
            ok = (out->smaller[i] = malloc((size_t)w * h * 3)) != NULL && ok;
    }
    if (b->keep_trajectory) {
        ok = (out->trajectory = malloc(steps * n * sizeof *out->trajectory)) != NULL && ok;
        ok = (out->sigmas = malloc(steps * sizeof *out->sigmas)) != NULL && ok;
    }
    if (ok)
        return true;
    struct kiln_error err;
    kiln_fail(&err, KILN_NO_MEMORY, "no memory for a picture of %d x %d", b->width, b->height);
    kiln_item_end(item, &err);
    return false;
}

void kiln_group_end(const struct kiln_group *group, const struct kiln_error *err)
{
    for (int i = 0; i < group->count; i++)
        kiln_item_end(group->items[i], err);
}

bool kiln_group_alive(const struct kiln_group *group)
{
    bool alive = false;
    for (int i = 0; i < group->count; i++)
        alive = kiln_item_alive(group->items[i]) || alive;
    return alive;
}

void kiln_group_split(struct kiln_run *r, const struct kiln_group *group)
{
    r->e->group_rows = group->count * group->rows - 1;
    for (int i = 0; i < group->count; i++) {
        group->items[i]->begun = false;
        group->items[i]->steps_done = r->phase->row;
    }
}
