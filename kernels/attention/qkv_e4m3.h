/* qkv_e4m3.h - packed q, k, v rows to e4m3 (fp8.h), for attention in FP8, which takes one scale for
 * a whole tensor. q and k are normed per head, rotated and rounded to bf16 with the same bits as by
 * qkv_rope, and become codes with scale 1, because their norms bound them.  That suits norm weights
 * between 2^-3 and 32: values above 448 saturate, and values below 2^-6 lose digits.  v has one
 * scale for all rows and heads:
 *
 *     top = max(largest |v|, KILN_E4M3_FLOOR)      v ~ top / 448 * e4m3      scale = top / code_max
 * The result of attention is a mean of v's rows, and so never larger.  Its codes go up to code_max
 * (fp8.h), those of v up to 448.  The result's scale is written for every row, for a product that
 * takes a factor a row.  A NaN in v becomes NaN and changes no other value; an infinity becomes NaN
 * and makes the scale infinite, so that later results show it.  qkv_e4m3_ref.c is the definition.
 */
#ifndef KILN_QKV_E4M3_H
#define KILN_QKV_E4M3_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parts that v is searched in: two for each multiprocessor of an H200. */
#define KILN_QKV_TOPS 264

/* Nothing that is written may overlap with anything else. */
struct kiln_qkv_e4m3 {
    const void *qkv;             /* [rows][(heads + 2 kv_heads) * head_dim], bf16 */
    const void *q_norm, *k_norm; /* [head_dim], bf16; both are needed: they bound q and k */
    const float *cos, *sin;      /* [rows][head_dim/2]; NULL: no rotation */
    uint8_t *codes;              /* like qkv, one byte a value */
    float *scale;                /* [rows], all of them alike: what a code of the result means */
    float *to_codes;             /* [1]: what scale times a mean of v's codes is multiplied by to
                                  * become a code of the result: code_max / 448 / scale */
    float *tops;                 /* [KILN_QKV_TOPS], scratch; the reference takes none */
    int64_t rows;                /* 0: nothing is written */
    int heads, kv_heads, head_dim;
    int interleaved; /* as in qkv_rope.h */
    float eps;
    float code_max; /* of the result; 0 is 448 */
};

/* All rows at once, since the scale is theirs together; heads of at most KILN_HEAD_DIM_MAX. */
void kiln_qkv_e4m3_ref(const struct kiln_qkv_e4m3 *args);

/* On the device, the same; the promises of stream.h.  KILN_UNSUPPORTED where head_dim is no
 * multiple of 8 or above KILN_HEAD_DIM_MAX (qkv_rope.h), where there are more rows and heads than
 * 32 bits count, where an operand is not on 16 bytes, and where the device has no e4m3: such a
 * caller keeps to bf16. */
int kiln_qkv_e4m3_launch(const struct kiln_qkv_e4m3 *args, kiln_stream stream,
                         struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
