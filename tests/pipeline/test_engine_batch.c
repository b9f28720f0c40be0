/* test_engine_batch.c - batches: an item alone or among others, cancel, progress, latents. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "kernels/pictures/downscale.h"
#include "pipeline/engine/parts.h"
#include "tests/pipeline/four_items.h"
#include "tests/pipeline/one_context.h"

#define SIDE 64
#define LATENT_VALUES (16 * (SIDE / 8) * (SIDE / 8))

static void run(const DiffusionZItem *some, int count, DiffusionZOutput *out)
{
    const DiffusionZBatch batch = {
        .items = some, .item_count = count, .width = SIDE, .height = SIDE, .num_steps = 3};
    if (diffusionz_run_batch(ctx, &batch, out, NULL))
        fail_msg("%s", diffusionz_last_error());
}

static void neighbours_change_nothing(void **state)
{
    (void)state;
    DiffusionZOutput together[4], alone;
    run(items, 4, together);
    for (int i = 0; i < 4; i++) {
        run(&items[i], 1, &alone);
        assert_int_equal(together[i].error_code, 0);
        assert_memory_equal(together[i].latent, alone.latent, LATENT_VALUES * sizeof(float));
        assert_memory_equal(together[i].rgb, alone.rgb, SIDE * SIDE * 3);
        diffusionz_release_outputs(&alone, 1);
    }
    diffusionz_release_outputs(together, 4);
}

static void one_bad_item_fails_alone(void **state)
{
    (void)state;
    DiffusionZItem mixed[3] = {items[0], items[0], items[1]};
    DiffusionZOutput out[3], alone;
    mixed[1].prompt = "\xc3\x28";
    run(mixed, 3, out);
    assert_int_equal(out[1].error_code, KILN_BAD_INPUT);
    assert_non_null(strstr(out[1].error_msg, "UTF-8"));
    assert_null(out[1].rgb);
    assert_null(out[1].latent);
    run(&items[1], 1, &alone);
    assert_int_equal(out[2].error_code, 0);
    assert_memory_equal(out[2].rgb, alone.rgb, SIDE * SIDE * 3);
    diffusionz_release_outputs(&alone, 1);
    diffusionz_release_outputs(out, 3);
}

static void a_raised_flag_stops_one_item(void **state)
{
    (void)state;
    const int32_t flag = 1;
    int32_t progress = -1;
    DiffusionZItem two[2] = {items[0], items[1]};
    DiffusionZOutput out[2];
    two[0].cancel = &flag;
    const DiffusionZBatch batch = {.items = two,
                                   .item_count = 2,
                                   .width = SIDE,
                                   .height = SIDE,
                                   .num_steps = 3,
                                   .progress = &progress};
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), 0);
    assert_int_equal(out[0].error_code, KILN_CANCELLED);
    assert_non_null(out[0].error_msg);
    assert_null(out[0].rgb);
    assert_int_equal(out[1].error_code, 0);
    assert_int_equal(progress, 3);
    diffusionz_release_outputs(out, 2);
}

static void progress_ends_at_the_steps_whatever_ended_the_items(void **state)
{
    (void)state;
    const int32_t up = 1;
    int32_t progress = -1;
    DiffusionZItem four[4] = {items[0], items[1], items[2], items[3]};
    DiffusionZOutput out[4];
    for (int i = 0; i < 4; i++)
        four[i].cancel = &up;
    const DiffusionZBatch batch = {.items = four,
                                   .item_count = 4,
                                   .width = SIDE,
                                   .height = SIDE,
                                   .num_steps = 3,
                                   .progress = &progress};
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(out[i].error_code, KILN_CANCELLED);
    assert_int_equal(progress, 3);
    diffusionz_release_outputs(out, 4);
}

static void a_latent_that_is_not_finite_fails_alone(void **state)
{
    (void)state;
    DiffusionZItem mixed[3] = {items[0], items[0], items[1]};
    DiffusionZOutput out[3], alone;
    mixed[1].prompt = "poison";
    poison(ctx, mixed[1].prompt);
    for (int round = 0; round < 2; round++) {
        run(mixed, 3, out);
        assert_int_equal(out[1].error_code, KILN_NOT_FINITE);
        assert_string_equal(out[1].error_msg, "non-finite latent at step 1 of 3");
        assert_null(out[1].rgb);
        for (int i = 0; i < 3; i += 2) {
            run(&mixed[i], 1, &alone);
            assert_int_equal(out[i].error_code, 0);
            assert_memory_equal(out[i].latent, alone.latent, LATENT_VALUES * sizeof(float));
            assert_memory_equal(out[i].rgb, alone.rgb, SIDE * SIDE * 3);
            diffusionz_release_outputs(&alone, 1);
        }
        diffusionz_release_outputs(out, 3);
    }
}

/* LoRAs may be why: they are named, behind what is said without. */
static void a_latent_that_is_not_finite_names_its_loras(void **state)
{
    (void)state;
    const DiffusionZLora loras[2] = {{golden("loras/kohya.safetensors"), 0.8f},
                                     {golden("loras/second.safetensors"), -1}};
    const DiffusionZItem bad = {.prompt = "poison", .seed = 1};
    DiffusionZBatch batch = {.items = &bad,
                             .item_count = 1,
                             .width = SIDE,
                             .height = SIDE,
                             .num_steps = 3,
                             .loras = loras,
                             .lora_count = 2};
    DiffusionZOutput out;
    poison(ctx, bad.prompt);
    assert_int_equal(diffusionz_run_batch(ctx, &batch, &out, NULL), 0);
    assert_string_equal(out.error_msg, "non-finite latent at step 1 of 3 (LoRAs kohya:0.8, "
                                       "second:-1: try smaller scales)");
    diffusionz_release_outputs(&out, 1);
    /* Names too long for all of them; one alone that is. */
    static struct kiln_run r;
    static char path[700];
    const struct kiln_lora_use under = {path + 450, 1};
    const DiffusionZLora long_ones[3] = {{path + 480, 1}, {path, 1}, {path, 1}};
    memset(path, 'n', sizeof path - 1);
    batch.loras = long_ones;
    batch.lora_count = 3;
    r.batch = &batch;
    r.under = &under;
    kiln_run_name_loras(&r);
    assert_non_null(strstr(r.loras, "n:1, nn"));
    assert_non_null(strstr(r.loras, "n:1, ...: try smaller scales)"));
    r.under = NULL;
    batch.loras = long_ones + 1;
    batch.lora_count = 1;
    kiln_run_name_loras(&r);
    assert_string_equal(r.loras, "");
}

