/* test_testcard.c - the engine that needs no model: its pictures, its flags, its misbehaviours. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "kernels/pictures/downscale.h"
#include "worker/engine/renderer.h"

static int run(DiffusionZBatch *batch, const char *const *prompts, const uint64_t *seeds,
               int32_t count, DiffusionZOutput *outputs, struct kiln_error *err)
{
    struct kiln_renderer *engine;
    DiffusionZItem items[8] = {0};
    DiffusionZTimes times;
    assert_int_equal(kiln_renderer_testcard_open(&engine, err), 0);
    assert_string_equal(engine->name, "testcard");
    assert_string_equal(engine->model_name, "testcard");
    for (int32_t i = 0; i < count; i++)
        items[i] = (DiffusionZItem){.prompt = prompts[i],
                                    .seed = seeds[i],
                                    .cancel = batch->items ? batch->items[i].cancel : NULL};
    DiffusionZBatch call = *batch;
    call.items = items;
    call.item_count = count;
    struct kiln_renderer_run *begun;
    int code = engine->begin(engine, &call, outputs, &begun, err);
    if (code == 0)
        code = engine->finish(begun, &times, err);
    kiln_renderer_close(engine);
    return code;
}

static void release(DiffusionZOutput *outputs, int32_t count)
{
    struct kiln_renderer *engine;
    struct kiln_error err;
    assert_int_equal(kiln_renderer_testcard_open(&engine, &err), 0);
    for (int32_t i = 0; i < count; i++)
        engine->release(&outputs[i]);
    kiln_renderer_close(engine);
}

static void test_pictures(void **state)
{
    (void)state;
    DiffusionZBatch batch = {.width = 128, .height = 64, .num_steps = 2};
    const char *prompts[] = {"a cat", "a cat", "a dog"};
    const uint64_t seeds[] = {1, 2, 1};
    DiffusionZOutput first[3], again[3];
    struct kiln_error err;
    assert_int_equal(run(&batch, prompts, seeds, 3, first, &err), 0);
    assert_int_equal(run(&batch, prompts, seeds, 3, again, &err), 0);
    const size_t size = 128 * 64 * 3, values = 16 * 16 * 8;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(first[i].error_code, 0);
        assert_memory_equal(first[i].rgb, again[i].rgb, size);
        assert_memory_equal(first[i].latent, again[i].latent, values * sizeof(float));
        assert_null(first[i].trajectory);
        assert_int_equal(first[i].latent_channels, 16);
        assert_int_equal(first[i].latent_height, 8);
        assert_int_equal(first[i].latent_width, 16);
    }
    assert_true(memcmp(first[0].rgb, first[1].rgb, size) != 0); /* the seed shows */
    assert_true(memcmp(first[0].rgb, first[2].rgb, size) != 0); /* the prompt shows */
    release(first, 3);
    release(again, 3);
}

/* One item of a batch; returns its picture, or NULL with the code. */
static uint8_t *render(const DiffusionZBatch *mode, const DiffusionZItem *start, int *ret_code)
{
    static int32_t step;
    struct kiln_renderer *engine;
    struct kiln_renderer_run *begun;
    DiffusionZTimes times;
    DiffusionZOutput output;
    struct kiln_error err;
    DiffusionZItem item = *start;
    DiffusionZBatch batch = *mode;
    item.prompt = "a cat";
    batch.items = &item;
    batch.item_count = 1;
    batch.progress = &step;
    step = 0;
    assert_int_equal(kiln_renderer_testcard_open(&engine, &err), 0);
    const int32_t forwards = engine->forwards(engine, &batch);
    *ret_code = engine->begin(engine, &batch, &output, &begun, &err);
    if (*ret_code != 0) {
        kiln_renderer_close(engine);
        return NULL;
    }
    assert_int_equal(engine->finish(begun, &times, &err), 0);
    assert_int_equal(step, forwards);
    uint8_t *rgb = output.rgb;
    output.rgb = NULL;
    engine->release(&output);
    kiln_renderer_close(engine);
    return rgb;
}

