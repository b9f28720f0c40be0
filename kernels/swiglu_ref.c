/* swiglu_ref.c - see swiglu.h. */
#include "kernels/swiglu.h"

KILN_INLINE void gate_rows(const struct kiln_swiglu *a, int64_t begin, int64_t end,
                           enum kiln_float f)
{
    const int64_t n = a->n;
    for (int64_t row = begin; row < end; row++) {
        const int64_t gate = row * 2 * n, up = gate + n, out = row * n;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float g = kiln_rounded(kiln_silu(kiln_load(a->gate_up, gate + i, f)), f);
            kiln_store(a->y, out + i, g * kiln_load(a->gate_up, up + i, f), f);
        }
    }
}

KILN_CLONES static void gate_rows_f32(const struct kiln_swiglu *a, int64_t begin, int64_t end)
{
    gate_rows(a, begin, end, KILN_F32);
}

KILN_CLONES static void gate_rows_bf16(const struct kiln_swiglu *a, int64_t begin, int64_t end)
{
    gate_rows(a, begin, end, KILN_BF16);
}

void kiln_swiglu_ref(const struct kiln_swiglu *args, int64_t begin, int64_t end)
{
    (args->format == KILN_BF16 ? gate_rows_bf16 : gate_rows_f32)(args, begin, end);
}
