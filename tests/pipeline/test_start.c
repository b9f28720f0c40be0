/* test_start.c - runs that begin elsewhere than at noise: latents, pictures, coarse first.  Each is
 * compared with what Kiln's own parts and other runs of the public interface come to. */
#include <math.h>

#include "pipeline/engine/parts.h"
#include "pipeline/torch/load.h"
#include "tests/pipeline/four_items.h"
#include "tests/pipeline/one_context.h"

#define WIDE 160
#define HIGH 64
#define STEPS 4
#define VALUES (16 * (WIDE / 8) * (HIGH / 8))
#define SMALL 64
#define MIDDLE 112 /* its width, at the full height */

static float latents[4][VALUES];
static uint8_t pictures[4][WIDE * HIGH * 3];

/* Starts that look like a model's: those of its own pictures. */
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
    return 0;
}

static DiffusionZBatch batch_of(const DiffusionZItem *some, int count)
{
    return (DiffusionZBatch){
        .items = some, .item_count = count, .width = WIDE, .height = HIGH, .num_steps = STEPS};
}

static DiffusionZBatch coarse_of(const DiffusionZItem *some, int count)
{
    DiffusionZBatch b = batch_of(some, count);
    b.start = DIFFUSIONZ_FROM_SIGMA;
    b.start_sigma = 0.75;
    b.coarse_steps = 2;
    b.rest_steps = 3;
    b.coarse_width = b.coarse_height = SMALL;
    return b;
}

/* Coarse first at 2 or 3 sizes, of 5 steps either way. */
static DiffusionZBatch levels_of(int levels, const DiffusionZItem *some, int count)
{
    DiffusionZBatch b = coarse_of(some, count);
    if (levels < 3)
        return b;
    b.coarse_steps = b.middle_steps = 1;
    b.middle_width = MIDDLE;
    b.middle_height = HIGH;
    return b;
}

static void run(const DiffusionZBatch *batch, DiffusionZOutput *out)
{
    if (diffusionz_run_batch(ctx, batch, out, NULL))
        fail_msg("%s", diffusionz_last_error());
}

static void assert_same_item(const DiffusionZOutput *a, const DiffusionZOutput *b)
{
    if (a->error_code || b->error_code)
        fail_msg("%s", a->error_code ? a->error_msg : b->error_msg);
    assert_memory_equal(a->latent, b->latent, VALUES * sizeof(float));
    assert_memory_equal(a->rgb, b->rgb, WIDE * HIGH * 3);
}

static void assert_near(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_float_equal(a[i], b[i], 1e-4);
}

static void noise_of(uint64_t seed, int64_t wide, int64_t high, float *out)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    const int64_t shape[3] = {16, high / 8, wide / 8};
    kt_to_host_f32(s, kt_randn(s, seed, 3, shape), out, (size_t)(16 * shape[1] * shape[2]));
    kt_scope_free(s);
}

/* --- latents ---------------------------------------------------------------------------------- */

static void check_start(DiffusionZBatch batch, const float *clean, double first, int steps)
{
    static float noise[VALUES];
    DiffusionZOutput out;
    int32_t progress = -1;
    batch.keep_trajectory = 1;
    batch.progress = &progress;
    run(&batch, &out);
    assert_int_equal(out.error_code, 0);
    assert_int_equal(progress, steps);
    assert_int_equal(diffusionz_forwards(ctx, &batch), steps);
    assert_float_equal(out.sigmas[0], first, 1e-6);
    noise_of(batch.items[0].seed, WIDE, HIGH, noise);
    const float s = (float)out.sigmas[0];
    for (int i = 0; i < VALUES; i++)
        assert_float_equal(out.trajectory[i], (1 - s) * clean[i] + s * noise[i], 1e-6);
    diffusionz_release_outputs(&out, 1);
}

static void a_start_is_noised_with_the_noise_of_its_seed(void **state)
{
    (void)state;
    DiffusionZItem item = items[0];
    item.start_latent = latents[1];
    DiffusionZBatch b = batch_of(&item, 1);
    static const double ladder[STEPS] = {1, 0.9, 0.75, 0.5}; /* of shift 3 */
    b.start = DIFFUSIONZ_FROM_STEP;
    for (int k = 0; k < STEPS; k++) {
        b.start_step = k;
        check_start(b, latents[1], ladder[k], STEPS - k);
    }
    b.start = DIFFUSIONZ_FROM_SIGMA;
    b.start_sigma = 0.6;
    check_start(b, latents[1], 0.6, 2);
    b.rest_steps = 5;
    check_start(b, latents[1], 0.6, 5);
}

