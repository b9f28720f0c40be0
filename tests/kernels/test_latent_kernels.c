/* test_latent_kernels.c - patches, the sampler's step, mixes and bytes, against their
 * definitions; and the laws that mixes are made for. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/pictures/latent_mix.h"
#include "kernels/pictures/patches.h"
#include "kernels/pictures/rgb8.h"
#include "tests/support/random.h"

#define COUNT 20000

static float *floats(uint64_t seed, int64_t count)
{
    struct test_random random = {seed};
    float *p = malloc((size_t)count * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < count; i++)
        p[i] = (float)test_random_below(&random, 4001) / 1000.0f - 2.0f;
    return p;
}

/* Sums of twelve uniform values: near enough to normal, mean 0, variance 1. */
static float *noises(uint64_t seed, int64_t count)
{
    struct test_random random = {seed};
    float *p = malloc((size_t)count * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < count; i++) {
        p[i] = -6.0f;
        for (int k = 0; k < 12; k++)
            p[i] += (float)test_random_below(&random, 1 << 20) / (float)(1 << 20);
    }
    return p;
}

static double variance(const float *p, int64_t count)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)p[i];
        square += (double)p[i] * (double)p[i];
    }
    return square / (double)count - pow(sum / (double)count, 2);
}

/* --- patches ---------------------------------------------------------------------------------- */

enum { CHANNELS = 3, HEIGHT = 4, WIDTH = 6, PATCH = 2, ROWS = 6, ROW = 12, LINES = 4 };

static const struct kiln_patches shape = {
    .items = 2, .channels = CHANNELS, .height = HEIGHT, .width = WIDTH, .patch = PATCH};

static void patches_by_the_definition(void **state)
{
    (void)state;
    float latent[2][CHANNELS][HEIGHT][WIDTH], tokens[2][ROWS][ROW];
    for (int i = 0; i < 2 * CHANNELS * HEIGHT * WIDTH; i++)
        ((float *)latent)[i] = (float)i;
    const struct kiln_patchify args = {shape, (const float *)latent, tokens};
    kiln_patchify_ref(&args, 0, 1);
    kiln_patchify_ref(&args, 1, LINES);
    for (int item = 0; item < 2; item++)
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++)
                for (int c = 0; c < CHANNELS; c++)
                    assert_true(tokens[item][y / 2 * 3 + x / 2][(y % 2 * 2 + x % 2) * 3 + c] ==
                                latent[item][c][y][x]);
}

static void a_step_moves_by_the_stride(void **state)
{
    (void)state;
    float latent[2][CHANNELS][HEIGHT][WIDTH], with[2][ROWS][ROW], without[2][ROWS][ROW];
    const float stride[2] = {-0.25f, 2.0f};
    uint32_t bad[2] = {0};
    for (int i = 0; i < 2 * ROWS * ROW; i++) {
        ((float *)with)[i] = (float)i;
        ((float *)without)[i] = (float)(i % 7);
    }
    struct kiln_euler_step args = {.shape = shape,
                                   .with = with,
                                   .guidance = 0.5f,
                                   .stride = stride,
                                   .latent = (float *)latent,
                                   .bad = bad};
    for (int guided = 0; guided < 2; guided++) {
        memset(latent, 0, sizeof latent);
        args.without = guided ? without : NULL;
        kiln_euler_step_ref(&args, 0, LINES);
        for (int item = 0; item < 2; item++)
            for (int y = 0; y < HEIGHT; y++)
                for (int x = 0; x < WIDTH; x++)
                    for (int c = 0; c < CHANNELS; c++) {
                        const int row = y / 2 * 3 + x / 2, i = (y % 2 * 2 + x % 2) * 3 + c;
                        const float out =
                            with[item][row][i] +
                            (guided ? 0.5f : 0.0f) * (with[item][row][i] - without[item][row][i]);
                        assert_true(latent[item][c][y][x] == -stride[item] * out);
                    }
    }
    assert_true(bad[0] == 0 && bad[1] == 0);
}

static void a_step_marks_the_item_that_is_not_finite(void **state)
{
    (void)state;
    float *latent = floats(1, 2 * CHANNELS * HEIGHT * WIDTH), *with = floats(2, 2 * ROWS * ROW);
    const float stride[2] = {1, 1}, ends[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < 3; k++) {
        uint32_t bad[2] = {0};
        latent[CHANNELS * HEIGHT * WIDTH + 5] = ends[k];
        const struct kiln_euler_step args = {
            .shape = shape, .with = with, .stride = stride, .latent = latent, .bad = bad};
        kiln_euler_step_ref(&args, 0, LINES);
        assert_true(bad[0] == 0 && bad[1] == 1);
    }
    free(latent), free(with);
}

