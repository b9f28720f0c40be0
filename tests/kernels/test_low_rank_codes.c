/* test_low_rank_codes.c - a LoRA's pair in codes against the definition in double: odd shapes,
 * pitches and formats, and which rows of a weight have a say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/fp8.h"
#include "kernels/products/low_rank_codes.h"
#include "tests/kernels/operands.h"

#define BETWEEN 0x55 /* what lies between the rows of up_codes */

struct pair {
    struct kiln_low_rank_codes args;
    void *up, *down;
    float *factor;
};

/* Of values within -2 .. 2, down `length` times as large, and factors within 1/4 .. 5/4, but for
 * every fifth one. */
static struct pair make_pair(int64_t n, int64_t k, int64_t rank, int64_t gap,
                             enum kiln_float format, float length, float fifth)
{
    struct test_random random = {(uint64_t)(n * k + rank)};
    struct pair p = {.up = values(&random, n * rank, format),
                     .down = values(&random, rank * k, format),
                     .factor = values(&random, n, KILN_F32)};
    for (int64_t i = 0; i < n; i++)
        p.factor[i] = i % 5 == 4 ? fifth : 0.75f + p.factor[i] / 4;
    for (int64_t i = 0; i < rank * k; i++)
        kiln_store(p.down, i, kiln_load(p.down, i, format) * length, format);
    p.args = (struct kiln_low_rank_codes){.up = p.up,
                                          .down = p.down,
                                          .factor = p.factor,
                                          .up_codes = malloc((size_t)(n * (rank + gap))),
                                          .down_codes = malloc((size_t)(rank * k)),
                                          .down_scale = malloc((size_t)rank * sizeof(float)),
                                          .pitch = rank + gap,
                                          .n = n,
                                          .k = k,
                                          .rank = rank,
                                          .format = format};
    assert_true(p.args.up_codes && p.args.down_codes && p.args.down_scale);
    memset(p.args.up_codes, BETWEEN, (size_t)(n * (rank + gap)));
    return p;
}

static void free_pair(struct pair *p)
{
    free(p->up), free(p->down), free(p->factor);
    free(p->args.up_codes), free(p->args.down_codes), free(p->args.down_scale);
}

/* --- the definition --------------------------------------------------------------------------- */

static double reach_of(const struct kiln_low_rank_codes *a, int64_t r)
{
    double mean = 0, share = 0, common = 0, squares = 0;
    for (int64_t n = 0; n < a->n; n++)
        mean += (double)a->factor[n] / (double)a->n;
    for (int64_t n = 0; n < a->n; n++) {
        const double size = fabs(at(a->up, n * a->rank + r, a->format));
        share = fmax(share, size / (double)a->factor[n]);
        common = fmax(common, size / fmax((double)a->factor[n], mean / 2));
    }
    for (int64_t i = 0; i < a->k; i++)
        squares += pow(at(a->down, r * a->k + i, a->format), 2);
    const double most = 448 / fmax(share, 1e-12), large = 448 / fmax(common, 1e-12);
    return fmax(most, fmin(sqrt(squares) / 12, large));
}

/* A code is the nearest there is: half a step of 8 in a power of two, the least being 2^-9. */
static void check_code(const char *what, int64_t row, int64_t column, uint8_t code, double want)
{
    const double bounded = fmax(fmin(want, 448), -448), got = (double)kiln_from_e4m3(code);
    if (!(fabs(got - bounded) <= 0x1p-4 * 1.0001 * fabs(bounded) + 0x1p-10))
        fail_msg("%s %lld, %lld: got %g, want %g", what, (long long)row, (long long)column, got,
                 want);
}

static void check_column(const struct kiln_low_rank_codes *a, int64_t r)
{
    const double reach = reach_of(a, r);
    double top = 1e-12;
    for (int64_t n = 0; n < a->n; n++)
        check_code("up", n, r, a->up_codes[n * a->pitch + r],
                   at(a->up, n * a->rank + r, a->format) / (double)a->factor[n] * reach);
    for (int64_t i = 0; i < a->k; i++)
        top = fmax(top, fabs(at(a->down, r * a->k + i, a->format)));
    const double scale = top / 448 / reach;
    assert_true(fabs((double)a->down_scale[r] - scale) <= 1e-5 * scale);
    for (int64_t i = 0; i < a->k; i++)
        check_code("down", r, i, a->down_codes[r * a->k + i],
                   at(a->down, r * a->k + i, a->format) * 448 / top);
}

static void check(const struct kiln_low_rank_codes *a)
{
    kiln_low_rank_codes_ref(a, 0, a->rank / 2);
    kiln_low_rank_codes_ref(a, a->rank / 2, a->rank);
    for (int64_t r = 0; r < a->rank; r++)
        check_column(a, r);
    for (int64_t n = 0; n < a->n; n++)
        for (int64_t i = a->rank; i < a->pitch; i++)
            assert_int_equal(a->up_codes[n * a->pitch + i], BETWEEN);
}

