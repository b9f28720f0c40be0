/* swiglu_ref.c - see swiglu.h. */
#include "kernels/rows/swiglu.h"

#include "kernels/fp8.h"

KILN_INLINE void gate_row(const void *gate_up, int64_t at, void *y, int64_t n, enum kiln_float f)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = kiln_rounded(kiln_silu(kiln_load(gate_up, at + i, f)), f);
        kiln_store(y, i, g * kiln_load(gate_up, at + n + i, f), f);
    }
}

KILN_INLINE void gate_rows(const struct kiln_swiglu *a, int64_t begin, int64_t end,
                           enum kiln_float f)
{
    float held[KILN_ROW_MAX]; /* a result that is wanted quantised alone */
    const int64_t n = a->n, pitch = a->pitch ? a->pitch : n;
    for (int64_t row = begin; row < end; row++) {
        void *y = a->y ? (char *)a->y + row * pitch * kiln_float_size(f) : (char *)held;
        gate_row(a->gate_up, row * 2 * n, y, n, f);
        if (a->quantised)
            kiln_quantise_row(y, n, f, a->code_max, a->quantised + row * pitch, a->row_scale + row);
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
