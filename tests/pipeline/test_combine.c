/* test_combine.c - starts of several latents, and runs that are given up because of what their
 * first step changes. */
#include <math.h>

#include "tests/pipeline/one_context.h"

#define WIDE 160
#define HIGH 64
#define STEPS 4
#define VALUES (16 * (WIDE / 8) * (HIGH / 8))
#define LATENTS 5

static float latents[LATENTS][VALUES];

static void run(const DiffusionZBatch *batch, DiffusionZOutput *out)
{
    if (diffusionz_run_batch(ctx, batch, out, NULL))
        fail_msg("%s", diffusionz_last_error());
}

/* Latents that look like a model's: those of its own pictures. */
static int make_latents(void **state)
{
    (void)open_context(state);
    DiffusionZItem items[LATENTS];
    DiffusionZOutput out[LATENTS];
    for (int i = 0; i < LATENTS; i++)
        items[i] = (DiffusionZItem){.prompt = "a star", .seed = (uint64_t)i + 10};
    const DiffusionZBatch batch = {.items = items,
                                   .item_count = LATENTS,
                                   .width = WIDE,
                                   .height = HIGH,
                                   .num_steps = 1,
                                   .skip_decode = 1};
    if (diffusionz_run_batch(ctx, &batch, out, NULL))
        return -1;
    for (int i = 0; i < LATENTS; i++)
        memcpy(latents[i], out[i].latent, sizeof latents[i]);
    diffusionz_release_outputs(out, LATENTS);
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

static void noise_of(uint64_t seed, float *out)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    const int64_t shape[3] = {16, HIGH / 8, WIDE / 8};
    kt_to_host_f32(s, kt_randn(s, seed, 3, shape), out, VALUES);
    kt_scope_free(s);
}

/* --- combinations ----------------------------------------------------------------------------- */

/* t of the way along the arc, in doubles from the definition. */
static void arc(const double *a, const double *b, double t, double *out)
{
    double aa = 0, bb = 0, ab = 0;
    for (int i = 0; i < VALUES; i++) {
        aa += a[i] * a[i];
        bb += b[i] * b[i];
        ab += a[i] * b[i];
    }
    const double angle = acos(ab / sqrt(aa * bb));
    for (int i = 0; i < VALUES; i++)
        out[i] = (sin((1 - t) * angle) * a[i] + sin(t * angle) * b[i]) / sin(angle);
}

static double values[LATENTS][VALUES], pair[VALUES], other[VALUES];

static void expected(int way, int count, double *out)
{
    for (int k = 0; k < count; k++)
        for (int i = 0; i < VALUES; i++)
            values[k][i] = (double)latents[k][i];
    memcpy(out, values[0], sizeof values[0]);
    if (way == DIFFUSIONZ_LERP) {
        for (int i = 0; i < VALUES; i++) {
            out[i] = 0;
            for (int k = 0; k < count; k++)
                out[i] += values[k][i] / count;
        }
    } else if (way == DIFFUSIONZ_SLERP) {
        for (int k = 1; k < count; k++)
            arc(out, values[k], 1.0 / (k + 1), out);
    } else if (count == 2) {
        arc(values[0], values[1], 0.5, out);
    } else if (count == 3) {
        arc(values[0], values[1], 0.5, pair);
        arc(pair, values[2], 1.0 / 3, out);
    } else {
        arc(values[0], values[1], 0.5, pair);
        arc(values[2], values[3], 0.5, other);
        arc(pair, other, 0.5, out);
        if (count == 5)
            arc(out, values[4], 0.2, out);
    }
}

static void check_way(int way, int count)
{
    static float noise[VALUES];
    static double clean[VALUES];
    const float *more[LATENTS - 1] = {latents[1], latents[2], latents[3], latents[4]};
    const DiffusionZItem item = {.prompt = "a star",
                                 .seed = 3,
                                 .start_latent = latents[0],
                                 .more_latents = more,
                                 .more_count = count - 1,
                                 .combine = way};
    DiffusionZBatch b = batch_of(&item, 1, 2);
    DiffusionZOutput out;
    b.keep_trajectory = 1;
    run(&b, &out);
    if (out.error_code)
        fail_msg("%s", out.error_msg);
    expected(way, count, clean);
    noise_of(3, noise);
    const double s = out.sigmas[0];
    double of = 0, is = 0;
    for (int i = 0; i < VALUES; i++) {
        const double left = (double)out.trajectory[i] - (1 - s) * clean[i];
        assert_float_equal(left, s * (double)noise[i], 3e-6);
        is += left * left;
        of += s * s * (double)noise[i] * (double)noise[i];
    }
    assert_true(fabs(is / of - 1) < 0.01); /* noise of exactly the level, whatever the way */
    diffusionz_release_outputs(&out, 1);
}

