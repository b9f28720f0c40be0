/* post_norm_ref.c - see post_norm.h. */
#include "kernels/rows/post_norm.h"

#include <math.h>
#include <stddef.h>

KILN_CLONES static void norm_rows(const struct kiln_post_norm *a, int64_t rows)
{
    const int64_t n = a->n;
    for (int64_t row = 0; row < rows; row++) {
        float *x = a->x + row * n, sum = 0, squares = 0;
        const float *y = a->y ? a->y + row * n : NULL;
        if (y) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                x[i] += y[i];
        }
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += x[i];
        const float mean = sum / (float)n;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < n; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        const float scale = 1.0f / sqrtf(squares / (float)n + a->eps);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            x[i] = (x[i] - mean) * scale * a->gain[i] + a->bias[i];
    }
}

void kiln_post_norm_ref(const struct kiln_post_norm *args, int64_t rows)
{
    norm_rows(args, rows);
}
