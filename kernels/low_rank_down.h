/* low_rank_down.h - the first half of a LoRA beside a matrix product (Hu et al. 2021,
 * arXiv:2106.09685):
 *
 *     lora [rows][rank] = (x [rows][k] down [rank][k]^T) * factor [rank]
 *
 * in bf16, or in codes of e4m3 (fp8.h), of which each means itself: what scales they stand for
 * belongs into the factor.  Sums are in fp32, times the factor, and rounded once; in codes what is
 * beyond 448 becomes 448, and NaN stays NaN.  low_rank_down_ref.c is the meaning.
 *
 * lora may lie in the memory of x, behind the k values of each row: there a product whose weight has
 * the second half behind its own columns reads both at once.
 */
#ifndef KILN_LOW_RANK_DOWN_H
#define KILN_LOW_RANK_DOWN_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest rank on a GPU; beyond it a library's product is the better one. */
#define KILN_LOW_RANK_DOWN_MAX 192

struct kiln_low_rank_down {
    const void *x;       /* [rows][k] */
    const void *down;    /* [rank][k] */
    const float *factor; /* [rank], NULL: 1 */
    void *lora;           /* [rows][rank]; no value of it is one of the others' */
    /* Values from row to row, at least k and rank.  What is between the rows is not read, and stays
     * as it is. */
    int64_t x_pitch, lora_pitch;
    int64_t k, rank;
    enum kiln_float format; /* of x, down and lora */
    int e4m3;               /* they are codes, whatever the format says */
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
