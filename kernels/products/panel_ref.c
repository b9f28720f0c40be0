/* panel_ref.c - see panel.h. */
#include "kernels/products/panel.h"

#include <stddef.h>

KILN_CLONES static void transpose(const uint32_t *rows, int64_t n, int64_t lines, uint32_t *panel)
{
    enum { TILE = 16 }; /* lines whose places in the panel stay in the cache */
    for (int64_t line = 0; line < lines; line += TILE) {
        const int64_t some = lines - line < TILE ? lines - line : TILE;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = line; j < line + some; j++)
                panel[j * KILN_PANEL + i] = rows[i * lines + j];
    }
}

void kiln_panel_of_rows(const void *rows, int64_t n, int64_t lines, void *panel)
{
    transpose(rows, n, lines, panel);
}

KILN_CLONES static void pair_up(const uint16_t *x, int64_t pairs, int64_t n, uint16_t *out)
{
    for (int64_t i = 0; i < pairs; i++) {
        const uint16_t *even = x + 2 * i * n, *odd = even + n;
#pragma omp simd
        for (int64_t c = 0; c < n; c++) {
            out[2 * (i * n + c)] = even[c];
            out[2 * (i * n + c) + 1] = odd[c];
        }
    }
}

void kiln_panel_pairs(const uint16_t *x, int64_t pairs, int64_t n, uint16_t *out)
{
    pair_up(x, pairs, n, out);
}

KILN_INLINE void store_rows(const struct kiln_panel_sums *a, int64_t rows, enum kiln_float f)
{
    const struct kiln_panel_sums here = *a; /* which no store changes */
    for (int64_t row = 0; row < rows; row++) {
        const float *from = here.from + row * here.step, scale = here.scale ? here.scale[row] : 1;
        const int64_t to = row * here.pitch;
        if (here.bias) {
#pragma omp simd
            for (int64_t i = 0; i < here.n; i++)
                kiln_store(here.to, to + i, from[i] * scale + kiln_load(here.bias, i, f), f);
        } else {
#pragma omp simd
            for (int64_t i = 0; i < here.n; i++)
                kiln_store(here.to, to + i, from[i] * scale, f);
        }
    }
}

KILN_CLONES static void store_rows_f32(const struct kiln_panel_sums *a, int64_t rows)
{
    store_rows(a, rows, KILN_F32);
}

KILN_CLONES static void store_rows_bf16(const struct kiln_panel_sums *a, int64_t rows)
{
    store_rows(a, rows, KILN_BF16);
}

void kiln_panel_store(const struct kiln_panel_sums *args, int64_t rows)
{
    (args->format == KILN_BF16 ? store_rows_bf16 : store_rows_f32)(args, rows);
}
