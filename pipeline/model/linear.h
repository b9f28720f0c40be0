/* linear.h - a linear layer that LoRAs may change.
 *
 *     y = x weight^T                        weight: [out, in], rows packed from up to three modules
 *     y += (x down^T) up^T                  a set of LoRAs beside it, strength folded into up
 *
 * Where the rows of the weight have room behind them, up lies there, and so does x down^T behind
 * the rows of x: one product with rank more columns is both, and y is written once.
 *
 * Model code multiplies through the functions below alone and never asks which of them it is.  What
 * the handles point to is lora/slots.h's business: their memory stays where it is while sets of one
 * layout come and go, so that a recorded graph stays valid.
 */
#ifndef KILN_LINEAR_H
#define KILN_LINEAR_H

#include "pipeline/torch/tensor.h"

struct kiln_linear_layer {
    kt weight;
    kt down; /* [rank, in] of all modules, quantised like the weight; NULL: nothing beside it */
    kt up;   /* [out, rank] */
    kt both; /* [out, in + rank], weight and up side by side; NULL: up is elsewhere */
};

/* The form in which kiln_linear() wants x [rows, in].  Rows without the room that it asks for are
 * copied, and codes of such rows leave no place for a strong set (KILN_E4M3_BESIDE_MAX).  It points
 * to what lies beside the layer: it is asked for anew once a set has changed. */
struct kt_form kiln_linear_form(const struct kiln_linear_layer *layer);
/* Room for so many columns at least, with which rows begin on 128 bytes. */
int64_t kiln_linear_room(int64_t columns, bool e4m3);
/* x [rows, in] times the layer's weight, with the set beside it.  Rows of several items, as many of
 * each, may be multiplied together, and have the bits that they have alone; not with a set beside
 * the weight. */
kt kiln_linear(struct kt_scope *s, kt x, const struct kiln_linear_layer *layer, int items);
/* silu(first half) * second half of that, in the form that is asked for.  Frees the handle x. */
kt kiln_linear_gated(struct kt_scope *s, kt x, const struct kiln_linear_layer *layer, int items,
                     struct kt_form form);

#endif
