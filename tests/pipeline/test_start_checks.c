/* test_start_checks.c - where a run may begin: sigmas and steps, and every refusal by its name. */
#include <math.h>

#include "pipeline/engine/parts.h"
#include "tests/pipeline/one_context.h"

#define SIDE 64

static const DiffusionZItem plain = {.prompt = "a star", .seed = 1};
static const float latent[16 * 64];
static const uint8_t rgb[SIDE * SIDE * 3];
static const DiffusionZItem started = {.prompt = "a star", .seed = 1, .start_latent = latent};

static DiffusionZBatch batch_of(const DiffusionZItem *items)
{
    return (DiffusionZBatch){
        .items = items, .item_count = 1, .width = 2 * SIDE, .height = SIDE, .num_steps = 8};
}

static DiffusionZBatch coarse(void)
{
    DiffusionZBatch b = batch_of(&plain);
    b.start = DIFFUSIONZ_FROM_SIGMA;
    b.start_sigma = 0.75;
    b.coarse_steps = 4;
    b.rest_steps = 3;
    b.coarse_width = b.coarse_height = SIDE;
    return b;
}

static DiffusionZBatch three_levels(void)
{
    DiffusionZBatch b = coarse();
    b.coarse_steps = 3;
    b.middle_steps = 1;
    b.middle_width = SIDE + 16;
    b.middle_height = SIDE;
    return b;
}

static void expect(DiffusionZBatch b, int code, const char *part)
{
    DiffusionZOutput out = {0};
    assert_int_equal(diffusionz_run_batch(ctx, &b, &out, NULL), code);
    if (!strstr(diffusionz_last_error(), part))
        fail_msg("'%s' lacks '%s'", diffusionz_last_error(), part);
    assert_null(out.latent);
}

/* That of a batch's fields, which a prefetch and the count of forwards find, too. */
static void expect_field(DiffusionZBatch b, int code, const char *part)
{
    expect(b, code, part);
    assert_int_equal(diffusionz_prefetch(ctx, &b), code);
    assert_int_equal(diffusionz_forwards(ctx, &b), 0);
}

static void kinds_of_start_are_refused_by_name(void **state)
{
    (void)state;
    DiffusionZBatch b = batch_of(&started);
    b.start = 3;
    expect_field(b, KILN_BAD_INPUT, "start 3");
    b.start = -1;
    expect_field(b, KILN_BAD_INPUT, "start -1");
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = -1;
    expect_field(b, KILN_BAD_INPUT, "start step -1: must be 0 to 7");
    b.start_step = 8;
    expect_field(b, KILN_BAD_INPUT, "start step 8: must be 0 to 7");
    b.start = DIFFUSIONZ_FROM_SIGMA;
    static const double bad[] = {0, -0.5, 1.0001, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        b.start_sigma = bad[i];
        expect_field(b, KILN_BAD_INPUT, "start sigma ");
    }
    b.start_sigma = 0.5;
    b.rest_steps = -1;
    expect_field(b, KILN_BAD_INPUT, "steps -1 from the start on");
    b.rest_steps = KILN_STEPS_MAX + 1;
    expect_field(b, KILN_BAD_INPUT, "steps 51 from the start on");
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = b.rest_steps = 1;
    expect_field(b, KILN_BAD_INPUT, "0 without a start sigma");
    b.start = DIFFUSIONZ_FROM_NOISE;
    b.items = &plain;
    expect_field(b, KILN_BAD_INPUT, "0 without a start sigma");
}

static void coarse_runs_are_refused_by_name(void **state)
{
    (void)state;
    DiffusionZBatch b = coarse();
    b.coarse_steps = -1;
    expect_field(b, KILN_BAD_INPUT, "coarse steps -1: must be 0 to 8");
    b.coarse_steps = 9;
    expect_field(b, KILN_BAD_INPUT, "coarse steps 9: must be 0 to 8");
    b = coarse();
    b.rest_steps = 0;
    expect_field(b, KILN_BAD_INPUT, "the sigma of the hand-over");
    b = coarse();
    b.start = DIFFUSIONZ_FROM_NOISE;
    b.rest_steps = 0;
    expect_field(b, KILN_BAD_INPUT, "the sigma of the hand-over");
    b = coarse();
    b.keep_trajectory = 1;
    expect_field(b, KILN_UNSUPPORTED, "no trajectory");
    b = coarse();
    b.coarse_width = 72;
    expect_field(b, KILN_BAD_INPUT, "coarse width 72");
    b = coarse();
    b.coarse_height = 48;
    expect_field(b, KILN_BAD_INPUT, "coarse height 48");
    b = coarse();
    b.coarse_height = 80;
    expect_field(b, KILN_BAD_INPUT, "coarse size 64 x 80: must not exceed the picture's 128 x 64");
}

