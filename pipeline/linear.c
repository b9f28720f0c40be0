/* linear.c - a product, and a small one beside it; see linear.h. */
#include "pipeline/linear.h"

kt kiln_linear(struct kt_scope *s, kt x, const struct kiln_linear_layer *layer)
{
    /* The narrow product comes first, while what wrote x has left it in the cache. */
    kt low = layer->down ? kt_linear(s, x, layer->down, NULL) : NULL;
    kt y = kt_linear(s, x, layer->weight, NULL);
    if (layer->down)
        kt_add_product(s, y, low, layer->up);
    return y;
}
