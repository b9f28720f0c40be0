/* swiglu.h - the gate of a feed-forward layer: y = silu(gate) * up, from rows that hold both.
 *
 * silu is rounded to the rows' format before the product, as the reference implementation does.
 * swiglu_ref.c is the meaning.
 */
#ifndef KILN_SWIGLU_H
#define KILN_SWIGLU_H

#include "kernels/floats.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_swiglu {
    const void *gate_up; /* [rows][2n]: gate, then up */
    void *y;             /* [rows][n] */
    int64_t n;
    enum kiln_float format;
};

void kiln_swiglu_ref(const struct kiln_swiglu *args, int64_t begin, int64_t end);

#ifdef __cplusplus
}
#endif

#endif
