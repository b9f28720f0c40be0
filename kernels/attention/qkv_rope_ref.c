/* qkv_rope_ref.c - see qkv_rope.h. */
#include "kernels/attention/qkv_rope.h"

#include <math.h>
#include <stddef.h>

/* One head's values, normed if it has a weight, into out. */
KILN_INLINE void norm_head(const void *x, int64_t at, const void *weight, float eps, int d,
                           float *out, enum kiln_float f)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < d; i++) {
        out[i] = kiln_load(x, at + i, f);
        sum += out[i] * out[i];
    }
    if (!weight)
        return;
    const float inverse = 1.0f / sqrtf(sum / (float)d + eps);
#pragma omp simd
    for (int i = 0; i < d; i++)
        out[i] = kiln_rounded(kiln_rounded(out[i] * inverse, f) * kiln_load(weight, i, f), f);
}

KILN_INLINE void rotate_head(const struct kiln_qkv_rope *a, int64_t row, const float *x, float *out,
                             enum kiln_float f)
{
    const int half = a->head_dim / 2;
    const float *cos = a->cos + row * half, *sin = a->sin + row * half;
    if (a->interleaved) {
#pragma omp simd
        for (int i = 0; i < half; i++) {
            float p = x[2 * i], q = x[2 * i + 1];
            out[2 * i] = kiln_rounded(p * cos[i] - q * sin[i], f);
            out[2 * i + 1] = kiln_rounded(p * sin[i] + q * cos[i], f);
        }
        return;
    }
#pragma omp simd
    for (int i = 0; i < half; i++) {
        float p = x[i], q = x[i + half];
        out[i] = kiln_rounded(p * cos[i] - q * sin[i], f);
        out[i + half] = kiln_rounded(p * sin[i] + q * cos[i], f);
    }
}

/* The head that starts at `at` of the packed rows, to value `to` of out. */
KILN_INLINE void turn_head(const struct kiln_qkv_rope *a, int64_t row, int64_t at,
                           const void *weight, void *out, int64_t to, enum kiln_float f)
{
    float x[KILN_HEAD_DIM_MAX], turned[KILN_HEAD_DIM_MAX];
    const int d = a->head_dim;
    float *y = f == KILN_F32 ? (float *)out + to : turned;
    norm_head(a->qkv, at, weight, a->eps, d, x, f);
    if (a->cos) {
        rotate_head(a, row % (a->tokens ? a->tokens : a->rows), x, y, f);
    } else {
#pragma omp simd
        for (int i = 0; i < d; i++)
            y[i] = x[i];
    }
    if (y == turned)
        for (int i = 0; i < d; i++)
            kiln_store(out, to + i, y[i], f);
}

KILN_INLINE void split_rows(const struct kiln_qkv_rope *a, int64_t begin, int64_t end,
                            enum kiln_float f)
{
    const int64_t d = a->head_dim, h = a->heads, g = a->kv_heads;
    const int64_t tokens = a->tokens ? a->tokens : a->rows, size = kiln_float_size(f);
    const struct kiln_head_steps qs = kiln_head_steps(a, a->heads);
    const struct kiln_head_steps ks = kiln_head_steps(a, a->kv_heads);
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row * (h + 2 * g) * d, item = row / tokens, token = row % tokens;
        const int64_t q = item * qs.item + token * qs.token, k = item * ks.item + token * ks.token;
        for (int64_t i = 0; i < h; i++)
            turn_head(a, row, at + i * d, a->q_norm, a->q, q + i * qs.head, f);
        for (int64_t i = 0; i < g; i++)
            turn_head(a, row, at + (h + i) * d, a->k_norm, a->k, k + i * ks.head, f);
        for (int64_t i = 0; i < g && a->v; i++)
            memcpy((char *)a->v + (k + i * ks.head) * size,
                   (const char *)a->qkv + (at + (h + g + i) * d) * size, (size_t)(d * size));
    }
}

KILN_CLONES static void split_rows_f32(const struct kiln_qkv_rope *a, int64_t begin, int64_t end)
{
    split_rows(a, begin, end, KILN_F32);
}

KILN_CLONES static void split_rows_bf16(const struct kiln_qkv_rope *a, int64_t begin, int64_t end)
{
    split_rows(a, begin, end, KILN_BF16);
}

void kiln_qkv_rope_ref(const struct kiln_qkv_rope *args, int64_t begin, int64_t end)
{
    (args->format == KILN_BF16 ? split_rows_bf16 : split_rows_f32)(args, begin, end);
}
