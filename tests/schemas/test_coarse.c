/* test_coarse.c - the small size of a picture that is rendered coarse first. */
#include "schemas/job/coarse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/limits.h"

typedef struct kiln_picture_size size;

static void expect(size full, const size *good, size_t count, size want)
{
    size got = {0, 0};
    if (kiln_coarse_size(full, good, count, &got) != (want.width != 0))
        fail_msg("%u x %u: %u x %u", full.width, full.height, got.width, got.height);
    if (want.width == 0)
        return;
    if (got.width != want.width || got.height != want.height)
        fail_msg("%u x %u: %u x %u", full.width, full.height, got.width, got.height);
}

static void half_the_side_without_a_list(void **state)
{
    (void)state;
    expect((size){1024, 1024}, NULL, 0, (size){512, 512});
    expect((size){512, 512}, NULL, 0, (size){256, 256});
    expect((size){1344, 768}, NULL, 0, (size){672, 384});
    expect((size){720, 1280}, NULL, 0, (size){368, 640});
    expect((size){2048, 2048}, NULL, 0, (size){1024, 1024});
    expect((size){128, 128}, NULL, 0, (size){64, 64});
    expect((size){112, 112}, NULL, 0, (size){64, 64});
    expect((size){96, 512}, NULL, 0, (size){64, 336}); /* the shape stays */
    expect((size){80, 1024}, NULL, 0, (size){0, 0});
    expect((size){64, 64}, NULL, 0, (size){0, 0});
    expect((size){0, 512}, NULL, 0, (size){0, 0});
    expect((size){4096, 4096}, NULL, 0, (size){0, 0});
}

/* Of every size: a valid one, smaller, of nearly the shape. */
static void halves_are_valid_sizes(void **state)
{
    (void)state;
    for (uint32_t w = KILN_SIDE_MIN; w <= KILN_SIDE_MAX; w += KILN_SIDE_STEP)
        for (uint32_t h = KILN_SIDE_MIN; h <= KILN_SIDE_MAX; h += KILN_SIDE_STEP) {
            size got;
            const bool found = kiln_coarse_size((size){w, h}, NULL, 0, &got);
            assert_int_equal(found, w >= 96 && h >= 96);
            if (!found)
                continue;
            assert_true(got.width >= KILN_SIDE_MIN && got.height >= KILN_SIDE_MIN);
            assert_true(got.width < w && got.height < h);
            assert_true(got.width % KILN_SIDE_STEP == 0 && got.height % KILN_SIDE_STEP == 0);
            const double shape = (double)got.width * h / ((double)got.height * w);
            assert_true(shape < 1.15 && shape > 1 / 1.15);
        }
}

static void the_listed_size_nearest_to_half(void **state)
{
    (void)state;
    static const size good[] = {{512, 512}, {256, 256}, {448, 256}, {256, 448}, {384, 384}};
    expect((size){512, 512}, good, 5, (size){256, 256});
    expect((size){896, 512}, good, 5, (size){448, 256});
    expect((size){1024, 1024}, good, 5, (size){512, 512});
    expect((size){768, 768}, good, 5, (size){384, 384});
    expect((size){640, 640}, good, 5, (size){256, 256}); /* .4 and .6: the first */
    expect((size){1344, 768}, good, 5, (size){448, 256});
    expect((size){512, 1024}, good, 5, (size){0, 0});  /* no such shape */
    expect((size){256, 256}, good, 5, (size){0, 0});   /* nothing smaller */
    expect((size){2048, 2048}, good, 5, (size){0, 0}); /* .25 at most */
    expect((size){1072, 1024}, good, 5, (size){512, 512});
    expect((size){1104, 1024}, good, 5, (size){0, 0}); /* 7.8 % wider */
}

static void nonsense_in_a_list_is_passed_over(void **state)
{
    (void)state;
    static const size good[] = {{0, 0}, {32, 32}, {4096, 4096}, {80, 80}, {UINT32_MAX, UINT32_MAX}};
    expect((size){128, 128}, good, 5, (size){80, 80});
    expect((size){64, 64}, good, 5, (size){0, 0});
}

