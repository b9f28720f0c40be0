/* panel_ref.c - see panel.h. */
#include "kernels/products/panel.h"

enum { TILE = 8, CACHE_LINE = 16 }; /* words */
typedef uint32_t words __attribute__((vector_size(TILE * sizeof(uint32_t))));

/* Pairs, then quadruples, then halves of TILE rows change places. */
KILN_INLINE void transpose_tile(const uint32_t *rows, int64_t lines, uint32_t *panel, int64_t pitch)
{
    words a[TILE], b[TILE];
    for (int i = 0; i < TILE; i++)
        memcpy(&a[i], rows + i * lines, sizeof a[i]);
    for (int i = 0; i < TILE; i += 2) {
        b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int j = 0; j < TILE / 2; j++) {
        const int i = j + j / 2 * 2; /* 0, 1, 4, 5 */
        a[i] = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        a[i + 2] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < TILE / 2; i++) {
        b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < TILE; i++)
        memcpy(panel + i * pitch, &b[i], sizeof b[i]);
}

/* A weight is seldom in the caches: the forward before has read it, and all others since.  So the
 * next rows are asked for, a tile's worth at a time. */
KILN_CLONES static void transpose(const uint32_t *rows, int64_t n, int64_t lines, uint32_t *panel,
                                  int64_t pitch)
{
    const int64_t whole_n = n / TILE * TILE, whole_lines = lines / TILE * TILE;
    for (int64_t i = 0; i < whole_n; i += TILE)
        for (int64_t line = 0; line < whole_lines; line += TILE) {
            for (int j = 0; i + TILE < whole_n && j < TILE * TILE; j += CACHE_LINE)
                __builtin_prefetch(rows + (i + TILE) * lines + line * TILE + j);
            transpose_tile(rows + i * lines + line, lines, panel + line * pitch + i, pitch);
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t line = i < whole_n ? whole_lines : 0; line < lines; line++)
            panel[line * pitch + i] = rows[i * lines + line];
}

void kiln_panel_of_rows(const void *rows, int64_t n, int64_t lines, void *panel, int64_t pitch)
{
    transpose(rows, n, lines, panel, pitch);
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
