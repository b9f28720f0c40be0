/* picture.c - see picture.h. */
#include "tests/support/picture.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/measure.h"
#include "tests/support/random.h"

static uint8_t level(double v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

uint8_t *test_picture(uint32_t width, uint32_t height, uint64_t seed, uint32_t noise)
{
    uint8_t *rgb = malloc((size_t)width * height * 3), *out = rgb;
    if (!rgb)
        abort();
    struct test_random random = {seed};
    double turn = (double)(seed % 7);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (int c = 0; c < 3; c++) {
                double wave = sin(x * 0.021 + c + turn) * cos(y * 0.017 - c) +
                              0.3 * sin((x + 2.0 * y) * 0.13);
                *out++ =
                    level(128 + 85 * wave +
                          (noise ? (double)test_random_below(&random, noise) - noise / 2.0 : 0));
            }
    return rgb;
}

double test_psnr(const uint8_t *a, const uint8_t *b, uint32_t width, uint32_t height)
{
    size_t n = (size_t)width * height * 3;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum == 0 ? 99 : test_decibels(255, sum, n);
}
