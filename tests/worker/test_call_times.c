/* test_call_times.c - whether a batch is worth cutting, by what calls took. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/engine/call_times.h"

static const struct kiln_call_kind kind = {.width = 256, .height = 256, .steps = 8};

/* Calls whose time is a share of each picture's steps and a share that no number of pictures
 * changes. */
static double takes(double each_ms, double call_ms, uint32_t step, uint32_t pictures)
{
    return (8 - step) * (each_ms * pictures + call_ms);
}

static void learn(struct kiln_call_times *times, double each_ms, double call_ms, uint32_t step,
                  uint32_t pictures, int times_over)
{
    for (int i = 0; i < times_over; i++)
        kiln_call_times_learn(times, &kind, step, pictures,
                              takes(each_ms, call_ms, step, pictures));
}

/* Eight pictures: five in full, two with one step skipped, one with six. */
static void batch(uint32_t pictures[KILN_STEPS_MAX])
{
    for (int i = 0; i < KILN_STEPS_MAX; i++)
        pictures[i] = 0;
    pictures[0] = 5;
    pictures[1] = 2;
    pictures[6] = 1;
}

static struct kiln_call_times *all_known(double each_ms, double call_ms)
{
    struct kiln_call_times *times = kiln_call_times_new();
    assert_non_null(times);
    for (uint32_t n = 1; n <= 8; n++) {
        learn(times, each_ms, call_ms, 0, n, KILN_CALL_TIMES_KNOWN);
        learn(times, each_ms, call_ms, 1, n, KILN_CALL_TIMES_KNOWN);
        learn(times, each_ms, call_ms, 6, n, KILN_CALL_TIMES_KNOWN);
    }
    return times;
}

/* A large model takes as long for each picture, whatever is beside it: every step counts. */
static void a_device_that_is_full_uses_every_latent(void **state)
{
    (void)state;
    struct kiln_call_times *times = all_known(10, 0.1);
    uint32_t pictures[KILN_STEPS_MAX];
    batch(pictures);
    assert_false(kiln_call_times_sort_out(times, &kind, pictures));
    assert_int_equal(pictures[0], 5);
    assert_int_equal(pictures[1], 2);
    assert_int_equal(pictures[6], 1);
    kiln_call_times_free(times);
}

/* A small one takes as long for eight as for one: the whole batch in full is the fastest. */
static void a_device_with_room_is_not_given_three_calls_for_one(void **state)
{
    (void)state;
    struct kiln_call_times *times = all_known(0, 10);
    uint32_t pictures[KILN_STEPS_MAX];
    batch(pictures);
    assert_true(kiln_call_times_sort_out(times, &kind, pictures));
    assert_int_equal(pictures[0], 8);
    assert_int_equal(pictures[1], 0);
    assert_int_equal(pictures[6], 0);
    /* Where all begin at one step, the latents save time there, too. */
    pictures[0] = 0;
    pictures[6] = 8;
    assert_false(kiln_call_times_sort_out(times, &kind, pictures));
    assert_int_equal(pictures[6], 8);
    kiln_call_times_free(times);
}

/* In between the deep start pays, and the one that saves a single step does not. */
static void what_pays_stays(void **state)
{
    (void)state;
    struct kiln_call_times *times = all_known(3, 4);
    uint32_t pictures[KILN_STEPS_MAX];
    batch(pictures);
    assert_true(kiln_call_times_sort_out(times, &kind, pictures));
    assert_int_equal(pictures[0], 7);
    assert_int_equal(pictures[1], 0);
    assert_int_equal(pictures[6], 1);
    kiln_call_times_free(times);
}

