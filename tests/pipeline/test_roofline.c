/* test_roofline.c - the work of a forward at full size, and the time below which it cannot fall,
 * beside the figures that were worked out and measured by other means.
 */
#include <math.h>

#include "pipeline/bench/roofline.h"
#include "tests/pipeline/abi.h"

static struct kiln_model_config full;

static int read_full(void **state)
{
    (void)state;
    char dir[4096];
    struct kiln_error err;
    const char *source = getenv("KILN_SOURCE");
    snprintf(dir, sizeof dir, "%s/scripts/bench/z-image-turbo", source ? source : ".");
    return kiln_model_config_read(dir, &full, &err);
}

static double tera_at(int width, int height, int64_t tokens)
{
    return kiln_forward_flops(&full.transformer, kiln_forward_size(&full, width, height, tokens)) /
           1e12;
}

/* The published table, to its last digit. */
static void a_forward_has_the_work_of_its_rows(void **state)
{
    (void)state;
    const struct {
        int width, height;
        int64_t tokens;
        double tera, within;
    } rows[] = {
        {512, 512, 32, 12.51, .005},   {512, 512, 100, 13.69, .005}, {512, 512, 512, 18.53, .005},
        {1024, 1024, 100, 56.58, .01}, {1024, 1024, 30, 55.12, .01}, {1280, 720, 100, 49.3, .05},
        {1536, 1536, 128, 148.7, .05}, {2048, 2048, 100, 321, .5},   {768, 768, 128, 30.4, .05},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(fabs(tera_at(rows[i].width, rows[i].height, rows[i].tokens) - rows[i].tera) <=
              rows[i].within))
            fail_msg("%d x %d, %lld tokens: %.3f, not %.3f", rows[i].width, rows[i].height,
                     (long long)rows[i].tokens,
                     tera_at(rows[i].width, rows[i].height, rows[i].tokens), rows[i].tera);
}

static void rows_are_padded_to_their_multiple(void **state)
{
    (void)state;
    struct kiln_forward_size size = kiln_forward_size(&full, 1024, 1024, 100);
    assert_int_equal(size.image_rows, 4096);
    assert_int_equal(size.caption_rows, 128);
    size = kiln_forward_size(&full, 528, 512, 32); /* 33 x 32 tokens */
    assert_int_equal(size.image_rows, 1056);
    assert_int_equal(size.caption_rows, 32);
    size = kiln_forward_size(&full, 64, 80, 1);
    assert_int_equal(size.image_rows, 32);
    assert_int_equal(size.caption_rows, 32);
}

/* The sums that were measured beside the peers. */
static void the_ceiling_is_the_sum_of_its_products(void **state)
{
    (void)state;
    const struct {
        int side;
        bool e4m3;
        double ms;
    } rows[] = {{1024, false, 75.9}, {1024, true, 48.5}, {512, false, 21.0}, {512, true, 15.1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_forward_size size = kiln_forward_size(&full, rows[i].side, rows[i].side, 100);
        double ms = kiln_forward_ceiling_ms(&full.transformer, size, rows[i].e4m3);
        if (!(fabs(ms / rows[i].ms - 1) <= 0.02))
            fail_msg("%d px, e4m3 %d: %.2f ms, not %.1f", rows[i].side, rows[i].e4m3, ms,
                     rows[i].ms);
    }
    double before = 0;
    for (int side = 256; side <= 2048; side += 64) {
        double ms = kiln_forward_ceiling_ms(&full.transformer,
                                            kiln_forward_size(&full, side, side, 100), false);
        assert_true(ms > before);
        before = ms;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forward_has_the_work_of_its_rows),
        cmocka_unit_test(rows_are_padded_to_their_multiple),
        cmocka_unit_test(the_ceiling_is_the_sum_of_its_products),
    };
    return cmocka_run_group_tests_name("roofline", tests, read_full, NULL);
}
