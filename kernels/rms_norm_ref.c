/* rms_norm_ref.c - see rms_norm.h. */
#include "kernels/rms_norm.h"

#include <math.h>
#include <stddef.h>

#include "kernels/fp8.h"

/* One row, the pointers at its start. */
struct norm {
    const void *x, *weight, *factor, *add;
    void *y;
    int64_t n;
    float eps;
};

KILN_INLINE void norm_row(const struct norm *r, enum kiln_float f, int has_factor, int has_add)
{
    const int64_t n = r->n;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float v = kiln_load(r->x, i, f);
        sum += v * v;
    }
    const float inverse = 1.0f / sqrtf(sum / (float)n + r->eps);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = kiln_rounded(kiln_load(r->x, i, f) * inverse, f);
        v = kiln_rounded(v * kiln_load(r->weight, i, f), f);
        if (has_factor)
            v = kiln_rounded(v * kiln_load(r->factor, i, f), f);
        if (has_add)
            v += kiln_load(r->add, i, f);
        kiln_store(r->y, i, v, f);
    }
}

KILN_INLINE void norm_any(const struct norm *r, enum kiln_float f)
{
    if (r->add && r->factor)
        norm_row(r, f, 1, 1);
    else if (r->add)
        norm_row(r, f, 0, 1);
    else if (r->factor)
        norm_row(r, f, 1, 0);
    else
        norm_row(r, f, 0, 0);
}

/* Where row `at / n` starts; NULL stays NULL. */
KILN_INLINE void *start(const void *p, int64_t at, enum kiln_float f)
{
    return p ? (char *)p + at * kiln_float_size(f) : NULL;
}

KILN_INLINE void norm_rows(const struct kiln_rms_norm *a, int64_t begin, int64_t end,
                           enum kiln_float f)
{
    float held[KILN_ROW_MAX]; /* a result that is wanted quantised alone */
    const int64_t pitch = a->pitch ? a->pitch : a->n;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row * a->n, last = row * pitch;
        struct norm r = {start(a->x, at, f),
                         a->weight,
                         a->factor,
                         start(a->add, at, f),
                         a->y ? start(a->y, a->next_weight ? at : last, f) : held,
                         a->n,
                         a->eps};
        norm_any(&r, f);
        if (a->next_weight) {
            void *next = a->next ? start(a->next, last, f) : held;
            r = (struct norm){r.y, a->next_weight, a->next_factor, NULL, next, a->n, a->eps};
            norm_any(&r, f);
        }
        if (a->quantised)
            kiln_quantise_row(r.y, a->n, f, a->code_max, a->quantised + last, a->row_scale + row);
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
