/* qkv_rope.h - from packed q, k, v rows to what attention reads: heads split, q and k normed per
 * head and rotated.
 *
 * Interleaved rotation turns the pairs (2i, 2i+1), the other kind (i, i + head_dim/2):
 *     (a, b) -> (a cos - b sin, a sin + b cos)
 * All are in the rows' format, and rounded to it where the reference implementation has them in it.
 * On the GPU that is bf16.
 * qkv_rope_ref.c is the definition.
 *
 * A batch is packed rows, item after item.  With `tokens` set, all items have that many and share
 * one table of angles; results are [items][heads][tokens][head_dim].
 *
 * `in_place` turns q and k where they lie: q is qkv itself, k the first of its k, v stays (NULL).
 * A third less to move, for an attention that reads its operands by strides.
 */
#ifndef KILN_QKV_ROPE_H
#define KILN_QKV_ROPE_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_HEAD_DIM_MAX 4096

struct kiln_qkv_rope {
    const void *qkv;             /* [rows][(heads + 2 kv_heads) * head_dim] */
    const void *q_norm, *k_norm; /* [head_dim]; NULL: no norm */
    const float *cos, *sin;      /* [rows or tokens][head_dim/2]; NULL: no rotation */
    void *q;                     /* heads */
    void *k, *v;                 /* kv_heads; v is NULL in place */
    int64_t rows;
    int heads, kv_heads, head_dim; /* head_dim is even where there is a rotation */
    int interleaved;
    float eps;
    enum kiln_float format;
    int64_t tokens; /* of an item, divides rows; 0: the rows are one item */
    int in_place;   /* the results are part of the packed rows */
};

/* Steps in values from an item, a head, a token of `heads` heads to the next one. */
struct kiln_head_steps {
    int64_t item, head, token;
};
KILN_INLINE struct kiln_head_steps kiln_head_steps(const struct kiln_qkv_rope *args, int heads)
{
    const int64_t d = args->head_dim, tokens = args->tokens ? args->tokens : args->rows;
    struct kiln_head_steps steps = {tokens * heads * d, tokens * d, d};
    if (args->in_place) {
        steps.head = d;
        steps.token = ((int64_t)args->heads + 2 * (int64_t)args->kv_heads) * d;
        steps.item = tokens * steps.token;
    }
    return steps;
}

/* Rows [begin, end): callers share out the rows among threads. */
void kiln_qkv_rope_ref(const struct kiln_qkv_rope *args, int64_t begin, int64_t end);

/* All rows on the device, bf16 in and out; the promises of stream.h. */
int kiln_qkv_rope_launch(const struct kiln_qkv_rope *args, kiln_stream stream,
                         struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
