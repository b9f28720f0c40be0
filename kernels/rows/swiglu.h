/* swiglu.h - the gate of a feed-forward layer: y = silu(gate) * up, from rows that hold both.
 *
 * silu is rounded to the rows' format before the product, as the reference implementation does.
 * y, rounded, can be quantised in the same pass.  swiglu_ref.c is the definition.
 */
#ifndef KILN_SWIGLU_H
#define KILN_SWIGLU_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_swiglu {
    const void *gate_up; /* [rows][2n]: gate, then up */
    void *y;             /* [rows][n], apart from gate_up; NULL if only e4m3 is wanted */
    int64_t n;
    int64_t pitch; /* values from the start of one row of y, in either form, to that of the next; 0
                    * is n.  What lies behind a row stays as it is */
    enum kiln_float format;
    /* y as e4m3; NULL for none.  n at most KILN_ROW_MAX. */
    uint8_t *quantised; /* [rows][n] */
    float *row_scale;   /* [rows] */
    float code_max;     /* see fp8.h; 0 is 448 */
};

void kiln_swiglu_ref(const struct kiln_swiglu *args, int64_t begin, int64_t end);

/* On the device, bf16, n at most KILN_ROW_MAX; the promises of stream.h. */
int kiln_swiglu_launch(const struct kiln_swiglu *args, int64_t rows, kiln_stream stream,
                       struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