static void latents_become_one_and_noise_is_added_once(void **state)
{
    (void)state;
    for (int way = DIFFUSIONZ_LERP; way <= DIFFUSIONZ_TREE; way++)
        for (int count = 2; count <= LATENTS; count++)
            check_way(way, count);
}

static void single_is_the_first_alone(void **state)
{
    (void)state;
    const float *more[1] = {latents[1]};
    DiffusionZItem item = {.prompt = "a star", .seed = 3, .start_latent = latents[0]};
    const DiffusionZBatch b = batch_of(&item, 1, 2);
    DiffusionZOutput one, both;
    run(&b, &one);
    item.more_latents = more;
    item.more_count = 1;
    run(&b, &both);
    assert_int_equal(both.error_code, 0);
    assert_memory_equal(one.latent, both.latent, VALUES * sizeof(float));
    diffusionz_release_outputs(&one, 1);
    diffusionz_release_outputs(&both, 1);
}

static void one_that_is_not_finite_fails_its_item_alone(void **state)
{
    (void)state;
    static float bad[VALUES];
    memcpy(bad, latents[1], sizeof bad);
    bad[7] = INFINITY;
    const float *more[2] = {latents[2], bad};
    const DiffusionZItem items[2] = {
        {.prompt = "a star",
         .start_latent = latents[0],
         .more_latents = more,
         .more_count = 2,
         .combine = DIFFUSIONZ_SLERP},
        {.prompt = "a star", .start_latent = latents[0]},
    };
    const DiffusionZBatch b = batch_of(items, 2, 1);
    DiffusionZOutput out[2];
    run(&b, out);
    assert_int_equal(out[0].error_code, KILN_BAD_INPUT);
    assert_string_equal(out[0].error_msg, "the latent to start from is not finite (value 7)");
    assert_int_equal(out[0].start_refused, 0);
    assert_int_equal(out[1].error_code, 0);
    diffusionz_release_outputs(out, 2);
}

/* --- what the first step changes -------------------------------------------------------------- */

/* By the definition, from the states before and after the first step. */
static double change_of(const float *before, const float *after, double s0, double s1,
                        const float *start)
{
    double off = 0, of = 0;
    for (int i = 0; i < VALUES; i++) {
        const double velocity = ((double)after[i] - (double)before[i]) / (s1 - s0);
        const double clean = (double)before[i] - s0 * velocity, a = (double)start[i];
        off += (clean - a) * (clean - a);
        of += a * a;
    }
    return sqrt(off / of);
}

static void the_change_is_measured_and_changes_nothing(void **state)
{
    (void)state;
    DiffusionZItem item = {.prompt = "two stars", .seed = 5, .start_latent = latents[0]};
    for (int step = 1; step < STEPS; step++) {
        DiffusionZBatch b = batch_of(&item, 1, step);
        DiffusionZOutput plain, out;
        b.keep_trajectory = 1;
        item.change_most = 0;
        run(&b, &plain);
        assert_true(plain.change == 0);
        item.change_most = INFINITY;
        run(&b, &out);
        assert_int_equal(out.error_code, 0);
        assert_int_equal(out.start_refused, 0);
        assert_int_equal(out.wasted, 0);
        assert_memory_equal(out.latent, plain.latent, VALUES * sizeof(float));
        assert_memory_equal(out.rgb, plain.rgb, WIDE * HIGH * 3);
        const bool last = step == STEPS - 1;
        const double want = change_of(out.trajectory, last ? out.latent : out.trajectory + VALUES,
                                      out.sigmas[0], last ? 0 : out.sigmas[1], latents[0]);
        assert_true(want > 0 && fabs(out.change / want - 1) < 1e-4);
        diffusionz_release_outputs(&plain, 1);
        diffusionz_release_outputs(&out, 1);
    }
}

