/* test_latent_enlarge.c - a clean latent at another size and noise level, against the definition in
 * doubles; tests/pipeline/test_noised.c has what torch computes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/pictures/latent_enlarge.h"
#include "tests/support/random.h"

static float *floats(uint64_t seed, size_t count)
{
    struct test_random random = {seed};
    float *p = malloc(count * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < count; i++)
        p[i] = (float)test_random_below(&random, 4001) / 1000.0f - 2.0f;
    return p;
}

static size_t values_before(const struct kiln_latent_enlarge *a)
{
    return (size_t)a->channels * (size_t)a->height * (size_t)a->width;
}

static size_t values_after(const struct kiln_latent_enlarge *a)
{
    return (size_t)a->channels * (size_t)a->out_height * (size_t)a->out_width;
}

/* Keys' kernel with a = -3/4 at any distance. */
static double keys(double d)
{
    const double a = -0.75;
    d = fabs(d);
    if (d <= 1)
        return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

/* Sums over the whole plane, repeated far beyond its edges. */
static double enlarged(const struct kiln_latent_enlarge *a, const float *plane, int row, int column)
{
    const double y = (row + 0.5) * a->height / a->out_height - 0.5;
    const double x = (column + 0.5) * a->width / a->out_width - 0.5;
    double sum = 0;
    for (int i = -3; i < a->height + 3; i++)
        for (int k = -3; k < a->width + 3; k++) {
            const int at_y = i < 0 ? 0 : i < a->height ? i : a->height - 1;
            const int at_x = k < 0 ? 0 : k < a->width ? k : a->width - 1;
            sum += keys(y - i) * keys(x - k) * (double)plane[at_y * a->width + at_x];
        }
    return sum;
}

static void starts_by_the_definition(void **state)
{
    (void)state;
    static const int sizes[][4] = {{4, 4, 8, 8}, {4, 6, 8, 12}, {5, 3, 11, 7},
                                   {1, 1, 4, 4}, {1, 7, 2, 14}, {8, 8, 12, 12},
                                   {6, 6, 6, 6}, {9, 7, 4, 3},  {2, 2, 32, 17}};
    static const float sigmas[] = {0, 0.75f, 0.3f, 1};
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
        struct kiln_latent_enlarge args = {.channels = 5,
                                           .height = sizes[c][0],
                                           .width = sizes[c][1],
                                           .out_height = sizes[c][2],
                                           .out_width = sizes[c][3],
                                           .sigma = sigmas[c % 4]};
        const size_t n = values_after(&args);
        float *clean = floats(c, values_before(&args)), *noise = floats(c + 99, n);
        float *x = malloc(n * sizeof *x);
        args.clean = clean, args.noise = noise, args.x = x;
        kiln_latent_enlarge_ref(&args);
        const double s = (double)args.sigma;
        for (int ch = 0; ch < 5; ch++)
            for (int row = 0; row < args.out_height; row++)
                for (int column = 0; column < args.out_width; column++) {
                    const size_t i = ((size_t)ch * (size_t)args.out_height + (size_t)row) *
                                         (size_t)args.out_width +
                                     (size_t)column;
                    const float *plane = clean + ch * args.height * args.width;
                    const double want =
                        (1 - s) * enlarged(&args, plane, row, column) + s * (double)noise[i];
                    assert_float_equal(x[i], want, 4e-6);
                }
        args.x = noise; /* in place */
        kiln_latent_enlarge_ref(&args);
        assert_memory_equal(noise, x, n * sizeof *x);
        free(clean);
        free(noise);
        free(x);
    }
}

/* At its own size a latent is only noised: the bits of the mix, and at sigma 0 its own. */
static void the_same_size_is_the_latent_itself(void **state)
{
    (void)state;
    static const int sides[] = {1, 7, 8, 33, 255};
    for (size_t c = 0; c < 5; c++)
        for (int k = 0; k < 3; k++) {
            const float sigma = 0.5f * (float)k;
            struct kiln_latent_enlarge args = {.channels = 2,
                                               .height = sides[c],
                                               .width = sides[4 - c],
                                               .out_height = sides[c],
                                               .out_width = sides[4 - c],
                                               .sigma = sigma};
            const size_t n = values_after(&args);
            float *clean = floats(c, n), *noise = floats(c + 99, n), *x = malloc(n * sizeof *x);
            args.clean = clean, args.noise = noise, args.x = x;
            kiln_latent_enlarge_ref(&args);
            for (size_t i = 0; i < n; i++)
                assert_true(x[i] == (1.0f - sigma) * clean[i] + sigma * noise[i]);
            free(clean);
            free(noise);
            free(x);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_by_the_definition),
        cmocka_unit_test(the_same_size_is_the_latent_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