/* The step that it was is named, and what comes after has nothing of it. */
static void a_later_step_that_is_not_finite_is_named(void **state)
{
    (void)state;
    DiffusionZOutput before, bad, after;
    run(items, 1, &before);
    poison_step(ctx, 1);
    run(items, 1, &bad);
    assert_int_equal(bad.error_code, KILN_NOT_FINITE);
    assert_string_equal(bad.error_msg, "non-finite latent at step 2 of 3");
    assert_null(bad.latent);
    forget_schedule(ctx);
    run(items, 1, &after);
    assert_int_equal(after.error_code, 0);
    assert_memory_equal(after.latent, before.latent, LATENT_VALUES * sizeof(float));
    diffusionz_release_outputs(&before, 1);
    diffusionz_release_outputs(&bad, 1);
    diffusionz_release_outputs(&after, 1);
}

/* Latents so large that they are finite and the decoder's sums are not; those of one item come to
 * that before those of the other. */
static void a_decode_that_is_not_finite_fails_alone(void **state)
{
    (void)state;
    DiffusionZOutput out[2], latent;
    DiffusionZBatch alone = {.items = &items[1],
                             .item_count = 1,
                             .width = SIDE,
                             .height = SIDE,
                             .num_steps = 3,
                             .skip_decode = 1};
    run(items, 2, out);
    float length = 1e36f;
    for (; !out[1].error_code && length < 1e37f; length *= 1.2f) {
        diffusionz_release_outputs(out, 2);
        stretch_step(ctx, 2, length);
        run(items, 2, out);
    }
    assert_int_equal(out[1].error_code, KILN_NOT_FINITE);
    assert_string_equal(out[1].error_msg, "the decoded picture is not finite");
    assert_null(out[1].rgb);
    assert_null(out[1].latent);
    assert_int_equal(out[0].error_code, 0);
    assert_non_null(out[0].rgb);
    assert_int_equal(diffusionz_run_batch(ctx, &alone, &latent, NULL), 0);
    assert_int_equal(latent.error_code, 0);
    for (int i = 0; i < LATENT_VALUES; i++)
        assert_true(isfinite(latent.latent[i]));
    forget_schedule(ctx);
    diffusionz_release_outputs(out, 2);
    diffusionz_release_outputs(&latent, 1);
}

