/* low_rank_down.h - the first half of a LoRA beside a matrix product (Hu et al. 2021,
 * arXiv:2106.09685): rows times `down`, written behind the rows.
 *
 *     low = x down^T        summed in fp32, rounded once
 *
 * So that one product of the wide rows [x | low] with [W | up] is x W^T + low up^T.
 * low_rank_down_ref.c is the meaning.
 */
#ifndef KILN_LOW_RANK_DOWN_H
#define KILN_LOW_RANK_DOWN_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_LOW_RANK_MAX 192

struct kiln_low_rank_down {
    void *x;          /* [rows] of n + rank values, `pitch` apart: x, then low, which is written */
    int64_t pitch;    /* at least n + rank; what is behind low stays as it is */
    const void *down; /* [rank][n] */
    int64_t n, rank;
    enum kiln_float format; /* of all of them */
};

/* Rows [begin, end); any n and rank. */
void kiln_low_rank_down_ref(const struct kiln_low_rank_down *args, int64_t begin, int64_t end);

/* On the device, bf16; the promises of stream.h but for shapes: n a multiple of 32 up to
 * KILN_ROW_MAX, rank one of 16 up to KILN_LOW_RANK_MAX, pitch one of 8, pointers on 16 bytes, or
 * KILN_UNSUPPORTED.  A row's result depends on that row, n and rank alone. */
int kiln_low_rank_down_launch(const struct kiln_low_rank_down *args, int64_t rows,
                              kiln_stream stream, struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
