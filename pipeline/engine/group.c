/* group.c - which pictures of a batch are rendered together.
 *
 * The products of a small picture have too few rows to fill a GPU, and its steps too little work to
 * hide their launches.  So pictures of one size and caption length go through the steps together,
 * as consecutive rows of the same matrices.  Every row is summed as it would be alone, and
 * attention stays within a picture.
 *
 * A group has 1, 2, 4, ... pictures: each number is a shape of its own, with a graph of its own.
 * With LoRAs beside the weights each picture is rendered alone, because the small products of a
 * LoRA are summed in another order for many rows than for few.
 */
#include "pipeline/engine/parts.h"

/* Rows of the joint sequence; with guidance, of the longer one. */
static int64_t joint_rows(const struct kiln_run *r, const struct kiln_item *item)
{
    const int patch = r->e->config.transformer.patch;
    const int64_t tokens = r->height / patch * (r->width / patch);
    const int64_t caption = kt_size(item->caption, 0), negative = kt_size(item->negative, 0);
    return tokens + kiln_pad_rows(tokens) + (caption > negative ? caption : negative);
}

/* How many pictures of so many rows a group may have. */
static int group_limit(const struct kiln_run *r, int64_t rows)
{
    if (kiln_loras_beside(r->e->loras) || kiln_memory_is_tight(r))
        return 1;
    const int64_t fit = r->e->group_rows / rows;
    return fit < 1 ? 1 : fit < KILN_GROUP_MAX ? (int)fit : KILN_GROUP_MAX;
}

static bool same_caption_rows(const struct kiln_item *a, const struct kiln_item *b)
{
    return kt_size(a->caption, 0) == kt_size(b->caption, 0) &&
           kt_size(a->negative, 0) == kt_size(b->negative, 0);
}

static int power_of_two_up_to(int count)
{
    int power = 1;
    while (2 * power <= count)
        power *= 2;
    return power;
}

bool kiln_group_next(struct kiln_run *r, struct kiln_group *ret)
{
    *ret = (struct kiln_group){.count = 0};
    int most = 1;
    for (int i = 0; i < r->batch->item_count && ret->count < most; i++) {
        struct kiln_item *item = &r->items[i];
        if (item->begun || !kiln_item_alive(item))
            continue;
        if (ret->count == 0) {
            ret->rows = joint_rows(r, item);
            most = group_limit(r, ret->rows);
        }
        if (ret->count == 0 || same_caption_rows(ret->items[0], item))
            ret->items[ret->count++] = item;
    }
    if (ret->count == 0)
        return false;
    ret->count = power_of_two_up_to(ret->count);
    return true;
}
