/* test_group_norm_silu.c - GroupNorm with and without SiLU against the definition in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/pictures/group_norm_silu.h"
#include "tests/support/random.h"

#define EPS 1e-6

struct shape {
    int64_t pixels;
    int channels, groups;
};

static const struct shape shapes[] = {{1, 4, 2},    {7, 8, 8},    {63, 6, 3},  {64, 32, 8},
                                      {65, 32, 32}, {300, 96, 4}, {129, 5, 1}, {1000, 16, 2}};

static double lifted(const void *x, const void *x_bias, int64_t i, int channels, enum kiln_float f)
{
    return (double)kiln_load(x, i, f) + (double)kiln_load(x_bias, i % channels, f);
}

/* Pictures about `offset`, which the norm must take away without loss; with SiLU behind it, they
 * are taken as more than they are, by channel. */
static void check_shape(const struct shape *s, double offset, enum kiln_float f, int silu)
{
    struct test_random random = {(uint64_t)s->pixels};
    const int64_t count = s->pixels * s->channels, part = s->pixels / 3;
    const int c = s->channels, width = c / s->groups;
    void *x = malloc((size_t)count * 4), *w = malloc((size_t)c * 4), *b = malloc((size_t)c * 4);
    void *x_bias = malloc((size_t)c * 4);
    void *y = malloc((size_t)count * 4);
    double *sums = calloc((size_t)(2 * c), sizeof *sums);
    for (int64_t i = 0; i < count; i++)
        kiln_store(x, i, (float)(offset + (double)test_random_below(&random, 2001) / 1e3), f);
    for (int i = 0; i < c; i++) {
        kiln_store(w, i, 0.5f + (float)i / (float)c, f);
        kiln_store(b, i, (float)(i % 3) - 1.0f, f);
        kiln_store(x_bias, i, silu ? (float)(i % 5) / 4.0f - 0.5f : 0.0f, f);
    }
    const struct kiln_group_norm args = {.x = x,
                                         .weight = w,
                                         .bias = b,
                                         .x_bias = silu ? x_bias : NULL,
                                         .y = y,
                                         .pixels = s->pixels,
                                         .channels = c,
                                         .groups = s->groups,
                                         .eps = (float)EPS,
                                         .silu = silu,
                                         .format = f};
    kiln_group_norm_sums_ref(&args, 0, part, sums);
    kiln_group_norm_sums_ref(&args, part, s->pixels, sums);
    kiln_group_norm_apply_ref(&args, sums, 0, part);
    kiln_group_norm_apply_ref(&args, sums, part, s->pixels);
    for (int64_t i = 0; i < count; i++) {
        int channel = (int)(i % c), first = channel / width * width;
        double mean = 0, variance = 0, n = (double)s->pixels * width;
        for (int64_t p = 0; p < s->pixels; p++)
            for (int j = first; j < first + width; j++)
                mean += lifted(x, x_bias, p * c + j, c, f) / n;
        for (int64_t p = 0; p < s->pixels; p++)
            for (int j = first; j < first + width; j++)
                variance += pow(lifted(x, x_bias, p * c + j, c, f) - mean, 2) / n;
        double v = (lifted(x, x_bias, i, c, f) - mean) / sqrt(variance + EPS) *
                       (double)kiln_load(w, channel, f) +
                   (double)kiln_load(b, channel, f);
        v = silu ? v / (1 + exp(-v)) : v;
        double got = (double)kiln_load(y, i, f);
        double limit = f == KILN_BF16 ? 2e-2 : 2e-5 * (1 + offset / 10);
        if (!(fabs(got - v) <= limit))
            fail_msg("%lld pixels, %d channels, offset %g: got %.9g, want %.9g",
                     (long long)s->pixels, c, offset, got, v);
        i += s->pixels > 100 ? 37 : 0; /* the definition is slow: a sample of the large ones */
    }
    free(x), free(w), free(b), free(x_bias), free(y), free(sums);
}

static void fp32(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int silu = 0; silu < 2; silu++)
            check_shape(&shapes[i], 0, KILN_F32, silu);
}

static void bf16(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int silu = 0; silu < 2; silu++)
            check_shape(&shapes[i], 0, KILN_BF16, silu);
}

static void a_large_offset(void **state)
{
    (void)state;
    for (size_t i = 1; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(&shapes[i], 500, KILN_F32, 0);
}

/* In place, by several calls as several threads make them: the very bits of a picture apart. */
static void check_in_place(const struct shape *s, enum kiln_float f)
{
    struct test_random random = {(uint64_t)s->pixels + 1};
    const int64_t count = s->pixels * s->channels,
                  cuts[] = {0, s->pixels / 3, s->pixels / 2, s->pixels};
    const size_t row = (size_t)s->channels * 4, size = (size_t)count * 4;
    char *x = calloc(1, size), *y = calloc(1, size), *w = calloc(3, row), *b = w + row;
    double *sums = calloc((size_t)(2 * s->channels), sizeof *sums);
    for (int64_t i = 0; i < count; i++)
        kiln_store(x, i, (float)test_random_below(&random, 2001) / 1e3f, f);
    for (int i = 0; i < s->channels; i++) {
        kiln_store(w, i, 0.5f + (float)i, f);
        kiln_store(b, i, (float)(i % 3) - 1.0f, f);
    }
    struct kiln_group_norm args = {.x = x,
                                   .weight = w,
                                   .bias = b,
                                   .y = y,
                                   .pixels = s->pixels,
                                   .channels = s->channels,
                                   .groups = s->groups,
                                   .eps = (float)EPS,
                                   .silu = 1,
                                   .format = f};
    kiln_group_norm_sums_ref(&args, 0, s->pixels, sums);
    kiln_group_norm_apply_ref(&args, sums, 0, s->pixels);
    args.y = x, args.origin = memcpy(b + row, x, row < size ? row : size);
    for (int i = 0; i < 3; i++)
        kiln_group_norm_apply_ref(&args, sums, cuts[i], cuts[i + 1]);
    assert_memory_equal(x, y, size);
    free(x), free(y), free(w), free(sums);
}

static void in_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_in_place(&shapes[i], KILN_F32);
        check_in_place(&shapes[i], KILN_BF16);
    }
}

static void a_flat_picture(void **state)
{
    (void)state;
    float x[32], y[32];
    const float w[2] = {3, 3}, b[2] = {0.25f, -0.5f};
    double sums[4] = {0};
    for (int i = 0; i < 32; i++)
        x[i] = 7.0f;
    const struct kiln_group_norm args = {.x = x,
                                         .weight = w,
                                         .bias = b,
                                         .y = y,
                                         .pixels = 16,
                                         .channels = 2,
                                         .groups = 1,
                                         .eps = (float)EPS};
    kiln_group_norm_sums_ref(&args, 0, 16, sums);
    kiln_group_norm_apply_ref(&args, sums, 0, 16);
    for (int i = 0; i < 32; i++)
        assert_float_equal(y[i], b[i % 2], 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fp32), cmocka_unit_test(bf16),
                                       cmocka_unit_test(a_large_offset), cmocka_unit_test(in_place),
                                       cmocka_unit_test(a_flat_picture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
