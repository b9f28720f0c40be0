/* test_pace.c - what a worker's heartbeats say of the end of a batch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "scheduler/pace.h"

static struct kiln_pace pace;

static int fresh(void **state)
{
    (void)state;
    pace = (struct kiln_pace){0};
    return 0;
}

/* Of 8 steps; in milliseconds. */
static long left_ms(const char *running, uint32_t step, int64_t now_ms)
{
    struct kiln_heartbeat beat = {.step = step, .steps = running[0] ? 8 : 0};
    snprintf(beat.running, sizeof beat.running, "%s", running);
    const struct kiln_mode exact = {.kind = KILN_MODE_EXACT};
    return lround(1000 * kiln_pace_left_s(&pace, &beat, &exact, now_ms));
}

/* Four quick steps at half the side, then three: each of these takes four times as long. */
static void small_steps_count_a_quarter(void **state)
{
    (void)state;
    struct kiln_mode mode = {.kind = KILN_MODE_COARSE, .small = 4, .full = 3, .sigma = 0.75};
    struct kiln_heartbeat beat = {.running = "a", .step = 0, .steps = 7};
    assert_true(kiln_pace_left_s(&pace, &beat, &mode, 0) == 0);
    beat.step = 2;
    assert_true(fabs(kiln_pace_left_s(&pace, &beat, &mode, 1000) - 7) < 1e-9);
    beat.step = 5;
    assert_true(fabs(kiln_pace_left_s(&pace, &beat, &mode, 4000) - 4) < 1e-9);
    /* Rendered as something else: every step counts the same. */
    beat.steps = 8;
    beat.step = 4;
    pace.running[0] = '\0';
    assert_true(kiln_pace_left_s(&pace, &beat, &mode, 5000) == 0);
    beat.step = 6;
    assert_true(fabs(kiln_pace_left_s(&pace, &beat, &mode, 7000) - 2) < 1e-9);
}

/* At a quarter of the side, at half, and at full: of 4 * 1/16 + 2 * 1/4 + 3. */
static void a_third_level_counts_a_sixteenth(void **state)
{
    (void)state;
    const struct kiln_mode mode = {
        .kind = KILN_MODE_COARSE, .small = 4, .middle = 2, .full = 3, .sigma = 0.75};
    const struct kiln_mode automatic = {.kind = KILN_MODE_COARSE_AUTO};
    for (int told = 0; told < 2; told++) { /* by the assignment, and by the heartbeat */
        struct kiln_heartbeat beat = {.running = "a", .steps = 9};
        beat.coarse_steps = told ? 4 : 0;
        beat.middle_steps = told ? 2 : 0;
        pace = (struct kiln_pace){0};
        assert_true(kiln_pace_left_s(&pace, &beat, told ? &automatic : &mode, 0) == 0);
        beat.step = 4;
        double left = kiln_pace_left_s(&pace, &beat, told ? &automatic : &mode, 1000);
        assert_true(fabs(left - 14) < 1e-9);
        beat.step = 6;
        left = kiln_pace_left_s(&pace, &beat, told ? &automatic : &mode, 3000);
        assert_true(fabs(left - 12) < 1e-9);
    }
}

/* Assigned as coarse=auto: the worker has decided, and its heartbeat says what. */
static void what_auto_became_is_told(void **state)
{
    (void)state;
    const struct kiln_mode mode = {.kind = KILN_MODE_COARSE_AUTO};
    struct kiln_heartbeat beat = {.running = "a", .step = 0, .steps = 7, .coarse_steps = 4};
    assert_true(kiln_pace_left_s(&pace, &beat, &mode, 0) == 0);
    beat.step = 2;
    assert_true(fabs(kiln_pace_left_s(&pace, &beat, &mode, 1000) - 7) < 1e-9);
    beat = (struct kiln_heartbeat){.running = "b", .step = 0, .steps = 8}; /* exact */
    assert_true(kiln_pace_left_s(&pace, &beat, &mode, 2000) == 0);
    beat.step = 2;
    assert_true(fabs(kiln_pace_left_s(&pace, &beat, &mode, 3000) - 3) < 1e-9);
}

static void two_beats_say_it(void **state)
{
    (void)state;
    assert_int_equal(left_ms("a", 0, 1000), 0);
    assert_int_equal(left_ms("a", 0, 2000), 0); /* no step done */
    assert_int_equal(left_ms("a", 2, 3000), 6000);
    assert_int_equal(left_ms("a", 6, 5000), 1333); /* over all that was seen of it */
    assert_int_equal(left_ms("a", 8, 6000), 1);
}

static void the_pace_of_another_batch_says_nothing(void **state)
{
    (void)state;
    left_ms("a", 0, 1000);
    assert_int_equal(left_ms("b", 4, 2000), 0);
    assert_int_equal(left_ms("b", 6, 3000), 1000);
    assert_int_equal(left_ms("", 0, 4000), 0); /* idle */
    assert_int_equal(left_ms("", 0, 5000), 0);
    assert_int_equal(left_ms("b", 6, 6000), 0); /* as if never seen */
}

/* The second call of an assignment, whose items differ in guidance. */
static void steps_that_begin_again_are_another_run(void **state)
{
    (void)state;
    left_ms("a", 5, 1000);
    assert_int_equal(left_ms("a", 1, 2000), 0);
    assert_int_equal(left_ms("a", 3, 3000), 2500);
}

static void nonsense_is_not_known(void **state)
{
    (void)state;
    left_ms("a", 2, 1000);
    assert_int_equal(left_ms("a", 9, 2000), 0);
    assert_int_equal(left_ms("a", 4, 1000), 0);
    assert_int_equal(left_ms("a", 4, 500), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(small_steps_count_a_quarter, fresh),
        cmocka_unit_test_setup(a_third_level_counts_a_sixteenth, fresh),
        cmocka_unit_test_setup(what_auto_became_is_told, fresh),
        cmocka_unit_test_setup(two_beats_say_it, fresh),
        cmocka_unit_test_setup(the_pace_of_another_batch_says_nothing, fresh),
        cmocka_unit_test_setup(steps_that_begin_again_are_another_run, fresh),
        cmocka_unit_test_setup(nonsense_is_not_known, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
