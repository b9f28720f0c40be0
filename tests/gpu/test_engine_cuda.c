/* test_engine_cuda.c - the engine on cuda:0 through its C ABI: pictures beside those of the CPU,
 * LoRAs, many calls, errors.
 *
 * The first test opens the CPU first on purpose: LibTorch remembers for ever what it finds when
 * it first asks for CUDA, and a bf16 picture on the CPU must not be what makes it ask.
 */
#include "kernels/pictures/downscale.h"
#include "pipeline/bench/features.h"
#include "schemas/clock.h"
#include "tests/gpu/gpu.h"
#include "tests/support/picture.h"

#define SKETCH_SIDE 256
#define SKETCH_VALUES ((size_t)SKETCH_SIDE * SKETCH_SIDE * 3)
#define PLAIN_SIDE 64
#define PLAIN_LATENT ((size_t)16 * (PLAIN_SIDE / 8) * (PLAIN_SIDE / 8))
#define PROMPT "two red stars above a blue circle at sunset"

static void a_cpu_context_may_come_first(void **state)
{
    (void)state;
    const int dtypes[2] = {DIFFUSIONZ_BF16, DIFFUSIONZ_FP32};
    for (int i = 0; i < 2; i++) {
        DiffusionZContext *cpu = open_model(golden("models/plain"), -1, dtypes[i]);
        DiffusionZOutput out = draw(cpu, "a red circle", PLAIN_SIDE, 1, 1);
        diffusionz_release_outputs(&out, 1);
        diffusionz_free(cpu);
    }
    diffusionz_free(open_model(golden("models/plain"), 0, DIFFUSIONZ_FP32));
}

/* --- pictures --------------------------------------------------------------------------------- */

static void the_sketch_model_draws_what_the_cpu_draws(void **state)
{
    (void)state;
    DiffusionZContext *cpu = open_model(sketch(), -1, DIFFUSIONZ_FP32);
    DiffusionZContext *gpu = open_model(sketch(), 0, DIFFUSIONZ_FP32);
    DiffusionZContext *half = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    DiffusionZOutput want = draw(cpu, PROMPT, SKETCH_SIDE, 8, 7);
    DiffusionZOutput got = draw(gpu, PROMPT, SKETCH_SIDE, 8, 7);
    DiffusionZOutput rough = draw(half, PROMPT, SKETCH_SIDE, 8, 7);
    double share = share_beyond(want.rgb, got.rgb, SKETCH_VALUES, 1);
    double db = test_psnr(want.rgb, rough.rgb, SKETCH_SIDE, SKETCH_SIDE);
    printf("sketch: fp32 off by more than 1 in %.5f of values; bf16 at %.1f dB\n", share, db);
    assert_true(share <= 0.001);
    assert_true(db >= 25);
    diffusionz_release_outputs(&want, 1);
    diffusionz_release_outputs(&got, 1);
    diffusionz_release_outputs(&rough, 1);
    diffusionz_free(cpu);
    diffusionz_free(gpu);
    diffusionz_free(half);
}

/* The distance of two pictures by features of the decoder, of their latents on the CPU in fp32. */
static double features_apart(DiffusionZContext *ctx, const DiffusionZOutput two[2])
{
    struct kiln_features *of[2];
    struct kiln_error err;
    double ret;
    for (int i = 0; i < 2; i++)
        if (kiln_features_of(ctx, two[i].latent, two[i].latent_channels, two[i].latent_height,
                             two[i].latent_width, &of[i], &err))
            fail_msg("%s", err.text);
    if (kiln_features_distance(of[0], of[1], &ret, &err))
        fail_msg("%s", err.text);
    kiln_features_free(of[0]);
    kiln_features_free(of[1]);
    return ret;
}

static void features_are_as_far_apart_as_on_the_cpu(void **state)
{
    (void)state;
    DiffusionZContext *cpu = open_model(sketch(), -1, DIFFUSIONZ_FP32);
    DiffusionZContext *gpu = open_model(sketch(), 0, DIFFUSIONZ_FP32);
    DiffusionZContext *half = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    DiffusionZOutput two[2] = {draw(gpu, PROMPT, SKETCH_SIDE, 8, 1),
                               draw(gpu, PROMPT, SKETCH_SIDE, 8, 2)};
    const double want = features_apart(cpu, two), got = features_apart(gpu, two);
    const double rough = features_apart(half, two);
    printf("features: %.5f on the CPU, fp32 %.5f, bf16 %.5f\n", want, got, rough);
    assert_true(want > 0.01);
    assert_true(fabs(got - want) <= 1e-3 * want);
    assert_true(fabs(rough - want) <= 2e-2 * want);
    diffusionz_release_outputs(two, 2);
    diffusionz_free(cpu);
    diffusionz_free(gpu);
    diffusionz_free(half);
}

