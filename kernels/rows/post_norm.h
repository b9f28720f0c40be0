/* post_norm.h - the norm behind a residual sum, as encoders of the BERT class have it, on the CPU:
 *
 *     x = (s - mean(s)) / sqrt(variance(s) + eps) * gain + bias,    s = x + y
 *
 * The variance is the mean of squares, not n - 1.  Everything is fp32; post_norm_ref.c is the
 * definition and there is no CUDA kernel.
 */
#ifndef KILN_POST_NORM_H
#define KILN_POST_NORM_H

#include "kernels/floats.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_post_norm {
    float *x;                 /* [rows][n], updated in place */
    const float *y;           /* [rows][n]; NULL: zeros */
    const float *gain, *bias; /* [n] */
    int64_t n;
    float eps;
};

void kiln_post_norm_ref(const struct kiln_post_norm *args, int64_t rows);

#ifdef __cplusplus
}
#endif

#endif