/* --- mixes ------------------------------------------------------------------------------------ */

static void a_split_comes_together_again(void **state)
{
    (void)state;
    float *clean = floats(3, COUNT), *noise = noises(4, COUNT);
    float *x = floats(5, COUNT), *v = floats(6, COUNT);
    const struct kiln_latent_mix mix = {.clean = {clean},
                                        .noise = {noise},
                                        .clean_weight = {1},
                                        .noise_weight = {1},
                                        .clean_count = 1,
                                        .noise_count = 1,
                                        .x = x,
                                        .n = COUNT,
                                        .sigma = 0.75f};
    kiln_latent_mix_ref(&mix);
    for (int i = 0; i < COUNT; i++) {
        assert_float_equal(x[i], 0.25 * (double)clean[i] + 0.75 * (double)noise[i], 1e-6);
        v[i] = noise[i] - clean[i];
    }
    float *a = floats(7, COUNT), *e = floats(8, COUNT);
    const struct kiln_latent_split split = {
        .x = x, .velocity = v, .clean = a, .noise = e, .n = COUNT, .sigma = 0.75f};
    kiln_latent_split_ref(&split);
    for (int i = 0; i < COUNT; i++) {
        assert_float_equal(a[i], clean[i], 1e-5);
        assert_float_equal(e[i], noise[i], 1e-5);
    }
    free(clean), free(noise), free(x), free(v), free(a), free(e);
}

/* Why the split is there: weights of 1/2 halve the noise's variance, 1/sqrt(2) keep it. */
static void squares_of_noise_weights_keep_the_level(void **state)
{
    (void)state;
    float *a = noises(9, COUNT), *b = noises(10, COUNT), *x = floats(11, COUNT);
    struct kiln_latent_mix mix = {
        .noise = {a, b}, .noise_count = 2, .x = x, .n = COUNT, .sigma = 1};
    mix.noise_weight[0] = mix.noise_weight[1] = 0.5f;
    kiln_latent_mix_ref(&mix);
    assert_true(fabs(variance(x, COUNT) - 0.5) < 0.03);
    mix.noise_weight[0] = mix.noise_weight[1] = sqrtf(0.5f);
    kiln_latent_mix_ref(&mix);
    assert_true(fabs(variance(x, COUNT) - 1) < 0.06);
    free(a), free(b), free(x);
}

/* A start from several donors, in each way: their clean latents become one, and noise is added
 * once. */
static void combined_starts_have_noise_of_their_level(void **state)
{
    (void)state;
    enum { LARGE = 1 << 18 };
    float *a = noises(15, LARGE), *b = noises(16, LARGE), *e = noises(17, LARGE);
    float *clean = floats(18, LARGE), *x = floats(19, LARGE);
    double workspace[KILN_SLERP_WORKSPACE];
    for (int arc = 0; arc < 2; arc++) {
        const struct kiln_latent_mix lerp = {.clean = {a, b},
                                             .clean_weight = {0.5f, 0.5f},
                                             .clean_count = 2,
                                             .x = clean,
                                             .n = LARGE};
        const struct kiln_slerp slerp = {
            .a = a, .b = b, .x = clean, .n = LARGE, .t = 0.5f, .workspace = workspace};
        if (arc)
            kiln_slerp_ref(&slerp);
        else
            kiln_latent_mix_ref(&lerp);
        for (float sigma = 0.3f; sigma < 1; sigma += 0.2f) {
            const struct kiln_latent_mix start = {.clean = {clean},
                                                  .noise = {e},
                                                  .clean_weight = {1},
                                                  .noise_weight = {1},
                                                  .clean_count = 1,
                                                  .noise_count = 1,
                                                  .x = x,
                                                  .n = LARGE,
                                                  .sigma = sigma};
            kiln_latent_mix_ref(&start);
            for (int i = 0; i < LARGE; i++)
                x[i] -= (1 - sigma) * clean[i];
            assert_true(fabs(variance(x, LARGE) / (double)(sigma * sigma) - 1) < 0.01);
        }
    }
    free(a), free(b), free(e), free(clean), free(x);
}

