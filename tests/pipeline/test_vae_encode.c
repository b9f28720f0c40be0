/* test_vae_encode.c - from a picture to the latent of its start, on the CPU: bytes, samples,
 * strips, and an encoder that is loaded when it is needed, or is not there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/model/vae_parts.h"
#include "storage/formats/pictures/webp.h"
#include "storage/formats/regular.h"
#include "storage/formats/safetensors.h"
#include "tests/support/measure.h"

#define FILE_NAME "diffusion_pytorch_model.safetensors"

static struct kt_scope *weights;
static struct kiln_vae_config config;

static const char *vae_of_sketch(void)
{
    static char dir[4096];
    const char *source = getenv("KILN_SOURCE");
    snprintf(dir, sizeof dir, "%s/pipeline/models/sketch/vae", source ? source : ".");
    return dir;
}

static struct kiln_vae *load(const char *dir, enum kt_dtype dtype)
{
    struct kiln_vae *vae = NULL;
    struct kiln_error err;
    if (kiln_vae_load(dir, &config, weights, dtype, &vae, &err))
        fail_msg("%s", err.text);
    return vae;
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

/* Every level has the bits of the two roundings that numpy and torch do. */
static void bytes_become_numbers_as_in_diffusers(void **state)
{
    (void)state;
    enum { HEIGHT = 4, WIDTH = 64, PIXELS = HEIGHT * WIDTH };
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    uint8_t rgb[PIXELS * 3];
    for (int i = 0; i < PIXELS * 3; i++)
        rgb[i] = (uint8_t)(i / 3 + 7 * (i % 3));
    kt bytes = kt_from_host(s, rgb, KT_U8, KT_U8, 1, (int64_t[]){PIXELS * 3});
    kt x = kt_of_rgb8(s, bytes, HEIGHT, WIDTH);
    assert_int_equal(kt_size(x, 1), 3);
    assert_int_equal(kt_size(x, 2), HEIGHT);
    assert_int_equal(kt_size(x, 3), WIDTH);
    float *got = values_of(s, x, PIXELS * 3);
    for (int i = 0; i < PIXELS * 3; i++) {
        volatile float unit = (float)rgb[i] / 255.0f; /* rounded before it is doubled */
        float want = 2.0f * unit - 1.0f;
        assert_memory_equal(&got[i % 3 * PIXELS + i / 3], &want, sizeof want);
    }
    free(got);
    assert_null(kt_of_rgb8(s, bytes, HEIGHT, WIDTH + 1));
    assert_int_not_equal(kt_scope_check(s, &err), 0);
    kt_scope_free(s);
}

/* Log-variances beyond the limits on both sides, and between. */
static void a_sample_is_the_mean_and_a_deviation(void **state)
{
    (void)state;
    enum { CHANNELS = 3, HEIGHT = 5, WIDTH = 4, COUNT = CHANNELS * HEIGHT * WIDTH };
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt mean = kt_randn(s, 1, 4, (int64_t[]){1, CHANNELS, HEIGHT, WIDTH});
    kt log_variance =
        kt_affine(s, kt_randn(s, 2, 4, (int64_t[]){1, CHANNELS, HEIGHT, WIDTH}), 25, -2);
    kt noise = kt_randn(s, 3, 3, (int64_t[]){CHANNELS, HEIGHT, WIDTH});
    kt moments = kt_cat(s, (kt[]){mean, log_variance}, 2, 1);
    float *m = values_of(s, mean, COUNT), *v = values_of(s, log_variance, COUNT);
    float *n = values_of(s, noise, COUNT),
          *got = values_of(s, kt_gaussian(s, moments, noise), COUNT);
    float *still = values_of(s, kt_gaussian(s, moments, NULL), COUNT);
    int below = 0, above = 0;
    for (int i = 0; i < COUNT; i++) {
        double clamped = fmin(fmax((double)v[i], -30), 20);
        double want = (double)m[i] + exp(clamped / 2) * (double)n[i];
        below += clamped > (double)v[i];
        above += clamped < (double)v[i];
        if (!(fabs((double)got[i] - want) <= 1e-6 * fmax(1, fabs(want))))
            fail_msg("value %d: %g, expected %g", i, (double)got[i], want);
    }
    assert_true(below && above);
    assert_memory_equal(still, m, COUNT * sizeof *m);
    free(m), free(v), free(n), free(got), free(still);
    kt_scope_free(s);
}

/* --- strips ----------------------------------------------------------------------------------- */

