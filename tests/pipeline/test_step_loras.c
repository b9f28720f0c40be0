/* test_step_loras.c - LoRAs that a model has for a range of its steps, against the same done by
 * hand: runs of the public interface with and without the LoRA, joined at the state in between.
 */
#include <math.h>

#include "kernels/pictures/latent_enlarge.h"
#include "pipeline/engine/parts.h"
#include "tests/pipeline/four_items.h"
#include "tests/pipeline/one_context.h"
#include "tests/pipeline/ways.h"

#define HALF_WIDE 80
#define HALF_HIGH 64

static DiffusionZLora first, second;

static int open_all(void **state)
{
    first = (DiffusionZLora){strdup(golden("loras/default.safetensors")), 1};
    second = (DiffusionZLora){strdup(golden("loras/second.safetensors")), 0.7f};
    make_start();
    return open_context(state);
}

static int close_all(void **state)
{
    free((char *)first.path);
    free((char *)second.path);
    return close_context(state);
}

static DiffusionZBatch batch_of(const DiffusionZItem *some, int count)
{
    return (DiffusionZBatch){
        .items = some, .item_count = count, .width = WIDE, .height = HIGH, .num_steps = STEPS};
}

static void assert_near(const float *a, const float *b, double limit)
{
    double scale = 0, error = 0;
    for (int i = 0; i < VALUES; i++) {
        scale = fmax(scale, fabs((double)b[i]));
        error = fmax(error, fabs((double)a[i] - (double)b[i]));
    }
    if (!(error <= limit * scale))
        fail_msg("error %g of %g", error, scale);
}

/* --- done by hand ----------------------------------------------------------------------------- */

static void noise_of(uint64_t seed, float *out)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt_to_host_f32(s, kt_randn(s, seed, 3, (int64_t[]){16, HIGH / 8, WIDE / 8}), out, VALUES);
    kt_scope_free(s);
}

/* Goes on from the state before step `at` of a trajectory with other LoRAs: from the clean latent
 * that the noise of the seed turns into that state. */
static void go_on(const DiffusionZOutput *from, int at, const DiffusionZLora *loras, int count,
                  DiffusionZOutput *out)
{
    static float noise[VALUES], clean[VALUES];
    const float *state = from->trajectory + at * VALUES;
    const double sigma = from->sigmas[at];
    DiffusionZItem item = items[0];
    DiffusionZBatch b = batch_of(&item, 1);
    noise_of(item.seed, noise);
    for (int i = 0; i < VALUES; i++)
        clean[i] = (float)(((double)state[i] - sigma * (double)noise[i]) / (1 - sigma));
    item.start_latent = clean;
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = at;
    b.loras = loras;
    b.lora_count = count;
    b.keep_trajectory = 1;
    run_whole(ctx, &b, out);
}

/* The state after step `at`. */
static const float *after(const DiffusionZOutput *out, int at, int steps)
{
    return at + 1 < steps ? out->trajectory + (at + 1) * VALUES : out->latent;
}

static void the_weights_change_between_two_steps(void **state)
{
    (void)state;
    const DiffusionZStepLora late = {first, 2, STEPS}, both[2] = {{first, 0, 2}, {second, 1, 3}};
    DiffusionZOutput plain, out, end;
    DiffusionZBatch b = batch_of(items, 1);
    b.keep_trajectory = 1;
    run_whole(ctx, &b, &plain);
    b.step_loras = &late;
    b.step_lora_count = 1;
    run_whole(ctx, &b, &out);
    assert_memory_equal(out.trajectory, plain.trajectory, 3 * VALUES * sizeof(float));
    assert_memory_equal(out.sigmas, plain.sigmas, STEPS * sizeof *out.sigmas);
    assert_false(same(&out, &plain));
    go_on(&plain, 2, &first, 1, &end);
    assert_near(out.latent, end.latent, 1e-4);
    diffusionz_release_outputs(&out, 1);
    diffusionz_release_outputs(&end, 1);
    /* Four sets, one after the other: the first, both, the second, none. */
    b.step_loras = both;
    b.step_lora_count = 2;
    run_whole(ctx, &b, &out);
    const DiffusionZLora sum[2] = {first, second};
    const DiffusionZLora *sets[STEPS] = {NULL, sum, &second, NULL};
    const int counts[STEPS] = {0, 2, 1, 0};
    for (int step = 1; step < STEPS; step++) { /* the first starts from noise, as above */
        go_on(&out, step, sets[step], counts[step], &end);
        assert_near(after(&out, step, STEPS), after(&end, 0, STEPS - step), 1e-4);
        diffusionz_release_outputs(&end, 1);
    }
    diffusionz_release_outputs(&out, 1);
    diffusionz_release_outputs(&plain, 1);
}

/* Small steps without the LoRA, then full ones with it: the sigma of the hand-over is that of the
 * schedule's third step. */
