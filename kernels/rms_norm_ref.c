/* rms_norm_ref.c - see rms_norm.h. */
#include "kernels/rms_norm.h"

#include <math.h>
#include <stddef.h>

#include "kernels/fp8.h"
#include "kernels/tails.h"

/* One row, the pointers at its start. */
struct norm {
    const void *x;
    const float *gain;
    const void *add;
    void *y;
    int64_t n;
    float eps;
};

KILN_INLINE float value_at(const void *row, int64_t n, int64_t i, enum kiln_float f, int tails)
{
    return tails ? kiln_load_tailed(row, n, i) : kiln_load(row, i, f);
}

KILN_INLINE float inverse_rms(const struct norm *r, enum kiln_float f, int tails)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < r->n; i++) {
        const float v = value_at(r->x, r->n, i, f, tails);
        sum += v * v;
    }
    return 1.0f / sqrtf(sum / (float)r->n + r->eps);
}

KILN_INLINE void norm_row(const struct norm *r, enum kiln_float f, int has_add, int tails)
{
    const struct norm here = *r; /* which no store changes */
    const int64_t n = here.n;
    const float inverse = inverse_rms(&here, f, tails && !has_add);
    if (has_add && tails) {
#pragma omp simd
        for (int64_t pair = 0; pair < n / 2; pair++) {
            float v[2];
            for (int k = 0; k < 2; k++) {
                const int64_t i = 2 * pair + k;
                v[k] = kiln_load_tailed(here.add, n, i) +
                       kiln_load(here.x, i, f) * inverse * here.gain[i];
            }
            kiln_store_tailed(here.y, n, pair, v[0], v[1]);
        }
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = value_at(here.x, n, i, f, tails) * inverse * here.gain[i];
        if (has_add)
            v += kiln_load(here.add, i, f);
        kiln_store(here.y, i, v, f);
    }
}

KILN_INLINE void norm_any(const struct norm *r, enum kiln_float f, int tails)
{
    if (r->add)
        norm_row(r, f, 1, tails);
    else
        norm_row(r, f, 0, tails);
}

/* Where the row that is `at` values in starts; NULL stays NULL. */
KILN_INLINE void *start(const void *p, int64_t at, enum kiln_float f)
{
    return p ? (char *)p + at * kiln_float_size(f) : NULL;
}

KILN_INLINE void norm_rows(const struct kiln_rms_norm *a, int64_t begin, int64_t end,
                           enum kiln_float f, int tails)
{
    float held[KILN_ROW_MAX]; /* a result that is wanted quantised alone */
    const int64_t pitch = a->pitch ? a->pitch : a->n;
    const int64_t stream_pitch = tails ? KILN_TAILED(a->n) : a->n;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row * a->n, in_stream = row * stream_pitch, last = row * pitch;
        const int64_t y_at = !a->add                 ? (a->next_gain ? at : last)
                             : tails || a->next_gain ? in_stream
                                                     : last;
        struct norm r = {
            start(a->x, a->add ? at : in_stream, f), a->gain, start(a->add, in_stream, f),
            a->y ? start(a->y, y_at, f) : held,      a->n,    a->eps};
        norm_any(&r, f, tails);
        if (a->next_gain) {
            void *next = a->next ? start(a->next, last, f) : held;
            r = (struct norm){r.y, a->next_gain, NULL, next, a->n, a->eps};
            if (a->add)
                norm_any(&r, f, tails);
            else
                norm_any(&r, f, 0);
        }
        if (a->quantised)
            kiln_quantise_row(r.y, a->n, f, a->code_max, a->quantised + last, a->row_scale + row);
    }
}

KILN_CLONES static void norm_rows_f32(const struct kiln_rms_norm *a, int64_t begin, int64_t end)
{
    norm_rows(a, begin, end, KILN_F32, 0);
}

KILN_CLONES static void norm_rows_bf16(const struct kiln_rms_norm *a, int64_t begin, int64_t end)
{
    norm_rows(a, begin, end, KILN_BF16, 0);
}

KILN_CLONES static void norm_rows_tails(const struct kiln_rms_norm *a, int64_t begin, int64_t end)
{
    norm_rows(a, begin, end, KILN_BF16, 1);
}

void kiln_rms_norm_ref(const struct kiln_rms_norm *args, int64_t begin, int64_t end)
{
    (args->tails                 ? norm_rows_tails
     : args->format == KILN_BF16 ? norm_rows_bf16
                                 : norm_rows_f32)(args, begin, end);
}
