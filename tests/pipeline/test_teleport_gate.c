/* test_teleport_gate.c - the learned gate of `kiln bench teleport`: what it can learn, that it is
 * calibrated, and the words that two prompts have in common.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/random.h"
#include "worker/bench/teleport/gate.h"
#include "worker/bench/teleport/teleport.h"

#define COUNT 400

static double features[COUNT][KILN_GATE_FEATURES], right[COUNT];

static const struct kiln_gate_examples examples = {(const double (*)[KILN_GATE_FEATURES])features,
                                                   right, COUNT};

enum world { LINE, CORNERS, COIN };

/* Two features of very different sizes, and one that says nothing. */
static void make(enum world world, uint64_t seed)
{
    uint64_t state = seed;
    for (int i = 0; i < COUNT; i++) {
        const double a = kiln_random_share(&state) - 0.5, b = kiln_random_share(&state) - 0.5;
        features[i][0] = 1000 * a + 7000;
        features[i][1] = b / 1000;
        features[i][2] = 5;
        right[i] = world == LINE      ? a + b > 0
                   : world == CORNERS ? (a > 0) != (b > 0)
                                      : kiln_random_share(&state) < 0.75;
    }
}

static double accuracy(const struct kiln_gate *gate)
{
    int good = 0;
    for (int i = 0; i < COUNT; i++)
        good += (kiln_gate_probability(gate, features[i]) > 0.5) == (right[i] > 0.5);
    return (double)good / COUNT;
}

static struct kiln_gate fit(enum world world, int hidden)
{
    struct kiln_gate gate;
    struct kiln_error err;
    make(world, 1);
    if (kiln_gate_fit(&examples, 3, hidden, &gate, &err))
        fail_msg("%s", err.text);
    make(world, 2); /* and is tested on others */
    return gate;
}

static void a_line_is_learned_by_both(void **state)
{
    (void)state;
    struct kiln_gate gate = fit(LINE, 0);
    assert_true(accuracy(&gate) > 0.97);
    gate = fit(LINE, 8);
    assert_true(accuracy(&gate) > 0.95);
}

static void corners_need_a_hidden_layer(void **state)
{
    (void)state;
    struct kiln_gate gate = fit(CORNERS, 0);
    assert_true(accuracy(&gate) < 0.65);
    gate = fit(CORNERS, 8);
    assert_true(accuracy(&gate) > 0.9);
}

static void the_same_examples_give_the_same_gate(void **state)
{
    (void)state;
    const struct kiln_gate a = fit(CORNERS, 8), b = fit(CORNERS, 8);
    assert_memory_equal(&a, &b, sizeof a);
}

/* Where nothing tells the runs apart, the gate says how many come out right. */
static void calibration_gives_probabilities(void **state)
{
    (void)state;
    struct kiln_gate gate = fit(COIN, 8);
    gate.slope = 9; /* far too sure of itself */
    double mean = 0, of = 0;
    kiln_gate_calibrate(&gate, &examples);
    for (int i = 0; i < COUNT; i++) {
        mean += kiln_gate_probability(&gate, features[i]) / COUNT;
        of += right[i] / COUNT;
    }
    assert_true(fabs(mean - of) < 0.02);
    for (int i = 0; i < COUNT; i++)
        right[i] = 1;
    const struct kiln_gate before = gate;
    kiln_gate_calibrate(&gate, &examples); /* which says nothing of runs that come out wrong */
    assert_memory_equal(&gate, &before, sizeof gate);
}

static void one_example_is_too_few(void **state)
{
    (void)state;
    const struct kiln_gate_examples one = {(const double(*)[KILN_GATE_FEATURES])features, right, 1};
    struct kiln_gate gate;
    struct kiln_error err;
    assert_int_equal(kiln_gate_fit(&one, 3, 0, &gate, &err), KILN_BAD_INPUT);
}

static void check_overlap(const char *target, const char *donor, double covered, double back,
                          double ordered)
{
    double got[KILN_TELEPORT_OVERLAPS];
    kiln_teleport_overlap(target, donor, got);
    assert_float_equal(got[0], covered, 1e-9);
    assert_float_equal(got[1], back, 1e-9);
    assert_float_equal(got[2], ordered, 1e-9);
}

static void overlap_counts_words(void **state)
{
    (void)state;
    check_overlap("a red star", "A RED, star!", 1, 1, 1);
    check_overlap("a red star", "a star, red", 1, 1, 2.0 / 3);
    check_overlap("a red star", "two blue boxes there", 0, 0, 0);
    check_overlap("star", "a red star at night", 1, 0.2, 0.2);
    check_overlap("", "", 1, 1, 1);
    check_overlap("", "star", 1, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_learned_by_both),
        cmocka_unit_test(corners_need_a_hidden_layer),
        cmocka_unit_test(the_same_examples_give_the_same_gate),
        cmocka_unit_test(calibration_gives_probabilities),
        cmocka_unit_test(one_example_is_too_few),
        cmocka_unit_test(overlap_counts_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