/* Of every item, in one piece and in strips: what the reference makes of the same pixels. */
static void check_smaller(DiffusionZContext *ctx, int width, int height)
{
    static const int32_t sides[DIFFUSIONZ_SMALLER_MAX] = {512, 256};
    const DiffusionZItem items[2] = {{.prompt = "a star", .seed = 1},
                                     {.prompt = "a blue circle", .seed = 2}};
    const DiffusionZBatch batch = {.items = items,
                                   .item_count = 2,
                                   .width = width,
                                   .height = height,
                                   .num_steps = 1,
                                   .smaller = sides,
                                   .smaller_count = DIFFUSIONZ_SMALLER_MAX};
    DiffusionZOutput out[2];
    if (diffusionz_run_batch(ctx, &batch, out, NULL))
        fail_msg("%s", diffusionz_last_error());
    for (int i = 0; i < 2; i++) {
        if (out[i].error_code)
            fail_msg("%s", out[i].error_msg);
        for (int k = 0; k < DIFFUSIONZ_SMALLER_MAX; k++) {
            uint32_t w, h;
            const int there =
                kiln_downscale_fit((uint32_t)width, (uint32_t)height, (uint32_t)sides[k], &w, &h);
            assert_int_equal(out[i].smaller[k] != NULL, there);
            if (!there)
                continue;
            uint8_t *want = malloc((size_t)w * h * 3);
            kiln_downscale_ref(out[i].rgb, (uint32_t)width, (uint32_t)height, want, w, h);
            assert_memory_equal(out[i].smaller[k], want, (size_t)w * h * 3);
            free(want);
        }
    }
    diffusionz_release_outputs(out, 2);
}

static void smaller_pictures_are_those_of_the_reference(void **state)
{
    (void)state;
    static const int sizes[][2] = {{512, 512}, {1024, 1024}, {592, 1008}, {256, 64}, {2048, 1280}};
    static const int dtypes[2] = {DIFFUSIONZ_BF16, DIFFUSIONZ_FP32};
    for (int d = 0; d < 2; d++) {
        DiffusionZContext *ctx = open_model(golden("models/plain"), 0, dtypes[d]);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_smaller(ctx, sizes[i][0], sizes[i][1]);
        diffusionz_free(ctx);
    }
}

/* The batch is the first thing its context draws, each alone the work of another one: what a first
 * decode leaves behind beside the steps of a neighbour would show. */
static void neighbours_change_nothing(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_model(golden("models/plain"), 0, DIFFUSIONZ_FP32);
    DiffusionZContext *apart = open_model(golden("models/plain"), 0, DIFFUSIONZ_FP32);
    const DiffusionZItem items[3] = {{.prompt = "a star", .seed = 1},
                                     {.prompt = PROMPT ", " PROMPT ", " PROMPT, .seed = 2},
                                     {.prompt = "", .seed = 3}};
    const DiffusionZBatch batch = {
        .items = items, .item_count = 3, .width = PLAIN_SIDE, .height = PLAIN_SIDE, .num_steps = 3};
    DiffusionZOutput together[3];
    assert_int_equal(diffusionz_run_batch(ctx, &batch, together, NULL), 0);
    for (int i = 0; i < 3; i++) {
        DiffusionZOutput alone = draw(apart, items[i].prompt, PLAIN_SIDE, 3, items[i].seed);
        assert_int_equal(together[i].error_code, 0);
        assert_memory_equal(together[i].latent, alone.latent, PLAIN_LATENT * sizeof(float));
        assert_memory_equal(together[i].rgb, alone.rgb, (size_t)PLAIN_SIDE * PLAIN_SIDE * 3);
        diffusionz_release_outputs(&alone, 1);
    }
    diffusionz_release_outputs(together, 3);
    diffusionz_free(ctx);
    diffusionz_free(apart);
}

