/* test_downscale.c - the integer downscale against a plain one in double precision.
 *
 * The reference below is written from the definition alone: overlap of two intervals along each
 * side, light in double, no tables.  The two may differ by one level where the mean lies within
 * half a 16-bit step of the border between two stored values; nowhere else. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "kernels/pictures/downscale.h"
#include "tests/support/picture.h"
#include "tests/support/random.h"

static double light(uint8_t v)
{
    double s = v / 255.0;
    return s <= 0.04045 ? s / 12.92 : pow((s + 0.055) / 1.055, 2.4);
}

static double stored(double l) /* 0..255, not rounded */
{
    return 255 * (l <= 0.0031308 ? 12.92 * l : 1.055 * pow(l, 1 / 2.4) - 0.055);
}

static double overlap(double a0, double a1, double b0, double b1)
{
    double lo = a0 > b0 ? a0 : b0, hi = a1 < b1 ? a1 : b1;
    return hi > lo ? hi - lo : 0;
}

static double mean_light(const uint8_t *src, uint32_t w, uint32_t h, uint32_t ow, uint32_t oh,
                         uint32_t x, uint32_t y, int c)
{
    double x0 = (double)x * w / ow, x1 = (x + 1.0) * w / ow;
    double y0 = (double)y * h / oh, y1 = (y + 1.0) * h / oh;
    double sum = 0, area = 0;
    for (uint32_t j = (uint32_t)y0; j < h && j < y1; j++)
        for (uint32_t i = (uint32_t)x0; i < w && i < x1; i++) {
            double part = overlap(x0, x1, i, i + 1.0) * overlap(y0, y1, j, j + 1.0);
            sum += part * light(src[((size_t)j * w + i) * 3 + (size_t)c]);
            area += part;
        }
    return sum / area;
}

/* 16-bit light: rounding of each value and of the mean, one step together. */
#define LIGHT_STEP (1.0 / 65535)

static void compare(const uint8_t *src, uint32_t w, uint32_t h, uint32_t ow, uint32_t oh)
{
    uint8_t *dst = malloc((size_t)ow * oh * 3);
    assert_non_null(dst);
    memset(dst, 0xAA, (size_t)ow * oh * 3);
    kiln_downscale_ref(src, w, h, dst, ow, oh);
    for (uint32_t y = 0; y < oh; y++)
        for (uint32_t x = 0; x < ow; x++)
            for (int c = 0; c < 3; c++) {
                double mean = mean_light(src, w, h, ow, oh, x, y, c);
                int got = dst[((size_t)y * ow + x) * 3 + (size_t)c];
                double low = stored(fmax(0, mean - LIGHT_STEP)), high = stored(mean + LIGHT_STEP);
                if (got < floor(low + 0.5) || got > floor(high + 0.5))
                    fail_msg("%ux%u -> %ux%u at (%u,%u,%d): %d, reference %.4f", w, h, ow, oh, x, y,
                             c, got, stored(mean));
            }
    free(dst);
}

static void agrees_with_the_definition_at_many_ratios(void **state)
{
    (void)state;
    static const uint32_t sizes[][4] = {
        {64, 64, 32, 32}, {64, 48, 32, 24}, {64, 64, 16, 16},  {63, 41, 32, 21}, {65, 33, 64, 32},
        {7, 5, 3, 2},     {1, 40, 1, 7},    {40, 1, 7, 1},     {1, 1, 1, 1},     {97, 101, 1, 1},
        {17, 13, 17, 5},  {17, 13, 4, 13},  {134, 77, 51, 29}, {3, 3, 2, 2},     {2, 2, 1, 1},
        {128, 2, 64, 1},  {250, 3, 249, 2}, {89, 144, 55, 89}, {16, 16, 15, 16}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint32_t *s = sizes[i];
        uint8_t *src = malloc((size_t)s[0] * s[1] * 3);
        assert_non_null(src);
        struct test_random random = {1000 + i};
        test_random_fill(&random, src, (size_t)s[0] * s[1] * 3);
        compare(src, s[0], s[1], s[2], s[3]);
        free(src);
    }
}

static void agrees_at_random_sizes(void **state)
{
    (void)state;
    struct test_random random = {20261121};
    for (int i = 0; i < 60; i++) {
        uint32_t w = 1 + test_random_below(&random, 90), h = 1 + test_random_below(&random, 90);
        uint32_t ow = 1 + test_random_below(&random, w), oh = 1 + test_random_below(&random, h);
        uint8_t *src = test_picture(w, h, (uint64_t)i, 40);
        compare(src, w, h, ow, oh);
        free(src);
    }
}

static void a_constant_picture_stays_constant(void **state)
{
    (void)state;
    uint8_t src[24 * 18 * 3], dst[24 * 18 * 3];
    static const uint32_t sizes[][2] = {{24, 18}, {12, 9}, {11, 7}, {1, 1}, {5, 18}, {23, 17}};
    for (int v = 0; v < 256; v++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            memset(src, v, sizeof src);
            kiln_downscale_ref(src, 24, 18, dst, sizes[i][0], sizes[i][1]);
            for (size_t k = 0; k < (size_t)sizes[i][0] * sizes[i][1] * 3; k++)
                assert_int_equal(dst[k], v);
        }
}

