/* test_vae_strips.c - a picture decoded in strips is the picture decoded in one piece, on the CPU.
 *
 * The demo model's autoencoder, latents of random numbers at sizes that fit no number of rows.  A
 * seam would be a line of errors, so the worst value counts as well as the mean.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/model/vae_parts.h"
#include "tests/support/measure.h"

#define PSNR_LEAST 45.0

static struct kt_scope *weights;
static struct kiln_vae_config config;

static struct kiln_vae *load(enum kt_dtype dtype)
{
    char dir[4096];
    struct kiln_vae *vae = NULL;
    struct kiln_model_config model;
    struct kiln_error err;
    const char *source = getenv("KILN_SOURCE");
    snprintf(dir, sizeof dir, "%s/pipeline/models/sketch", source ? source : ".");
    if (kiln_model_config_read(dir, &model, &err))
        fail_msg("%s", err.text);
    config = model.vae;
    snprintf(dir, sizeof dir, "%s/pipeline/models/sketch/vae", source ? source : ".");
    if (kiln_vae_load(dir, &config, weights, dtype, &vae, &err))
        fail_msg("%s", err.text);
    return vae;
}

/* The decoded picture as floats, owned by the caller.  rows: 0 is in one piece. */
static float *decode(const struct kiln_vae *vae, int64_t height, int64_t width, int rows)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    kt latent = kt_randn(s, 3, 3, (int64_t[]){config.latent_channels, height, width});
    kt y = rows ? kiln_vae_decode_strips(vae, s, latent, rows) : kiln_vae_decode(vae, s, latent);
    size_t count = (size_t)(3 * height * width * config.factor * config.factor);
    float *out = malloc(count * sizeof *out);
    assert_non_null(out);
    kt_to_host_f32(s, y, out, count);
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
    kt_scope_free(s);
    return out;
}

static void compare(const struct kiln_vae *vae, int64_t height, int64_t width, int rows,
                    double psnr_least, double worst_most)
{
    float *whole = decode(vae, height, width, 0), *strips = decode(vae, height, width, rows);
    size_t count = (size_t)(3 * height * width * config.factor * config.factor);
    double sum = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        double off = fabs((double)whole[i] - (double)strips[i]);
        sum += off * off;
        worst = test_worse(worst, off);
    }
    double psnr = test_decibels(2, sum, count);
    printf("latent %lld x %lld in strips of %d rows: %.1f dB, worst value off by %.2g\n",
           (long long)height, (long long)width, rows, psnr, worst);
    assert_true(psnr >= psnr_least);
    assert_true(worst <= worst_most);
    free(whole);
    free(strips);
}

static void fp32_pictures_are_the_same(void **state)
{
    (void)state;
    struct kiln_vae *vae = load(KT_F32);
    compare(vae, 13, 9, 16, 80, 1e-3);
    compare(vae, 13, 9, 64, 80, 1e-3);
    compare(vae, 7, 11, 2, 80, 1e-3);    /* windows that overlap more than they make */
    compare(vae, 5, 4, 1024, 80, 1e-3);  /* one strip */
    compare(vae, 17, 16, 130, 80, 1e-3); /* the last strip is the smallest there is */
    kiln_vae_free(vae);
}

static void bf16_pictures_are_near(void **state)
{
    (void)state;
    struct kiln_vae *vae = load(KT_BF16);
    compare(vae, 13, 9, 16, PSNR_LEAST, 0.1);
    compare(vae, 17, 12, KILN_VAE_STRIP_ROWS, PSNR_LEAST, 0.1);
    kiln_vae_free(vae);
}