static void latents_without_a_picture(void **state)
{
    (void)state;
    DiffusionZOutput out, picture;
    DiffusionZTimes times;
    const DiffusionZBatch batch = {.items = items,
                                   .item_count = 1,
                                   .width = SIDE,
                                   .height = SIDE,
                                   .num_steps = 3,
                                   .keep_trajectory = 1,
                                   .skip_decode = 1};
    assert_int_equal(diffusionz_run_batch(ctx, &batch, &out, &times), 0);
    assert_null(out.rgb);
    assert_int_equal(out.latent_channels, 16);
    assert_int_equal(out.latent_height, SIDE / 8);
    assert_int_equal(out.latent_width, SIDE / 8);
    assert_true(times.device_ms > 0);
    assert_true(times.device_ms <= times.text_ms + times.denoise_ms + times.decode_ms + 0.1);
    assert_float_equal(out.sigmas[0], 1.0, 1e-6);
    assert_true(out.sigmas[0] > out.sigmas[1] && out.sigmas[1] > out.sigmas[2]);
    run(items, 1, &picture);
    assert_memory_equal(out.latent, picture.latent, LATENT_VALUES * sizeof(float));
    assert_memory_not_equal(out.trajectory, out.latent, LATENT_VALUES * sizeof(float));
    diffusionz_release_outputs(&out, 1);
    diffusionz_release_outputs(&picture, 1);
}

/* Of 96 x 64: a half, an odd ratio, the picture's own size and a larger one. */
static void smaller_pictures_are_those_of_the_reference(void **state)
{
    (void)state;
    static const struct {
        int32_t sides[2];
        uint32_t width[2], height[2]; /* 0: there is none */
    } cases[] = {
        {{48, 37}, {48, 37}, {32, 25}}, {{96, 1}, {0, 1}, {0, 1}}, {{2048, 95}, {0, 95}, {0, 63}}};
    DiffusionZBatch batch = {
        .items = items, .item_count = 2, .width = 96, .height = 64, .num_steps = 1};
    DiffusionZOutput bare[2], out[2];
    assert_int_equal(diffusionz_run_batch(ctx, &batch, bare, NULL), 0);
    assert_null(bare[0].smaller[0]);
    batch.smaller_count = 2;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        batch.smaller = cases[c].sides;
        assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), 0);
        for (int i = 0; i < 4; i++) {
            const DiffusionZOutput *one = &out[i / 2];
            const uint32_t w = cases[c].width[i % 2], h = cases[c].height[i % 2];
            assert_memory_equal(one->rgb, bare[i / 2].rgb, 96 * 64 * 3);
            assert_int_equal(one->smaller[i % 2] != NULL, w != 0);
            if (w == 0)
                continue;
            uint8_t want[48 * 32 * 3 * 4];
            kiln_downscale_ref(one->rgb, 96, 64, want, w, h);
            assert_memory_equal(one->smaller[i % 2], want, (size_t)w * h * 3);
        }
        diffusionz_release_outputs(out, 2);
    }
    batch.skip_decode = 1;
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), 0);
    assert_null(out[0].smaller[1]);
    diffusionz_release_outputs(out, 2);
    diffusionz_release_outputs(bare, 2);
}

static void lora_leaves_the_same_bits(void **state)
{
    (void)state;
    const DiffusionZLora set[2] = {{golden("loras/diffusers.safetensors"), 0.8f},
                                   {golden("loras/second.safetensors"), -0.5f}};
    DiffusionZBatch batch = {.items = items,
                             .item_count = 1,
                             .width = SIDE,
                             .height = SIDE,
                             .num_steps = 2,
                             .loras = set};
    DiffusionZOutput bare, out;
    assert_int_equal(diffusionz_run_batch(ctx, &batch, &bare, NULL), 0);
    for (int count = 1; count <= 2; count++) {
        batch.lora_count = count;
        assert_int_equal(diffusionz_run_batch(ctx, &batch, &out, NULL), 0);
        assert_memory_not_equal(out.latent, bare.latent, LATENT_VALUES * sizeof(float));
        diffusionz_release_outputs(&out, 1);
    }
    batch.lora_count = 0;
    assert_int_equal(diffusionz_run_batch(ctx, &batch, &out, NULL), 0);
    assert_memory_equal(out.latent, bare.latent, LATENT_VALUES * sizeof(float));
    diffusionz_release_outputs(&out, 1);
    diffusionz_release_outputs(&bare, 1);
}

/* The first of the items by the demo model, whose widths are worth sharing out, with so many
 * threads, 0 for all. */