static void coarse_first_changes_at_the_hand_over(void **state)
{
    (void)state;
    const DiffusionZStepLora late = {first, 2, STEPS};
    const int small = 16 * (HALF_WIDE / 8) * (HALF_HIGH / 8);
    static float clean[16 * 10 * 8], large[VALUES];
    DiffusionZOutput half, out, end;
    DiffusionZBatch b = batch_of(items, 1);
    b.width = HALF_WIDE;
    b.height = HALF_HIGH;
    b.keep_trajectory = 1;
    run_whole(ctx, &b, &half);
    const float *x1 = half.trajectory + small, *x2 = x1 + small;
    const double stride = half.sigmas[2] - half.sigmas[1];
    for (int i = 0; i < small; i++)
        clean[i] = (float)(x1[i] - half.sigmas[1] * ((double)x2[i] - x1[i]) / stride);
    kiln_latent_enlarge_ref(&(struct kiln_latent_enlarge){.clean = clean,
                                                          .noise = large,
                                                          .x = large,
                                                          .channels = 16,
                                                          .height = HALF_HIGH / 8,
                                                          .width = HALF_WIDE / 8,
                                                          .out_height = HIGH / 8,
                                                          .out_width = WIDE / 8});
    DiffusionZItem from = items[0];
    from.start_latent = large;
    b = batch_of(&from, 1);
    b.start = DIFFUSIONZ_FROM_SIGMA;
    b.start_sigma = 0.75;
    b.rest_steps = 3;
    b.loras = &first;
    b.lora_count = 1;
    run_whole(ctx, &b, &end);
    b.items = items;
    b.lora_count = 0;
    b.coarse_steps = 2;
    b.coarse_width = HALF_WIDE;
    b.coarse_height = HALF_HIGH;
    b.step_loras = &late;
    b.step_lora_count = 1;
    assert_int_equal(diffusionz_forwards(ctx, &b), 5);
    run_whole(ctx, &b, &out);
    assert_near(out.latent, end.latent, 1e-4);
    diffusionz_release_outputs(&half, 1);
    diffusionz_release_outputs(&out, 1);
    diffusionz_release_outputs(&end, 1);
}

/* --- the same bits ---------------------------------------------------------------------------- */

/* Every way to begin, with guidance, variety and masks. */
static DiffusionZBatch way(int number, DiffusionZItem item[2])
{
    DiffusionZBatch b = batch_of(item, 2);
    item[0] = items[0];
    item[1] = items[1];
    kiln_test_way(number, &b, item);
    return b;
}
static void a_lora_of_strength_0_in_the_middle_changes_no_bit(void **state)
{
    (void)state;
    const DiffusionZStepLora nothing = {{first.path, 0}, 1, 3};
    for (int i = 0; i < KILN_TEST_WAYS; i++) {
        DiffusionZItem item[2];
        DiffusionZBatch b = way(i, item);
        DiffusionZOutput plain[2], out[2];
        run_whole(ctx, &b, plain);
        const int forwards = diffusionz_forwards(ctx, &b);
        int32_t progress = 0;
        b.step_loras = &nothing;
        b.step_lora_count = 1;
        b.progress = &progress;
        run_whole(ctx, &b, out);
        assert_int_equal(diffusionz_forwards(ctx, &b), forwards);
        assert_int_equal(progress, forwards);
        for (int k = 0; k < 2; k++)
            if (!same(&out[k], &plain[k]))
                fail_msg("way %d, item %d: other bits", i, k);
        diffusionz_release_outputs(plain, 2);
        diffusionz_release_outputs(out, 2);
    }
}

static void for_all_steps_it_is_a_lora_of_the_batch(void **state)
{
    (void)state;
    const DiffusionZStepLora whole = {second, 0, STEPS};
    const DiffusionZLora loras[2] = {first, second};
    for (int i = 0; i < KILN_TEST_WAYS; i++) {
        DiffusionZItem item[2];
        DiffusionZBatch b = way(i, item);
        DiffusionZOutput want[2], out[2];
        b.loras = loras;
        b.lora_count = 2;
        run_whole(ctx, &b, want);
        b.lora_count = 1;
        b.step_loras = &whole;
        b.step_lora_count = 1;
        run_whole(ctx, &b, out);
        for (int k = 0; k < 2; k++)
            if (!same(&out[k], &want[k]))
                fail_msg("way %d, item %d: other bits", i, k);
        diffusionz_release_outputs(want, 2);
        diffusionz_release_outputs(out, 2);
    }
}

/* Each item of a batch whose outputs are there has their bits by itself. */
static void assert_same_alone(const DiffusionZBatch *batch, const DiffusionZOutput *all, int way)
{
    for (int i = 0; i < batch->item_count; i++) {
        DiffusionZBatch alone = *batch;
        DiffusionZOutput one;
        alone.items = &batch->items[i];
        alone.item_count = 1;
        run_whole(ctx, &alone, &one);
        if (!same(&one, &all[i]))
            fail_msg("way %d, item %d: alone it has other bits", way, i);
        diffusionz_release_outputs(&one, 1);
    }
}

