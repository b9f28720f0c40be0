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

bool kiln_group_next(struct kiln_run *r, struct kiln_group *ret)
{
    const int patch = r->e->config.transformer.patch;
    const int64_t tokens = r->phase->height / patch * (r->phase->width / patch);
    const bool alone = kiln_loras_beside(r->set->loras) || kiln_memory_is_tight(r);
    int64_t caption = 0, negative = 0, most = 1;
    *ret = (struct kiln_group){.count = 0};
    for (int i = 0; i < r->batch->item_count && ret->count < most; i++) {
        struct kiln_item *item = &r->items[i];
        if (item->begun || !kiln_item_alive(item))
            continue;
        const int64_t rows = kt_size(kiln_phase_caption(r, item), 0),
                      others = kt_size(item->negative, 0);
        if (ret->count == 0) {
            caption = rows;
            negative = others;
            ret->rows = tokens + kiln_pad_rows(tokens) + (caption > negative ? caption : negative);
            most = alone ? 1 : r->e->group_rows / ret->rows;
            most = most < KILN_GROUP_MAX ? most : KILN_GROUP_MAX;
        }
        if (rows == caption && others == negative)
            ret->items[ret->count++] = item;
    }
    while (ret->count & (ret->count - 1)) /* down to a power of two */
        ret->count--;
    return ret->count > 0;
}
