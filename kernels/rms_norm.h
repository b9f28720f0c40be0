/* rms_norm.h - the two norms of a transformer sublayer, each in one pass over its rows.
 *
 *     before:  y = RMS(x) * weight * factor
 *     after:   y = add + factor * (RMS(x) * weight),  next = RMS(y) * next_weight * next_factor
 *
 * RMS(x) = x / sqrt(mean(x^2) + eps), the mean in fp32, the quotient rounded to the rows' format
 * before the weight is multiplied in, as the reference implementation does; so are the products.
 * What goes into the next matrix product (next, or y where there is none) can be quantised in the
 * same pass, from its rounded values.  rms_norm_ref.c is the meaning.
 */
#ifndef KILN_RMS_NORM_H
#define KILN_RMS_NORM_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_rms_norm {
    const void *x;      /* [rows][n], what is normed */
    const void *weight; /* [n] */
    const void *factor; /* [n], scale or gate; NULL for 1 */
    const void *add;    /* [rows][n], the residual stream; NULL: the first form */
    void *y;            /* [rows][n]; may be x or add; NULL if only the quantised rows are wanted */
    int64_t n;
    float eps;
    enum kiln_float format; /* of all of them */

    /* The norm in front of the next sublayer; next_weight NULL for none. */
    const void *next_weight, *next_factor; /* [n]; the factor may be NULL */
    void *next; /* [rows][n], apart from x and add; NULL if only the quantised rows are wanted */

    /* Values from the start of one row to that of the next of the last result, in either form:
     * next, or y where there is none; 0 is n.  What lies behind a row stays as it is.  A y in
     * the place of x or add is dense, as are all other operands. */
    int64_t pitch;

    /* The last result as e4m3; NULL for none.  n at most KILN_ROW_MAX. */
    uint8_t *quantised; /* [rows][n] */
    float *row_scale;   /* [rows] */
    float code_max;     /* see fp8.h; 0 is 448 */
};

/* Rows [begin, end): callers share out the rows among threads. */
void kiln_rms_norm_ref(const struct kiln_rms_norm *args, int64_t begin, int64_t end);

/* On the device, bf16, n at most KILN_ROW_MAX; the promises of stream.h. */
int kiln_rms_norm_launch(const struct kiln_rms_norm *args, int64_t rows, kiln_stream stream,
                         struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