static void run_with(int32_t dtype, int32_t threads, DiffusionZOutput *out)
{
    const DiffusionZOptions options = {.model_path = golden("../../pipeline/models/sketch"),
                                       .device_id = -1,
                                       .dtype = dtype,
                                       .threads = threads};
    const DiffusionZBatch batch = {
        .items = items, .item_count = 1, .width = SIDE, .height = SIDE, .num_steps = 2};
    DiffusionZContext *own;
    if (diffusionz_open(&options, &own) || diffusionz_run_batch(own, &batch, out, NULL))
        fail_msg("%s", diffusionz_last_error());
    diffusionz_free(own);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static const int32_t dtypes[] = {DIFFUSIONZ_FP32, DIFFUSIONZ_BF16};
    char how[256];
    diffusionz_describe(how, sizeof how);
    if (strstr(how, "LibTorch multiplies")) /* on as many threads as it likes */
        skip();
    for (int d = 0; d < 2; d++) {
        DiffusionZOutput want, got;
        run_with(dtypes[d], 1, &want);
        run_with(dtypes[d], 0, &got);
        assert_memory_equal(got.latent, want.latent, LATENT_VALUES * sizeof(float));
        assert_memory_equal(got.rgb, want.rgb, SIDE * SIDE * 3);
        diffusionz_release_outputs(&got, 1);
        diffusionz_release_outputs(&want, 1);
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

/* KB of this process in memory that are no file's. */
static long resident_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (kb == 0 && fgets(line, sizeof line, file))
        (void)sscanf(line, "RssAnon: %ld", &kb);
    fclose(file);
    assert_true(kb > 0);
    return kb;
}

static void a_trim_returns_what_pictures_left(void **state)
{
    (void)state;
    enum { LARGE = 512 };
    const DiffusionZBatch batch = {
        .items = items, .item_count = 1, .width = LARGE, .height = LARGE, .num_steps = 1};
    DiffusionZOutput first, again;
    diffusionz_trim(NULL);
    assert_int_equal(diffusionz_run_batch(ctx, &batch, &first, NULL), 0);
    diffusionz_trim(ctx);
    const long without = resident_kb();
    assert_int_equal(diffusionz_run_batch(ctx, &batch, &again, NULL), 0); /* into memory anew */
    assert_memory_equal(again.rgb, first.rgb, LARGE * LARGE * 3);
    diffusionz_release_outputs(&again, 1);
    const long with = resident_kb();
    diffusionz_trim(ctx);
    const long after = resident_kb();
    if (with - without < 16384 || after - without > (with - without) / 8)
        fail_msg("%ld KB, %ld after a picture, %ld after a trim", without, with, after);
    diffusionz_release_outputs(&first, 1);
}

static void *trim_until_told(void *over)
{
    while (!__atomic_load_n((bool *)over, __ATOMIC_ACQUIRE))
        diffusionz_trim(ctx);
    return NULL;
}

static void a_trim_may_come_at_any_time(void **state)
{
    (void)state;
    bool over = false;
    pthread_t thread;
    DiffusionZOutput want, got;
    run(items, 1, &want);
    assert_int_equal(pthread_create(&thread, NULL, trim_until_told, &over), 0);
    for (int i = 0; i < 5; i++) {
        run(items, 1, &got);
        assert_memory_equal(got.latent, want.latent, LATENT_VALUES * sizeof(float));
        assert_memory_equal(got.rgb, want.rgb, SIDE * SIDE * 3);
        diffusionz_release_outputs(&got, 1);
    }
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    diffusionz_release_outputs(&want, 1);
}

/* bf16 is another rounding of the same picture. */
static void bf16_is_close(void **state)
{
    (void)state;
    const DiffusionZOptions options = {
        .model_path = golden("models/plain"), .device_id = -1, .dtype = DIFFUSIONZ_BF16};
    DiffusionZContext *narrow;
    DiffusionZOutput a, b;
    assert_int_equal(diffusionz_open(&options, &narrow), 0);
    const DiffusionZBatch batch = {
        .items = items, .item_count = 1, .width = SIDE, .height = SIDE, .num_steps = 3};
    assert_int_equal(diffusionz_run_batch(narrow, &batch, &a, NULL), 0);
    run(items, 1, &b);
    double error = 0, norm = 0;
    for (int i = 0; i < LATENT_VALUES; i++) {
        error += pow((double)a.latent[i] - (double)b.latent[i], 2);
        norm += pow((double)b.latent[i], 2);
    }
    printf("relative error of the final latent in bf16: %.2e\n", sqrt(error / norm));
    assert_true(sqrt(error / norm) < 2e-2);
    diffusionz_release_outputs(&a, 1);
    diffusionz_release_outputs(&b, 1);
    diffusionz_free(narrow);
}

static void a_batch_of_nonsense(void **state)
{
    (void)state;
    DiffusionZOutput out[2];
    DiffusionZBatch batch = {
        .items = items, .item_count = 0, .width = SIDE, .height = SIDE, .num_steps = 3};
    assert_int_equal(diffusionz_run_batch(ctx, NULL, out, NULL), KILN_BAD_INPUT);
    assert_int_equal(diffusionz_run_batch(ctx, &batch, NULL, NULL), KILN_BAD_INPUT);
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), KILN_BAD_INPUT);
    batch.item_count = 65;
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), KILN_BAD_INPUT);
    assert_non_null(strstr(diffusionz_last_error(), "65"));
    batch.item_count = 1;
    batch.items = NULL;
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), KILN_BAD_INPUT);
    batch.items = items;
    batch.lora_count = 4;
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), KILN_BAD_INPUT);
    batch.lora_count = 1;
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), KILN_BAD_INPUT);
    batch.lora_count = 0;
    batch.smaller_count = 1;
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), KILN_BAD_INPUT);
    assert_string_equal(diffusionz_last_error(), "smaller sizes: the list of these 1 is NULL");
    static const int32_t nonsense[3] = {-1, 0, 2049};
    for (int i = 0; i < 3; i++) {
        batch.smaller = &nonsense[i];
        assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), KILN_BAD_INPUT);
        assert_non_null(strstr(diffusionz_last_error(), "smaller size"));
    }
    batch.smaller = nonsense;
    batch.smaller_count = 3;
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), KILN_BAD_INPUT);
    assert_non_null(strstr(diffusionz_last_error(), "at most 2"));
}