/* Where there is no kernel, as for fp16 on the CPU, LibTorch's operators do the same. */
static void norms_of_strips_without_a_kernel(void **state)
{
    (void)state;
    static const enum kt_dtype dtypes[] = {KT_F32, KT_BF16, KT_F16};
    const int64_t shape[4] = {1, 6, 9, 5}, channels = 6;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        struct kt_scope *s = kt_scope_new(KT_CPU);
        struct kiln_error err;
        kt x = kt_affine(s, kt_randn(s, 1, 4, shape), 2, 3);
        kt weight = kt_randn(s, 2, 1, &channels), bias = kt_randn(s, 3, 1, &channels);
        float want[6 * 9 * 5], got[6 * 9 * 5];
        kt x_bias = kt_randn(s, 4, 1, &channels);
        const struct kt_norm norm = {weight, bias, x_bias, 3, 1e-6, true};
        kt_to_host_f32(s, kt_group_norm(s, x, &norm), want, 270);
        struct kt_strip_norm n = {.norm = norm, .pixels = 45};
        n.norm.weight = kt_to(s, weight, dtypes[i]), n.norm.bias = kt_to(s, bias, dtypes[i]);
        n.norm.x_bias = kt_to(s, x_bias, dtypes[i]);
        kt all = kt_to(s, x, dtypes[i]);
        kt strips[2] = {kt_narrow(s, all, 2, 0, 4), kt_narrow(s, all, 2, 4, 5)}, normed[2];
        kt_strip_norm_start(s, &n, all);
        for (int k = 0; k < 2; k++)
            kt_strip_norm_add(s, &n, strips[k]);
        for (int k = 0; k < 2; k++)
            normed[k] = kt_strip_norm(s, &n, strips[k]);
        kt_to_host_f32(s, kt_cat(s, normed, 2, 2), got, 270);
        if (kt_scope_check(s, &err))
            fail_msg("%s", err.text);
        for (int k = 0; k < 270; k++)
            if (!(fabs((double)(got[k] - want[k])) <= (i == 0 ? 1e-5 : i == 1 ? 0.1 : 0.02)))
                fail_msg("dtype %zu, value %d: %g, in one piece %g", i, k, (double)got[k],
                         (double)want[k]);
        kt_scope_free(s);
    }
}

static float *values_of(struct kt_scope *s, kt x, size_t count)
{
    struct kiln_error err;
    float *out = malloc(count * sizeof *out);
    assert_non_null(out);
    kt_to_host_f32(s, x, out, count);
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
    return out;
}

/* Two tensors of `count` values, made of a picture of size[0] x size[1]. */
static void check_same(struct kt_scope *s, kt strips, kt whole, size_t count, const int64_t *size)
{
    float *got = values_of(s, strips, count), *want = values_of(s, whole, count);
    for (size_t k = 0; k < count; k++)
        if (!(fabs((double)(got[k] - want[k])) <= 1e-4))
            fail_msg("%lld x %lld, value %zu: %g, in one piece %g", (long long)size[0],
                     (long long)size[1], k, (double)got[k], (double)want[k]);
    free(want);
    free(got);
}

/* The norm in a picture's own memory, by several threads: the bits of the norm apart. */
static void a_norm_in_place_is_the_norm(void **state)
{
    (void)state;
    enum { SIDE = 160, CHANNELS = 12, COUNT = SIDE * SIDE * CHANNELS };
    static const enum kt_dtype dtypes[] = {KT_F32, KT_BF16, KT_F16};
    const int64_t channels = CHANNELS;
    kt_threads_set(2);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        struct kt_scope *s = kt_scope_new(KT_CPU);
        kt w = kt_to(s, kt_randn(s, 2, 1, &channels), dtypes[i]);
        kt b = kt_to(s, kt_randn(s, 3, 1, &channels), dtypes[i]);
        kt rows = kt_to(s, kt_randn(s, 1, 2, (int64_t[]){SIDE * SIDE, CHANNELS}), dtypes[i]);
        kt x = kt_rows_image(s, rows, SIDE, SIDE);
        kt strided = kt_reshape(s, kt_copy(s, rows), 4, (int64_t[]){1, CHANNELS, SIDE, SIDE});
        const struct kt_norm n = {w, b, w, 3, 1e-6, true}, no_silu = {w, b, NULL, 3, 1e-6, false};
        float *want = values_of(s, kt_group_norm(s, x, &n), COUNT);
        float *other = values_of(s, kt_group_norm(s, strided, &no_silu), COUNT);
        kt_group_norm_over(s, x, &n);
        kt_group_norm_over(s, strided, &no_silu);
        float *got = values_of(s, x, COUNT), *got_other = values_of(s, strided, COUNT);
        assert_memory_equal(got, want, COUNT * sizeof *got);
        assert_memory_equal(got_other, other, COUNT * sizeof *got);
        free(want), free(other), free(got), free(got_other);
        kt_scope_free(s);
    }
    kt_threads_set(1);
}

