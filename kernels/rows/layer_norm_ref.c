/* layer_norm_ref.c - see layer_norm.h. */
#include "kernels/rows/layer_norm.h"

#include <math.h>

#include "kernels/tails.h"

/* Row `row` of the results, from x, which may be of another format. */
KILN_INLINE void norm_row(const struct kiln_layer_norm *a, const void *x, enum kiln_float of_x,
                          int64_t row, enum kiln_float f)
{
    const int64_t n = a->n, at = row * n;
    float sum = 0, square = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += kiln_load(x, i, of_x);
    const float mean = sum / (float)n;
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < n; i++) {
        float v = kiln_load(x, i, of_x) - mean;
        square += v * v;
    }
    const float inverse = 1.0f / sqrtf(square / (float)n + a->eps);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        kiln_store(a->y, at + i, (kiln_load(x, i, of_x) - mean) * inverse * a->scale[i], f);
}

KILN_CLONES static void norm_rows_f32(const struct kiln_layer_norm *a, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++)
        norm_row(a, (const float *)a->x + row * a->n, KILN_F32, row, KILN_F32);
}

KILN_CLONES static void norm_rows_bf16(const struct kiln_layer_norm *a, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++)
        norm_row(a, (const uint16_t *)a->x + row * a->n, KILN_BF16, row, KILN_BF16);
}

KILN_CLONES static void norm_rows_tails(const struct kiln_layer_norm *a, int64_t begin, int64_t end)
{
    float wide[KILN_ROW_MAX];
    for (int64_t row = begin; row < end; row++) {
        kiln_unpack_tailed((const uint16_t *)a->x + row * KILN_TAILED(a->n), a->n, wide);
        norm_row(a, wide, KILN_F32, row, KILN_BF16);
    }
}

void kiln_layer_norm_ref(const struct kiln_layer_norm *args, int64_t begin, int64_t end)
{
    (args->tails                 ? norm_rows_tails
     : args->format == KILN_BF16 ? norm_rows_bf16
                                 : norm_rows_f32)(args, begin, end);
}