static void pairs_become_codes(void **state)
{
    static const int64_t sizes[] = {1, 5, 64, 131}, ranks[] = {1, 3, 16, 48};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof ranks / sizeof *ranks; j++)
            for (int form = 0; form < 4; form++) {
                struct pair p = make_pair(sizes[i], sizes[(i + j) % 4], ranks[j], form & 1 ? 7 : 0,
                                          form & 2 ? KILN_BF16 : KILN_F32, 1, 1);
                check(&p.args);
                free_pair(&p);
            }
}

/* Rows of down from so short that up's codes come first, to so long that only the common rows have
 * a say; the small factors are above half the mean, below it, and far below. */
static void reach_follows_the_length_of_down(void **state)
{
    static const float lengths[] = {1e-3f, 1, 30, 1e3f, 1e5f}, fifths[] = {0.6f, 0.3f, 1e-3f};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof fifths / sizeof *fifths; j++) {
            struct pair p = make_pair(131, 64, 3, 0, KILN_F32, lengths[i], fifths[j]);
            check(&p.args);
            free_pair(&p);
        }
}

/* --- who has a say ---------------------------------------------------------------------------- */

/* One value of up for each of four rows, and a row of down of this length. */
static void share_out(const float up[4], const float factor[4], float length, uint8_t codes[4],
                      float *ret_scale)
{
    uint8_t down_code;
    const struct kiln_low_rank_codes args = {.up = up,
                                             .down = &length,
                                             .factor = factor,
                                             .up_codes = codes,
                                             .down_codes = &down_code,
                                             .down_scale = ret_scale,
                                             .pitch = 1,
                                             .n = 4,
                                             .k = 1,
                                             .rank = 1,
                                             .format = KILN_F32};
    kiln_low_rank_codes_ref(&args, 0, 1);
    assert_int_equal(down_code, length != 0 ? 0x7e : 0);
}

static void the_largest_share_has_the_largest_code(void **state)
{
    const float up[] = {1, -2, 3, 4}, factor[] = {1, 1, 0.5f, 1};
    uint8_t codes[4];
    float scale;
    (void)state;
    share_out(up, factor, 1, codes, &scale);
    assert_int_equal(codes[2], kiln_to_e4m3(448)); /* 3 / 0.5 */
    assert_int_equal(codes[1], kiln_to_e4m3(-2.0f * 448 / 6));
    assert_true(fabsf(scale - 1 / 448.0f / (448.0f / 6)) < 1e-9f);
}

/* The factor of row 0 is far smaller than the others, so that its share is the largest by far; of
 * their mean's half it is not. */
static void a_small_row_has_no_say_where_low_would_be_cut(void **state)
{
    const float up[] = {0.25f, 1, 1, 1}, factor[] = {0.001f, 1, 1, 1};
    uint8_t codes[4];
    float scale;
    (void)state;
    share_out(up, factor, 12, codes, &scale); /* 448 / 250 is more than 12 / 12 */
    assert_int_equal(codes[0], kiln_to_e4m3(448));
    assert_int_equal(codes[1], kiln_to_e4m3(1.792f));
    share_out(up, factor, 1200, codes, &scale); /* 100 of it fit */
    assert_int_equal(codes[0], kiln_to_e4m3(448));
    assert_int_equal(codes[1], kiln_to_e4m3(100));
    assert_true(fabsf(scale - 1200 / 448.0f / 100) < 1e-6f);
    share_out(up, factor, 1e6f, codes, &scale); /* but row 1 is not cut */
    assert_int_equal(codes[1], kiln_to_e4m3(448));
    assert_true(fabsf(scale - 1e6f / 448 / 448) < 1e-3f);
}

static void zeros_and_nan_stay_what_they_are(void **state)
{
    const float zeros[4] = {0}, up[] = {1, NAN, 0.5f, 0}, factor[] = {1, 1, 1, 1};
    uint8_t codes[4];
    float scale;
    (void)state;
    share_out(zeros, factor, 1, codes, &scale);
    for (int i = 0; i < 4; i++)
        assert_int_equal(codes[i], 0);
    assert_true(isfinite(scale));
    share_out(up, factor, 0, codes, &scale);
    assert_int_equal(codes[0], kiln_to_e4m3(448));
    assert_int_equal(codes[1] & 0x7f, 0x7f);
    assert_int_equal(codes[2], kiln_to_e4m3(224));
    assert_int_equal(codes[3], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_become_codes),
        cmocka_unit_test(reach_follows_the_length_of_down),
        cmocka_unit_test(the_largest_share_has_the_largest_code),
        cmocka_unit_test(a_small_row_has_no_say_where_low_would_be_cut),
        cmocka_unit_test(zeros_and_nan_stay_what_they_are),
    };
    return cmocka_run_group_tests_name("low_rank_codes", tests, NULL, NULL);
}
