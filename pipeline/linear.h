/* linear.h - a linear layer that LoRAs may change.
 *
 *     y = x weight^T                        weight: [out, in], rows packed from up to three modules
 *     y += (x down^T) up^T                  a set of LoRAs beside it, strength folded into up
 *
 * Model code multiplies through kiln_linear() alone and never asks which of the two it is.  What
 * the handles point to is lora_slots.h's business: their memory stays where it is while sets of one
 * layout come and go, so that a recorded graph stays valid.
 */
#ifndef KILN_LINEAR_H
#define KILN_LINEAR_H

#include "pipeline/torch/tensor.h"

struct kiln_linear_layer {
    kt weight;
    kt down, up; /* [rank, in] and [out, rank] of all modules together; NULL: nothing beside it */
};

/* x: [rows, in]; beside a quantised weight, quantised rows that hold the plain ones too. */
kt kiln_linear(struct kt_scope *s, kt x, const struct kiln_linear_layer *layer);

#endif
