/* gated_product.h - both halves of a feed-forward layer's gate (Shazeer 2020, arXiv:2002.05202) and
 * what becomes of them, in one pass:
 *
 *     y [rows][n] = silu(x gate^T) * (x up^T)      x [rows][k], weight [2n][k]: gate, then up
 *
 * The two products, twice as wide as y, are never in memory.  They are summed over k in fp32 and
 * rounded to the rows' format, and then all is rounded as swiglu.h does it.  On a device a sum goes
 * over k in order, in steps of 16, as it does in a library's product: y has the very bits of that
 * product with swiglu behind it.  gated_product_ref.c is the meaning.
 *
 * Where a LoRA lies beside the product that takes y, its first half may be made along the way:
 *
 *     lora [rows][rank] = y down^T      y as it is stored, summed in fp32 and rounded once
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
    void *y;            /* [rows][n], apart from x and weight */
    /* Values from row to row, at least k, k and n.  What is between the rows, but for a lora there,
     * is not read and stays as it is. */
    int64_t x_pitch, weight_pitch, pitch;
    int64_t n, k;
    enum kiln_float format; /* of all but parts */

    int64_t rank;     /* 0: no lora, and nothing of the following */
    const void *down; /* [rank][n] */
    void *lora;        /* [rows][rank], behind the n values of y's rows or elsewhere */
    int64_t lora_pitch;
    /* On a device: KILN_GATED_PARTS values for what the columns of y give to lora, apart from all
     * others and the launch's until the stream has passed it; then unknown. */
    float *parts;
};

/* On a device: the one rank there is, and the columns of y that are multiplied with down in one go.
 * Of a larger rank the parts are more than it takes to read y once more. */
#define KILN_GATED_RANK 16
#define KILN_GATED_COLUMNS 128
#define KILN_GATED_PARTS(rows, n) ((n) / KILN_GATED_COLUMNS * KILN_GATED_RANK * (rows))

/* Rows [begin, end). */
void kiln_gated_product_ref(const struct kiln_gated_product *args, int64_t begin, int64_t end);

/* On the device, bf16; the promises of stream.h but for any alignment: KILN_UNSUPPORTED where n, k
 * or a pitch is no multiple of 8, a pointer not on 16 bytes, the device not of compute capability
 * 9.0, or the build without code for it (sm_90a).  A row's bits depend on that row alone.  With
 * lora: rank is KILN_GATED_RANK, n a multiple of KILN_GATED_COLUMNS, down and parts on 16 bytes, lora
 * on 4 and lora_pitch even. */
int kiln_gated_product_launch(const struct kiln_gated_product *args, int64_t rows,
                              kiln_stream stream, struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
