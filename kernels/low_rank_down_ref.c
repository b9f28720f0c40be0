/* low_rank_down_ref.c - see low_rank_down.h. */
#include "kernels/low_rank_down.h"

KILN_INLINE float product_of(const void *x, const void *down, int64_t n, enum kiln_float f)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += kiln_load(x, i, f) * kiln_load(down, i, f);
    return sum;
}

KILN_INLINE void low_rows(const struct kiln_low_rank_down *a, int64_t begin, int64_t end,
                          enum kiln_float f)
{
    const int64_t n = a->n, rank = a->rank, size = kiln_float_size(f);
    for (int64_t row = begin; row < end; row++) {
        char *x = (char *)a->x + row * a->pitch * size;
        for (int64_t i = 0; i < rank; i++)
            kiln_store(x, n + i, product_of(x, (const char *)a->down + i * n * size, n, f), f);
    }
}

KILN_CLONES static void low_rows_f32(const struct kiln_low_rank_down *a, int64_t begin, int64_t end)
{
    low_rows(a, begin, end, KILN_F32);
}

KILN_CLONES static void low_rows_bf16(const struct kiln_low_rank_down *a, int64_t begin,
                                      int64_t end)
{
    low_rows(a, begin, end, KILN_BF16);
}

void kiln_low_rank_down_ref(const struct kiln_low_rank_down *args, int64_t begin, int64_t end)
{
    (args->format == KILN_BF16 ? low_rows_bf16 : low_rows_f32)(args, begin, end);
}
