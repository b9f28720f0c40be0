/* linear.h - a linear layer that LoRAs may change.
 *
 *     y = x weight^T                        weight: [out, in], rows packed from up to three modules
 *     y += (x down^T) up^T                  a LoRA set beside it, strength folded into up
 *
 * If the rows of the weight have room, up lies behind them, and x down^T behind the rows of x. Then
 * one product with rank more columns computes both terms and writes y once.
 *
 * Model code multiplies only through the functions below, with or without LoRAs.  lora/slots.h sets
 * the handles.  Their memory keeps its address while sets of one layout change, so that a recorded
 * graph stays valid.
 */
#ifndef KILN_LINEAR_H
#define KILN_LINEAR_H

#include "pipeline/torch/tensor.h"

struct kiln_linear_layer {
    kt weight;
    kt down; /* [rank, in] of all modules, quantised like the weight; NULL: no LoRA beside it */
    kt up;   /* [out, rank] */
    kt both; /* [out, in + rank], weight with up behind its rows; NULL: no room */
};

/* The form of x [rows, in] for kiln_linear().  Rows without this room are copied, and their codes
 * saturate with strong sets (KILN_E4M3_BESIDE_MAX).  Valid until the LoRA set changes. */
struct kt_form kiln_linear_form(const struct kiln_linear_layer *layer);
/* Room for at least so many columns, such that rows begin on 128 bytes. */
int64_t kiln_linear_room(int64_t columns, bool e4m3);
/* x [rows, in] times the layer's weight, plus the LoRA term.  Rows of several items of equal length
 * get the bits that they would have alone; but not with a LoRA beside the weight. */
kt kiln_linear(struct kt_scope *s, kt x, const struct kiln_linear_layer *layer, int items);
/* silu(first half) * second half of that product, in the given form.  Frees the handle x. */
kt kiln_linear_gated(struct kt_scope *s, kt x, const struct kiln_linear_layer *layer, int items,
                     struct kt_form form);

#endif