/* The state of an exact run before its step k is (1 - s) a + s e for some a.  From that a the rest
 * of the run comes out again. */
static void a_run_goes_on_from_the_middle_of_another(void **state)
{
    (void)state;
    static float noise[VALUES], clean[VALUES];
    DiffusionZItem item = items[0];
    DiffusionZBatch b = batch_of(&item, 1);
    DiffusionZOutput whole, rest;
    b.keep_trajectory = 1;
    run(&b, &whole);
    noise_of(item.seed, WIDE, HIGH, noise);
    item.start_latent = clean;
    for (int k = 1; k < STEPS; k++) {
        const float s = (float)whole.sigmas[k];
        for (int i = 0; i < VALUES; i++)
            clean[i] = (whole.trajectory[k * VALUES + i] - s * noise[i]) / (1 - s);
        for (int by_sigma = 0; by_sigma < 2; by_sigma++) {
            b.start = by_sigma ? DIFFUSIONZ_FROM_SIGMA : DIFFUSIONZ_FROM_STEP;
            b.start_step = k;
            b.start_sigma = whole.sigmas[k];
            run(&b, &rest);
            assert_int_equal(rest.error_code, 0);
            assert_near(rest.trajectory, whole.trajectory + k * VALUES,
                        (size_t)(STEPS - k) * VALUES);
            assert_near(rest.latent, whole.latent, VALUES);
            for (int i = 0; i < STEPS - k; i++)
                assert_float_equal(rest.sigmas[i], whole.sigmas[k + i], 1e-6);
            diffusionz_release_outputs(&rest, 1);
        }
    }
    diffusionz_release_outputs(&whole, 1);
}

/* At sigma 1 nothing of the start is left. */
static void a_start_at_the_first_step_is_the_exact_run(void **state)
{
    (void)state;
    DiffusionZItem item = items[0];
    DiffusionZBatch b = batch_of(&item, 1);
    DiffusionZOutput exact, started;
    run(&b, &exact);
    item.start_latent = latents[3];
    b.start = DIFFUSIONZ_FROM_STEP;
    run(&b, &started);
    assert_same_item(&started, &exact);
    diffusionz_release_outputs(&exact, 1);
    diffusionz_release_outputs(&started, 1);
}

static void a_start_that_is_not_finite_fails_alone(void **state)
{
    (void)state;
    static float bad[VALUES];
    DiffusionZItem two[2] = {items[0], items[3]};
    DiffusionZOutput out[2], alone;
    memcpy(bad, latents[0], sizeof bad);
    bad[VALUES - 1] = NAN;
    two[0].start_latent = bad;
    two[1].start_latent = latents[1];
    DiffusionZBatch b = batch_of(two, 2);
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = 2;
    run(&b, out);
    assert_int_equal(out[0].error_code, KILN_BAD_INPUT);
    assert_string_equal(out[0].error_msg, "the latent to start from is not finite (value 2559)");
    b.items = two + 1;
    b.item_count = 1;
    run(&b, &alone);
    assert_same_item(&out[1], &alone);
    diffusionz_release_outputs(out, 2);
    diffusionz_release_outputs(&alone, 1);
}

/* --- pictures --------------------------------------------------------------------------------- */

/* The encoder's sample takes the first draw of the seed's generator, the noise the second. */
static void a_picture_is_encoded_first(void **state)
{
    (void)state;
    static float clean[VALUES];
    const struct kiln_engine *e = ctx->engine;
    struct kiln_error err;
    struct kt_scope *s = kt_scope_new(KT_CPU);
    const int64_t bytes = WIDE * HIGH * 3, draws[4] = {2, 16, HIGH / 8, WIDE / 8};
    DiffusionZItem item = items[0];
    item.start_rgb = pictures[1];
    DiffusionZBatch b = batch_of(&item, 1);
    b.start = DIFFUSIONZ_FROM_SIGMA;
    b.start_sigma = 0.6;
    b.keep_trajectory = 1;
    DiffusionZOutput out;
    run(&b, &out);
    assert_int_equal(out.error_code, 0);
    kt both = kt_randn(s, item.seed, 4, draws);
    kt first = kt_reshape(s, kt_narrow(s, both, 0, 0, 1), 3, draws + 1);
    kt second = kt_reshape(s, kt_narrow(s, both, 0, 1, 1), 3, draws + 1);
    kt picture = kt_of_rgb8(s, kt_from_host(s, pictures[1], KT_U8, KT_U8, 1, &bytes), HIGH, WIDE);
    kt_to_host_f32(s, kt_noised(s, kiln_vae_encode_sample(e->vae, s, picture, first), second, 0.6),
                   clean, VALUES);
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
    assert_near(out.trajectory, clean, VALUES);
    diffusionz_release_outputs(&out, 1);
    kt_scope_free(s);
}

