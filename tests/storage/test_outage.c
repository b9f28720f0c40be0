/* test_outage.c - pauses double up to their limit, and half of each is random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schemas/telemetry/log.h"
#include "storage/daemon/outage.h"

static void pauses_double_up_to_a_limit(void **state)
{
    (void)state;
    static const uint32_t expected[] = {0, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
    for (uint32_t failures = 0; failures < sizeof expected / sizeof *expected; failures++)
        assert_int_equal(kiln_backoff(failures, 100, 5000), expected[failures]);
    assert_int_equal(kiln_backoff(UINT32_MAX, 1, UINT32_MAX), UINT32_MAX);
    assert_int_equal(kiln_backoff(1, 50, 20), 20);
}

static void an_outage_waits_longer_until_it_is_over(void **state)
{
    (void)state;
    struct kiln_outage outage = {KILN_OUTAGE_OF("store"), .effect = "nothing"};
    struct kiln_error err;
    (void)kiln_fail(&err, KILN_UNAVAILABLE, "no answer");
    assert_false(kiln_outage_is(&outage));
    for (int i = 0; i < 20; i++) {
        int longest = (int)kiln_backoff((uint32_t)i + 1, 100, 5000);
        int wait_ms = kiln_outage_fail(&outage, &err);
        assert_in_range(wait_ms, longest / 2, longest);
    }
    assert_true(kiln_outage_is(&outage));
    kiln_outage_over(&outage);
    assert_false(kiln_outage_is(&outage));
    assert_in_range(kiln_outage_fail(&outage, &err), 50, 100);
}

static void threads_count_what_they_share(void **state)
{
    (void)state;
    _Atomic uint32_t sharing = 0;
    struct kiln_outage one = {KILN_OUTAGE_OF("store"), .effect = "nothing", .sharing = &sharing};
    struct kiln_outage two = one;
    struct kiln_error err;
    (void)kiln_fail(&err, KILN_UNAVAILABLE, "no answer");
    (void)kiln_outage_fail(&one, &err);
    (void)kiln_outage_fail(&two, &err);
    (void)kiln_outage_fail(&two, &err);
    assert_int_equal(sharing, 2);
    kiln_outage_over(&one);
    kiln_outage_over(&two);
    kiln_outage_over(&two);
    assert_int_equal(sharing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_double_up_to_a_limit),
        cmocka_unit_test(an_outage_waits_longer_until_it_is_over),
        cmocka_unit_test(threads_count_what_they_share),
    };
    kiln_log_setup("test", KILN_LOG_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
