/* test_picture_mask.c - masks on the latent's grid: which colours render anew, which pixel of
 * several counts, which sizes belong together.  ../pipeline/test_img2img.c compares with diffusers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/limits.h"
#include "storage/formats/pictures/picture_mask.h"

static struct kiln_picture_size size(uint32_t width, uint32_t height)
{
    return (struct kiln_picture_size){width, height};
}

static void paint(uint8_t *rgb, size_t pixels, uint8_t r, uint8_t g, uint8_t b)
{
    for (size_t i = 0; i < pixels; i++) {
        rgb[3 * i] = r;
        rgb[3 * i + 1] = g;
        rgb[3 * i + 2] = b;
    }
}

static void half_of_white_is_the_border(void **state)
{
    (void)state;
    static const struct {
        uint8_t r, g, b;
        int anew;
    } colours[] = {
        {0, 0, 0, 0},   {127, 127, 127, 0}, {128, 128, 128, 1}, {255, 255, 255, 1},
        {255, 0, 0, 0}, {0, 255, 0, 1},     {0, 0, 255, 0},     {255, 90, 0, 1},
    };
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++) {
        uint8_t rgb[24 * 16 * 3];
        struct kiln_error err;
        float *grid;
        paint(rgb, 24 * 16, colours[i].r, colours[i].g, colours[i].b);
        assert_int_equal(kiln_picture_mask(rgb, 24, 16, size(64, 48), 8, &grid, &err), 0);
        for (int k = 0; k < 8 * 6; k++)
            assert_true(grid[k] == (float)colours[i].anew);
        free(grid);
    }
}

/* The first of eight times eight pixels, or of four times four; what the others are does not
 * matter.
 */
static void the_first_pixel_counts(void **state)
{
    (void)state;
    static uint8_t rgb[64 * 64 * 3];
    struct kiln_error err;
    float *grid;
    for (int anew = 0; anew < 2; anew++) {
        paint(rgb, (size_t)64 * 64, anew ? 0 : 255, anew ? 0 : 255, anew ? 0 : 255);
        paint(rgb + (24 * 64 + 40) * 3, 1, anew ? 255 : 0, anew ? 255 : 0, anew ? 255 : 0);
        paint(rgb + (9 * 64 + 9) * 3, 1, anew ? 255 : 0, anew ? 255 : 0, anew ? 255 : 0);
        assert_int_equal(kiln_picture_mask(rgb, 64, 64, size(64, 64), 8, &grid, &err), 0);
        for (int i = 0; i < 64; i++)
            assert_true(grid[i] == (float)(i == 3 * 8 + 5 ? anew : !anew));
        free(grid);
        assert_int_equal(kiln_picture_mask(rgb, 64, 64, size(64, 64), 4, &grid, &err), 0);
        for (int i = 0; i < 256; i++)
            assert_true(grid[i] == (float)(i == 6 * 16 + 10 ? anew : !anew));
        free(grid);
    }
}

static void a_mask_has_the_shape_of_its_picture_or_of_the_job(void **state)
{
    (void)state;
    static const struct {
        struct kiln_picture_size mask, other;
        bool fits;
    } cases[] = {
        {{64, 64}, {64, 64}, true},          {{64, 64}, {2048, 2048}, true},
        {{1000, 750}, {4000, 3000}, true},   {{501, 376}, {1001, 750}, true},
        {{500, 375}, {1001, 750}, true},     {{1920, 1080}, {1344, 756}, true},
        {{64, 64}, {64, 80}, false},         {{80, 64}, {64, 80}, false},
        {{1920, 1080}, {1920, 1200}, false}, {{512, 512}, {512, 508}, false},
        {{1, 1}, {16384, 16384}, true},      {{16384, 1}, {1, 16384}, false},
    };
    const struct kiln_picture_size away = {1, 7777};
    struct kiln_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int code = cases[i].fits ? 0 : KILN_BAD_INPUT;
        assert_int_equal(kiln_mask_check(cases[i].mask, cases[i].other, away, &err), code);
        assert_int_equal(kiln_mask_check(cases[i].mask, away, cases[i].other, &err), code);
    }
    assert_int_equal(kiln_mask_check(size(300, 200), size(512, 512), size(1024, 768), &err),
                     KILN_BAD_INPUT);
    assert_string_equal(err.text,
                        "a mask of 300x200 pixels has neither the shape of the picture that it is "
                        "for, 512x512, nor that of the job, 1024x768");
}

static void sizes_beyond_the_limits_are_refused(void **state)
{
    (void)state;
    uint8_t rgb[3] = {0};
    struct kiln_error err;
    float *grid = NULL;
    assert_int_equal(kiln_picture_mask(rgb, 0, 1, size(64, 64), 8, &grid, &err), KILN_BAD_INPUT);
    assert_int_equal(
        kiln_picture_mask(rgb, 1, 1, size(KILN_PICTURE_SIDE_MAX + 8, 64), 8, &grid, &err),
        KILN_BAD_INPUT);
    assert_null(grid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_white_is_the_border),
        cmocka_unit_test(the_first_pixel_counts),
        cmocka_unit_test(a_mask_has_the_shape_of_its_picture_or_of_the_job),
        cmocka_unit_test(sizes_beyond_the_limits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
