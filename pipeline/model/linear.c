/* linear.c - a product with LoRAs beside it; see linear.h. */
#include "pipeline/model/linear.h"

#include "pipeline/torch/low_rank.h"

kt kiln_linear(struct kt_scope *s, kt x, const struct kiln_linear_layer *layer, int items)
{
    if (layer->both) {
        kt wide = kt_beside(s, x, layer->down), product = kt_linear(s, wide, layer->both, NULL);
        kt_drop(s, wide);
        return product;
    }
    /* The small product first, while x is in the cache. */
    kt lora = layer->down ? kt_linear(s, x, layer->down, NULL) : NULL;
    kt y = kt_linear_items(s, x, layer->weight, NULL, items);
    if (layer->down)
        kt_add_product(s, y, lora, layer->up);
    return y;
}

kt kiln_linear_gated(struct kt_scope *s, kt x, const struct kiln_linear_layer *layer, int items,
                     struct kt_form form)
{
    if (layer->both) {
        kt wide = kt_beside(s, x, layer->down);
        kt_drop(s, x);
        return kt_linear_swiglu(s, wide, layer->both, 1, form);
    }
    if (!layer->down)
        return kt_linear_swiglu(s, x, layer->weight, items, form);
    /* The LoRA term has to be added before the gate. */
    kt gate_up = kiln_linear(s, x, layer, items);
    kt_drop(s, x);
    kt y = kt_swiglu(s, gate_up, form);
    kt_drop(s, gate_up);
    return y;
}

int64_t kiln_linear_room(int64_t columns, bool e4m3)
{
    const int64_t multiple = e4m3 ? 128 : 64;
    return (columns + multiple - 1) / multiple * multiple;
}

struct kt_form kiln_linear_form(const struct kiln_linear_layer *layer)
{
    const bool e4m3 = kt_dtype_of(layer->weight) == KT_E4M3;
    const int64_t rank = layer->both ? kt_size(layer->down, 0) : 0;
    return (struct kt_form){.e4m3 = e4m3,
                            .room = kiln_linear_room(rank, e4m3),
                            .down = layer->both ? layer->down : NULL};
}
