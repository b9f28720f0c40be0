/* test_mask.c - inpainting: what a mask keeps of a start and what it renders anew, compared with
 * plain C and with runs without a mask.  test_img2img.c has what diffusers computes. */
#include <math.h>

#include "tests/pipeline/four_items.h"
#include "tests/pipeline/one_context.h"

#define WIDE 96
#define HIGH 64
#define STEPS 4
#define GRID ((WIDE / 8) * (HIGH / 8))
#define VALUES (16 * GRID)

static float latents[4][VALUES], ones[GRID], zeros[GRID], half[GRID], soft[GRID];
static uint8_t pictures[4][WIDE * HIGH * 3];

static int make_starts(void **state)
{
    (void)open_context(state);
    DiffusionZOutput out[4];
    const DiffusionZBatch batch = {
        .items = items, .item_count = 4, .width = WIDE, .height = HIGH, .num_steps = 1};
    if (diffusionz_run_batch(ctx, &batch, out, NULL))
        return -1;
    for (int i = 0; i < 4; i++) {
        memcpy(latents[i], out[i].latent, sizeof latents[i]);
        memcpy(pictures[i], out[i].rgb, sizeof pictures[i]);
    }
    diffusionz_release_outputs(out, 4);
    for (int i = 0; i < GRID; i++) {
        ones[i] = 1;
        half[i] = i % (WIDE / 8) < WIDE / 16;
        soft[i] = (float)i / (GRID - 1);
    }
    return 0;
}

static DiffusionZBatch batch_of(const DiffusionZItem *some, int count, int step)
{
    return (DiffusionZBatch){.items = some,
                             .item_count = count,
                             .width = WIDE,
                             .height = HIGH,
                             .num_steps = STEPS,
                             .start = DIFFUSIONZ_FROM_STEP,
                             .start_step = step};
}

static void run(const DiffusionZBatch *batch, DiffusionZOutput *out)
{
    if (diffusionz_run_batch(ctx, batch, out, NULL))
        fail_msg("%s", diffusionz_last_error());
    for (int i = 0; i < batch->item_count; i++)
        if (out[i].error_code && out[i].error_code != KILN_BAD_INPUT)
            fail_msg("%s", out[i].error_msg);
}

static void assert_same_item(const DiffusionZOutput *a, const DiffusionZOutput *b)
{
    assert_int_equal(a->error_code, 0);
    assert_int_equal(b->error_code, 0);
    assert_memory_equal(a->latent, b->latent, VALUES * sizeof(float));
    assert_memory_equal(a->rgb, b->rgb, WIDE * HIGH * 3);
}

/* --- what is kept, what is rendered anew ------------------------------------------------------ */

static void a_mask_of_ones_is_no_mask(void **state)
{
    (void)state;
    for (int picture = 0; picture < 2; picture++) {
        DiffusionZItem item = items[0];
        DiffusionZOutput plain, masked;
        item.start_latent = picture ? NULL : latents[1];
        item.start_rgb = picture ? pictures[1] : NULL;
        const DiffusionZBatch b = batch_of(&item, 1, 1);
        run(&b, &plain);
        item.start_mask = ones;
        run(&b, &masked);
        assert_same_item(&plain, &masked);
        diffusionz_release_outputs(&plain, 1);
        diffusionz_release_outputs(&masked, 1);
    }
}

static void a_mask_of_zeros_keeps_the_start(void **state)
{
    (void)state;
    for (int step = 0; step < STEPS; step++) {
        DiffusionZItem item = items[0];
        DiffusionZOutput out;
        item.start_latent = latents[1];
        item.start_mask = zeros;
        const DiffusionZBatch b = batch_of(&item, 1, step);
        run(&b, &out);
        assert_int_equal(out.error_code, 0);
        assert_memory_equal(out.latent, latents[1], sizeof latents[1]);
        diffusionz_release_outputs(&out, 1);
    }
}

