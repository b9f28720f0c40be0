/* softmax_ref.c - see softmax.h. */
#include "kernels/attention/softmax.h"

KILN_INLINE void softmax_rows(const struct kiln_softmax *a, int64_t begin, int64_t end,
                              enum kiln_float f)
{
    const int64_t n = a->n;
    const float scale = a->scale != 0 ? a->scale : 1;
    void *const y = a->y; /* which no store changes */
    for (int64_t row = begin; row < end; row++) {
        float *x = a->scores + row * n, top = x[0], sum = 0;
#pragma omp simd reduction(max : top)
        for (int64_t i = 0; i < n; i++)
            top = x[i] > top ? x[i] : top;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) {
            x[i] = kiln_exp((x[i] - top) * scale);
            sum += x[i];
        }
        const float inverse = 1.0f / sum, factor = a->inverse ? 1.0f : inverse;
        if (a->inverse)
            a->inverse[row] = inverse;
        if (a->inverse && y == (void *)a->scores)
            continue;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            kiln_store(y, row * n + i, x[i] * factor, f);
    }
}

KILN_CLONES static void softmax_rows_f32(const struct kiln_softmax *a, int64_t begin, int64_t end)
{
    softmax_rows(a, begin, end, KILN_F32);
}

KILN_CLONES static void softmax_rows_bf16(const struct kiln_softmax *a, int64_t begin, int64_t end)
{
    softmax_rows(a, begin, end, KILN_BF16);
}

void kiln_softmax_ref(const struct kiln_softmax *args, int64_t begin, int64_t end)
{
    (args->format == KILN_BF16 ? softmax_rows_bf16 : softmax_rows_f32)(args, begin, end);
}
