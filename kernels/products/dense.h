/* dense.h - products of fp32 rows on the CPU, without LibTorch: y = x b + bias.
 *
 * For small encoders in processes that must not link LibTorch: one text of 16 tokens through 6
 * layers of width 384 is 0.3 GFLOP.  The second operand is packed first, in strips of
 * KILN_DENSE_STRIP columns whose lines lie one behind the other, since lines apart would share a
 * few sets of the cache.  Sums are in fp32, in the order of k.  dense_ref.c is the definition;
 * there is no CUDA kernel.
 */
#ifndef KILN_DENSE_H
#define KILN_DENSE_H

#include "kernels/floats.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_DENSE_STRIP 16

/* Values of a packed operand: [strips][k][KILN_DENSE_STRIP]; columns from n on are zero. */
KILN_INLINE int64_t kiln_dense_packed(int64_t k, int64_t n)
{
    return (n + KILN_DENSE_STRIP - 1) / KILN_DENSE_STRIP * KILN_DENSE_STRIP * k;
}

/* Packs rows [n][k], each `pitch` values after the last, as the columns of b: a linear layer's
 * weights, or the keys of attention. */
void kiln_dense_pack_rows(const float *rows, int64_t pitch, int64_t n, int64_t k, float *packed);
/* Packs lines [k][n], each `pitch` values after the last, as b itself: the values of attention. */
void kiln_dense_pack_lines(const float *lines, int64_t pitch, int64_t n, int64_t k, float *packed);

struct kiln_dense {
    const float *x;    /* [rows][k], each x_pitch values after the last */
    const float *b;    /* packed */
    const float *bias; /* [n]; NULL: nothing */
    float *y;          /* [rows][n], each y_pitch values after the last */
    int64_t k, n, x_pitch, y_pitch;
};

void kiln_dense_ref(const struct kiln_dense *args, int64_t rows);
/* The form of it that processors without AVX-512 run. */
void kiln_dense_narrow_ref(const struct kiln_dense *args, int64_t rows);

#ifdef __cplusplus
}
#endif

#endif