static void coarse_steps_left_out_are_refused_by_name(void **state)
{
    (void)state;
    DiffusionZBatch b = coarse();
    b.coarse_skip = -1;
    expect_field(b, KILN_BAD_INPUT, "-1 coarse steps left out: must be 0 or below the 4 coarse");
    b.coarse_skip = 4;
    expect_field(b, KILN_BAD_INPUT, "4 coarse steps left out");
    b = batch_of(&plain);
    b.coarse_skip = 1;
    expect_field(b, KILN_BAD_INPUT, "1 coarse steps left out: must be 0 or below the 0 coarse");
    b = coarse();
    b.coarse_skip = 1;
    expect(b, KILN_BAD_INPUT, "item 0: the start is missing");
    assert_int_equal(diffusionz_forwards(ctx, &b), 3 + 3);
    assert_float_equal(diffusionz_start_sigma(ctx, &b), 0.9545, 1e-4);
    DiffusionZItem picture = {.prompt = "a star", .start_rgb = rgb}, masked = started;
    b.items = &picture;
    expect(b, KILN_BAD_INPUT, "item 0: coarse steps are left out by starts from latents alone");
    masked.start_mask = latent;
    b.items = &masked;
    expect(b, KILN_BAD_INPUT, "item 0: coarse steps are left out by starts from latents alone");
}

static void third_levels_are_refused_by_name(void **state)
{
    (void)state;
    DiffusionZBatch b = three_levels();
    b.middle_steps = -1;
    expect_field(b, KILN_BAD_INPUT, "middle steps -1: must be 0 to 5");
    b.middle_steps = 6;
    expect_field(b, KILN_BAD_INPUT, "middle steps 6: must be 0 to 5");
    b.middle_steps = INT32_MAX;
    expect_field(b, KILN_BAD_INPUT, "middle steps 2147483647: must be 0 to 5");
    b = three_levels();
    b.coarse_steps = 0;
    expect_field(b, KILN_BAD_INPUT, "middle steps 1: must be 0 to 0");
    b = three_levels();
    b.keep_trajectory = 1;
    expect_field(b, KILN_UNSUPPORTED, "no trajectory");
    b = three_levels();
    b.middle_width = 72;
    expect_field(b, KILN_BAD_INPUT, "middle width 72");
    b = three_levels();
    b.middle_height = 48;
    expect_field(b, KILN_BAD_INPUT, "middle height 48");
    b = three_levels();
    b.middle_height = 80;
    expect_field(b, KILN_BAD_INPUT, "middle size 80 x 80: must not exceed the picture's 128 x 64");
    b = three_levels();
    b.coarse_width = 96;
    expect_field(b, KILN_BAD_INPUT, "coarse size 96 x 64: must not exceed the middle 80 x 64");
    b = three_levels();
    b.by_difference = 1;
    expect_field(b, KILN_BAD_INPUT, "an edit by difference needs starts");
}

/* A prefetch and the count of forwards do not need the items' starts. */
static void starts_of_items_are_refused_by_name(void **state)
{
    (void)state;
    const DiffusionZItem pairs[][2] = {
        {started, plain},
        {started, started},
        {plain, started},
    };
    DiffusionZBatch b = batch_of(pairs[0]);
    b.item_count = 2;
    b.start = DIFFUSIONZ_FROM_STEP;
    expect(b, KILN_BAD_INPUT, "item 1: the start is missing");
    assert_int_equal(diffusionz_prefetch(ctx, &b), 0);
    assert_int_equal(diffusionz_forwards(ctx, &b), 8);
    DiffusionZItem both[2] = {started, started};
    both[1].start_rgb = rgb;
    b.items = both;
    expect(b, KILN_BAD_INPUT, "item 1: starts from a latent and from a picture");
    static const float mask[2 * SIDE / 8 * (SIDE / 8)];
    DiffusionZItem masked[2] = {started, started};
    masked[0].start_mask = mask;
    masked[0].start_latent = NULL;
    b = batch_of(masked);
    expect(b, KILN_BAD_INPUT, "item 0: has a mask, but no start of which it keeps a part");
    b = coarse();
    b.items = masked;
    expect(b, KILN_BAD_INPUT, "item 0: has a mask, but no start of which it keeps a part");
    b = batch_of(pairs[2]);
    b.item_count = 2;
    expect(b, KILN_BAD_INPUT, "item 1: has a start, but its batch begins from noise");
    b = coarse();
    b.items = &started;
    expect(b, KILN_BAD_INPUT, "item 0: has a start, but its batch begins from noise");
}

