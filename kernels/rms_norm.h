/* rms_norm.h - the two norms of a transformer sublayer, each in one pass over its rows.
 *
 *     before:  y = RMS(x) * weight * scale
 *     after:   y = x + gate * (RMS(h) * weight)
 *
 * RMS(x) = x / sqrt(mean(x^2) + eps), the mean in fp32, the quotient rounded to the rows' format
 * before the weight is multiplied in, as the reference implementation does.
 * rms_norm_ref.c is the meaning.
 */
#ifndef KILN_RMS_NORM_H
#define KILN_RMS_NORM_H

#include "kernels/floats.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_rms_norm {
    const void *x;      /* [rows][n], what is normed */
    const void *weight; /* [n] */
    const void *factor; /* [n], scale or gate; NULL for 1 */
    const void *add;    /* [rows][n], the residual stream; NULL: the first form */
    void *y;            /* [rows][n]; may be x or add */
    int64_t n;
    float eps;
    enum kiln_float format; /* of all of them */
};

/* Rows [begin, end): callers share out the rows among threads. */
void kiln_rms_norm_ref(const struct kiln_rms_norm *args, int64_t begin, int64_t end);

#ifdef __cplusplus
}
#endif

#endif