/* --- batches ---------------------------------------------------------------------------------- */

static void expect_neighbours_change_nothing(const DiffusionZBatch *batch)
{
    DiffusionZOutput together[4], alone;
    DiffusionZBatch one = *batch;
    int32_t progress = -1;
    one.item_count = 1;
    DiffusionZBatch all = *batch;
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

static void neighbours_with_other_starts_change_nothing(void **state)
{
    (void)state;
    DiffusionZItem mixed[4] = {items[0], items[1], items[2], items[3]};
    mixed[0].start_latent = latents[2];
    mixed[1].start_rgb = pictures[0];
    mixed[2].start_rgb = pictures[3];
    mixed[3].start_latent = latents[1];
    DiffusionZBatch b = batch_of(mixed, 4);
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = 2;
    expect_neighbours_change_nothing(&b);
    b.guidance_scale = 3;
    expect_neighbours_change_nothing(&b);
}

static void neighbours_of_a_coarse_picture_change_nothing(void **state)
{
    (void)state;
    DiffusionZItem started[4] = {items[0], items[1], items[2], items[3]};
    for (int i = 0; i < 4; i++)
        started[i].start_latent = latents[3 - i];
    DiffusionZBatch late = coarse_of(started, 4);
    late.coarse_skip = 1;
    expect_neighbours_change_nothing(&late);
    for (int levels = 2; levels <= 3; levels++) {
        DiffusionZBatch b = levels_of(levels, items, 4);
        expect_neighbours_change_nothing(&b);
        b.guidance_scale = 3;
        expect_neighbours_change_nothing(&b);
    }
}

/* In groups, of another number of pictures at each size; products of more rows may sum in another
 * order on the CPU. */
static void coarse_pictures_in_groups(void **state)
{
    (void)state;
    const DiffusionZItem some[4] = {items[0], items[2], items[3], items[0]};
    DiffusionZOutput alone[4], together[4];
    static const int64_t rows[] = {4 * 64, 2 * 96}; /* 4 small and 2 large; 2 of each */
    for (int levels = 2; levels <= 3; levels++) {
        const DiffusionZBatch b = levels_of(levels, some, 4);
        run(&b, alone);
        for (int c = 0; c < 2; c++) {
            ctx->engine->group_rows = rows[c];
            run(&b, together);
            ctx->engine->group_rows = 0;
            for (int i = 0; i < 4; i++) {
                assert_int_equal(together[i].error_code, 0);
                assert_near(together[i].latent, alone[i].latent, VALUES);
            }
            diffusionz_release_outputs(together, 4);
        }
        diffusionz_release_outputs(alone, 4);
    }
}

/* Schedules of the same length with other sigmas are kept apart, and exact runs stay as they were
 * whatever came before. */
static void runs_of_several_kinds_take_turns(void **state)
{
    (void)state;
    DiffusionZItem item = items[0];
    DiffusionZOutput first[5], again;
    DiffusionZBatch kinds[5];
    const DiffusionZLora lora = {golden("loras/diffusers.safetensors"), 0.8f};
    kinds[0] = batch_of(items, 1);
    kinds[1] = batch_of(&item, 1);
    item.start_latent = latents[1];
    kinds[1].start = DIFFUSIONZ_FROM_SIGMA;
    kinds[1].start_sigma = 0.8;
    kinds[1].rest_steps = STEPS;
    kinds[2] = coarse_of(items, 1);
    kinds[3] = coarse_of(items, 1);
    kinds[3].loras = &lora;
    kinds[3].lora_count = 1;
    kinds[4] = levels_of(3, items, 1);
    for (int i = 0; i < 5; i++)
        run(&kinds[i], &first[i]);
    for (int i = 3; i < 5; i++)
        assert_memory_not_equal(first[2].latent, first[i].latent, VALUES * sizeof(float));
    for (int i = 4; i >= 0; i--) {
        run(&kinds[i], &again);
        assert_same_item(&again, &first[i]);
        diffusionz_release_outputs(&again, 1);
    }
    diffusionz_release_outputs(first, 5);
}

/* --- coarse first ----------------------------------------------------------------------------- */

/* Runs the batch, of one item, at a smaller size and takes the prediction of the clean latent at
 * its step k, which the stride to sigma 0 gives; enlarges it to a picture of width x height. */
static void predict(DiffusionZBatch b, int k, int width, int height, float *ret)
{
    static float clean[VALUES], zero[VALUES];
    DiffusionZOutput out;
    b.keep_trajectory = 1;
    run(&b, &out);
    const int64_t from[3] = {16, b.height / 8, b.width / 8}, to[3] = {16, height / 8, width / 8};
    const int64_t count = from[0] * from[1] * from[2];
    const float *x = out.trajectory + k * count, *next = x + count;
    const double s = out.sigmas[k], t = out.sigmas[k + 1];
    for (int i = 0; i < count; i++)
        clean[i] = (float)((double)x[i] - s * ((double)next[i] - (double)x[i]) / (t - s));
    struct kt_scope *scope = kt_scope_new(KT_CPU);
    kt enlarged = kt_noised(scope, kt_from_host(scope, clean, KT_F32, KT_F32, 3, from),
                            kt_from_host(scope, zero, KT_F32, KT_F32, 3, to), 0);
    kt_to_host_f32(scope, enlarged, ret, (size_t)(to[0] * to[1] * to[2]));
    kt_scope_free(scope);
    diffusionz_release_outputs(&out, 1);
}

/* By hand: the first steps of a small exact run, or without its first step of one from a start;
 * with a third level the next step of a run at the middle size, which starts from the prediction of
 * these; then a run that starts from the last prediction. */
static void a_coarse_run_is_a_run_at_each_size(void **state)
{
    (void)state;
    static float middle[VALUES], large[VALUES];
    for (int kind = 0; kind < 3; kind++) {
        const int levels = kind == 1 ? 3 : 2, skip = kind == 2;
        DiffusionZItem item = items[0];
        DiffusionZBatch b = batch_of(&item, 1);
        DiffusionZOutput whole, rest;
        b.width = b.height = SMALL;
        b.start = skip ? DIFFUSIONZ_FROM_STEP : DIFFUSIONZ_FROM_NOISE;
        b.start_step = skip;
        item.start_latent = skip ? latents[1] : NULL; /* as much of it as is small */
        if (levels == 2)
            predict(b, 1 - skip, WIDE, HIGH, large);
        else
            predict(b, 0, MIDDLE, HIGH, middle);
        if (levels == 3) {
            b.width = MIDDLE;
            b.height = HIGH;
            b.start = DIFFUSIONZ_FROM_STEP;
            b.start_step = 1;
            item.start_latent = middle;
            predict(b, 0, WIDE, HIGH, large);
        }
        item.start_latent = large;
        b = batch_of(&item, 1);
        b.start = DIFFUSIONZ_FROM_SIGMA;
        b.start_sigma = 0.75;
        b.rest_steps = 3;
        run(&b, &rest);
        item.start_latent = skip ? latents[1] : NULL;
        b = levels_of(levels, &item, 1);
        b.coarse_skip = skip;
        run(&b, &whole);
        assert_int_equal(whole.error_code, 0);
        assert_near(whole.latent, rest.latent, VALUES);
        assert_int_equal(whole.latent_width, WIDE / 8);
        assert_int_equal(whole.latent_height, HIGH / 8);
        assert_null(whole.trajectory);
        diffusionz_release_outputs(&rest, 1);
        diffusionz_release_outputs(&whole, 1);
    }
}

/* --- trouble ---------------------------------------------------------------------------------- */

static void what_ends_a_coarse_item_ends_no_other(void **state)
{
    (void)state;
    const int32_t up = 1;
    DiffusionZItem some[4] = {items[0], items[1], items[2], items[3]};
    some[1].cancel = &up;
    some[2].prompt = "poison";
    poison(ctx, some[2].prompt);
    int32_t progress = -1;
    DiffusionZOutput out[4], alone;
    for (int levels = 2; levels <= 3; levels++) {
        DiffusionZBatch b = levels_of(levels, some, 4), one = levels_of(levels, items, 1);
        b.progress = &progress;
        run(&b, out);
        assert_int_equal(progress, 5);
        assert_int_equal(out[1].error_code, KILN_CANCELLED);
        assert_int_equal(out[2].error_code, KILN_NOT_FINITE);
        assert_string_equal(out[2].error_msg, "non-finite latent at step 1 of 5");
        for (int i = 0; i < 4; i += 3) {
            one.items = items + i;
            run(&one, &alone);
            assert_same_item(&out[i], &alone);
            diffusionz_release_outputs(&alone, 1);
        }
        diffusionz_release_outputs(out, 4);
    }
}

/* Steps of a size are counted on from those of the smaller one. */
static void a_step_that_is_not_finite_is_named(void **state)
{
    (void)state;
    DiffusionZOutput before, out;
    const DiffusionZBatch b = levels_of(3, items, 1);
    static const char *const messages[] = {
        "non-finite latent at step 1 of 5", "non-finite latent at step 2 of 5",
        "non-finite latent at step 3 of 5", "non-finite latent at step 4 of 5",
        "non-finite latent at step 5 of 5"};
    run(&b, &before);
    for (int step = 0; step < 5; step++) {
        poison_step(ctx, step);
        run(&b, &out);
        assert_int_equal(out.error_code, KILN_NOT_FINITE);
        assert_string_equal(out.error_msg, messages[step]);
        forget_schedule(ctx);
        diffusionz_release_outputs(&out, 1);
        run(&b, &out);
        assert_same_item(&out, &before);
        diffusionz_release_outputs(&out, 1);
    }
    diffusionz_release_outputs(&before, 1);
}

/* A cancel during the small phase, or between it and the middle one, by a flag that the batch's own
 * progress raises. */
static void a_cancel_is_seen_before_the_full_size(void **state)
{
    (void)state;
    for (int levels = 2; levels <= 3; levels++) {
        int32_t progress = 0;
        DiffusionZItem item = items[0];
        item.cancel = &progress; /* up once the first step has ended */
        DiffusionZBatch b = levels_of(levels, &item, 1);
        b.progress = &progress;
        DiffusionZOutput out;
        run(&b, &out);
        assert_int_equal(out.error_code, KILN_CANCELLED);
        assert_null(out.latent);
        assert_int_equal(progress, 5);
        diffusionz_release_outputs(&out, 1);
    }
}

/* No tensor may be larger than the largest that a picture alone needs. */
static void a_group_that_does_not_fit_is_split_in_its_phase(void **state)
{
    (void)state;
    const DiffusionZItem some[4] = {items[0], items[2], items[3], items[0]};
    DiffusionZBatch b = levels_of(3, some, 4);
    DiffusionZOutput alone[4], together[4];
    int32_t progress = -1;
    b.skip_decode = 1;
    b.progress = &progress;
    run(&b, alone); /* whose texts are kept from now on */
    diffusionz_release_outputs(alone, 4);
    kt_memory_bound(0);
    run(&b, alone);
    const size_t most = kt_memory_bound(0);
    for (int room = 1; room <= 2; room++) {
        ctx->engine->note[0] = 0;
        ctx->engine->group_rows = 4 * 96;
        kt_memory_bound(room * most);
        run(&b, together);
        kt_memory_bound(0);
        assert_true(ctx->engine->group_rows < 4 * 96);
        assert_non_null(strstr(ctx->engine->note, ": fewer than "));
        assert_int_equal(ctx->engine->tight_pixels, 0);
        ctx->engine->group_rows = 0;
        for (int i = 0; i < 4; i++) {
            if (together[i].error_code)
                fail_msg("%s", together[i].error_msg);
            assert_near(together[i].latent, alone[i].latent, VALUES);
        }
        assert_int_equal(progress, 5);
        diffusionz_release_outputs(together, 4);
    }
    diffusionz_release_outputs(alone, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_is_noised_with_the_noise_of_its_seed),
        cmocka_unit_test(a_run_goes_on_from_the_middle_of_another),
        cmocka_unit_test(a_start_at_the_first_step_is_the_exact_run),
        cmocka_unit_test(a_start_that_is_not_finite_fails_alone),
        cmocka_unit_test(a_picture_is_encoded_first),
        cmocka_unit_test(neighbours_with_other_starts_change_nothing),
        cmocka_unit_test(neighbours_of_a_coarse_picture_change_nothing),
        cmocka_unit_test(coarse_pictures_in_groups),
        cmocka_unit_test(runs_of_several_kinds_take_turns),
        cmocka_unit_test(a_coarse_run_is_a_run_at_each_size),
        cmocka_unit_test(what_ends_a_coarse_item_ends_no_other),
        cmocka_unit_test(a_step_that_is_not_finite_is_named),
        cmocka_unit_test(a_cancel_is_seen_before_the_full_size),
        cmocka_unit_test(a_group_that_does_not_fit_is_split_in_its_phase),
    };
    return cmocka_run_group_tests(tests, make_starts, close_context);
}