static void forwards_are_counted(void **state)
{
    (void)state;
    DiffusionZBatch b = batch_of(&started);
    assert_int_equal(diffusionz_forwards(NULL, &b), 0);
    assert_int_equal(diffusionz_forwards(ctx, NULL), 0);
    assert_int_equal(diffusionz_forwards(ctx, &b), 8);
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = 3;
    assert_int_equal(diffusionz_forwards(ctx, &b), 5);
    b.start = DIFFUSIONZ_FROM_SIGMA;
    /* Of shift 3: .9545 .9 .8333 .75 .6429 .5 .3 after 1 .. 7 of 8 steps. */
    static const struct {
        double sigma;
        int steps;
    } cases[] = {{1, 8},    {0.97, 8},   {0.9545, 7}, {0.9, 6}, {0.8333, 5},
                 {0.75, 4}, {0.6429, 3}, {0.6, 3},    {0.3, 1}, {0.01, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        b.start_sigma = cases[i].sigma;
        if (diffusionz_forwards(ctx, &b) != cases[i].steps)
            fail_msg("%g: %d", cases[i].sigma, diffusionz_forwards(ctx, &b));
    }
    b.rest_steps = 13;
    assert_int_equal(diffusionz_forwards(ctx, &b), 13);
    b = coarse();
    assert_int_equal(diffusionz_forwards(ctx, &b), 7);
    b.coarse_steps = 8;
    b.rest_steps = KILN_STEPS_MAX;
    assert_int_equal(diffusionz_forwards(ctx, &b), 58);
    b = three_levels();
    assert_int_equal(diffusionz_forwards(ctx, &b), 7);
    b.num_steps = b.rest_steps = KILN_STEPS_MAX; /* as many as a time table has */
    b.middle_steps = KILN_STEPS_MAX - b.coarse_steps;
    assert_int_equal(diffusionz_forwards(ctx, &b), 2 * KILN_STEPS_MAX);
}

static void a_batch_says_at_which_noise_level_it_begins(void **state)
{
    (void)state;
    DiffusionZBatch b = batch_of(&started);
    assert_true(diffusionz_start_sigma(NULL, &b) == 0);
    assert_true(diffusionz_start_sigma(ctx, NULL) == 0);
    assert_true(diffusionz_start_sigma(ctx, &b) == 1);
    b.start = DIFFUSIONZ_FROM_STEP;
    static const double ladder[] = {1, 0.9545, 0.9, 0.8333, 0.75, 0.6429, 0.5, 0.3};
    for (b.start_step = 0; b.start_step < 8; b.start_step++)
        assert_true(fabs(diffusionz_start_sigma(ctx, &b) - ladder[b.start_step]) < 1e-4);
    assert_true(diffusionz_start_sigma(ctx, &b) == 0); /* no step is left */
    b.start = DIFFUSIONZ_FROM_SIGMA;
    b.start_sigma = 0.625;
    assert_true(diffusionz_start_sigma(ctx, &b) == 0.625);
    b = coarse();
    assert_true(fabs(diffusionz_start_sigma(ctx, &b) - b.start_sigma) < 1e-6);
}

/* --- sigmas ----------------------------------------------------------------------------------- */

static double sigma_of(double u, double shift)
{
    return shift * u / (1 + (shift - 1) * u);
}

static void check_schedule(const struct kiln_schedule *s, const double *want, int steps)
{
    assert_int_equal(s->steps, steps);
    assert_true(s->sigmas[steps] == 0.0f);
    for (int i = 0; i < steps; i++) {
        assert_float_equal(s->sigmas[i], want[i], 2e-7);
        assert_float_equal(s->times[i], 1 - want[i], 2e-7);
        assert_true(s->strides[i] == s->sigmas[i + 1] - s->sigmas[i]);
    }
}

static void parts_of_a_schedule(void **state)
{
    (void)state;
    const struct kiln_sampler_config config = {.train_steps = 1000, .shift = 3};
    struct kiln_schedule whole, s;
    double want[KILN_STEPS_MAX + 1];
    for (int i = 0; i < 8; i++)
        want[i] = sigma_of(1 - i / 8.0, 3);
    kiln_schedule_fill(&whole, &config, 8);
    check_schedule(&whole, want, 8);
    for (int k = 0; k < 8; k++) {
        s = whole;
        kiln_schedule_skip(&s, &config, k);
        check_schedule(&s, want + k, 8 - k);
        assert_memory_equal(s.strides, whole.strides + k, (size_t)(8 - k) * sizeof *s.strides);
        assert_memory_equal(s.times, whole.times + k, (size_t)(8 - k) * sizeof *s.times);
        s = whole;
        kiln_schedule_cut(&s, &config, k + 1);
        check_schedule(&s, want, k + 1);
        assert_true(s.strides[k] == -whole.sigmas[k]);
    }
    want[4] = 0.7; /* between .75 and .6429 */
    s = whole;
    kiln_schedule_from(&s, &config, 0.7);
    check_schedule(&s, want + 4, 4);
    want[7] = 0.01; /* below all */
    s = whole;
    kiln_schedule_from(&s, &config, 0.01);
    check_schedule(&s, want + 7, 1);
}

static void evenly_spaced_schedules(void **state)
{
    (void)state;
    static const double shifts[] = {1, 3, 6};
    static const double sigmas[] = {1, 0.9, 0.75, 0.0001};
    for (size_t k = 0; k < 3; k++)
        for (size_t n = 0; n < 4; n++)
            for (int steps = 1; steps <= KILN_STEPS_MAX; steps++) {
                const struct kiln_sampler_config config = {1000, shifts[k]};
                struct kiln_schedule s;
                double want[KILN_STEPS_MAX];
                const double u = sigmas[n] / (shifts[k] - (shifts[k] - 1) * sigmas[n]);
                for (int i = 0; i < steps; i++)
                    want[i] = sigma_of(u * (1 - (double)i / steps), shifts[k]);
                kiln_schedule_even(&s, &config, sigmas[n], steps);
                check_schedule(&s, want, steps);
                assert_true(s.sigmas[0] == (float)sigmas[n]);
            }
}

/* The last small step is one to sigma 0, which ends at the prediction of the clean latent. */
static void phases_of_a_coarse_run(void **state)
{
    (void)state;
    struct kiln_phase phases[KILN_PHASES_MAX];
    const DiffusionZBatch b = coarse();
    assert_int_equal(kiln_phases_fill(ctx->engine, &b, phases), 2);
    assert_int_equal(phases[0].width, 8);
    assert_int_equal(phases[0].height, 8);
    assert_int_equal(phases[0].row, 0);
    assert_int_equal(phases[0].schedule.steps, 4);
    assert_true(phases[0].schedule.strides[3] == -phases[0].schedule.sigmas[3]);
    assert_int_equal(phases[1].width, 16);
    assert_int_equal(phases[1].height, 8);
    assert_int_equal(phases[1].row, 4);
    assert_int_equal(phases[1].schedule.steps, 3);
    assert_true(phases[1].schedule.sigmas[0] == 0.75f);
}

/* The middle phase takes the step of the schedule that follows those of the small one. */
static void phases_of_a_third_level(void **state)
{
    (void)state;
    struct kiln_phase two[KILN_PHASES_MAX], phases[KILN_PHASES_MAX];
    DiffusionZBatch b = coarse();
    kiln_phases_fill(ctx->engine, &b, two);
    b = three_levels();
    assert_int_equal(kiln_phases_fill(ctx->engine, &b, phases), 3);
    assert_int_equal(phases[0].width, 8);
    assert_int_equal(phases[0].schedule.steps, 3);
    assert_int_equal(phases[1].width, 10);
    assert_int_equal(phases[1].height, 8);
    assert_int_equal(phases[1].row, 3);
    assert_int_equal(phases[1].schedule.steps, 1);
    assert_true(phases[1].schedule.sigmas[0] == two[0].schedule.sigmas[3]);
    assert_true(phases[1].schedule.strides[0] == -phases[1].schedule.sigmas[0]);
    for (int i = 0; i < 3; i++)
        assert_true(phases[0].schedule.sigmas[i] == two[0].schedule.sigmas[i]);
    assert_true(phases[0].schedule.strides[2] == -phases[0].schedule.sigmas[2]);
    assert_int_equal(phases[2].width, 16);
    assert_int_equal(phases[2].row, 4);
    assert_int_equal(phases[2].schedule.steps, 3);
    assert_memory_equal(phases[2].schedule.sigmas, two[1].schedule.sigmas, 4 * sizeof(float));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_start_are_refused_by_name),
        cmocka_unit_test(coarse_runs_are_refused_by_name),
        cmocka_unit_test(coarse_steps_left_out_are_refused_by_name),
        cmocka_unit_test(third_levels_are_refused_by_name),
        cmocka_unit_test(starts_of_items_are_refused_by_name),
        cmocka_unit_test(forwards_are_counted),
        cmocka_unit_test(a_batch_says_at_which_noise_level_it_begins),
        cmocka_unit_test(parts_of_a_schedule),
        cmocka_unit_test(evenly_spaced_schedules),
        cmocka_unit_test(phases_of_a_coarse_run),
        cmocka_unit_test(phases_of_a_third_level),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
