/* gated_product.h - both halves of a feed-forward layer's gate (Shazeer 2020, arXiv:2002.05202) and
 * what becomes of them, in one pass:
 *
 *     y [rows][n] = silu(x gate^T) * (x up^T)      x [rows][k], weight [2n][k]: gate, then up
 *
 * The two products, twice as wide as y, are never in memory.  They are summed over k in fp32 and
 * rounded to the rows' format, and then all is rounded as swiglu.h does it.  On a device a sum goes
 * over k in order, in steps of 16, as it does in a library's product: y has the very bits of that
 * product with swiglu behind it.  gated_product_ref.c is the meaning.
 */
#ifndef KILN_GATED_PRODUCT_H
#define KILN_GATED_PRODUCT_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_gated_product {
    const void *x;      /* [rows][k] */
    const void *weight; /* [2n][k] */
    void *y;            /* [rows][n], apart from the others */
    /* Values from row to row, at least k, k and n.  What is between the rows is not read, and stays
     * as it is. */
    int64_t x_pitch, weight_pitch, pitch;
    int64_t n, k;
    enum kiln_float format; /* of all three */
};

/* Rows [begin, end). */
void kiln_gated_product_ref(const struct kiln_gated_product *args, int64_t begin, int64_t end);

/* On the device, bf16; the promises of stream.h but for any alignment: KILN_UNSUPPORTED where n, k
 * or a pitch is no multiple of 8, a pointer not on 16 bytes, the device not of compute capability
 * 9.0, or the build without code for it (sm_90a).  A row's bits depend on that row alone. */
int kiln_gated_product_launch(const struct kiln_gated_product *args, int64_t rows,
                              kiln_stream stream, struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
