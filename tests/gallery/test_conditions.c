/* test_conditions.c - If-None-Match, Range, If-Range and Accept-Encoding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/gallery/web/conditions.h"

static void test_none_match(void **state)
{
    (void)state;
    assert_true(kiln_web_none_match("\"a\"", "\"a\""));
    assert_true(kiln_web_none_match("*", "\"a\""));
    assert_true(kiln_web_none_match("W/\"a\"", "\"a\""));
    assert_true(kiln_web_none_match("\"x\", W/\"y\" ,\"a\"", "\"a\""));
    assert_true(kiln_web_none_match("\"x,y\", \"a\"", "\"a\"")); /* a comma inside a tag */
    assert_false(kiln_web_none_match("\"ab\"", "\"a\""));
    assert_false(kiln_web_none_match("\"A\"", "\"a\""));
    assert_false(kiln_web_none_match("a", "\"a\""));
    assert_false(kiln_web_none_match("\"a", "\"a\""));
    assert_false(kiln_web_none_match("", "\"a\""));
    assert_false(kiln_web_none_match(NULL, "\"a\""));
}

static void expect(const char *range, const char *if_range, enum kiln_web_range want,
                   uint64_t first, uint64_t last)
{
    uint64_t got_first = 0, got_last = 0;
    enum kiln_web_range got =
        kiln_web_range_read(range, if_range, "\"t\"", 1000, &got_first, &got_last);
    if (got != want || (got == KILN_WEB_RANGE_PART && (got_first != first || got_last != last)))
        fail_msg("Range: %s is %d %llu-%llu", range ? range : "none", (int)got,
                 (unsigned long long)got_first, (unsigned long long)got_last);
}

static void test_ranges(void **state)
{
    (void)state;
    expect("bytes=0-99", NULL, KILN_WEB_RANGE_PART, 0, 99);
    expect("bytes=500-", NULL, KILN_WEB_RANGE_PART, 500, 999);
    expect("bytes=-100", NULL, KILN_WEB_RANGE_PART, 900, 999);
    expect("bytes=-5000", NULL, KILN_WEB_RANGE_PART, 0, 999);
    expect("bytes=999-5000", NULL, KILN_WEB_RANGE_PART, 999, 999);
    expect("BYTES=0-0", NULL, KILN_WEB_RANGE_PART, 0, 0);
    expect("bytes=1000-", NULL, KILN_WEB_RANGE_BEYOND, 0, 0);
    expect("bytes=-0", NULL, KILN_WEB_RANGE_BEYOND, 0, 0);
    expect("bytes=9-2", NULL, KILN_WEB_RANGE_NONE, 0, 0);
    expect("bytes=0-1,5-9", NULL, KILN_WEB_RANGE_NONE, 0, 0); /* several: all of it */
    expect("lines=0-1", NULL, KILN_WEB_RANGE_NONE, 0, 0);
    expect("bytes=-", NULL, KILN_WEB_RANGE_NONE, 0, 0);
    expect("bytes=a-b", NULL, KILN_WEB_RANGE_NONE, 0, 0);
    expect("bytes=0-99999999999999999999", NULL, KILN_WEB_RANGE_NONE, 0, 0);
    expect("bytes=0-9", "\"t\"", KILN_WEB_RANGE_PART, 0, 9);
    expect("bytes=0-9", "\"other\"", KILN_WEB_RANGE_NONE, 0, 0);
    expect("bytes=0-9", "W/\"t\"", KILN_WEB_RANGE_NONE, 0, 0); /* weak tags never match here */
    expect("bytes=0-9", "Sat, 21 Nov 2026 08:30:00 GMT", KILN_WEB_RANGE_NONE, 0, 0);
    expect(NULL, NULL, KILN_WEB_RANGE_NONE, 0, 0);
}

static void test_gzip(void **state)
{
    (void)state;
    assert_true(kiln_web_takes_gzip("gzip, deflate, br"));
    assert_true(kiln_web_takes_gzip("br;q=1.0, GZIP;q=0.8"));
    assert_true(kiln_web_takes_gzip("*"));
    assert_false(kiln_web_takes_gzip("gzip;q=0, *"));
    assert_false(kiln_web_takes_gzip("gzip;q=0.0"));
    assert_false(kiln_web_takes_gzip("identity"));
    assert_false(kiln_web_takes_gzip("gzipped"));
    assert_false(kiln_web_takes_gzip(""));
    assert_false(kiln_web_takes_gzip(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none_match),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_gzip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