static void check_refusal(int step, int64_t group_rows)
{
    DiffusionZItem items[4];
    DiffusionZOutput free_runs[4], out[4];
    int32_t progress = -1;
    for (int i = 0; i < 4; i++)
        items[i] = (DiffusionZItem){.prompt = i == 3 ? "" : "a star",
                                    .seed = (uint64_t)i,
                                    .start_latent = latents[i],
                                    .change_most = INFINITY};
    DiffusionZBatch b = batch_of(items, 4, step);
    b.progress = &progress;
    ctx->engine->group_rows = group_rows;
    run(&b, free_runs);
    items[1].change_most = free_runs[1].change * 0.99;  /* too large, */
    items[2].change_least = free_runs[2].change * 1.01; /* and too small */
    items[3].change_least = free_runs[3].change * 0.99;
    items[3].change_most = free_runs[3].change * 1.01;
    run(&b, out);
    ctx->engine->group_rows = 0;
    assert_int_equal(progress, STEPS - step);
    for (int i = 0; i < 4; i++) {
        const bool refused = i == 1 || i == 2;
        assert_int_equal(out[i].start_refused, refused);
        assert_int_equal(out[i].error_code, refused ? KILN_BAD_INPUT : 0);
        assert_true(out[i].change == free_runs[i].change);
        if (refused) {
            assert_null(out[i].rgb);
            assert_non_null(strstr(out[i].error_msg, "the first step changes the start by"));
            assert_true(out[i].wasted >= 1 && out[i].wasted <= STEPS - step);
            continue;
        }
        assert_int_equal(out[i].wasted, 0);
        assert_memory_equal(out[i].latent, free_runs[i].latent, VALUES * sizeof(float));
        assert_memory_equal(out[i].rgb, free_runs[i].rgb, WIDE * HIGH * 3);
    }
    diffusionz_release_outputs(free_runs, 4);
    diffusionz_release_outputs(out, 4);
}

static void a_run_out_of_bounds_is_given_up_alone(void **state)
{
    (void)state;
    for (int step = 1; step < STEPS; step++) {
        check_refusal(step, 0);
        check_refusal(step, 4 * 96); /* in groups */
    }
}

static void a_batch_of_refused_runs_ends_early(void **state)
{
    (void)state;
    const DiffusionZItem item = {
        .prompt = "a star", .start_latent = latents[0], .change_least = 100, .change_most = 200};
    const DiffusionZBatch b = batch_of(&item, 1, 0);
    DiffusionZOutput out;
    run(&b, &out);
    assert_int_equal(out.start_refused, 1);
    assert_int_equal(out.wasted, 1); /* the CPU sees it at once */
    diffusionz_release_outputs(&out, 1);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void expect(DiffusionZItem item, const char *why)
{
    const DiffusionZBatch b = batch_of(&item, 1, 1);
    DiffusionZOutput out;
    assert_int_equal(diffusionz_run_batch(ctx, &b, &out, NULL), KILN_BAD_INPUT);
    if (!strstr(diffusionz_last_error(), why))
        fail_msg("%s", diffusionz_last_error());
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    static float mask[VALUES / 16];
    const float *more[2] = {latents[1], NULL};
    const DiffusionZItem good = {.prompt = "a star",
                                 .start_latent = latents[0],
                                 .more_latents = more,
                                 .more_count = 1,
                                 .combine = DIFFUSIONZ_LERP};
    DiffusionZItem bad = good;
    bad.more_count = 5;
    expect(bad, "5 more latents, combined in way 1: at most 4");
    bad = good;
    bad.combine = 4;
    expect(bad, "combined in way 4");
    bad = good;
    bad.more_count = 2;
    expect(bad, "a latent to combine is missing");
    bad.more_latents = NULL;
    expect(bad, "a latent to combine is missing");
    bad = good;
    bad.change_least = 2;
    bad.change_most = 1;
    expect(bad, "a change of 2 to 1");
    bad.change_least = NAN;
    expect(bad, "a change of nan to 1");
    bad = good;
    bad.change_most = 1;
    bad.start_mask = mask;
    expect(bad, "without a mask");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latents_become_one_and_noise_is_added_once),
        cmocka_unit_test(single_is_the_first_alone),
        cmocka_unit_test(one_that_is_not_finite_fails_its_item_alone),
        cmocka_unit_test(the_change_is_measured_and_changes_nothing),
        cmocka_unit_test(a_run_out_of_bounds_is_given_up_alone),
        cmocka_unit_test(a_batch_of_refused_runs_ends_early),
        cmocka_unit_test(what_does_not_go_together_is_refused),
    };
    return cmocka_run_group_tests(tests, make_latents, close_context);
}
