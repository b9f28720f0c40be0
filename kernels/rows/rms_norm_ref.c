/* rms_norm_ref.c - see rms_norm.h. */
#include "kernels/rows/rms_norm.h"

#include <math.h>
#include <stddef.h>

#include "kernels/fp8.h"
#include "kernels/tails.h"

/* One row, the pointers at its start. */
struct norm {
    const void *x;
    const float *gain;
    const void *add; /* in y's format; NULL: nothing */
    void *y;
    int64_t n;
    float eps;
};

KILN_INLINE void norm_row(const struct norm *r, enum kiln_float of_x, enum kiln_float of_y,
                          int has_add)
{
    const struct norm here = *r; /* which no store changes */
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < here.n; i++) {
        float v = kiln_load(here.x, i, of_x);
        sum += v * v;
    }
    const float inverse = 1.0f / sqrtf(sum / (float)here.n + here.eps);
#pragma omp simd
    for (int64_t i = 0; i < here.n; i++) {
        float v = kiln_load(here.x, i, of_x) * inverse * here.gain[i];
        if (has_add)
            v += kiln_load(here.add, i, of_y);
        kiln_store(here.y, i, v, of_y);
    }
}

KILN_INLINE void norm_any(const struct norm *r, enum kiln_float of_x, enum kiln_float of_y)
{
    if (r->add)
        norm_row(r, of_x, of_y, 1);
    else
        norm_row(r, of_x, of_y, 0);
}

/* Where the row that is `at` values in starts; NULL stays NULL. */
KILN_INLINE void *start(const void *p, int64_t at, enum kiln_float f)
{
    return p ? (char *)p + at * kiln_float_size(f) : NULL;
}

/* Where the last result of row `row` goes, or `held` where it is wanted quantised alone. */
KILN_INLINE void *last_of(const struct kiln_rms_norm *a, int64_t row, enum kiln_float f, void *held)
{
    void *rows = a->next_gain ? a->next : a->y;
    return rows ? start(rows, row * (a->pitch ? a->pitch : a->n), f) : held;
}

KILN_INLINE void quantise_last(const struct kiln_rms_norm *a, int64_t row, const void *last,
                               enum kiln_float f)
{
    if (a->quantised)
        kiln_quantise_row(last, a->n, f, a->code_max,
                          a->quantised + row * (a->pitch ? a->pitch : a->n), a->row_scale + row);
}

KILN_INLINE void norm_rows(const struct kiln_rms_norm *a, int64_t begin, int64_t end,
                           enum kiln_float f)
{
    float held[KILN_ROW_MAX];
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row * a->n;
        void *last = last_of(a, row, f, held), *y = a->next_gain ? start(a->y, at, f) : last;
        const struct norm r = {start(a->x, at, f), a->gain, start(a->add, at, f), y, a->n, a->eps};
        norm_any(&r, f, f);
        if (a->next_gain) {
            const struct norm next = {y, a->next_gain, NULL, last, a->n, a->eps};
            norm_any(&next, f, f);
        }
        quantise_last(a, row, last, f);
    }
}

/* Rows with tails are fp32 while they are worked on. */
KILN_INLINE void norm_row_of_tails(const struct kiln_rms_norm *a, int64_t row, float *wide,
                                   float *held)
{
    void *last = last_of(a, row, KILN_BF16, held);
    const float *gain = a->gain;
    kiln_unpack_tailed((const uint16_t *)(a->add ? a->add : a->x) + row * KILN_TAILED(a->n), a->n,
                       wide);
    if (a->add) {
        uint16_t *y = (uint16_t *)a->y + row * KILN_TAILED(a->n);
        const struct norm sum = {
            start(a->x, row * a->n, KILN_BF16), gain, wide, wide, a->n, a->eps};
        norm_row(&sum, KILN_BF16, KILN_F32, 1);
        kiln_pack_tailed(wide, a->n, y);
        if (!a->next_gain)
            return;
        kiln_unpack_tailed(y, a->n, wide);
        gain = a->next_gain;
    }
    const struct norm result = {wide, gain, NULL, last, a->n, a->eps};
    norm_row(&result, KILN_F32, KILN_BF16, 0);
    quantise_last(a, row, last, KILN_BF16);
}

KILN_CLONES static void norm_rows_of_tails(const struct kiln_rms_norm *a, int64_t begin,
                                           int64_t end)
{
    float wide[KILN_ROW_MAX], held[KILN_ROW_MAX];
    for (int64_t row = begin; row < end; row++)
        norm_row_of_tails(a, row, wide, held);
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
    (args->tails                 ? norm_rows_of_tails
     : args->format == KILN_BF16 ? norm_rows_bf16
                                 : norm_rows_f32)(args, begin, end);
}
