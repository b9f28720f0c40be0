/* test_detail.c - sharpness, spread and standard errors against values computed by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/bench/detail.h"
#include "pipeline/bench/estimate.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-12)

static void sharpness_is_the_mean_laplacian_of_the_grey_picture(void **state)
{
    (void)state;
    uint8_t dot[3][3][3] = {0}, wide[3][5][3] = {0};
    memset(dot[1][1], 255, 3);
    NEAR(kiln_sharpness(&dot[0][0][0], 3, 3), 4.0); /* one inner pixel: 4 x 1 - 0 */
    dot[1][1][1] = dot[1][1][2] = 0;                /* red alone */
    NEAR(kiln_sharpness(&dot[0][0][0], 3, 3), 4 * 0.299);
    memset(wide[1][1], 255, 3); /* inner pixels 1, 0, 0: 4, |0 - 1|, 0 */
    NEAR(kiln_sharpness(&wide[0][0][0], 5, 3), 5.0 / 3);
    memset(wide, 77, sizeof wide);
    NEAR(kiln_sharpness(&wide[0][0][0], 5, 3), 0.0);
    for (int y = 0; y < 3; y++) /* a slope has no bend */
        for (int x = 0; x < 5; x++)
            memset(wide[y][x], 10 * x + 3 * y, 3);
    NEAR(kiln_sharpness(&wide[0][0][0], 5, 3), 0.0);
}

static void low_pass_takes_the_mean_of_each_cell(void **state)
{
    (void)state;
    static float latent[2][16][24], low[2][8][8];
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 24; x++) {
            latent[0][y][x] = (float)(100 * y + x);
            latent[1][y][x] = 7;
        }
    kiln_low_pass(&latent[0][0][0], 2, 16, 24, &low[0][0][0]);
    NEAR((double)low[0][0][0], 51.0);         /* rows 0, 1 and columns 0 to 2 */
    NEAR((double)low[0][7][1], 1450.0 + 4.0); /* rows 14, 15 and columns 3 to 5 */
    NEAR((double)low[0][3][7], 650.0 + 22.0); /* rows 6, 7 and columns 21 to 23 */
    NEAR((double)low[1][5][5], 7.0);
    /* 12 rows do not divide by 8: cells of one and two rows. */
    kiln_low_pass(&latent[0][0][0], 1, 12, 32, &low[0][0][0]);
    const float *rows = &latent[0][0][0]; /* the same values, 32 a row */
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)rows[32 + i] + (double)rows[64 + i]; /* rows 1 and 2 */
    NEAR((double)low[0][1][0], sum / 8);
}

static void spread_is_the_mean_distance_of_pairs(void **state)
{
    (void)state;
    float of[3][64];
    for (int i = 0; i < 64; i++) {
        of[0][i] = 0;
        of[1][i] = 1;
        of[2][i] = 3;
    }
    NEAR(kiln_low_distance(of[0], of[2], 1), 3.0);
    NEAR(kiln_low_spread(of[0], 3, 1), 2.0); /* 1, 3 and 2 */
    NEAR(kiln_low_spread(of[0], 2, 1), 1.0);
    assert_true(isnan(kiln_low_spread(of[0], 1, 1)));
    of[1][0] = 9; /* 63 values differ by 1, one by 9 */
    NEAR(kiln_low_distance(of[0], of[1], 1), sqrt((63.0 + 81.0) / 64));
}

static void the_error_counts_prompts_and_not_attributes(void **state)
{
    (void)state;
    const double right[] = {1, 2, 3, NAN}, asked[] = {2, 2, 2, 100};
    struct kiln_estimate e = kiln_estimate_ratio(right, asked, 4);
    NEAR(e.value, 1.0);
    NEAR(e.error, sqrt(1.5 * 2) / 6); /* residuals -1, 0, 1 */
    /* Ten times the pictures of each prompt are no better known. */
    const double more[] = {10, 20, 30}, of[] = {20, 20, 20};
    NEAR(kiln_estimate_ratio(more, of, 3).error, e.error);
    /* Pairs that all have one ratio have no error, however much they vary. */
    const double small[] = {2, 4, 9}, large[] = {4, 8, 18};
    NEAR(kiln_estimate_ratio(small, large, 3).value, 0.5);
    NEAR(kiln_estimate_ratio(small, large, 3).error, 0.0);
    assert_true(isnan(kiln_estimate_ratio(right, asked, 1).error));
    const double none[] = {0, 0};
    assert_true(isnan(kiln_estimate_ratio(right, none, 2).value));
    assert_true(isnan(kiln_estimate_ratio(right, asked, 0).value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharpness_is_the_mean_laplacian_of_the_grey_picture),
        cmocka_unit_test(low_pass_takes_the_mean_of_each_cell),
        cmocka_unit_test(spread_is_the_mean_distance_of_pairs),
        cmocka_unit_test(the_error_counts_prompts_and_not_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