static void compare(const struct kiln_vae *vae, int64_t height, int64_t width, int rows,
                    double most)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    const int64_t latent[3] = {config.latent_channels, height / config.factor,
                               width / config.factor};
    const size_t count = (size_t)(latent[0] * latent[1] * latent[2]);
    kt picture = kt_tanh(s, kt_randn(s, 5, 4, (int64_t[]){1, 3, height, width}));
    kt noise = kt_randn(s, 6, 3, latent);
    float *whole = values_of(s, kiln_vae_encode_strips(vae, s, picture, noise, 0), count);
    float *strips = values_of(s, kiln_vae_encode_strips(vae, s, picture, noise, rows), count);
    double worst = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        worst = test_worse(worst, fabs((double)whole[i] - (double)strips[i]));
        largest = fmax(largest, fabs((double)whole[i]));
    }
    printf("%lld x %lld in strips of %d rows: off by at most %.2g of %.3g\n", (long long)height,
           (long long)width, rows, worst, largest);
    assert_true(worst <= most * largest);
    free(whole), free(strips);
    kt_scope_free(s);
}

static void strips_are_the_picture_in_one_piece(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_vae *vae = load(vae_of_sketch(), KT_F32);
    assert_int_equal(kiln_vae_need_encoder(vae, &err), 0);
    compare(vae, 104, 72, 16, 1e-5);
    compare(vae, 104, 72, 64, 1e-5);
    compare(vae, 56, 88, 2, 1e-5);    /* windows that overlap more than they make */
    compare(vae, 48, 32, 1024, 1e-5); /* one strip */
    compare(vae, 136, 48, 130, 1e-5); /* the last strip is the smallest there is */
    kiln_vae_free(vae);
    vae = load(vae_of_sketch(), KT_BF16);
    assert_int_equal(kiln_vae_need_encoder(vae, &err), 0);
    compare(vae, 104, 72, 16, 0.05);
    kiln_vae_free(vae);
}

/* The mean is the sample of no noise; both are scaled. */
static void the_mean_is_a_sample_without_noise(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_vae *vae = load(vae_of_sketch(), KT_F32);
    struct kt_scope *s = kt_scope_new(KT_CPU);
    assert_int_equal(kiln_vae_need_encoder(vae, &err), 0);
    const int64_t shape[3] = {config.latent_channels, 64 / config.factor, 48 / config.factor};
    const size_t count = (size_t)(shape[0] * shape[1] * shape[2]);
    kt picture = kt_tanh(s, kt_randn(s, 5, 4, (int64_t[]){1, 3, 64, 48}));
    kt none = kt_zeros(s, KT_F32, 3, shape), noise = kt_randn(s, 6, 3, shape);
    float *mean = values_of(s, kiln_vae_encode(vae, s, picture), count);
    float *same = values_of(s, kiln_vae_encode_sample(vae, s, picture, none), count);
    float *other = values_of(s, kiln_vae_encode_sample(vae, s, picture, noise), count);
    assert_memory_equal(mean, same, count * sizeof *mean);
    assert_memory_not_equal(mean, other, count * sizeof *mean);
    free(mean), free(same), free(other);
    kt_scope_free(s);
    kiln_vae_free(vae);
}

/* --- there and back --------------------------------------------------------------------------- */

/* PSNR of a picture of the demo model after the encoder and the decoder, in dB. */
static double there_and_back(const struct kiln_vae *vae, const char *name)
{
    char path[4096];
    struct kiln_error err;
    char *bytes;
    size_t size;
    uint8_t *rgb;
    uint32_t width, height;
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/tests/golden/sketch/%s.webp", source ? source : ".", name);
    if (kiln_regular_read(path, 1 << 20, &bytes, &size, &err) ||
        kiln_webp_decode((const uint8_t *)bytes, size, 1 << 20, &rgb, &width, &height, &err))
        fail_msg("%s", err.text);
    struct kt_scope *s = kt_scope_new(KT_CPU);
    const int64_t count = (int64_t)width * height * 3;
    kt picture = kt_of_rgb8(s, kt_from_host(s, rgb, KT_U8, KT_U8, 1, &count), height, width);
    kt again = kiln_vae_decode(vae, s, kiln_vae_encode(vae, s, picture));
    float *before = values_of(s, picture, (size_t)count);
    float *after = values_of(s, again, (size_t)count);
    double squares = 0;
    for (int64_t i = 0; i < count; i++)
        squares += pow((double)before[i] - (double)after[i], 2);
    free(before), free(after), free(bytes);
    free(rgb);
    kt_scope_free(s);
    return test_decibels(2, squares, (size_t)count);
}

