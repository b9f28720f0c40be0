/* low_rank_down_ref.c - see low_rank_down.h. */
#include "kernels/products/low_rank_down.h"

#include "kernels/fp8.h"

KILN_INLINE float times_factor(const struct kiln_low_rank_down *a, float sum, int64_t r)
{
    return a->factor ? sum * a->factor[r] : sum;
}

KILN_INLINE void multiply_rows(const struct kiln_low_rank_down *a, int64_t begin, int64_t end,
                               enum kiln_float f)
{
    for (int64_t row = begin; row < end; row++)
        for (int64_t r = 0; r < a->rank; r++) {
            const int64_t x = row * a->x_pitch, down = r * a->k;
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t i = 0; i < a->k; i++)
                sum += kiln_load(a->x, x + i, f) * kiln_load(a->down, down + i, f);
            kiln_store(a->lora, row * a->lora_pitch + r, times_factor(a, sum, r), f);
        }
}

KILN_CLONES static void multiply_rows_f32(const struct kiln_low_rank_down *a, int64_t begin,
                                          int64_t end)
{
    multiply_rows(a, begin, end, KILN_F32);
}

KILN_CLONES static void multiply_rows_bf16(const struct kiln_low_rank_down *a, int64_t begin,
                                           int64_t end)
{
    multiply_rows(a, begin, end, KILN_BF16);
}

KILN_CLONES static void multiply_codes(const struct kiln_low_rank_down *a, int64_t begin,
                                       int64_t end)
{
    float values[256];
    for (int code = 0; code < 256; code++)
        values[code] = kiln_from_e4m3((uint8_t)code);
    for (int64_t row = begin; row < end; row++)
        for (int64_t r = 0; r < a->rank; r++) {
            const uint8_t *x = (const uint8_t *)a->x + row * a->x_pitch;
            const uint8_t *down = (const uint8_t *)a->down + r * a->k;
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t i = 0; i < a->k; i++)
                sum += values[x[i]] * values[down[i]];
            ((uint8_t *)a->lora)[row * a->lora_pitch + r] = kiln_to_e4m3(times_factor(a, sum, r));
        }
}

void kiln_low_rank_down_ref(const struct kiln_low_rank_down *args, int64_t begin, int64_t end)
{
    if (args->e4m3)
        multiply_codes(args, begin, end);
    else
        (args->format == KILN_BF16 ? multiply_rows_bf16 : multiply_rows_f32)(args, begin, end);
}