/* Whoever changes what it has taken changes nobody else's. */
static void what_others_hold_is_not_taken(void **state)
{
    (void)state;
    struct kt_scope *s = kt_scope_new(KT_CPU), *inner = kt_scope_child(s);
    const int64_t shape[4] = {1, 2, 3, 4};
    kt alone = kt_zeros(s, KT_F32, 4, shape), kept = kt_zeros(s, KT_F32, 4, shape);
    kt viewed = kt_zeros(s, KT_F32, 4, shape), ones = kt_affine(s, alone, 0, 1);
    kt second = kt_keep(inner, kept), view = kt_narrow(inner, viewed, 2, 1, 1);
    assert_ptr_equal(kt_unshare(s, alone), alone);
    kt_copy_into(s, kt_unshare(s, kept), ones);
    kt_copy_into(s, kt_unshare(s, viewed), ones);
    float *unchanged[2] = {values_of(s, second, 24), values_of(s, view, 8)};
    for (int i = 0; i < 24; i++)
        assert_true(unchanged[0][i] == 0 && unchanged[1][i % 8] == 0);
    assert_ptr_equal(kt_unshare(inner, second), second); /* by now the only handle */
    assert_null(kt_unshare(s, NULL));
    free(unchanged[0]), free(unchanged[1]);
    kt_scope_free(inner);
    kt_scope_free(s);
}

/* Two pictures in the memory of a wider one, and a convolution that leaves its result in one. */
static void a_result_goes_where_it_is_wanted(void **state)
{
    (void)state;
    enum { HEIGHT = 5, WIDTH = 3, CHANNELS = 8, HALF = HEIGHT * WIDTH * CHANNELS / 2 };
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    kt wide = kt_picture(s, KT_F32, CHANNELS, HEIGHT, WIDTH);
    kt two = kt_pictures_in(s, wide, CHANNELS / 2);
    assert_int_equal(kt_size(two, 0), 2);
    kt first = kt_narrow(s, two, 0, 0, 1), second = kt_narrow(s, two, 0, 1, 1);
    struct kt_conv_args args = {.x = kt_randn(s, 1, 4, (int64_t[]){1, 2, HEIGHT, WIDTH}),
                                .weight = kt_randn(s, 2, 4, (int64_t[]){CHANNELS / 2, 2, 3, 3}),
                                .stride = 1,
                                .pad_before = 1,
                                .pad_after = 1,
                                .add =
                                    kt_randn(s, 3, 4, (int64_t[]){1, CHANNELS / 2, HEIGHT, WIDTH})};
    float *want = values_of(s, kt_conv2d(s, &args), HALF);
    kt_copy_into(s, first, args.add);
    args.into = second;
    float *got = values_of(s, kt_conv2d(s, &args), HALF), *there = values_of(s, second, HALF);
    float *add = values_of(s, args.add, HALF), *kept = values_of(s, first, HALF);
    assert_memory_equal(got, want, HALF * sizeof *got);
    assert_memory_equal(there, want, HALF * sizeof *got);
    assert_memory_equal(kept, add, HALF * sizeof *got);
    free(want), free(got), free(there), free(add), free(kept);
    assert_null(kt_pictures_in(s, wide, 3));
    assert_int_not_equal(kt_scope_check(s, &err), 0);
    kt_scope_free(s);
}

/* Norms in memory of their own, and no strips. */
static kt plain_residual(const struct kiln_vae *vae, const struct kiln_vae_residual *r,
                         struct kt_scope *s, kt x)
{
    kt h = x;
    const struct kiln_vae_layer *norms[2] = {&r->norm1, &r->norm2},
                                *convs[2] = {&r->conv1, &r->conv2};
    for (int i = 0; i < 2; i++) {
        const struct kt_norm n = kiln_vae_norm(vae, norms[i], true);
        h = kt_group_norm(s, h, &n);
        kt skip = i ? kiln_vae_conv(s, x, &r->shortcut, 0, NULL) : NULL;
        h = kiln_vae_conv(s, h, convs[i], 1, skip);
    }
    return h;
}

/* What a GPU does with pictures that are large and get narrower. */
static void a_wide_picture_gets_narrower_in_its_own_memory(void **state)
{
    (void)state;
    static const enum kt_dtype dtypes[] = {KT_F32, KT_BF16};
    static const int64_t sizes[][3] = {{37, 20, 16}, {16, 9, 16}, {5, 7, 128}, {130, 3, 128},
                                       {1, 4, 2},    {2, 3, 2},   {9, 4, 2},   {129, 2, 128}};
    for (size_t d = 0; d < 2; d++) {
        struct kiln_vae *vae = load(dtypes[d]);
        const struct kiln_vae_residual *r = vae->decoder.levels[0].residuals;
        for (int i = 1; r->shortcut.weight == NULL && i < config.levels; i++)
            r = vae->decoder.levels[i].residuals;
        const int64_t channels = kt_size(r->conv1.weight, 1), out = kt_size(r->conv1.weight, 0);
        assert_true(kiln_vae_halves(r, channels));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const int64_t h = sizes[i][0], w = sizes[i][1], n = channels;
            struct kt_scope *s = kt_scope_new(KT_CPU);
            kt values = kt_to(s, kt_randn(s, 5, 2, (int64_t[]){h * w, n}), dtypes[d]);
            kt x = kt_rows_image(s, values, h, w);
            kt want = plain_residual(vae, r, s, x);
            kt_drop(s, values);
            kt got = kiln_vae_halving_residual(vae, s, r, kt_unshare(s, x), (int)sizes[i][2]);
            check_same(s, got, want, (size_t)(out * h * w), sizes[i]);
            kt_scope_free(s);
        }
        kiln_vae_free(vae);
    }
}

