/* layer_norm_ref.c - see layer_norm.h. */
#include "kernels/layer_norm.h"

#include <math.h>

#include "kernels/tails.h"

KILN_INLINE float value_at(const void *row, int64_t n, int64_t i, enum kiln_float f, int tails)
{
    return tails ? kiln_load_tailed(row, n, i) : kiln_load(row, i, f);
}

KILN_INLINE void norm_row(const struct kiln_layer_norm *a, int64_t row, enum kiln_float f,
                          int tails)
{
    const int64_t n = a->n, at = row * n, x_at = tails ? row * KILN_TAILED(n) : at;
    const void *x = (const char *)a->x + x_at * kiln_float_size(f);
    float sum = 0, square = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += value_at(x, n, i, f, tails);
    const float mean = sum / (float)n;
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < n; i++) {
        float v = value_at(x, n, i, f, tails) - mean;
        square += v * v;
    }
    const float inverse = 1.0f / sqrtf(square / (float)n + a->eps);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        kiln_store(a->y, at + i, (value_at(x, n, i, f, tails) - mean) * inverse * a->scale[i], f);
}

KILN_CLONES static void norm_rows_f32(const struct kiln_layer_norm *a, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++)
        norm_row(a, row, KILN_F32, 0);
}

KILN_CLONES static void norm_rows_bf16(const struct kiln_layer_norm *a, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++)
        norm_row(a, row, KILN_BF16, 0);
}

KILN_CLONES static void norm_rows_tails(const struct kiln_layer_norm *a, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++)
        norm_row(a, row, KILN_BF16, 1);
}

void kiln_layer_norm_ref(const struct kiln_layer_norm *args, int64_t begin, int64_t end)
{
    (args->tails                 ? norm_rows_tails
     : args->format == KILN_BF16 ? norm_rows_bf16
                                 : norm_rows_f32)(args, begin, end);
}
