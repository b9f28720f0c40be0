/* test_latent_steps.c - latents in the encoding i8-steps: how far off they come back, and files of
 * it that lie. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

#include "storage/formats/latentfile.h"
#include "storage/formats/safetensors.h"
#include "tests/support/random.h"

enum { CHANNELS = 4, HEIGHT = 6, WIDTH = 10, PLANE = HEIGHT * WIDTH, COUNT = CHANNELS * PLANE };

static struct kiln_latent about(float *values)
{
    return (struct kiln_latent){.states = 1,
                                .channels = CHANNELS,
                                .height = HEIGHT,
                                .width = WIDTH,
                                .values = values,
                                .model = "m",
                                .schedule = "euler steps=8"};
}

static int write_file(const struct kiln_latent *latent, uint8_t **data, size_t *size)
{
    struct kiln_error err = {0};
    return kiln_latent_encode(latent, KILN_LATENT_I8_STEPS, 3, data, size, &err);
}

/* There and back; the caller frees. */
static float *round_trip(const struct kiln_latent *latent)
{
    struct kiln_latent back = {0};
    enum kiln_latent_encoding encoding = KILN_LATENT_F32;
    struct kiln_error err = {0};
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(write_file(latent, &data, &size), 0);
    if (kiln_latent_decode(data, size, &back, &encoding, &err))
        fail_msg("%s", err.text);
    assert_int_equal(encoding, KILN_LATENT_I8_STEPS);
    assert_int_equal(back.states, latent->states);
    assert_int_equal(back.channels, CHANNELS);
    assert_int_equal(back.height, HEIGHT);
    assert_int_equal(back.width, WIDTH);
    free(data);
    return back.values;
}

struct plane {
    double mean, deviation, most; /* most: the largest distance from the mean */
};

static struct plane measure(const float *values)
{
    struct plane ret = {0};
    for (int i = 0; i < PLANE; i++)
        ret.mean += (double)values[i] / PLANE;
    for (int i = 0; i < PLANE; i++) {
        const double apart = fabs((double)values[i] - ret.mean);
        ret.deviation += apart * apart / PLANE;
        ret.most = fmax(ret.most, apart);
    }
    ret.deviation = sqrt(ret.deviation);
    return ret;
}

/* Four channels of different kinds. */
static void fill(float *values, uint64_t seed)
{
    struct test_random random = {seed};
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(test_random_u64(&random) >> 11) / (float)(1ull << 52) - 1;
    for (int i = 0; i < PLANE; i++) {
        values[PLANE + i] = values[PLANE + i] * 0.01f + 7; /* far from 0 */
        values[2 * PLANE + i] *= 1e-3f;
        values[3 * PLANE + i] *= 40;
    }
    values[2 * PLANE + 5] = 90; /* an outlier among values near 0, which is not cut off */
}

static void values_are_off_by_half_a_step_at_most(void **state)
{
    (void)state;
    float values[2 * COUNT];
    fill(values, 1);
    fill(values + COUNT, 2);
    struct kiln_latent latent = about(values);
    latent.states = 2;
    latent.sigmas[0] = 0.5;
    float *back = round_trip(&latent);
    for (int c = 0; c < 2 * CHANNELS; c++) {
        const struct plane plane = measure(values + c * PLANE), got = measure(back + c * PLANE);
        const double step = fmax(plane.deviation / 8, plane.most / 127);
        double squares = 0;
        for (int i = 0; i < PLANE; i++) {
            const double off = fabs((double)back[c * PLANE + i] - values[c * PLANE + i]);
            squares += off * off / PLANE;
            if (off > step / 2 * 1.001 + 1e-6 * fabs(plane.mean))
                fail_msg("channel %d, value %d: off by %g, step %g", c, i, off, step);
        }
        /* What is checked when a run begins from it stays what it was. */
        assert_true(fabs(got.mean - plane.mean) < step / 4);
        assert_true(fabs(got.deviation - plane.deviation) < step / 4);
        if (c % CHANNELS != 2) /* rounding to steps of an eighth: 1 / (8 sqrt(12)) of a deviation */
            assert_true(sqrt(squares) < 0.05 * plane.deviation);
    }
    free(back);
}

static void a_channel_of_one_value_comes_back_exactly(void **state)
{
    (void)state;
    float values[COUNT];
    fill(values, 3);
    for (int i = 0; i < PLANE; i++) {
        values[i] = -0.3f;
        values[PLANE + i] = 0;
        values[2 * PLANE + i] = i % 2 ? 1e-44f : 0; /* no float is 1 / step */
    }
    const struct kiln_latent latent = about(values);
    float *back = round_trip(&latent);
    for (int i = 0; i < 3 * PLANE; i++)
        assert_true(fabsf(back[i] - values[i]) <= 1e-43f);
    free(back);
}

static void what_is_not_finite_is_not_written(void **state)
{
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY, FLT_MAX};
    float values[COUNT];
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        fill(values, 4);
        values[COUNT - 1] = odd[i];
        values[COUNT - 2] = odd[i] == FLT_MAX ? -FLT_MAX : values[COUNT - 2];
        values[COUNT - 3] = odd[i] == FLT_MAX ? FLT_MAX : values[COUNT - 3];
        const struct kiln_latent latent = about(values);
        uint8_t *data = NULL;
        size_t size = 0;
        assert_int_equal(write_file(&latent, &data, &size), KILN_BAD_INPUT);
        assert_null(data);
    }
}