/* A checkerboard of black and white is half the light: 188, not the 128 of stored values. */
static void light_is_kept(void **state)
{
    (void)state;
    uint8_t src[4 * 4 * 3], dst[2 * 2 * 3];
    for (int i = 0; i < 16; i++)
        memset(src + 3 * i, (i + i / 4) % 2 ? 255 : 0, 3);
    kiln_downscale_ref(src, 4, 4, dst, 2, 2);
    for (size_t i = 0; i < sizeof dst; i++)
        assert_int_equal(dst[i], 188);
}

static void the_fast_path_means_the_same(void **state)
{
    (void)state;
    /* 2:1 along one side only takes the general path; stacked twice it is the mean of means,
     * equal for pictures whose columns repeat. */
    uint8_t src[32 * 32 * 3], once[16 * 16 * 3], wide[16 * 32 * 3], twice[16 * 16 * 3];
    struct test_random random = {7};
    test_random_fill(&random, src, 32 * 3);
    for (int y = 1; y < 32; y++)
        memcpy(src + y * 32 * 3, src, 32 * 3);
    kiln_downscale_ref(src, 32, 32, once, 16, 16);
    kiln_downscale_ref(src, 32, 32, wide, 16, 32);
    kiln_downscale_ref(wide, 16, 32, twice, 16, 16);
    assert_memory_equal(once, twice, sizeof once);
}

static void tables_are_inverse(void **state)
{
    (void)state;
    const uint16_t *light_of;
    const uint8_t *stored_of;
    kiln_downscale_tables(&light_of, &stored_of);
    for (int v = 0; v < 256; v++)
        assert_int_equal(stored_of[light_of[v]], v);
    for (int m = 0; m < 65536; m++)
        assert_int_equal(stored_of[m], (int)floor(stored(m / 65535.0) + 0.5));
}

static void fit_never_enlarges(void **state)
{
    (void)state;
    uint32_t w = 0, h = 0;
    assert_int_equal(kiln_downscale_fit(1024, 1024, 512, &w, &h), 1);
    assert_true(w == 512 && h == 512);
    assert_int_equal(kiln_downscale_fit(1344, 768, 512, &w, &h), 1);
    assert_true(w == 512 && h == 293);
    assert_int_equal(kiln_downscale_fit(768, 1344, 256, &w, &h), 1);
    assert_true(w == 146 && h == 256);
    assert_int_equal(kiln_downscale_fit(2048, 64, 256, &w, &h), 1);
    assert_true(w == 256 && h == 8);
    assert_int_equal(kiln_downscale_fit(2048, 1, 256, &w, &h), 1);
    assert_true(w == 256 && h == 1);
    w = h = 99;
    assert_int_equal(kiln_downscale_fit(512, 512, 512, &w, &h), 0);
    assert_int_equal(kiln_downscale_fit(256, 512, 512, &w, &h), 0);
    assert_int_equal(kiln_downscale_fit(64, 64, 256, &w, &h), 0);
    assert_int_equal(kiln_downscale_fit(64, 64, 0, &w, &h), 0);
    assert_true(w == 99 && h == 99);
    for (uint32_t a = 64; a <= 2048; a += 48)
        for (uint32_t b = 64; b <= 2048; b += 80)
            if (kiln_downscale_fit(a, b, 512, &w, &h)) {
                assert_true(w <= a && h <= b && w >= 1 && h >= 1);
                assert_int_equal(w > h ? w : h, 512);
            }
}

static double time_ms(const uint8_t *src, uint32_t from, uint8_t *dst, uint32_t to)
{
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        kiln_downscale_ref(src, from, from, dst, to, to);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
        best = ms < best ? ms : best;
    }
    return best;
}

static void says_how_long_it_takes(void **state)
{
    (void)state;
    uint8_t *src = test_picture(1024, 1024, 1, 30), *dst = malloc(512 * 512 * 3);
    assert_non_null(dst);
    double half = time_ms(src, 1024, dst, 512), quarter = time_ms(src, 1024, dst, 256);
    double odd = time_ms(src, 1024, dst, 500);
    print_message("1024 -> 512: %.2f ms, -> 256: %.2f ms, -> 500: %.2f ms\n", half, quarter, odd);
    assert_true(half < 1000 && quarter < 1000 && odd < 1000); /* also under sanitizers */
    free(src);
    free(dst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_definition_at_many_ratios),
        cmocka_unit_test(agrees_at_random_sizes),
        cmocka_unit_test(a_constant_picture_stays_constant),
        cmocka_unit_test(light_is_kept),
        cmocka_unit_test(the_fast_path_means_the_same),
        cmocka_unit_test(tables_are_inverse),
        cmocka_unit_test(fit_never_enlarges),
        cmocka_unit_test(says_how_long_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
