/* low_rank_codes.h - a LoRA pair (Hu et al. 2021, arXiv:2106.09685) quantised to e4m3, to lie
 * beside a quantised weight, whose row factors hold for the LoRA's columns as well (fp8.h):
 *
 *     up [n][r] ~ factor [n] * up_codes [n][r] / reach [r]
 *     down [r][k] ~ down_scale [r] * reach [r] * down_codes [r][k]
 *
 * so that with lora = down_scale * (codes of x) down_codes^T, itself in codes behind those of x,
 * one product is x weight^T and (x down^T) up^T.  up_codes should be large, for precision, and lora
 * small, so that it does not saturate at 448.  reach moves range from one to the other:
 *
 *     most = 448 / max |up / factor|         for up's largest code the largest there is
 * If lora would saturate then, reach is larger, up to what fits; but not above the value that it
 * would have without weight rows that are far smaller than the others:
 *
 *     fitting = |down [r]| / 12              large = 448 / max |up / max(factor, mean factor / 2)|
 *     reach = max(most, min(fitting, large))
 * The codes of such rows saturate instead.  Codes of x are about 8 on average (the largest is
 * KILN_E4M3_BESIDE_MAX), so a row of down of length 12 gives values of about 100 in lora, a quarter
 * of 448.  Both largest values are at least KILN_E4M3_FLOOR, so that zeros stay zeros.  A NaN
 * becomes a NaN code and is ignored otherwise.  down_codes and down_scale * reach are down as fp8.h
 * quantises a row, up to 448.  low_rank_codes_ref.c is the definition.
 */
#ifndef KILN_LOW_RANK_CODES_H
#define KILN_LOW_RANK_CODES_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_LOW_RANK_LENGTH 12.0f /* of a row of down, see above */

struct kiln_low_rank_codes {
    const void *up;      /* [n][rank] */
    const void *down;    /* [rank][k] */
    const float *factor; /* [n], above 0 */
    uint8_t *up_codes;   /* [n][rank] */
    uint8_t *down_codes; /* [rank][k] */
    float *down_scale;   /* [rank] */
    int64_t pitch;       /* from row to row of up_codes, at least rank; what is between stays */
    int64_t n, k, rank;
    enum kiln_float format; /* of up and down */
};

/* Columns [begin, end) of up, and the same rows of down. */
void kiln_low_rank_codes_ref(const struct kiln_low_rank_codes *args, int64_t begin, int64_t end);

/* On the device, bf16; the promises of stream.h, but n and k are at least 1.  Of rank 0 there is
 * nothing to be done. */
int kiln_low_rank_codes_launch(const struct kiln_low_rank_codes *args, kiln_stream stream,
                               struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
