/* gated_product.h - both products of a gated feed-forward layer (Shazeer 2020, arXiv:2002.05202)
 * and the gate, in one pass:
 *
 *     y [rows][n] = silu(x gate^T) * (x up^T)      x [rows][k], weight [2n][k]: gate, then up
 * The two products, twice as wide as y, are never written to memory.  They are summed over k in
 * fp32 and rounded to the rows' format; then everything is rounded as in swiglu.h.  On a device,
 * sums run over k in order, in steps of 16, as in a library's product: y has the same bits as that
 * product followed by swiglu.  gated_product_ref.c is the definition.
 *
 * If a LoRA lies beside the next product, the first half of the LoRA can be computed in the same
 * pass:
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
    /* Values from row to row, at least k, k and n.  Values between the rows are neither read nor
     * changed, except by lora. */
    int64_t x_pitch, weight_pitch, pitch;
    int64_t n, k;
    enum kiln_float format; /* of all but parts */

    int64_t rank;     /* 0: no lora; the fields below are unused */
    const void *down; /* [rank][n] */
    void *lora;       /* [rows][rank], behind the n values of y's rows or elsewhere */
    int64_t lora_pitch;
    /* On a device: scratch of KILN_GATED_PARTS values for partial sums of lora; overlaps nothing,
     * and is in use until the launch has run. */
    float *parts;
};

/* On a device: the only rank, and how many columns of y are multiplied with down at a time.  With a
 * larger rank, moving the partial sums would cost more than reading y again. */
#define KILN_GATED_RANK 16
#define KILN_GATED_COLUMNS 128
#define KILN_GATED_PARTS(rows, n) ((n) / KILN_GATED_COLUMNS * KILN_GATED_RANK * (rows))

/* Rows [begin, end). */
void kiln_gated_product_ref(const struct kiln_gated_product *args, int64_t begin, int64_t end);

/* On the device, bf16; the promises of stream.h but for any alignment: KILN_UNSUPPORTED where n, k
 * or a pitch is no multiple of 8, a pointer not on 16 bytes, the device not of compute capability
 * 9.0, or the build without code for it (sm_90a).  A row's bits depend on that row alone.  With
 * lora: rank is KILN_GATED_RANK, n a multiple of KILN_GATED_COLUMNS, down and parts on 16 bytes,
 * lora on 4 and lora_pitch even. */
int kiln_gated_product_launch(const struct kiln_gated_product *args, int64_t rows,
                              kiln_stream stream, struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
