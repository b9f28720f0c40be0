/* qkv_rope.h - from packed q, k, v rows to what attention reads: heads split, q and k normed per
 * head and rotated, q scaled.
 *
 * Interleaved rotation turns the pairs (2i, 2i+1), the other kind (i, i + head_dim/2):
 *     (a, b) -> (a cos - b sin, a sin + b cos)
 * q and k come out in fp32, rounded to the rows' format where the reference implementation has
 * them in it; scores are then computed in fp32.  qkv_rope_ref.c is the meaning.
 */
#ifndef KILN_QKV_ROPE_H
#define KILN_QKV_ROPE_H

#include "kernels/floats.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_HEAD_DIM_MAX 4096

struct kiln_qkv_rope {
    const void *qkv;             /* [rows][(heads + 2 kv_heads) * head_dim] */
    const void *q_norm, *k_norm; /* [head_dim]; NULL: no norm */
    const float *cos, *sin;      /* [rows][head_dim/2]; NULL: no rotation */
    float *q;                    /* [heads][rows][head_dim] */
    float *k;                    /* [kv_heads][rows][head_dim] */
    void *v;                     /* [kv_heads][rows][head_dim], the rows' format */
    int64_t rows;
    int heads, kv_heads, head_dim;
    int interleaved;
    float eps, q_scale;
    enum kiln_float format;
};

void kiln_qkv_rope_ref(const struct kiln_qkv_rope *args, int64_t begin, int64_t end);

#ifdef __cplusplus
}
#endif

#endif
