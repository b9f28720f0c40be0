/* test_window.c - hours of the day: over midnight, and on the days when the clocks change.
 *
 * The time zones are POSIX rules, so that the test needs no zone files: CET changes on the last
 * Sundays of March (02:00 to 03:00) and October (03:00 to 02:00), in 2026 the 29th and the 25th.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/intake/window.h"

static struct kiln_error err;

static void zone(const char *rule)
{
    assert_int_equal(setenv("TZ", rule, 1), 0);
    tzset();
}

static struct kiln_window window(const char *text)
{
    struct kiln_window ret;
    if (kiln_window_parse(text, &ret, &err))
        fail_msg("%s: %s", text, err.text);
    return ret;
}

static time_t utc(const char *text)
{
    struct tm tm = {0};
    assert_non_null(strptime(text, "%Y-%m-%d %H:%M", &tm));
    return timegm(&tm);
}

/* How many minutes of the day that begins at `from` are within the window. */
static int open_minutes(const struct kiln_window *w, const char *from, const char *to)
{
    int count = 0;
    for (time_t at = utc(from); at < utc(to); at += 60)
        count += kiln_window_open(w, at);
    return count;
}

static void hours_are_read(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "22:00",
                                      "22-06",
                                      "22:00-06",
                                      "24:01-3:00",
                                      "22:60-06:00",
                                      "22:00-06:00 ",
                                      "22:00-22:00",
                                      "00:00-24:00",
                                      "a:00-b:00",
                                      "-1:00-02:00",
                                      "22:0-06:00"};
    char text[16];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct kiln_window w;
        if (kiln_window_parse(bad[i], &w, &err) != KILN_BAD_INPUT)
            fail_msg("'%s' was taken", bad[i]);
        assert_non_null(strstr(err.text, bad[i]));
    }
    struct kiln_window w = window("9:05-24:00");
    kiln_window_text(&w, text, sizeof(text));
    assert_string_equal(text, "09:05-00:00");
    kiln_window_text(&(struct kiln_window){-1, -1}, text, sizeof(text));
    assert_string_equal(text, "");
}

static void a_window_over_midnight_is_open_on_both_sides(void **state)
{
    (void)state;
    zone("UTC0");
    struct kiln_window night = window("22:00-06:00"), day = window("06:00-22:00");
    struct kiln_window evening = window("18:00-24:00");
    assert_true(kiln_window_open(&night, utc("2026-11-21 22:00")));
    assert_true(kiln_window_open(&night, utc("2026-11-21 23:59")));
    assert_true(kiln_window_open(&night, utc("2026-11-22 00:00")));
    assert_true(kiln_window_open(&night, utc("2026-11-22 05:59")));
    assert_false(kiln_window_open(&night, utc("2026-11-22 06:00")));
    assert_false(kiln_window_open(&night, utc("2026-11-22 21:59")));
    for (int minute = 0; minute < KILN_DAY_MINUTES; minute++) {
        time_t at = utc("2026-11-21 00:00") + minute * 60;
        assert_true(kiln_window_open(&night, at) != kiln_window_open(&day, at));
    }
    assert_int_equal(open_minutes(&evening, "2026-11-21 00:00", "2026-11-22 00:00"), 360);
    assert_int_equal(kiln_window_next(&night, utc("2026-11-21 12:00") + 17),
                     utc("2026-11-21 22:00"));
    assert_int_equal(kiln_window_next(&night, utc("2026-11-21 22:00")), utc("2026-11-22 06:00"));
    const struct kiln_window always = {-1, -1};
    assert_true(kiln_window_open(&always, 0));
    assert_int_equal(kiln_window_next(&always, 0), 0);
}

static void clocks_that_change_move_the_window_with_them(void **state)
{
    (void)state;
    zone("CET-1CEST,M3.5.0,M10.5.0/3");
    struct kiln_window night = window("22:00-06:00");
    /* An ordinary night is eight hours, in UTC 21 to 5 in winter and 20 to 4 in summer. */
    assert_int_equal(open_minutes(&night, "2026-01-10 12:00", "2026-01-11 12:00"), 480);
    assert_true(kiln_window_open(&night, utc("2026-01-10 21:00")));
    assert_false(kiln_window_open(&night, utc("2026-01-10 20:59")));
    assert_true(kiln_window_open(&night, utc("2026-07-10 20:00")));
    /* One hour is not there in the night to the 29th of March, one is there twice in October. */
    assert_int_equal(open_minutes(&night, "2026-03-28 12:00", "2026-03-29 12:00"), 420);
    assert_int_equal(open_minutes(&night, "2026-10-24 12:00", "2026-10-25 12:00"), 540);
    assert_int_equal(kiln_window_next(&night, utc("2026-03-28 22:00")), utc("2026-03-29 04:00"));
    assert_int_equal(kiln_window_next(&night, utc("2026-10-24 22:00")), utc("2026-10-25 05:00"));
}

static void a_window_in_the_lost_hour_waits_for_the_next_day(void **state)
{
    (void)state;
    zone("CET-1CEST,M3.5.0,M10.5.0/3");
    struct kiln_window lost = window("02:00-03:00");
    assert_int_equal(open_minutes(&lost, "2026-03-28 12:00", "2026-03-29 12:00"), 0);
    assert_int_equal(kiln_window_next(&lost, utc("2026-03-28 12:00")), utc("2026-03-30 00:00"));
    assert_int_equal(open_minutes(&lost, "2026-10-24 12:00", "2026-10-25 12:00"), 120);
    zone("UTC0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hours_are_read),
        cmocka_unit_test(a_window_over_midnight_is_open_on_both_sides),
        cmocka_unit_test(clocks_that_change_move_the_window_with_them),
        cmocka_unit_test(a_window_in_the_lost_hour_waits_for_the_next_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