static void an_item_has_the_same_bits_in_a_batch(void **state)
{
    (void)state;
    const DiffusionZStepLora both[2] = {{first, 0, 2}, {second, 1, 3}};
    static const enum kiln_lora_mode modes[] = {KILN_LORA_AUTO, KILN_LORA_MERGED, KILN_LORA_BESIDE};
    static float latents[3][VALUES];
    for (int m = 0; m < 3; m++) {
        DiffusionZOutput all[4];
        kiln_loras_mode(ctx->engine->sets[0].loras, modes[m]);
        DiffusionZBatch b = batch_of(items, 4);
        b.step_loras = both;
        b.step_lora_count = 2;
        run_whole(ctx, &b, all);
        assert_same_alone(&b, all, 0);
        memcpy(latents[m], all[1].latent, sizeof latents[m]);
        diffusionz_release_outputs(all, 4);
    }
    kiln_loras_mode(ctx->engine->sets[0].loras, KILN_LORA_AUTO);
    assert_near(latents[1], latents[0], 1e-3);
    assert_near(latents[2], latents[0], 1e-3);
}

/* Whatever it begins from, and wherever the LoRAs are. */
static void an_item_of_any_way_has_the_same_bits_in_a_batch(void **state)
{
    (void)state;
    const DiffusionZStepLora both[2] = {{first, 0, 2}, {second, 1, 3}};
    static const enum kiln_lora_mode modes[] = {KILN_LORA_MERGED, KILN_LORA_BESIDE};
    for (int m = 0; m < 2; m++) {
        kiln_loras_mode(ctx->engine->sets[0].loras, modes[m]);
        for (int way = 0; way < KILN_TEST_WAYS; way++) {
            DiffusionZItem pair[2] = {items[1], items[3]};
            DiffusionZOutput all[2];
            DiffusionZBatch b = batch_of(pair, 2);
            kiln_test_way(way, &b, pair);
            b.step_loras = both;
            b.step_lora_count = 2;
            run_whole(ctx, &b, all);
            assert_same_alone(&b, all, way);
            diffusionz_release_outputs(all, 2);
        }
    }
    kiln_loras_mode(ctx->engine->sets[0].loras, KILN_LORA_AUTO);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void ranges_that_are_none_are_refused(void **state)
{
    (void)state;
    static const int bad[][2] = {{-1, 2}, {2, 2}, {3, 1}, {0, STEPS + 1}};
    DiffusionZOutput out;
    DiffusionZBatch b = batch_of(items, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const DiffusionZStepLora one = {first, bad[i][0], bad[i][1]};
        b.step_loras = &one;
        b.step_lora_count = 1;
        assert_int_equal(diffusionz_run_batch(ctx, &b, &out, NULL), KILN_BAD_INPUT);
        assert_non_null(strstr(diffusionz_last_error(), "LoRA 0 of steps"));
        assert_int_equal(diffusionz_forwards(ctx, &b), 0);
    }
    b.step_lora_count = DIFFUSIONZ_STEP_LORAS_MAX + 1;
    assert_int_equal(diffusionz_run_batch(ctx, &b, &out, NULL), KILN_BAD_INPUT);
    b.step_loras = NULL;
    b.step_lora_count = 1;
    assert_int_equal(diffusionz_run_batch(ctx, &b, &out, NULL), KILN_BAD_INPUT);
}

/* A file that is missing when its steps come ends the pictures, not the engine. */
static void a_missing_file_ends_the_items_by_name(void **state)
{
    (void)state;
    DiffusionZStepLora gone = {{"no-such-lora.safetensors", 1}, 2, STEPS};
    DiffusionZOutput plain[2], out[2];
    DiffusionZBatch b = batch_of(items, 2);
    run_whole(ctx, &b, plain);
    b.step_loras = &gone;
    b.step_lora_count = 1;
    assert_int_equal(diffusionz_run_batch(ctx, &b, out, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(out[i].error_code, KILN_NOT_FOUND);
        assert_non_null(strstr(out[i].error_msg, "no-such-lora"));
    }
    diffusionz_release_outputs(out, 2);
    gone.first = 0; /* before anything has begun */
    assert_int_equal(diffusionz_run_batch(ctx, &b, out, NULL), KILN_NOT_FOUND);
    b.step_lora_count = 0;
    run_whole(ctx, &b, out);
    assert_true(same(&out[0], &plain[0]) && same(&out[1], &plain[1]));
    diffusionz_release_outputs(plain, 2);
    diffusionz_release_outputs(out, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_weights_change_between_two_steps),
        cmocka_unit_test(coarse_first_changes_at_the_hand_over),
        cmocka_unit_test(a_lora_of_strength_0_in_the_middle_changes_no_bit),
        cmocka_unit_test(for_all_steps_it_is_a_lora_of_the_batch),
        cmocka_unit_test(an_item_has_the_same_bits_in_a_batch),
        cmocka_unit_test(an_item_of_any_way_has_the_same_bits_in_a_batch),
        cmocka_unit_test(ranges_that_are_none_are_refused),
        cmocka_unit_test(a_missing_file_ends_the_items_by_name),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