/* Seven of one caption length and one of another: groups of four, two and one.  Twice, so that
 * steps are computed and replayed. */
static void pictures_drawn_together_have_the_bits_they_have_alone(void **state)
{
    const int dtype = *(const int *)*state;
    enum { ITEMS = 8 };
    DiffusionZContext *ctx = open_model(sketch(), 0, dtype);
    DiffusionZItem items[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        items[i] = (DiffusionZItem){.prompt = i == 2 ? PROMPT ", " PROMPT ", " PROMPT : "a star",
                                    .seed = (uint64_t)i};
    for (int side = 256; side <= 512; side += 256) {
        const DiffusionZBatch batch = {
            .items = items, .item_count = ITEMS, .width = side, .height = side, .num_steps = 4};
        const size_t latent = (size_t)(16 * (side / 8) * (side / 8)) * sizeof(float);
        for (int round = 0; round < 2; round++) {
            DiffusionZOutput together[ITEMS];
            assert_int_equal(diffusionz_run_batch(ctx, &batch, together, NULL), 0);
            for (int i = 0; i < ITEMS; i++) {
                DiffusionZOutput alone = draw(ctx, items[i].prompt, side, 4, items[i].seed);
                assert_int_equal(together[i].error_code, 0);
                assert_memory_equal(together[i].latent, alone.latent, latent);
                assert_memory_equal(together[i].rgb, alone.rgb, (size_t)side * (size_t)side * 3);
                diffusionz_release_outputs(&alone, 1);
            }
            diffusionz_release_outputs(together, ITEMS);
        }
    }
    diffusionz_free(ctx);
}

/* --- LoRAs ------------------------------------------------------------------------------------ */

static void a_lora_leaves_no_trace(void **state)
{
    const int dtype = *(const int *)*state;
    DiffusionZContext *ctx = open_model(golden("models/plain"), 0, dtype);
    DiffusionZOutput before = draw(ctx, "a red circle", PLAIN_SIDE, 2, 5);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(diffusionz_load_lora(ctx, golden("loras/kohya.safetensors"), 0.8f), 0);
        DiffusionZOutput with = draw(ctx, "a red circle", PLAIN_SIDE, 2, 5);
        assert_memory_not_equal(with.latent, before.latent, PLAIN_LATENT * sizeof(float));
        assert_int_equal(diffusionz_unload_lora(ctx), 0);
        DiffusionZOutput after = draw(ctx, "a red circle", PLAIN_SIDE, 2, 5);
        assert_memory_equal(after.latent, before.latent, PLAIN_LATENT * sizeof(float));
        assert_memory_equal(after.rgb, before.rgb, (size_t)PLAIN_SIDE * PLAIN_SIDE * 3);
        diffusionz_release_outputs(&with, 1);
        diffusionz_release_outputs(&after, 1);
    }
    diffusionz_release_outputs(&before, 1);
    diffusionz_free(ctx);
}

/* --- memory ----------------------------------------------------------------------------------- */

static size_t device_bytes(size_t *ret_held)
{
    size_t used = 0;
    assert_true(kt_device_memory(0, &used, ret_held));
    return used;
}

static void fifty_pictures_keep_their_memory(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    size_t used_first = 0, held_first = 0, held;
    double start = 0;
    for (int i = 0; i < 52; i++) {
        DiffusionZOutput out = draw(ctx, PROMPT, SKETCH_SIDE, 8, (uint64_t)i);
        diffusionz_release_outputs(&out, 1);
        if (i == 1) { /* the libraries' own workspaces are there by now */
            used_first = device_bytes(&held_first);
            start = kiln_monotonic_ms() / 1e3;
        }
    }
    double each = (kiln_monotonic_ms() / 1e3 - start) / 50;
    size_t used = device_bytes(&held);
    printf("sketch bf16 %d px, 8 steps: %.1f ms a picture; %zu bytes in use, %zu held\n",
           SKETCH_SIDE, each * 1e3, used, held);
    assert_int_equal(used, used_first);
    assert_int_equal(held, held_first);
    diffusionz_free(ctx);
    size_t left = device_bytes(&held);
    printf("after the context: %zu bytes in use, %zu held\n", left, held);
    assert_true(left < used);
    DiffusionZContext *again = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    diffusionz_free(again);
    assert_int_equal(device_bytes(&held), left);
}