static void expect_three(size full, const size *good, size_t count, size small, size middle)
{
    const struct kiln_mode mode = {.kind = KILN_MODE_COARSE, .small = 3, .middle = 1, .full = 3};
    size got_small = {0, 0}, got_middle;
    const bool found = kiln_coarse_sizes(&mode, full, good, count, &got_small, &got_middle);
    if (found != (small.width != 0))
        fail_msg("%u x %u: %s", full.width, full.height, found ? "found" : "none");
    if (found && (memcmp(&got_small, &small, sizeof small) != 0 ||
                  memcmp(&got_middle, &middle, sizeof middle) != 0))
        fail_msg("%u x %u: %u x %u, %u x %u", full.width, full.height, got_small.width,
                 got_small.height, got_middle.width, got_middle.height);
}

/* The middle size is the small one of two levels, and the smallest is found from it alike. */
static void sizes_of_a_third_level(void **state)
{
    (void)state;
    static const size good[] = {{512, 512}, {256, 256}, {512, 384}};
    expect_three((size){1024, 1024}, NULL, 0, (size){256, 256}, (size){512, 512});
    expect_three((size){2048, 2048}, NULL, 0, (size){512, 512}, (size){1024, 1024});
    expect_three((size){1536, 1024}, NULL, 0, (size){384, 256}, (size){768, 512});
    expect_three((size){1008, 1024}, NULL, 0, (size){0, 0}, (size){0, 0}); /* too small */
    expect_three((size){2048, 768}, NULL, 0, (size){0, 0}, (size){0, 0});
    expect_three((size){1024, 1024}, good, 3, (size){256, 256}, (size){512, 512});
    expect_three((size){1024, 1024}, good, 1, (size){0, 0}, (size){0, 0}); /* none below 512 */
    expect_three((size){1368, 1024}, good, 3, (size){0, 0}, (size){0, 0});
    const struct kiln_mode two = {.kind = KILN_MODE_COARSE, .small = 4, .full = 3};
    size small, middle = {1, 1};
    assert_true(kiln_coarse_sizes(&two, (size){512, 512}, NULL, 0, &small, &middle));
    assert_true(small.width == 256 && middle.width == 0 && middle.height == 0);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_mode mode = {.kind = KILN_MODE_COARSE, .small = 6, .middle = 2, .full = 3};
    assert_int_equal(kiln_coarse_check("coarse", &mode, (size){1024, 1024}, 8, &err), 0);
    assert_int_equal(kiln_coarse_check("coarse", &mode, (size){1024, 1024}, 7, &err),
                     KILN_BAD_INPUT);
    assert_string_equal(err.text, "coarse \"6+2+3\": 8 steps before the full size, but steps is 7");
    assert_int_equal(kiln_coarse_check("--coarse", &mode, (size){1024, 1008}, 8, &err),
                     KILN_BAD_INPUT);
    assert_string_equal(err.text,
                        "--coarse \"6+2+3\": 1024x1008 is too small for three sizes; both "
                        "sides must be at least 1024");
    mode.middle = 0;
    assert_int_equal(kiln_coarse_check("coarse", &mode, (size){128, 128}, 6, &err), 0);
    assert_int_equal(kiln_coarse_check("coarse", &mode, (size){128, 128}, 5, &err), KILN_BAD_INPUT);
    mode.kind = KILN_MODE_COARSE_AUTO;
    assert_int_equal(kiln_coarse_check("coarse", &mode, (size){128, 128}, 1, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_the_side_without_a_list),
        cmocka_unit_test(halves_are_valid_sizes),
        cmocka_unit_test(the_listed_size_nearest_to_half),
        cmocka_unit_test(nonsense_in_a_list_is_passed_over),
        cmocka_unit_test(sizes_of_a_third_level),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