/* Upsampling and its convolution without the picture between them. */
static void a_picture_grows_in_one(void **state)
{
    (void)state;
    enum { IN = 12, OUT = 9 };
    static const int64_t sizes[][2] = {{1, 1}, {1, 3}, {4, 1}, {5, 7}, {16, 13}};
    struct kiln_error err;
    struct kt_scope *s = kt_scope_new(KT_CPU);
    const struct kiln_vae_layer plain = {.weight = kt_randn(s, 2, 4, (int64_t[]){OUT, IN, 3, 3})};
    kt weight = kt_upsample_weight(s, plain.weight);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t h = sizes[i][0], w = sizes[i][1];
        kt x = kt_randn(s, 6, 4, (int64_t[]){1, IN, h, w});
        kt want = kiln_vae_conv(s, kt_upsample2(s, x), &plain, 1, NULL);
        check_same(s, kt_upsample_conv2d(s, x, weight), want, (size_t)(OUT * 4 * h * w), sizes[i]);
    }
    kt x = kt_randn(s, 6, 4, (int64_t[]){1, IN, 2, 2});
    assert_null(kt_upsample_conv2d(s, x, plain.weight));
    assert_int_not_equal(kt_scope_check(s, &err), 0);
    assert_non_null(strstr(err.text, "12 channels"));
    kt_scope_free(s);
}

/* What a GPU decodes with, in one piece and in strips. */
static void pictures_that_grow_in_one_are_the_same(void **state)
{
    (void)state;
    struct kiln_vae *vae = load(KT_F32);
    const size_t count = (size_t)(3 * 13 * 9 * config.factor * config.factor);
    float *want = decode(vae, 13, 9, 0);
    kiln_vae_join_upsampling(vae, weights);
    static const int rows[] = {0, 2, 16, 64};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float *got = decode(vae, 13, 9, rows[i]);
        for (size_t k = 0; k < count; k++)
            if (!(fabs((double)(got[k] - want[k])) <= 1e-3))
                fail_msg("strips of %d rows, value %zu: %g, with a picture between %g", rows[i], k,
                         (double)got[k], (double)want[k]);
        free(got);
    }
    free(want);
    kiln_vae_free(vae);
}

/* An error inside is the caller's, with its own words. */
static void an_error_is_told_as_it_was(void **state)
{
    (void)state;
    struct kiln_vae *vae = load(KT_F32);
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    kt latent = kt_randn(s, 3, 3, (int64_t[]){config.latent_channels + 1, 4, 4});
    assert_null(kiln_vae_decode_strips(vae, s, latent, 16));
    assert_int_not_equal(kt_scope_check(s, &err), 0);
    assert_null(strstr(err.text, "an operand is missing"));
    kt_scope_free(s);
    kiln_vae_free(vae);
}

static int open_weights(void **state)
{
    (void)state;
    kt_threads_set(1);
    weights = kt_scope_new(KT_CPU);
    return weights ? 0 : -1;
}

static int close_weights(void **state)
{
    (void)state;
    kt_scope_free(weights);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_pictures_are_the_same),
        cmocka_unit_test(bf16_pictures_are_near),
        cmocka_unit_test(norms_of_strips_without_a_kernel),
        cmocka_unit_test(a_norm_in_place_is_the_norm),
        cmocka_unit_test(what_others_hold_is_not_taken),
        cmocka_unit_test(a_result_goes_where_it_is_wanted),
        cmocka_unit_test(a_wide_picture_gets_narrower_in_its_own_memory),
        cmocka_unit_test(a_picture_grows_in_one),
        cmocka_unit_test(pictures_that_grow_in_one_are_the_same),
        cmocka_unit_test(an_error_is_told_as_it_was),
    };
    return cmocka_run_group_tests(tests, open_weights, close_weights);
}