/* Mode and start show in the picture, so that nothing passes for an exact one. */
static void test_modes(void **state)
{
    (void)state;
    static float latent[2][16 * 16 * 16];
    static uint8_t rgb[128 * 128 * 3];
    latent[1][0] = 1;
    const DiffusionZBatch exact = {.width = 128, .height = 128, .num_steps = 8};
    DiffusionZBatch coarse = exact, middle, step = exact, sigma = exact;
    coarse.coarse_steps = 4;
    coarse.coarse_width = coarse.coarse_height = 64;
    coarse.start = sigma.start = DIFFUSIONZ_FROM_SIGMA;
    coarse.rest_steps = 3;
    coarse.start_sigma = sigma.start_sigma = 0.75;
    middle = coarse;
    middle.coarse_steps = 3;
    middle.middle_steps = 1;
    middle.middle_width = middle.middle_height = 96;
    step.start = DIFFUSIONZ_FROM_STEP;
    step.start_step = 5;
    const struct {
        const DiffusionZBatch *batch;
        DiffusionZItem item;
    } cards[] = {{&exact, {0}},
                 {&coarse, {0}},
                 {&middle, {0}},
                 {&step, {.start_latent = latent[0]}},
                 {&step, {.start_latent = latent[1]}},
                 {&step, {.start_rgb = rgb}},
                 {&step, {.start_rgb = rgb, .start_mask = latent[1]}},
                 {&sigma, {.start_latent = latent[0]}}};
    enum { CARDS = sizeof cards / sizeof *cards };
    uint8_t *made[CARDS];
    int code;
    for (int i = 0; i < CARDS; i++) {
        made[i] = render(cards[i].batch, &cards[i].item, &code);
        assert_int_equal(code, 0);
        for (int j = 0; j < i; j++)
            assert_true(memcmp(made[i], made[j], sizeof rgb) != 0);
    }
    for (int i = 0; i < CARDS; i++)
        free(made[i]);
    assert_null(render(&step, &(DiffusionZItem){0}, &code));
    assert_int_equal(code, KILN_BAD_INPUT);
    assert_null(render(&exact, &(DiffusionZItem){.start_mask = latent[0]}, &code));
    assert_int_equal(code, KILN_BAD_INPUT);
    assert_null(render(&exact, &(DiffusionZItem){.start_rgb = rgb}, &code));
    assert_int_equal(code, KILN_BAD_INPUT);
    coarse.keep_trajectory = 1;
    assert_null(render(&coarse, &(DiffusionZItem){0}, &code));
    assert_int_equal(code, KILN_UNSUPPORTED);
    coarse.keep_trajectory = 0;
    coarse.coarse_width = 256;
    assert_null(render(&coarse, &(DiffusionZItem){0}, &code));
    assert_int_equal(code, KILN_BAD_INPUT);
    middle.middle_steps = 6;
    assert_null(render(&middle, &(DiffusionZItem){0}, &code));
    assert_int_equal(code, KILN_BAD_INPUT);
    step.start_step = 8;
    assert_null(render(&step, &(DiffusionZItem){.start_rgb = rgb}, &code));
    assert_int_equal(code, KILN_BAD_INPUT);
}

static void test_smaller(void **state)
{
    (void)state;
    const int32_t sides[3] = {128, 50, 16};
    DiffusionZBatch batch = {
        .width = 128, .height = 64, .num_steps = 1, .smaller = sides, .smaller_count = 2};
    const char *prompts[] = {"a cat"};
    const uint64_t seeds[] = {1};
    DiffusionZOutput output[1];
    struct kiln_error err;
    uint8_t want[50 * 25 * 3];
    assert_int_equal(run(&batch, prompts, seeds, 1, output, &err), 0);
    assert_null(output[0].smaller[0]);
    assert_non_null(output[0].smaller[1]);
    kiln_downscale_ref(output[0].rgb, 128, 64, want, 50, 25);
    assert_memory_equal(output[0].smaller[1], want, sizeof want);
    release(output, 1);
    batch.smaller_count = 3;
    assert_int_equal(run(&batch, prompts, seeds, 1, output, &err), KILN_BAD_INPUT);
}