/* Where the mask is 0 every state is the start at its sigma, with one noise; elsewhere it is not,
 * but for the first. */
static void what_is_kept_follows_the_sigmas(void **state)
{
    (void)state;
    static float noise[VALUES];
    const int64_t shape[3] = {16, HIGH / 8, WIDE / 8};
    struct kt_scope *s = kt_scope_new(KT_CPU);
    DiffusionZItem item = items[0];
    DiffusionZOutput out;
    kt_to_host_f32(s, kt_randn(s, item.seed, 3, shape), noise, VALUES);
    kt_scope_free(s);
    item.start_latent = latents[1];
    item.start_mask = half;
    DiffusionZBatch b = batch_of(&item, 1, 0);
    b.start = DIFFUSIONZ_FROM_SIGMA;
    b.start_sigma = 0.8;
    b.rest_steps = 5;
    b.keep_trajectory = 1;
    run(&b, &out);
    for (int k = 0; k <= 5; k++) {
        const float sigma = k < 5 ? (float)out.sigmas[k] : 0;
        const float *x = k < 5 ? out.trajectory + k * VALUES : out.latent;
        int changed = 0;
        for (int i = 0; i < VALUES; i++) {
            const float kept = (1 - sigma) * latents[1][i] + sigma * noise[i];
            if (half[i % GRID] == 0)
                assert_float_equal(x[i], kept, 1e-6);
            else
                changed += fabsf(x[i] - kept) > 1e-3f;
        }
        assert_true(k == 0 ? changed == 0 : changed > VALUES / 4);
    }
    diffusionz_release_outputs(&out, 1);
}

/* After one step: (1 - m) of the start and m of what the step makes without a mask. */
static void a_soft_mask_mixes(void **state)
{
    (void)state;
    DiffusionZItem item = items[0];
    DiffusionZOutput plain, masked;
    item.start_latent = latents[1];
    const DiffusionZBatch b = batch_of(&item, 1, STEPS - 1);
    run(&b, &plain);
    item.start_mask = soft;
    run(&b, &masked);
    for (int i = 0; i < VALUES; i++) {
        const float m = soft[i % GRID];
        assert_float_equal(masked.latent[i], (1 - m) * latents[1][i] + m * plain.latent[i], 1e-6);
    }
    diffusionz_release_outputs(&plain, 1);
    diffusionz_release_outputs(&masked, 1);
}

/* --- batches ---------------------------------------------------------------------------------- */

static void expect_neighbours_change_nothing(const DiffusionZBatch *batch)
{
    DiffusionZOutput together[4], alone;
    DiffusionZBatch one = *batch, all = *batch;
    int32_t progress = -1;
    one.item_count = 1;
    all.progress = &progress;
    run(&all, together);
    assert_int_equal(progress, diffusionz_forwards(ctx, batch));
    for (int i = 0; i < 4; i++) {
        one.items = batch->items + i;
        run(&one, &alone);
        assert_same_item(&together[i], &alone);
        diffusionz_release_outputs(&alone, 1);
    }
    diffusionz_release_outputs(together, 4);
}

static void items_with_and_without_a_mask_share_a_batch(void **state)
{
    (void)state;
    DiffusionZItem mixed[4] = {items[0], items[1], items[2], items[3]};
    mixed[0].start_latent = latents[2];
    mixed[0].start_mask = half;
    mixed[1].start_rgb = pictures[0];
    mixed[1].start_mask = soft;
    mixed[2].start_rgb = pictures[3];
    mixed[3].start_latent = latents[1];
    DiffusionZBatch b = batch_of(mixed, 4, 1);
    expect_neighbours_change_nothing(&b);
    b.guidance_scale = 3;
    expect_neighbours_change_nothing(&b);
}

/* In groups: each item has its own mask, and the one without is as in a group without masks.
 * Products of more rows may sum in another order on the CPU. */
