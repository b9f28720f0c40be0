/* test_times.c - spans and moments as people type them, and those that are refused.
 *
 * Hours of the day, and days on which the clocks change, are test_window.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "scheduler/cli/core/times.h"

#define DAY_S 86400
#define NOW_MS (1795273505LL * 1000) /* 2026-11-21 15:05:05 */

static void spans_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t seconds;
    } good[] = {{"90s", 90},        {"30m", 1800},
                {"36h", 36 * 3600}, {"7d", 7 * DAY_S},
                {"2w", 14 * DAY_S}, {"1d12h", DAY_S + 43200},
                {"0s", 0},          {"36600d", 36600LL * DAY_S}};
    static const char *const bad[] = {
        "",    "5",  "h",    "5y",  "-3s",  "+3s",    "1.5h",         "1d2",         "1d 2h", " 7d",
        "7d ", "7D", "1e3s", "5ms", "0x5s", "36601d", "99999999999s", "9999999999w", "1h-1m"};
    int64_t seconds;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!kiln_duration_parse(good[i].text, &seconds))
            fail_msg("'%s' was refused", good[i].text);
        assert_int_equal(seconds, good[i].seconds);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (kiln_duration_parse(bad[i], &seconds))
            fail_msg("'%s' was taken as %lld s", bad[i], (long long)seconds);
}

static int64_t moment(const char *text)
{
    int64_t ms;
    if (!kiln_moment_parse(text, NOW_MS, &ms))
        fail_msg("'%s' was refused", text);
    return ms;
}

static void moments_are_read(void **state)
{
    (void)state;
    assert_int_equal(moment("2026-11-21T08:30+01:00"), moment("2026-11-21T07:30Z"));
    assert_int_equal(moment("2026-11-21T08:30:15.25-09:30"), moment("2026-11-21 18:00:15"));
    static const char *const bad[] = {"",
                                      "yesterday",
                                      "2026",
                                      "2026-11",
                                      "2026-11-31",
                                      "2026-02-29",
                                      "2026-13-01",
                                      "2026-00-10",
                                      "2026-11-00",
                                      "2026-1-1",
                                      "26-11-21",
                                      "1969-12-31",
                                      "2026-11-21T",
                                      "2026-11-21T8:30",
                                      "2026-11-21T24:00",
                                      "21.11.2026",
                                      "2026/11/21",
                                      "2026-11-21T08:60",
                                      "2026-11-21T08:30:60",
                                      "2026-11-21T08:30+1:00",
                                      "2026-11-21T08:30+25:00",
                                      "2026-11-21T08:30+01:00Z",
                                      "2026-11-21x08:30",
                                      "2026-11-21T08:30:5",
                                      "-7d"};
    int64_t ms;
    assert_int_equal(moment("2026-11-21"), 1795219200LL * 1000);
    assert_int_equal(moment("2026-11-21T15:05"), NOW_MS - 5000);
    assert_int_equal(moment("2026-11-21 15:05:05.123Z"), NOW_MS);
    assert_int_equal(moment("2028-02-29"), moment("2028-02-28") + DAY_S * 1000LL);
    assert_int_equal(moment("7d"), NOW_MS - 7 * DAY_S * 1000LL);
    assert_int_equal(moment("36600d"), 0); /* before there was anything */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (kiln_moment_parse(bad[i], NOW_MS, &ms))
            fail_msg("'%s' was taken as %lld", bad[i], (long long)ms);
}

/* Dates are UTC: in no time zone is an hour of them missing or there twice. */
static void moments_know_no_daylight_saving(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1), 0);
    tzset();
    for (int hour = 0; hour < 23; hour++) {
        char here[24], next[24];
        snprintf(here, sizeof here, "2026-03-29T%02d:30", hour);
        snprintf(next, sizeof next, "2026-03-29T%02d:30", hour + 1);
        assert_int_equal(moment(next) - moment(here), 3600 * 1000);
        here[5] = next[5] = '1', here[6] = next[6] = '0', here[8] = next[8] = '2';
        here[9] = next[9] = '5';
        assert_int_equal(moment(next) - moment(here), 3600 * 1000);
    }
    unsetenv("TZ");
    tzset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_read),
        cmocka_unit_test(moments_are_read),
        cmocka_unit_test(moments_know_no_daylight_saving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
