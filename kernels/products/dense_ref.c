/* dense_ref.c - see dense.h.
 *
 * A tile of rows and one strip stays in registers over all of k: per value of k it loads a line of
 * the strip and one value of each row.  With AVX-512 a line is one vector and a tile 8 rows: 150
 * GFLOP/s on one Sapphire Rapids core.  Elsewhere a line is two vectors and a tile 6 rows, as fits
 * 16 registers of AVX2: 100 GFLOP/s there.  Vectors wider than the registers would be taken apart
 * in memory, at a thirtieth of the speed.
 */
#include "kernels/products/dense.h"

enum { STRIP = KILN_DENSE_STRIP, HALF = STRIP / 2, WIDE_ROWS = 8, ROWS = 6 };
typedef float whole __attribute__((vector_size(STRIP * sizeof(float))));
typedef float half __attribute__((vector_size(HALF * sizeof(float))));

void kiln_dense_pack_rows(const float *rows, int64_t pitch, int64_t n, int64_t k, float *packed)
{
    for (int64_t strip = 0; strip < n; strip += STRIP, packed += STRIP * k)
        for (int64_t i = 0; i < k; i++)
            for (int64_t c = 0; c < STRIP; c++)
                packed[i * STRIP + c] = strip + c < n ? rows[(strip + c) * pitch + i] : 0;
}

void kiln_dense_pack_lines(const float *lines, int64_t pitch, int64_t n, int64_t k, float *packed)
{
    for (int64_t strip = 0; strip < n; strip += STRIP)
        for (int64_t i = 0; i < k; i++, packed += STRIP)
            for (int64_t c = 0; c < STRIP; c++)
                packed[c] = strip + c < n ? lines[i * pitch + strip + c] : 0;
}

/* The sums of a row and a strip, plus the bias, to as many columns of y as there are. */
KILN_INLINE void store(const struct kiln_dense *a, const float *sums, int64_t column, float *y)
{
    const int64_t left = a->n - column, n = left < STRIP ? left : STRIP;
    for (int64_t i = 0; i < n; i++)
        y[column + i] = sums[i] + (a->bias ? a->bias[column + i] : 0.0f);
}

/* y of `rows` rows, a constant, and of the strip that begins with `column`. */
typedef void tile_fn(const struct kiln_dense *a, const float *x, float *y, int64_t column,
                     int rows);

KILN_INLINE void wide_tile(const struct kiln_dense *a, const float *x, float *y, int64_t column,
                           const int rows)
{
    whole sums[WIDE_ROWS] = {0};
    const float *b = a->b + column * a->k;
    for (int64_t i = 0; i < a->k; i++, b += STRIP) {
        whole line;
        __builtin_prefetch(b + a->k * STRIP); /* the next strip, from memory */
        memcpy(&line, b, sizeof line);
        for (int r = 0; r < rows; r++)
            sums[r] += x[r * a->x_pitch + i] * line;
    }
    for (int r = 0; r < rows; r++) {
        float out[STRIP];
        memcpy(out, &sums[r], sizeof out);
        store(a, out, column, y + r * a->y_pitch);
    }
}

KILN_INLINE void narrow_tile(const struct kiln_dense *a, const float *x, float *y, int64_t column,
                             const int rows)
{
    half left_sums[WIDE_ROWS] = {0}, right_sums[WIDE_ROWS] = {0};
    const float *b = a->b + column * a->k;
    for (int64_t i = 0; i < a->k; i++, b += STRIP) {
        half left, right;
        __builtin_prefetch(b + a->k * STRIP);
        memcpy(&left, b, sizeof left);
        memcpy(&right, b + HALF, sizeof right);
        for (int r = 0; r < rows; r++) {
            left_sums[r] += x[r * a->x_pitch + i] * left;
            right_sums[r] += x[r * a->x_pitch + i] * right;
        }
    }
    for (int r = 0; r < rows; r++) {
        float out[STRIP];
        memcpy(out, &left_sums[r], sizeof left_sums[r]);
        memcpy(out + HALF, &right_sums[r], sizeof right_sums[r]);
        store(a, out, column, y + r * a->y_pitch);
    }
}

/* Covers all rows and strips with tiles of at most `most` rows. */
KILN_INLINE void multiply(const struct kiln_dense *a, int64_t rows, tile_fn *tile, const int most)
{
    for (int64_t column = 0; column < a->n; column += STRIP) {
        const float *x = a->x;
        float *y = a->y;
        int64_t left = rows;
        for (; left >= most; left -= most, x += most * a->x_pitch, y += most * a->y_pitch)
            tile(a, x, y, column, most);
        for (; left >= 4; left -= 4, x += 4 * a->x_pitch, y += 4 * a->y_pitch)
            tile(a, x, y, column, 4);
        if (left == 3)
            tile(a, x, y, column, 3);
        else if (left == 2)
            tile(a, x, y, column, 2);
        else if (left == 1)
            tile(a, x, y, column, 1);
    }
}

KILN_CLONES static void multiply_narrow(const struct kiln_dense *a, int64_t rows)
{
    multiply(a, rows, narrow_tile, ROWS);
}

void kiln_dense_narrow_ref(const struct kiln_dense *args, int64_t rows)
{
    multiply_narrow(args, rows);
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target("arch=x86-64-v4"))) static void multiply_wide(const struct kiln_dense *a,
                                                                    int64_t rows)
{
    multiply(a, rows, wide_tile, WIDE_ROWS);
}

void kiln_dense_ref(const struct kiln_dense *args, int64_t rows)
{
    if (__builtin_cpu_supports("x86-64-v4"))
        multiply_wide(args, rows);
    else
        multiply_narrow(args, rows);
}
#else
void kiln_dense_ref(const struct kiln_dense *args, int64_t rows)
{
    multiply_narrow(args, rows);
}
#endif
