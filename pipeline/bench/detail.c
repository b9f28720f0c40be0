/* detail.c - see detail.h. */
#include "pipeline/bench/detail.h"

#include <math.h>
#include <stddef.h>

#define CELLS (KILN_LOW_CELLS * KILN_LOW_CELLS)

/* In thousands of 255, so that all sums are whole numbers. */
static int64_t grey(const uint8_t *pixel)
{
    return 299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2];
}

double kiln_sharpness(const uint8_t *rgb, int width, int height)
{
    const ptrdiff_t row = (ptrdiff_t)width * 3;
    int64_t sum = 0;
    for (int y = 1; y < height - 1; y++)
        for (int x = 1; x < width - 1; x++) {
            const uint8_t *at = rgb + y * row + (ptrdiff_t)x * 3;
            const int64_t bend =
                4 * grey(at) - grey(at - 3) - grey(at + 3) - grey(at - row) - grey(at + row);
            sum += bend < 0 ? -bend : bend;
        }
    return (double)sum / ((double)(width - 2) * (height - 2) * 255e3);
}

void kiln_low_pass(const float *latent, int channels, int height, int width, float *ret)
{
    for (int c = 0; c < channels; c++)
        for (int i = 0; i < CELLS; i++) {
            const int row = i / KILN_LOW_CELLS, col = i % KILN_LOW_CELLS;
            const int top = row * height / KILN_LOW_CELLS, left = col * width / KILN_LOW_CELLS;
            const int bottom = (row + 1) * height / KILN_LOW_CELLS;
            const int right = (col + 1) * width / KILN_LOW_CELLS;
            double sum = 0;
            for (int y = top; y < bottom; y++)
                for (int x = left; x < right; x++)
                    sum += (double)latent[((ptrdiff_t)c * height + y) * width + x];
            ret[c * CELLS + i] = (float)(sum / ((double)(bottom - top) * (right - left)));
        }
}

double kiln_low_distance(const float *a, const float *b, int channels)
{
    double sum = 0;
    for (int i = 0; i < channels * CELLS; i++) {
        const double off = (double)a[i] - (double)b[i];
        sum += off * off;
    }
    return sqrt(sum / (channels * CELLS));
}

double kiln_low_spread(const float *all, int count, int channels)
{
    const ptrdiff_t one = (ptrdiff_t)channels * CELLS;
    double sum = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            sum += kiln_low_distance(all + i * one, all + k * one, channels);
    return count < 2 ? NAN : sum / (count * (count - 1) / 2.0);
}
