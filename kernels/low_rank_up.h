/* low_rank_up.h - the second half of a LoRA beside a matrix product (Hu et al. 2021,
 * arXiv:2106.09685), onto the product's result:
 *
 *     y [rows][n] += low [rows][rank] up [n][rank]^T
 *
 * Matrices that are stacked (q, k and v) are parts of y side by side, of n / parts columns each,
 * and have a rank of their own each: low is [rows][parts * rank], up [n][parts * rank], of which a
 * row is read where its part's values are; the others would be zero.
 *
 * The sum over the rank is in fp32, y is added to it in fp32, and the result is rounded once.
 * low_rank_up_ref.c is the meaning.
 */
#ifndef KILN_LOW_RANK_UP_H
#define KILN_LOW_RANK_UP_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest rank of a part on a GPU; beyond it a library's product is the better one. */
#define KILN_LOW_RANK_UP_MAX 64

struct kiln_low_rank_up {
    void *y;                /* [rows][n], apart from the others */
    int64_t pitch;          /* values from row to row of y, at least n; what is between stays */
    const void *low;        /* [rows][parts * rank], what the first half gave */
    int64_t low_pitch;      /* values from row to row of low, at least parts * rank */
    const void *up;         /* [n][parts * rank] */
    int64_t n, rank;        /* rank: of a part */
    int64_t parts;          /* divides n; at least 1 */
    enum kiln_float format; /* of all three */
};

/* Rows [begin, end). */
void kiln_low_rank_up_ref(const struct kiln_low_rank_up *args, int64_t begin, int64_t end);

/* On the device, bf16; the promises of stream.h but for any alignment: KILN_UNSUPPORTED where rank
 * is no multiple of 16 or above KILN_LOW_RANK_UP_MAX, a part no multiple of 32 columns, a pitch
 * none of 8, or a pointer not on 16 bytes.  A row's bits depend on that row alone. */
int kiln_low_rank_up_launch(const struct kiln_low_rank_up *args, int64_t rows, kiln_stream stream,
                            struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