static void what_is_not_measured_is_tried(void **state)
{
    (void)state;
    struct kiln_call_times *times = kiln_call_times_new();
    uint32_t pictures[KILN_STEPS_MAX];
    assert_non_null(times);
    batch(pictures);
    assert_false(kiln_call_times_sort_out(times, &kind, pictures));
    learn(times, 0, 10, 0, 8, KILN_CALL_TIMES_KNOWN);
    assert_false(kiln_call_times_sort_out(times, &kind, pictures));
    learn(times, 0, 10, 0, 5, KILN_CALL_TIMES_KNOWN - 1);
    assert_false(kiln_call_times_sort_out(times, &kind, pictures));
    learn(times, 0, 10, 0, 5, 1);
    assert_false(kiln_call_times_sort_out(times, &kind, pictures)); /* the others may take nothing */
    learn(times, 0, 10, 1, 2, KILN_CALL_TIMES_KNOWN);
    assert_true(kiln_call_times_sort_out(times, &kind, pictures));
    /* Times of another size or mode are no evidence. */
    struct kiln_call_kind other = kind;
    other.width = 512;
    batch(pictures);
    assert_false(kiln_call_times_sort_out(times, &other, pictures));
    other = (struct kiln_call_kind){.width = 256, .height = 256, .steps = 8, .mode = "coarse=4+3"};
    assert_false(kiln_call_times_sort_out(times, &other, pictures));
    kiln_call_times_free(times);
}

/* Other numbers of pictures tell the least and the most that a call takes. */
static void numbers_that_were_not_measured_are_bounded(void **state)
{
    (void)state;
    uint32_t pictures[KILN_STEPS_MAX];
    for (int large = 0; large < 2; large++) {
        struct kiln_call_times *times = kiln_call_times_new();
        const double each_ms = large ? 10 : 0, call_ms = large ? 0.1 : 10;
        assert_non_null(times);
        learn(times, each_ms, call_ms, 0, 2, KILN_CALL_TIMES_KNOWN);
        learn(times, each_ms, call_ms, 0, 8, KILN_CALL_TIMES_KNOWN);
        batch(pictures);
        pictures[6] = 0; /* five in full and two that skip one step: 80 ms, or 80 and 70 */
        assert_int_equal(kiln_call_times_sort_out(times, &kind, pictures), !large);
        assert_int_equal(pictures[0], large ? 5 : 7);
        kiln_call_times_free(times);
    }
}

/* The first calls of a shape are slow; a few of them are outvoted, and old times do not last. */
static void times_follow_the_device(void **state)
{
    (void)state;
    struct kiln_call_times *times = all_known(10, 0.1);
    uint32_t pictures[KILN_STEPS_MAX];
    int cut = 0;
    kiln_call_times_learn(times, &kind, 6, 1, 5000);
    batch(pictures);
    assert_false(kiln_call_times_sort_out(times, &kind, pictures));
    for (uint32_t n = 1; n <= 8; n++)
        for (uint32_t step = 0; step <= 6; step++)
            learn(times, 0, 10, step, n, KILN_CALL_TIMES_KEPT);
    for (int i = 0; i < 2 * KILN_CALL_TIMES_AGAIN; i++) {
        batch(pictures);
        cut += !kiln_call_times_sort_out(times, &kind, pictures);
    }
    assert_int_equal(cut, 2);
    kiln_call_times_free(times);
}

/* More kinds of calls than there is memory for: the oldest make room. */
static void memory_is_bounded(void **state)
{
    (void)state;
    struct kiln_call_times *times = all_known(0, 10);
    uint32_t pictures[KILN_STEPS_MAX];
    struct kiln_call_kind other = kind;
    for (uint32_t i = 0; i < 1000; i++) {
        other.width = 1024 + 16 * i;
        kiln_call_times_learn(times, &other, 0, 1, 1);
    }
    batch(pictures);
    assert_false(kiln_call_times_sort_out(times, &kind, pictures));
    /* Every step of a schedule at once is more than it weighs. */
    for (int i = 0; i < KILN_STEPS_MAX; i++)
        pictures[i] = 1;
    assert_false(kiln_call_times_sort_out(times, &kind, pictures));
    kiln_call_times_free(times);
    kiln_call_times_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_is_full_uses_every_latent),
        cmocka_unit_test(a_device_with_room_is_not_given_three_calls_for_one),
        cmocka_unit_test(what_pays_stays),
        cmocka_unit_test(what_is_not_measured_is_tried),
        cmocka_unit_test(numbers_that_were_not_measured_are_bounded),
        cmocka_unit_test(times_follow_the_device),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