static void names_of_the_model(void **state)
{
    (void)state;
    const char *hash = diffusionz_model_hash(ctx);
    assert_int_equal(strlen(hash), 16);
    assert_int_equal(strspn(hash, "0123456789abcdef"), 16);
    assert_string_equal(diffusionz_model_name(ctx), "plain");
    int32_t channels, factor;
    diffusionz_latent_shape(ctx, &channels, &factor);
    assert_int_equal(channels, 16);
    assert_int_equal(factor, 8);
}

static void a_tokenizer_alone(void **state)
{
    (void)state;
    DiffusionZTokenizer *tokenizer = NULL;
    int32_t *ids;
    size_t wrapped, raw;
    assert_int_equal(diffusionz_open_tokenizer(golden("models/plain"), &tokenizer), 0);
    assert_int_equal(diffusionz_tokenize(tokenizer, "a star", 6, 0, &ids, &wrapped), 0);
    diffusionz_free_ids(ids);
    assert_int_equal(diffusionz_tokenize(tokenizer, "a star", 6, 1, &ids, &raw), 0);
    diffusionz_free_ids(ids);
    assert_true(wrapped > raw && raw > 0);
    assert_int_equal(diffusionz_tokenize(tokenizer, "\xff", 1, 0, &ids, &raw), KILN_BAD_INPUT);
    diffusionz_free_tokenizer(tokenizer);
    assert_int_not_equal(diffusionz_open_tokenizer("/nowhere", &tokenizer), 0);
    assert_non_null(strstr(diffusionz_last_error(), "/nowhere"));
    assert_int_equal(diffusionz_tokenize(NULL, "a", 1, 0, &ids, &raw), KILN_BAD_INPUT);
    diffusionz_free_tokenizer(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_change_nothing),
        cmocka_unit_test(one_bad_item_fails_alone),
        cmocka_unit_test(a_raised_flag_stops_one_item),
        cmocka_unit_test(progress_ends_at_the_steps_whatever_ended_the_items),
        cmocka_unit_test(a_latent_that_is_not_finite_fails_alone),
        cmocka_unit_test(a_latent_that_is_not_finite_names_its_loras),
        cmocka_unit_test(a_later_step_that_is_not_finite_is_named),
        cmocka_unit_test(a_decode_that_is_not_finite_fails_alone),
        cmocka_unit_test(latents_without_a_picture),
        cmocka_unit_test(smaller_pictures_are_those_of_the_reference),
        cmocka_unit_test(lora_leaves_the_same_bits),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(a_trim_returns_what_pictures_left),
        cmocka_unit_test(a_trim_may_come_at_any_time),
        cmocka_unit_test(bf16_is_close),
        cmocka_unit_test(a_batch_of_nonsense),
        cmocka_unit_test(names_of_the_model),
        cmocka_unit_test(a_tokenizer_alone),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
