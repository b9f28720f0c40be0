/* linear.c - a product, and a small one beside it; see linear.h. */
#include "pipeline/linear.h"

#include "pipeline/torch/low_rank.h"

#define ROOM_MULTIPLE 64 /* rows of bf16 then begin on 128 bytes */

kt kiln_linear_items(struct kt_scope *s, kt x, kt weight, kt bias, int items)
{
    if (items == 1)
        return kt_linear(s, x, weight, bias);
    int64_t blocks[KILN_ITEMS_MAX];
    for (int i = 0; i < items; i++)
        blocks[i] = kt_size(x, 0) / items;
    const struct kt_block_linear args = {
        .x = x, .weight = weight, .bias = bias, .blocks = blocks, .count = (size_t)items};
    return kt_linear_blocks(s, &args);
}

kt kiln_linear(struct kt_scope *s, kt x, const struct kiln_linear_layer *layer, int items)
{
    if (layer->both)
        return kt_linear_beside(s, x, layer->both, layer->down);
    /* The narrow product comes first, while what wrote x has left it in the cache. */
    kt low = layer->down ? kt_linear(s, x, layer->down, NULL) : NULL;
    kt y = kiln_linear_items(s, x, layer->weight, NULL, items);
    if (layer->down)
        kt_add_product(s, y, low, layer->up, layer->parts);
    return y;
}

struct kt_form kiln_linear_form(const struct kiln_linear_layer *layer)
{
    const int64_t rank = layer->both ? kt_size(layer->down, 0) : 0;
    return (struct kt_form){.e4m3 = kt_dtype_of(layer->weight) == KT_E4M3,
                            .room = (rank + ROOM_MULTIPLE - 1) / ROOM_MULTIPLE * ROOM_MULTIPLE};
}