/* The encoder undoes the decoder but for what the autoencoder loses: on renders that it never saw
 * 39.2 dB in the mean (the model's card). */
static void a_picture_comes_back(void **state)
{
    (void)state;
    static const char *const names[] = {"star", "checks", "night", "portrait"};
    struct kiln_error err;
    struct kiln_vae *vae = load(vae_of_sketch(), KT_F32);
    assert_int_equal(kiln_vae_need_encoder(vae, &err), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const double db = there_and_back(vae, names[i]);
        printf("%s: %.1f dB\n", names[i], db);
        assert_true(db > 33);
    }
    kiln_vae_free(vae);
}

/* --- loading ---------------------------------------------------------------------------------- */

/* Writes the demo model's autoencoder to DIR without the tensors whose names begin so. */
static void write_without(const char *dir, const char *prefix)
{
    char path[4200], command[4400];
    struct kiln_st *st = NULL;
    struct kiln_error err;
    snprintf(command, sizeof command, "mkdir -p %s", dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(kiln_st_open(vae_of_sketch(), &st, &err), 0);
    struct kiln_st_tensor *left = calloc(kiln_st_count(st), sizeof *left);
    assert_non_null(left);
    size_t count = 0;
    for (size_t i = 0; i < kiln_st_count(st); i++)
        if (strncmp(kiln_st_at(st, i)->name, prefix, strlen(prefix)) != 0)
            left[count++] = *kiln_st_at(st, i);
    snprintf(path, sizeof path, "%s/" FILE_NAME, dir);
    if (kiln_st_write(path, left, count, NULL, &err))
        fail_msg("%s", err.text);
    free(left);
    kiln_st_close(st);
}

static void a_missing_encoder_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *prefix, *named;
        int code;
    } cases[] = {
        {"no-encoder", "encoder.", "there is no encoder", KILN_UNSUPPORTED},
        {"no-middle", "encoder.mid_block.resnets.0.conv1.bias",
         "encoder.mid_block.resnets.0.conv1.bias", KILN_BAD_INPUT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kiln_error err = {0};
        write_without(cases[i].dir, cases[i].prefix);
        struct kiln_vae *vae = load(cases[i].dir, KT_F32); /* decodes all the same */
        assert_int_equal(kiln_vae_need_encoder(vae, &err), cases[i].code);
        printf("%s\n", err.text);
        if (!strstr(err.text, cases[i].dir) || !strstr(err.text, cases[i].named))
            fail_msg("\"%s\" does not name %s and %s", err.text, cases[i].dir, cases[i].named);
        /* Once the file is whole, the next picture finds it so. */
        write_without(cases[i].dir, "decoder.conv_out.bias");
        assert_int_equal(kiln_vae_need_encoder(vae, &err), 0);
        kiln_vae_free(vae);
    }
}

static void the_encoder_is_loaded_once(void **state)
{
    (void)state;
    struct kiln_error err;
    write_without("moved-away", "decoder.conv_out.none");
    struct kiln_vae *vae = load("moved-away", KT_F32);
    assert_int_equal(kiln_vae_need_encoder(vae, &err), 0);
    assert_int_equal(remove("moved-away/" FILE_NAME), 0);
    assert_int_equal(kiln_vae_need_encoder(vae, &err), 0);
    kiln_vae_free(vae);
    vae = NULL;
    assert_int_equal(kiln_vae_load(NULL, &config, weights, KT_F32, &vae, &err), 0);
    assert_int_equal(kiln_vae_need_encoder(vae, &err), 0); /* random weights have one */
    kiln_vae_free(vae);
}

static int start(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_model_config model;
    char dir[4096];
    snprintf(dir, sizeof dir, "%s", vae_of_sketch());
    *strrchr(dir, '/') = '\0';
    if (kt_device_open(KT_CPU, &err) || kiln_model_config_read(dir, &model, &err)) {
        printf("%s\n", err.text);
        return -1;
    }
    config = model.vae;
    weights = kt_scope_new(KT_CPU);
    return weights ? 0 : -1;
}

static int finish(void **state)
{
    (void)state;
    kt_scope_free(weights);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_become_numbers_as_in_diffusers),
        cmocka_unit_test(a_sample_is_the_mean_and_a_deviation),
        cmocka_unit_test(strips_are_the_picture_in_one_piece),
        cmocka_unit_test(the_mean_is_a_sample_without_noise),
        cmocka_unit_test(a_picture_comes_back),
        cmocka_unit_test(a_missing_encoder_is_named),
        cmocka_unit_test(the_encoder_is_loaded_once),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
