/* rms_norm_ref.c - see rms_norm.h. */
#include "kernels/rms_norm.h"

#include <math.h>
#include <stddef.h>

KILN_INLINE void norm_row(const struct kiln_rms_norm *a, int64_t row, enum kiln_float f,
                          int has_factor, int has_add)
{
    const int64_t n = a->n, at = row * n;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float v = kiln_load(a->x, at + i, f);
        sum += v * v;
    }
    const float inverse = 1.0f / sqrtf(sum / (float)n + a->eps);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = kiln_rounded(kiln_load(a->x, at + i, f) * inverse, f);
        v = kiln_rounded(v * kiln_load(a->weight, i, f), f);
        if (has_factor)
            v = kiln_rounded(v * kiln_load(a->factor, i, f), f);
        if (has_add)
            v += kiln_load(a->add, at + i, f);
        kiln_store(a->y, at + i, v, f);
    }
}

KILN_INLINE void norm_rows(const struct kiln_rms_norm *a, int64_t begin, int64_t end,
                           enum kiln_float f)
{
    for (int64_t row = begin; row < end; row++) {
        if (a->add && a->factor)
            norm_row(a, row, f, 1, 1);
        else if (a->add)
            norm_row(a, row, f, 0, 1);
        else if (a->factor)
            norm_row(a, row, f, 1, 0);
        else
            norm_row(a, row, f, 0, 0);
    }
}

KILN_CLONES static void norm_rows_f32(const struct kiln_rms_norm *a, int64_t begin, int64_t end)
{
    norm_rows(a, begin, end, KILN_F32);
}

KILN_CLONES static void norm_rows_bf16(const struct kiln_rms_norm *a, int64_t begin, int64_t end)
{
    norm_rows(a, begin, end, KILN_BF16);
}

void kiln_rms_norm_ref(const struct kiln_rms_norm *args, int64_t begin, int64_t end)
{
    (args->format == KILN_BF16 ? norm_rows_bf16 : norm_rows_f32)(args, begin, end);
}
