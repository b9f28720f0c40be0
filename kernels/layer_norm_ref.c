/* layer_norm_ref.c - see layer_norm.h. */
#include "kernels/layer_norm.h"

#include <math.h>

KILN_INLINE void norm_row(const struct kiln_layer_norm *a, int64_t row, enum kiln_float f)
{
    const int64_t n = a->n, at = row * n;
    float sum = 0, square = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += kiln_load(a->x, at + i, f);
    const float mean = sum / (float)n;
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < n; i++) {
        float v = kiln_load(a->x, at + i, f) - mean;
        square += v * v;
    }
    const float inverse = 1.0f / sqrtf(square / (float)n + a->eps);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = kiln_rounded((kiln_load(a->x, at + i, f) - mean) * inverse, f);
        kiln_store(a->y, at + i, v * kiln_load(a->scale, i, f), f);
    }
}

KILN_CLONES static void norm_rows_f32(const struct kiln_layer_norm *a, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++)
        norm_row(a, row, KILN_F32);
}

KILN_CLONES static void norm_rows_bf16(const struct kiln_layer_norm *a, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++)
        norm_row(a, row, KILN_BF16);
}

void kiln_layer_norm_ref(const struct kiln_layer_norm *args, int64_t begin, int64_t end)
{
    (args->format == KILN_BF16 ? norm_rows_bf16 : norm_rows_f32)(args, begin, end);
}
