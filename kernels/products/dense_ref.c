/* dense_ref.c - see dense.h.
 *
 * A tile of up to 6 rows and 16 columns stays in registers over all of k: per value of k it loads
 * two vectors of b and one value of each row.  The vectors have 8 lanes, for AVX2 and AVX-512
 * alike: some 100 GFLOP/s on one Sapphire Rapids core with either.  Vectors of 16 lanes reach 170
 * with AVX-512, but 3 with AVX2, where they are taken apart in memory.
 */
#include "kernels/products/dense.h"

enum { STRIP = KILN_DENSE_STRIP, LANES = STRIP / 2, ROWS = 6 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

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

/* y of `rows` rows, a constant of at most ROWS, and of the strip that begins with `column`. */
KILN_INLINE void tile(const struct kiln_dense *a, const float *x, float *y, int64_t column,
                      const int rows)
{
    lanes left_sums[ROWS] = {0}, right_sums[ROWS] = {0};
    const float *b = a->b + column * a->k;
    for (int64_t i = 0; i < a->k; i++, b += STRIP) {
        lanes left, right;
        __builtin_prefetch(b + a->k * STRIP); /* the next strip, from memory */
        memcpy(&left, b, sizeof left);
        memcpy(&right, b + LANES, sizeof right);
        for (int r = 0; r < rows; r++) {
            left_sums[r] += x[r * a->x_pitch + i] * left;
            right_sums[r] += x[r * a->x_pitch + i] * right;
        }
    }
    const int64_t left = a->n - column, n = left < STRIP ? left : STRIP;
    for (int r = 0; r < rows; r++) {
        float out[STRIP];
        memcpy(out, &left_sums[r], sizeof left_sums[r]);
        memcpy(out + LANES, &right_sums[r], sizeof right_sums[r]);
        for (int64_t i = 0; i < n; i++)
            y[r * a->y_pitch + column + i] = out[i] + (a->bias ? a->bias[column + i] : 0.0f);
    }
}

KILN_CLONES static void multiply(const struct kiln_dense *a, int64_t rows)
{
    for (int64_t column = 0; column < a->n; column += STRIP) {
        const float *x = a->x;
        float *y = a->y;
        int64_t left = rows;
        for (; left >= ROWS; left -= ROWS, x += ROWS * a->x_pitch, y += ROWS * a->y_pitch)
            tile(a, x, y, column, ROWS);
        switch (left) {
        case 5:
            tile(a, x, y, column, 5);
            break;
        case 4:
            tile(a, x, y, column, 4);
            break;
        case 3:
            tile(a, x, y, column, 3);
            break;
        case 2:
            tile(a, x, y, column, 2);
            break;
        case 1:
            tile(a, x, y, column, 1);
            break;
        }
    }
}

void kiln_dense_ref(const struct kiln_dense *args, int64_t rows)
{
    multiply(args, rows);
}
