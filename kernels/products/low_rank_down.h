/* low_rank_down.h - the first half of a LoRA beside a matrix product (Hu et al. 2021,
 * arXiv:2106.09685):
 *
 *     lora [rows][rank] = (x [rows][k] down [rank][k]^T) * factor [rank]
 * in bf16, or in codes of e4m3 (fp8.h) without their scales, which belong into the factor.  Sums
 * are in fp32, times the factor, rounded once; codes saturate at 448, and NaN stays NaN.
 * low_rank_down_ref.c is the definition.
 *
 * lora may lie in the memory of x, behind the k values of each row.  Then one product reads both,
 * if its weight has the second half of the LoRA behind its own columns.
 */
#ifndef KILN_LOW_RANK_DOWN_H
#define KILN_LOW_RANK_DOWN_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest rank on a GPU; above it a library's product is faster. */
#define KILN_LOW_RANK_DOWN_MAX 192

struct kiln_low_rank_down {
    const void *x;       /* [rows][k] */
    const void *down;    /* [rank][k] */
    const float *factor; /* [rank], NULL: 1 */
    void *lora;          /* [rows][rank]; overlaps no value of the others */
    /* Values from row to row, at least k and rank.  Values between the rows are neither read nor
     * changed. */
    int64_t x_pitch, lora_pitch;
    int64_t k, rank;
    enum kiln_float format; /* of x, down and lora */
    int e4m3;               /* x, down and lora are codes, whatever the format */
};

/* Rows [begin, end). */
void kiln_low_rank_down_ref(const struct kiln_low_rank_down *args, int64_t begin, int64_t end);

/* On the device, bf16 or codes; the promises of stream.h but for any alignment: KILN_UNSUPPORTED
 * where rank is no multiple of 16 or above KILN_LOW_RANK_DOWN_MAX, k or a pitch none of 16 bytes, x
 * or down not on 16 bytes, lora not on 4, the device not of compute capability 9.0, or the build
 * without code for it (sm_90a).  A row's bits depend on that row alone.  Products of codes are
 * added up by the tensor cores, which keep less of a sum than fp32 does, some 13 bits. */
int kiln_low_rank_down_launch(const struct kiln_low_rank_down *args, int64_t rows,
                              kiln_stream stream, struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