/* --- time ------------------------------------------------------------------------------------- */

/* The device's own clock: less than the call took, and most of it. */
static void the_device_tells_how_long_it_worked(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    const DiffusionZItem items[2] = {{.prompt = "a red star", .seed = 1},
                                     {.prompt = "a blue ring", .seed = 2}};
    const DiffusionZBatch batch = {
        .items = items, .item_count = 2, .width = 512, .height = 512, .num_steps = 8};
    DiffusionZOutput out[2];
    DiffusionZTimes times;
    for (int i = 0; i < 3; i++) { /* the last one replays graphs */
        assert_int_equal(diffusionz_run_batch(ctx, &batch, out, &times), 0);
        diffusionz_release_outputs(out, 2);
    }
    double call_ms = times.lora_ms + times.text_ms + times.denoise_ms + times.decode_ms;
    printf("the device computed %.2f of %.2f ms\n", times.device_ms, call_ms);
    assert_true(times.device_ms > 0.3 * call_ms);
    assert_true(times.device_ms <= call_ms);
    diffusionz_free(ctx);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void a_device_that_is_not_there_is_named(void **state)
{
    (void)state;
    const int devices[3] = {99, 127, 100000};
    for (int i = 0; i < 3; i++) {
        const DiffusionZOptions options = {.model_path = golden("models/plain"),
                                           .device_id = devices[i]};
        DiffusionZContext *ctx = NULL;
        char name[32];
        snprintf(name, sizeof name, "cuda:%d", devices[i]);
        assert_int_equal(diffusionz_open(&options, &ctx), KILN_DEVICE);
        assert_null(ctx);
        assert_non_null(strstr(diffusionz_last_error(), name));
    }
    assert_null(diffusionz_init(golden("models/plain"), 99));
}

/* Asks for more than any card has; what comes after is as if nothing had been. */
static void too_much_memory_is_said_and_survived(void **state)
{
    (void)state;
    const int64_t wide = (int64_t)1 << 21;
    struct kiln_error err;
    assert_int_equal(kt_device_open(0, &err), 0);
    struct kt_scope *s = kt_scope_new(0);
    kt row = kt_randn(s, 1, 2, (int64_t[]){1, wide});
    kt_copy(s, kt_affine(s, kt_repeat_rows(s, row, wide), 2, 0));
    assert_int_equal(kt_scope_check(s, &err), KILN_NO_MEMORY);
    assert_null(strchr(err.text, '\n'));
    kt_scope_free(s);
    DiffusionZContext *ctx = open_model(golden("models/plain"), 0, DIFFUSIONZ_BF16);
    DiffusionZOutput out = draw(ctx, "a star", PLAIN_SIDE, 1, 1);
    diffusionz_release_outputs(&out, 1);
    diffusionz_free(ctx);
}

int main(void)
{
    static int fp32 = DIFFUSIONZ_FP32, bf16 = DIFFUSIONZ_BF16, fp8 = DIFFUSIONZ_FP8;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cpu_context_may_come_first),
        cmocka_unit_test(the_sketch_model_draws_what_the_cpu_draws),
        cmocka_unit_test(features_are_as_far_apart_as_on_the_cpu),
        cmocka_unit_test(smaller_pictures_are_those_of_the_reference),
        cmocka_unit_test(neighbours_change_nothing),
        {"drawn_together_bf16", pictures_drawn_together_have_the_bits_they_have_alone, NULL, NULL,
         &bf16},
        {"drawn_together_fp8", pictures_drawn_together_have_the_bits_they_have_alone, NULL, NULL,
         &fp8},
        {"a_lora_leaves_no_trace_fp32", a_lora_leaves_no_trace, NULL, NULL, &fp32},
        {"a_lora_leaves_no_trace_bf16", a_lora_leaves_no_trace, NULL, NULL, &bf16},
        cmocka_unit_test(fifty_pictures_keep_their_memory),
        cmocka_unit_test(the_device_tells_how_long_it_worked),
        cmocka_unit_test(a_device_that_is_not_there_is_named),
        cmocka_unit_test(too_much_memory_is_said_and_survived),
    };
    need_gpu();
    return cmocka_run_group_tests_name("engine_cuda", tests, NULL, NULL);
}