static void masks_in_a_group(void **state)
{
    (void)state;
    static const float *const masks[4] = {half, NULL, soft, zeros};
    static const int chosen[4] = {0, 2, 3, 0}; /* of one length of captions */
    DiffusionZItem some[4];
    DiffusionZOutput alone, together[4], plain[4];
    for (int i = 0; i < 4; i++) {
        some[i] = items[chosen[i]];
        some[i].start_latent = latents[i];
        some[i].start_mask = masks[i];
    }
    const DiffusionZBatch b = batch_of(some, 4, 1);
    ctx->engine->group_rows = 4 * 96;
    run(&b, together);
    for (int i = 0; i < 4; i++)
        some[i].start_mask = NULL;
    run(&b, plain);
    ctx->engine->group_rows = 0;
    assert_same_item(&together[1], &plain[1]);
    assert_memory_equal(together[3].latent, latents[3], sizeof latents[3]);
    for (int i = 0; i < 4; i++) {
        some[i].start_mask = masks[i];
        const DiffusionZBatch one = batch_of(some + i, 1, 1);
        run(&one, &alone);
        for (int k = 0; k < VALUES; k++)
            assert_float_equal(together[i].latent[k], alone.latent[k], 1e-4);
        diffusionz_release_outputs(&alone, 1);
    }
    diffusionz_release_outputs(together, 4);
    diffusionz_release_outputs(plain, 4);
}

static void a_mask_out_of_bounds_fails_alone(void **state)
{
    (void)state;
    static const float bad[] = {-0.01f, 1.001f, NAN, INFINITY};
    static float mask[GRID];
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        DiffusionZItem two[2] = {items[0], items[3]};
        DiffusionZOutput out[2], alone;
        mask[GRID - 1] = bad[k];
        two[0].start_latent = latents[0];
        two[0].start_mask = mask;
        two[1].start_latent = latents[1];
        two[1].start_mask = half;
        DiffusionZBatch b = batch_of(two, 2, 2);
        run(&b, out);
        assert_int_equal(out[0].error_code, KILN_BAD_INPUT);
        assert_non_null(strstr(out[0].error_msg, "(value 95): must be 0 to 1"));
        assert_non_null(strstr(out[0].error_msg, "the mask has "));
        b.items = two + 1;
        b.item_count = 1;
        run(&b, &alone);
        assert_same_item(&out[1], &alone);
        diffusionz_release_outputs(out, 2);
        diffusionz_release_outputs(&alone, 1);
    }
}

static void a_cancelled_item_leaves_the_others(void **state)
{
    (void)state;
    const int32_t stop = 1;
    DiffusionZItem two[2] = {items[0], items[3]};
    DiffusionZOutput out[2], alone;
    two[0].start_latent = latents[0];
    two[0].start_mask = soft;
    two[0].cancel = &stop;
    two[1].start_latent = latents[1];
    two[1].start_mask = half;
    DiffusionZBatch b = batch_of(two, 2, 0);
    if (diffusionz_run_batch(ctx, &b, out, NULL))
        fail_msg("%s", diffusionz_last_error());
    assert_int_equal(out[0].error_code, KILN_CANCELLED);
    b.items = two + 1;
    b.item_count = 1;
    run(&b, &alone);
    assert_same_item(&out[1], &alone);
    diffusionz_release_outputs(out, 2);
    diffusionz_release_outputs(&alone, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_of_ones_is_no_mask),
        cmocka_unit_test(a_mask_of_zeros_keeps_the_start),
        cmocka_unit_test(what_is_kept_follows_the_sigmas),
        cmocka_unit_test(a_soft_mask_mixes),
        cmocka_unit_test(items_with_and_without_a_mask_share_a_batch),
        cmocka_unit_test(masks_in_a_group),
        cmocka_unit_test(a_mask_out_of_bounds_fails_alone),
        cmocka_unit_test(a_cancelled_item_leaves_the_others),
    };
    return cmocka_run_group_tests(tests, make_starts, close_context);
}