static void the_finished_latent_is_read_alone(void **state)
{
    (void)state;
    float values[2 * COUNT];
    fill(values, 5);
    fill(values + COUNT, 6);
    struct kiln_latent latent = about(values), last = {0};
    struct kiln_error err = {0};
    uint8_t *data = NULL;
    size_t size = 0;
    latent.states = 2;
    latent.sigmas[0] = 0.5;
    float *back = round_trip(&latent);
    assert_int_equal(write_file(&latent, &data, &size), 0);
    assert_int_equal(kiln_latent_decode_finished(data, size, &last, &err), 0);
    assert_memory_equal(last.values, back + COUNT, COUNT * sizeof *back);
    kiln_latent_release(&last);
    free(back);
    free(data);
}

/* --- files that lie --------------------------------------------------------------------------- */

/* A file of one channel of 2 x 2 values, as this says. */
struct lie {
    const char *name;
    int8_t codes[4];
    float scales[4];
    int64_t scales_shape[4];
    bool no_scales, more;
    int code;
};

static int try_lie(const struct lie *lie)
{
    const char *const metadata[] = {"kiln.latent", "1", "encoding", "i8-steps", "seed",     "1",
                                    "model",       "m", "lora_set", "",         "schedule", "s",
                                    "job",         "",  "sigmas",   "[0]",      NULL};
    const int64_t *shape = lie->scales_shape;
    struct kiln_st_tensor tensors[3] = {
        {.name = "latent.codes",
         .dtype = KILN_ST_I8,
         .ndim = 4,
         .shape = {1, 1, 2, 2},
         .data = lie->codes,
         .size = 4},
        {.name = "latent.scales",
         .dtype = KILN_ST_F32,
         .ndim = 4,
         .shape = {shape[0], shape[1], shape[2], shape[3]},
         .data = lie->scales,
         .size = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]) * sizeof(float)},
        {.name = "more",
         .dtype = KILN_ST_I8,
         .ndim = 4,
         .shape = {1, 1, 2, 2},
         .data = lie->codes,
         .size = 4}};
    uint8_t *plain = NULL, packed[4096];
    size_t size = 0;
    struct kiln_latent latent = {0};
    enum kiln_latent_encoding encoding;
    struct kiln_error err = {0};
    const size_t count = lie->no_scales ? 1 : lie->more ? 3 : 2;
    if (kiln_st_encode(tensors, count, metadata, &plain, &size, &err))
        fail_msg("%s: %s", lie->name, err.text);
    size = ZSTD_compress(packed, sizeof packed, plain, size, 1);
    assert_false(ZSTD_isError(size));
    const int code = kiln_latent_decode(packed, size, &latent, &encoding, &err);
    assert_true(code == 0 || (err.text[0] && !latent.values));
    kiln_latent_release(&latent);
    free(plain);
    return code;
}

static void lies_are_found(void **state)
{
    (void)state;
#define SHAPE                                                                                      \
    {                                                                                              \
        1, 1, 1, 2                                                                                 \
    }
    static const struct lie lies[] = {
        {"good", {1, -127, 127, 0}, {0.5f, 0.125f}, SHAPE, false, false, 0},
        {"no steps", {1, 2, 3, 4}, {0.5f, 0}, SHAPE, false, false, 0},
        {"code -128", {1, -128, 127, 0}, {0.5f, 0.125f}, SHAPE, false, false, KILN_CORRUPT},
        {"mean NaN", {0}, {NAN, 0.125f}, SHAPE, false, false, KILN_CORRUPT},
        {"step NaN", {0}, {0, NAN}, SHAPE, false, false, KILN_CORRUPT},
        {"step below 0", {0}, {0, -1}, SHAPE, false, false, KILN_CORRUPT},
        {"step infinite", {0}, {0, INFINITY}, SHAPE, false, false, KILN_CORRUPT},
        {"values too large", {0}, {FLT_MAX, 1e36f}, SHAPE, false, false, KILN_CORRUPT},
        {"no scales", {0}, {0}, SHAPE, true, false, KILN_CORRUPT},
        {"one tensor more", {0}, {0}, SHAPE, false, true, KILN_CORRUPT},
        {"scales of two channels", {0}, {0}, {1, 2, 1, 2}, false, false, KILN_CORRUPT},
        {"scales without means", {0}, {0}, {1, 1, 1, 1}, false, false, KILN_CORRUPT},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const int code = try_lie(&lies[i]);
        if (code != lies[i].code)
            fail_msg("%s: code %d, %d wanted", lies[i].name, code, lies[i].code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_off_by_half_a_step_at_most),
        cmocka_unit_test(a_channel_of_one_value_comes_back_exactly),
        cmocka_unit_test(what_is_not_finite_is_not_written),
        cmocka_unit_test(the_finished_latent_is_read_alone),
        cmocka_unit_test(lies_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