static void test_kinds(void **state)
{
    (void)state;
    DiffusionZBatch batch = {
        .width = 64, .height = 64, .num_steps = 4, .keep_trajectory = 1, .skip_decode = 1};
    const char *prompts[] = {"a cat"};
    const uint64_t seeds[] = {1};
    DiffusionZOutput output[1];
    struct kiln_error err;
    assert_int_equal(run(&batch, prompts, seeds, 1, output, &err), 0);
    assert_null(output[0].rgb);
    assert_non_null(output[0].latent);
    assert_non_null(output[0].trajectory);
    assert_true(output[0].sigmas[0] == 1.0 && output[0].sigmas[3] > 0.0);
    release(output, 1);
}

static void test_failures(void **state)
{
    (void)state;
    DiffusionZBatch batch = {.width = 64, .height = 64, .num_steps = 1};
    const char *prompts[] = {"a cat", "b @fail=unsupported", "c @fail=nonsense", "d"};
    const uint64_t seeds[] = {1, 2, 3, 4};
    const int32_t raised = 1;
    DiffusionZItem flags[4] = {[3] = {.cancel = &raised}};
    DiffusionZOutput outputs[4];
    struct kiln_error err;
    batch.items = flags;
    assert_int_equal(run(&batch, prompts, seeds, 4, outputs, &err), 0);
    assert_int_equal(outputs[0].error_code, 0);
    assert_int_equal(outputs[1].error_code, KILN_UNSUPPORTED);
    assert_non_null(outputs[1].error_msg);
    assert_null(outputs[1].rgb);
    assert_int_equal(outputs[2].error_code, KILN_INTERNAL);
    assert_int_equal(outputs[3].error_code, KILN_CANCELLED);
    release(outputs, 4);

    const char *broken[] = {"a @fail_all=device"};
    assert_int_equal(run(&batch, broken, seeds, 1, outputs, &err), KILN_DEVICE);
    batch.width = 60;
    assert_int_equal(run(&batch, prompts, seeds, 1, outputs, &err), KILN_BAD_INPUT);
}

struct slow {
    int32_t flag, progress;
};

static void *raise_flag(void *arg)
{
    struct slow *slow = arg;
    while (__atomic_load_n(&slow->progress, __ATOMIC_ACQUIRE) < 2)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    __atomic_store_n(&slow->flag, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void test_cancel_between_steps(void **state)
{
    (void)state;
    struct slow slow = {0};
    DiffusionZItem flags[1] = {{.cancel = &slow.flag}};
    DiffusionZBatch batch = {
        .items = flags, .width = 64, .height = 64, .num_steps = 50, .progress = &slow.progress};
    const char *prompts[] = {"a cat @step_ms=20"};
    const uint64_t seeds[] = {1};
    DiffusionZOutput output[1];
    struct kiln_error err;
    pthread_t thread;
    pthread_create(&thread, NULL, raise_flag, &slow);
    assert_int_equal(run(&batch, prompts, seeds, 1, output, &err), 0);
    pthread_join(thread, NULL);
    assert_int_equal(output[0].error_code, KILN_CANCELLED);
    assert_in_range(slow.progress, 2, 10);
    release(output, 1);
}

static void test_words(void **state)
{
    (void)state;
    struct kiln_error err;
    int32_t value = 9;
    assert_int_equal(kiln_device_parse("cpu", &value, &err), 0);
    assert_int_equal(value, -1);
    assert_int_equal(kiln_device_parse("cuda:3", &value, &err), 0);
    assert_int_equal(value, 3);
    assert_int_equal(kiln_device_parse("cuda:-1", &value, &err), KILN_CONFIG);
    assert_int_equal(kiln_device_parse("cuda:1x", &value, &err), KILN_CONFIG);
    assert_int_equal(kiln_device_parse("tpu", &value, &err), KILN_CONFIG);
    assert_int_equal(kiln_dtype_parse("bf16", &value, &err), 0);
    assert_int_equal(value, DIFFUSIONZ_BF16);
    assert_int_equal(kiln_dtype_parse("fp64", &value, &err), KILN_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures), cmocka_unit_test(test_modes),
        cmocka_unit_test(test_smaller),  cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_failures), cmocka_unit_test(test_cancel_between_steps),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
