/* test_clock.c - the device's clock counts work, and time in which two pieces overlap once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "pipeline/torch/clock.h"
#include "pipeline/torch/span.h"
#include "pipeline/torch/tensor.h"
#include "schemas/clock.h"

static void work(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void rest_is_not_counted(void **state)
{
    (void)state;
    struct kt_clock *c = kt_clock_new(KT_CPU);
    for (int i = 0; i < 3; i++) {
        int piece = kt_clock_begin(c, false);
        work(10);
        kt_clock_end(c, piece);
        work(100);
    }
    double ms = kt_clock_take(c);
    if (ms < 30 || ms > 250)
        fail_msg("three pieces of 10 ms took %.1f ms", ms);
    assert_true(kt_clock_take(c) == 0); /* they are forgotten */
    kt_clock_free(c);
}

static void what_overlaps_is_counted_once(void **state)
{
    (void)state;
    struct kt_clock *c = kt_clock_new(KT_CPU);
    const double start = kiln_monotonic_ms();
    int outer = kt_clock_begin(c, false), inner = kt_clock_begin(c, true);
    work(20);
    kt_clock_end(c, inner);
    int late = kt_clock_begin(c, true);
    work(20);
    kt_clock_end(c, outer);
    work(20);
    kt_clock_end(c, late);
    double ms = kt_clock_take(c);
    double passed = kiln_monotonic_ms() - start;
    if (ms < 60 || ms > passed)
        fail_msg("60 ms of overlapping pieces took %.1f of %.1f ms", ms, passed);
    kt_clock_free(c);
}

/* As when one batch is finished while the next one is being asked for. */
static void what_runs_on_counts_the_next_time(void **state)
{
    (void)state;
    struct kt_clock *c = kt_clock_new(KT_CPU);
    int first = kt_clock_begin(c, true), next = kt_clock_begin(c, false);
    work(20);
    kt_clock_end(c, first);
    double before = kt_clock_take(c);
    int third = kt_clock_begin(c, true);
    work(20);
    kt_clock_end(c, third);
    work(20);
    kt_clock_end(c, next);
    double after = kt_clock_take(c);
    if (before < 20 || after < 40)
        fail_msg("20 and 40 ms were %.1f and %.1f", before, after);
    kt_clock_free(c);
}

static void what_was_counted_is_not_counted_again(void **state)
{
    (void)state;
    struct kt_clock *c = kt_clock_new(KT_CPU);
    const double start = kiln_monotonic_ms();
    double sum = 0;
    int overlapping = kt_clock_begin(c, false);
    for (int i = 0; i < 5; i++) {
        int piece = kt_clock_begin(c, true);
        work(10);
        kt_clock_end(c, piece);
        int next = kt_clock_begin(c, false);
        work(10);
        kt_clock_end(c, overlapping);
        overlapping = next;
        sum += kt_clock_take(c);
    }
    double passed = kiln_monotonic_ms() - start;
    if (sum < 90 || sum > passed)
        fail_msg("100 ms of work were counted as %.1f of %.1f", sum, passed);
    kt_clock_free(c);
}

/* Pieces that were never begun, and no clock at all. */
static void nonsense_does_no_harm(void **state)
{
    (void)state;
    struct kt_clock *c = kt_clock_new(KT_CPU);
    kt_clock_end(c, 7);
    kt_clock_end(c, -1);
    assert_true(kt_clock_take(c) == 0);
    kt_clock_free(c);
    kt_clock_end(NULL, kt_clock_begin(NULL, false));
    assert_true(kt_clock_take(NULL) == 0);
    kt_clock_free(NULL);
}

/* The last begin and the first end after it count, once. */
static void a_span_has_one_begin_and_one_end(void **state)
{
    (void)state;
    struct kt_span *s = kt_span_new(KT_CPU);
    kt_span_end(s); /* of nothing */
    assert_true(kt_span_take(s) == -1);
    kt_span_begin(s);
    assert_true(kt_span_take(s) == -1);
    kt_span_begin(s);
    work(200);
    kt_span_begin(s);
    work(20);
    kt_span_end(s);
    kt_span_begin(s); /* it has ended */
    kt_span_end(s);
    const double ms = kt_span_take(s);
    if (ms < 20 || ms > 190)
        fail_msg("20 ms took %.1f ms", ms);
    assert_true(kt_span_take(s) == -1);
    kt_span_free(s);
    kt_span_begin(NULL);
    kt_span_end(NULL);
    assert_true(kt_span_take(NULL) == -1);
    kt_span_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_has_one_begin_and_one_end),
        cmocka_unit_test(rest_is_not_counted),
        cmocka_unit_test(what_overlaps_is_counted_once),
        cmocka_unit_test(what_runs_on_counts_the_next_time),
        cmocka_unit_test(what_was_counted_is_not_counted_again),
        cmocka_unit_test(nonsense_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
