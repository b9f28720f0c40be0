/* test_measure.c - what tests judge by (tests/support/measure.h) misses no NaN, wherever it is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/measure.h"

#define COUNT 5

static double worst_of(const double *errors)
{
    double worst = 0;
    for (int i = 0; i < COUNT; i++)
        worst = test_worse(worst, errors[i]);
    return worst;
}

static double decibels_of(const double *errors)
{
    double squares = 0;
    for (int i = 0; i < COUNT; i++)
        squares += errors[i] * errors[i];
    return test_decibels(2, squares, COUNT);
}

static void the_largest_error_counts(void **state)
{
    (void)state;
    assert_true(worst_of((double[COUNT]){0.1, 0.4, 0.2, 0, 0.3}) == 0.4);
    assert_true(worst_of((double[COUNT]){0}) == 0);
}

static void a_nan_is_the_worst_error_wherever_it_is(void **state)
{
    (void)state;
    for (int at = 0; at < COUNT; at++) {
        double errors[COUNT] = {0.1, 0.4, 0.2, 0, 0.3};
        errors[at] = at % 2 ? NAN : -NAN;
        assert_true(worst_of(errors) == INFINITY);
        errors[at] = INFINITY;
        assert_true(worst_of(errors) == INFINITY);
    }
}

static void decibels_are_those_of_the_mean_square(void **state)
{
    (void)state;
    const double errors[COUNT] = {0.02, -0.02, 0.02, 0.02, -0.02};
    assert_true(fabs(decibels_of(errors) - 40) < 1e-9);
    assert_true(decibels_of((double[COUNT]){0}) > 300);
}

static void a_nan_has_no_decibels(void **state)
{
    (void)state;
    for (int at = 0; at < COUNT; at++) {
        double errors[COUNT] = {0};
        errors[at] = NAN;
        assert_true(decibels_of(errors) == -INFINITY);
        errors[at] = INFINITY;
        assert_true(decibels_of(errors) == -INFINITY);
    }
}

static void the_median_stands_in_the_middle(void **state)
{
    (void)state;
    double times[COUNT] = {3, 9, 1, 2, 8};
    assert_true(test_median(times, COUNT) == 3);
    assert_true(times[0] == 1 && times[COUNT - 1] == 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_error_counts),
        cmocka_unit_test(a_nan_is_the_worst_error_wherever_it_is),
        cmocka_unit_test(decibels_are_those_of_the_mean_square),
        cmocka_unit_test(a_nan_has_no_decibels),
        cmocka_unit_test(the_median_stands_in_the_middle),
    };
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
