/* low_rank_up_ref.c - see low_rank_up.h. */
#include "kernels/low_rank_up.h"

KILN_INLINE void add_rows(const struct kiln_low_rank_up *a, int64_t begin, int64_t end,
                          enum kiln_float f)
{
    for (int64_t row = begin; row < end; row++)
        for (int64_t i = 0; i < a->n; i++) {
            const int64_t first = i / (a->n / a->parts) * a->rank, at = row * a->pitch + i;
            const int64_t low = row * a->low_pitch + first, up = i * a->parts * a->rank + first;
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t k = 0; k < a->rank; k++)
                sum += kiln_load(a->low, low + k, f) * kiln_load(a->up, up + k, f);
            kiln_store(a->y, at, kiln_load(a->y, at, f) + sum, f);
        }
}

KILN_CLONES static void add_rows_f32(const struct kiln_low_rank_up *a, int64_t begin, int64_t end)
{
    add_rows(a, begin, end, KILN_F32);
}

KILN_CLONES static void add_rows_bf16(const struct kiln_low_rank_up *a, int64_t begin, int64_t end)
{
    add_rows(a, begin, end, KILN_BF16);
}

void kiln_low_rank_up_ref(const struct kiln_low_rank_up *args, int64_t begin, int64_t end)
{
    (args->format == KILN_BF16 ? add_rows_bf16 : add_rows_f32)(args, begin, end);
}