static void slerp_keeps_the_length(void **state)
{
    (void)state;
    float *a = noises(12, COUNT), *b = noises(13, COUNT), *x = floats(14, COUNT);
    double workspace[KILN_SLERP_WORKSPACE];
    for (int k = 0; k <= 4; k++) {
        const struct kiln_slerp args = {
            .a = a, .b = b, .x = x, .n = COUNT, .t = (float)k / 4, .workspace = workspace};
        kiln_slerp_ref(&args);
        assert_true(fabs(variance(x, COUNT) - 1) < 0.06);
        for (int i = 0; (k == 0 || k == 4) && i < COUNT; i++)
            assert_float_equal(x[i], (k ? b : a)[i], 1e-6);
    }
    free(a), free(b), free(x);
}

static void slerp_of_parallels_is_a_line(void **state)
{
    (void)state;
    const float a[3] = {1, -2, 3}, opposite[3] = {-1, 2, -3}, zero[3] = {0};
    const float *others[] = {a, opposite, zero};
    for (size_t k = 0; k < 3; k++) {
        float x[3];
        const struct kiln_slerp args = {.a = a, .b = others[k], .x = x, .n = 3, .t = 0.25f};
        kiln_slerp_ref(&args);
        for (int i = 0; i < 3; i++)
            assert_float_equal(x[i], 0.75f * a[i] + 0.25f * others[k][i], 1e-6);
    }
}

/* --- pictures --------------------------------------------------------------------------------- */

static void bytes_by_the_definition(void **state)
{
    (void)state;
    for (int f = 0; f < 2; f++) {
        const enum kiln_float format = f ? KILN_BF16 : KILN_F32;
        float x[4 * 500];
        uint8_t rgb[3 * 500];
        for (int i = 0; i < 4 * 500; i++)
            kiln_store(x, i, (float)i / 800.0f - 1.25f, format);
        const struct kiln_rgb8 args = {
            .x = x, .rgb = rgb, .pixels = 500, .channels = 4, .format = format};
        kiln_rgb8_ref(&args);
        for (int i = 0; i < 3 * 500; i++) {
            const double v = (double)kiln_load(x, i / 3 * 4 + i % 3, format) / 2 + 0.5;
            const double want = (v < 0 ? 0 : v > 1 ? 1 : v) * 255;
            assert_true(fabs(rgb[i] - want) <= 0.5 + 1e-4);
        }
    }
    const float ends[6] = {NAN, INFINITY, -INFINITY, -1, 1, 0};
    uint8_t rgb[6];
    const struct kiln_rgb8 args = {.x = ends, .rgb = rgb, .pixels = 2, .channels = 3};
    kiln_rgb8_ref(&args);
    static const uint8_t want[6] = {0, 255, 0, 0, 255, 128};
    assert_memory_equal(rgb, want, sizeof want);
}

/* A value of a pixel that is no number marks the picture; one of a channel that is not shown does
 * not, and a mark stays. */
static void a_picture_that_is_not_finite_is_marked(void **state)
{
    (void)state;
    static const float others[] = {NAN, INFINITY, -INFINITY};
    float x[4 * 5] = {1.5f, FLT_MAX, -FLT_MAX, NAN};
    uint8_t rgb[3 * 5];
    uint32_t bad = 0;
    const struct kiln_rgb8 args = {.x = x, .rgb = rgb, .bad = &bad, .pixels = 5, .channels = 4};
    kiln_rgb8_ref(&args);
    assert_int_equal(bad, 0);
    for (int i = 0; i < 3; i++) {
        bad = 0;
        x[4 * 4 + 2] = others[i];
        kiln_rgb8_ref(&args);
        assert_int_equal(bad, 1);
    }
    x[4 * 4 + 2] = 0;
    kiln_rgb8_ref(&args);
    assert_int_equal(bad, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patches_by_the_definition),
        cmocka_unit_test(a_step_moves_by_the_stride),
        cmocka_unit_test(a_step_marks_the_item_that_is_not_finite),
        cmocka_unit_test(a_split_comes_together_again),
        cmocka_unit_test(squares_of_noise_weights_keep_the_level),
        cmocka_unit_test(combined_starts_have_noise_of_their_level),
        cmocka_unit_test(slerp_keeps_the_length),
        cmocka_unit_test(slerp_of_parallels_is_a_line),
        cmocka_unit_test(bytes_by_the_definition),
        cmocka_unit_test(a_picture_that_is_not_finite_is_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
