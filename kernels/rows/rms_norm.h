/* rms_norm.h - the two norms of a transformer sublayer, each in one pass over its rows.
 *
 *     before:  y = RMS(x) * gain
 *     after:   y = add + RMS(x) * gain,  next = RMS(y) * next_gain
 *
 * RMS(x) = x / sqrt(mean(x^2) + eps).  All in fp32: a gain is the norm's weight times the scale or
 * gate that depends on time, and a result is rounded once, where it is stored; next is of y as it
 * is stored.  What goes into the next matrix product (next, or y where there is none) can be
 * quantised in the same pass, from its rounded values.  rms_norm_ref.c is the definition.
 */
#ifndef KILN_RMS_NORM_H
#define KILN_RMS_NORM_H

#include <stdbool.h>

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_rms_norm {
    const void *x;     /* [rows][n], what is normed */
    const float *gain; /* [n] */
    const void *add;   /* [rows][n], the residual stream; NULL: the first form */
    void *y;           /* [rows][n]; may be x or add; NULL: without a next norm, if only the
                        * quantised rows are wanted */
    int64_t n;
    float eps;
    enum kiln_float format; /* of all rows */
    /* The residual stream - add and y, in the first form x - has tails: tails.h.  In bf16, n a
     * multiple of KILN_TAILS_MULTIPLE and at most KILN_ROW_MAX; the first form has no next then,
     * and y stays apart from x. */
    bool tails;

    const float *next_gain; /* [n], the norm in front of the next sublayer; NULL for none */
    void *next; /* [rows][n], apart from x and add; NULL if only the quantised rows are wanted */

    /* Values from the start of one row to that of the next of the last result, in either form:
     * next, or y where there is none; 0 is n.  What lies behind a row stays as it is.  A y in
     * the place of x or add, or with tails, has n, as all other operands. */
    int64_t pitch;

    /* The last result as e4m3; NULL for none.  n at most KILN_ROW_MAX; not of a y with tails. */
    uint8_t *quantised; /* [rows][n] */
    float *row_scale;   /* [rows] */
    float code_max;     /* see fp8.h; 0 is 448 */
};

/* Rows [begin, end): callers share out the rows among threads. */
void kiln_rms_norm_ref(const struct kiln_rms_norm *args, int64_t begin, int64_t end);

/* On the device, bf16, n at most KILN_ROW_MAX; with tails all rows on 16 bytes; the promises of
 * stream.h. */
int kiln_rms_norm_launch(const struct kiln_rms_norm *args, int64_t rows, kiln_stream stream,
                         struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
