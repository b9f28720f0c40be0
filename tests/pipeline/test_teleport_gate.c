/* test_teleport_gate.c - the learned gate of `kiln bench teleport`: what it can learn, that it is
 * calibrated, and the words that two prompts have in common; which donors are combined, and the
 * bounds of what a first step changes.
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

/* --- donors and bounds ------------------------------------------------------------------------ */

static void the_nearest_donors_come_first(void **state)
{
    (void)state;
    static const float at[KILN_TELEPORT_CHOICE] = {10, 17, 9, 40, 12, 3, 80, 11};
    struct kiln_teleport_donors donors = {0};
    donors.low = calloc((size_t)KILN_TELEPORT_CHOICE * KILN_PICTURES_BATCH * KILN_TELEPORT_LOW,
                        sizeof *donors.low);
    assert_non_null(donors.low);
    const int item = 3, cells = KILN_LOW_CELLS * KILN_LOW_CELLS;
    for (int which = 0; which < KILN_TELEPORT_CHOICE; which++)
        for (int i = 0; i < cells; i++)
            kiln_teleport_donor_low(&donors, which, item)[i] = at[which];
    kiln_teleport_donors_sort(&donors, item, 1);
    static const int order[KILN_TELEPORT_CHOICE] = {0, 2, 7, 4, 1, 5, 3, 6};
    assert_memory_equal(donors.order[item], order, sizeof order);
    assert_float_equal(kiln_teleport_donors_apart(&donors, item, 2, 1), 1, 1e-9); /* 10, 9 */
    assert_float_equal(kiln_teleport_donors_apart(&donors, item, 4, 1), 3, 1e-9); /* 9 to 12 */
    float low[KILN_LOW_CELLS * KILN_LOW_CELLS];
    for (int i = 0; i < cells; i++)
        low[i] = 12.5f;
    assert_float_equal(kiln_teleport_donors_near(&donors, item, 2, 1, low), 2.5, 1e-9);
    assert_float_equal(kiln_teleport_donors_near(&donors, item, 4, 1, low), 0.5, 1e-9);
    free(donors.low);
}

enum { PAIRS = 300 };

/* Runs that came out wrong, and pairs of other groups, say nothing about good ones. */
static void bounds_are_those_of_right_runs(void **state)
{
    (void)state;
    static struct kiln_teleport_pair pairs[PAIRS];
    static double values[KILN_TELEPORT_MEASURES * PAIRS];
    struct kiln_teleport_table table = {.pairs = PAIRS, .values = values};
    struct kiln_teleport_bench *bench = calloc(1, sizeof *bench);
    struct kiln_error err;
    double bounds[2];
    assert_non_null(bench);
    bench->run_count = 1;
    bench->pairs.items = pairs;
    for (int i = 0; i < PAIRS; i++) { /* of group 0: 101 right with 0.00 .. 1.00, others wild */
        const bool good = i > 0 && i <= 101;
        pairs[i].group = i <= 200 ? 0 : 1;
        kiln_teleport_column(&table, 0, KILN_TELEPORT_PICTURES)[i] = 2;
        kiln_teleport_column(&table, 0, KILN_TELEPORT_WHOLE)[i] = good || i > 200 ? 2 : 1;
        kiln_teleport_column(&table, 0, KILN_TELEPORT_CHANGE)[i] = good ? 2 * (1 + i / 100.0) : 99;
    }
    assert_int_equal(kiln_teleport_bounds(bench, &table, 0, 0, bounds, &err), 0);
    assert_float_equal(bounds[0], 1.01 + 0.001, 1e-9); /* a tenth of the first gap of 0.01 */
    assert_float_equal(bounds[1], 2.01 - 0.001, 1e-9);
    kiln_teleport_column(&table, 0, KILN_TELEPORT_WHOLE)[1] = 0;
    kiln_teleport_column(&table, 0, KILN_TELEPORT_WHOLE)[2] = 0;
    assert_int_equal(kiln_teleport_bounds(bench, &table, 0, 0, bounds, &err), 0);
    assert_true(isnan(bounds[0]) && isnan(bounds[1])); /* 99 runs are too few */
    free(bench);
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
        cmocka_unit_test(the_nearest_donors_come_first),
        cmocka_unit_test(bounds_are_those_of_right_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
