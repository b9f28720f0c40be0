/* test_features.c - the distance of pictures by features of the VAE decoder, against the sum of its
 * formula in doubles. */
#include <math.h>

#include "pipeline/bench/features.h"
#include "tests/pipeline/one_context.h"

#define WIDE 12
#define HIGH 8
#define CHANNELS 16
#define POSITIONS (WIDE * HIGH)
#define FEATURES_MAX 512

static float latents[3][CHANNELS * POSITIONS];

static int make_latents(void **state)
{
    (void)open_context(state);
    const int64_t shape[3] = {CHANNELS, HIGH, WIDE};
    struct kt_scope *s = kt_scope_new(KT_CPU);
    for (uint64_t i = 0; i < 3; i++)
        kt_to_host_f32(s, kt_randn(s, i, 3, shape), latents[i], CHANNELS * POSITIONS);
    kt_scope_free(s);
    return 0;
}

static struct kiln_features *features_of(int which)
{
    struct kiln_features *ret;
    struct kiln_error err;
    if (kiln_features_of(ctx, latents[which], CHANNELS, HIGH, WIDE, &ret, &err))
        fail_msg("%s", err.text);
    return ret;
}

static double distance(const struct kiln_features *a, const struct kiln_features *b)
{
    double ret;
    struct kiln_error err;
    if (kiln_features_distance(a, b, &ret, &err))
        fail_msg("%s", err.text);
    return ret;
}

/* The decoder's features by channel and position; returns how many channels. */
static int middle_of(int which, float out[FEATURES_MAX * POSITIONS])
{
    const int64_t shape[3] = {CHANNELS, HIGH, WIDE};
    struct kiln_error err;
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt x = kt_from_host(s, latents[which], KT_F32, KT_F32, 3, shape);
    x = kiln_vae_decode_middle(ctx->engine->vae, s, x);
    const int channels = (int)kt_size(x, 1);
    assert_true(channels > 0 && channels <= FEATURES_MAX);
    assert_int_equal(kt_size(x, 2), HIGH);
    assert_int_equal(kt_size(x, 3), WIDE);
    const int planes[4] = {0, 1, 2, 3};
    kt_to_host_f32(s, kt_permute(s, x, 4, planes), out, (size_t)(channels * POSITIONS));
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
    kt_scope_free(s);
    return channels;
}

static double by_formula(int one, int other)
{
    static float a[FEATURES_MAX * POSITIONS], b[FEATURES_MAX * POSITIONS];
    const int channels = middle_of(one, a);
    assert_int_equal(channels, middle_of(other, b));
    double sum = 0;
    for (int p = 0; p < POSITIONS; p++) {
        double length_a = 0, length_b = 0;
        for (int c = 0; c < channels; c++) {
            length_a += pow((double)a[c * POSITIONS + p], 2);
            length_b += pow((double)b[c * POSITIONS + p], 2);
        }
        for (int c = 0; c < channels; c++)
            sum += pow((double)a[c * POSITIONS + p] / sqrt(length_a) -
                           (double)b[c * POSITIONS + p] / sqrt(length_b),
                       2);
    }
    return sum / POSITIONS;
}

static void distance_is_that_of_the_formula(void **state)
{
    (void)state;
    struct kiln_features *all[3];
    for (int i = 0; i < 3; i++)
        all[i] = features_of(i);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            const double expected = by_formula(i, k);
            assert_true(i == k || expected > 0.01);
            assert_true(fabs(distance(all[i], all[k]) - expected) < 1e-5 * (1 + expected));
        }
    for (int i = 0; i < 3; i++)
        kiln_features_free(all[i]);
    kiln_features_free(NULL);
}

static void sizes_that_differ_are_an_error(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_features *small, *full = features_of(0);
    double unused;
    assert_int_equal(kiln_features_of(ctx, latents[0], CHANNELS, HIGH, 8, &small, &err), 0);
    assert_int_not_equal(kiln_features_distance(small, full, &unused, &err), 0);
    kiln_features_free(small);
    kiln_features_free(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_is_that_of_the_formula),
        cmocka_unit_test(sizes_that_differ_are_an_error),
    };
    return cmocka_run_group_tests(tests, make_latents, close_context);
}
