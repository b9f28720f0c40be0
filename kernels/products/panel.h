/* panel.h - operands of a product on the CPU in the order that its kernels read, and its results.
 *
 * The kernels (LibTorch's brgemm) want the second operand of a product as panels: KILN_PANEL
 * columns, line by line.  A line holds one value of k a column in fp32, and two in bf16 (VNNI), so
 * a line of either is KILN_PANEL words of 32 bits.  Few rows of x are a panel of their own, with as
 * many columns (pipeline/torch/cpu/products.cpp).  panel_ref.c is the definition; there is no CUDA
 * kernel.
 */
#ifndef KILN_PANEL_H
#define KILN_PANEL_H

#include "kernels/floats.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_PANEL 64

/* Words of 32 bits, hence lines of a panel, for k values; k is even in bf16. */
KILN_INLINE int64_t kiln_panel_lines(int64_t k, enum kiln_float format)
{
    return format == KILN_BF16 ? k / 2 : k;
}

/* The transpose of rows: column i of the panel is row i.  rows: [n] of `lines` words each; panel:
 * [lines], each `pitch` words after the last, whose words from n on stay as they are. */
void kiln_panel_of_rows(const void *rows, int64_t n, int64_t lines, void *panel, int64_t pitch);

/* Rows of bf16 as a second operand that is not transposed: pairs[i][c] is the pair x[2i][c],
 * x[2i+1][c].  x: [2 pairs][n]. */
void kiln_panel_pairs(const uint16_t *x, int64_t pairs, int64_t n, uint16_t *out);

/* Results in fp32, plus a bias, to rows in the given format. */
struct kiln_panel_sums {
    const float *from;  /* [rows], each `step` values after the last */
    void *to;           /* [rows], each `pitch` values after the last */
    const void *bias;   /* [n] in the format; NULL: nothing */
    const float *scale; /* [rows]; NULL: 1 */
    int64_t n, step, pitch;
    enum kiln_float format;
};
void kiln_panel_store(const struct kiln_panel_sums *args, int64_t rows);

#ifdef __cplusplus
}
#endif

#endif
