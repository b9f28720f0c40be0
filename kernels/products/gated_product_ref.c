/* gated_product_ref.c - see gated_product.h. */
#include "kernels/products/gated_product.h"

#include "kernels/products/low_rank_down.h"

/* Of a row of x with a row of the weight. */
KILN_INLINE float product(const struct kiln_gated_product *a, int64_t row, int64_t column,
                          enum kiln_float f)
{
    const int64_t x = row * a->x_pitch, weight = column * a->weight_pitch;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < a->k; i++)
        sum += kiln_load(a->x, x + i, f) * kiln_load(a->weight, weight + i, f);
    return kiln_rounded(sum, f);
}

KILN_INLINE void gate_rows(const struct kiln_gated_product *a, int64_t begin, int64_t end,
                           enum kiln_float f)
{
    for (int64_t row = begin; row < end; row++)
        for (int64_t i = 0; i < a->n; i++) {
            const float gate = kiln_rounded(kiln_silu(product(a, row, i, f)), f);
            kiln_store(a->y, row * a->pitch + i, gate * product(a, row, a->n + i, f), f);
        }
}

KILN_CLONES static void gate_rows_f32(const struct kiln_gated_product *a, int64_t begin,
                                      int64_t end)
{
    gate_rows(a, begin, end, KILN_F32);
}

KILN_CLONES static void gate_rows_bf16(const struct kiln_gated_product *a, int64_t begin,
                                       int64_t end)
{
    gate_rows(a, begin, end, KILN_BF16);
}

void kiln_gated_product_ref(const struct kiln_gated_product *args, int64_t begin, int64_t end)
{
    (args->format == KILN_BF16 ? gate_rows_bf16 : gate_rows_f32)(args, begin, end);
    const struct kiln_low_rank_down lora = {.x = args->y,
                                            .down = args->down,
                                            .lora = args->lora,
                                            .x_pitch = args->pitch,
                                            .lora_pitch = args->lora_pitch,
                                            .k = args->n,
                                            .rank = args->rank,
                                            .format = args->format};
    if (args->rank)
        kiln_low_rank_down_ref(&lora, begin, end);
}
