/* test_utc.c - moments as text, in any time zone of the process; arrays that grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "schemas/room.h"
#include "schemas/text/utc.h"

static void moments_are_utc(void **state)
{
    char text[48];
    (void)state;
    assert_int_equal(setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1), 0);
    tzset();
    assert_string_equal(kiln_time_text(1795273505123, text, sizeof text),
                        "2026-11-21T15:05:05.123Z");
    assert_string_equal(kiln_short_time(1795273505123, text, sizeof text), "2026-11-21T15:05:05Z");
    assert_string_equal(kiln_time_text(0, text, sizeof text), "1970-01-01T00:00:00.000Z");
    assert_string_equal(kiln_short_time(0, text, sizeof text), "-");
    unsetenv("TZ");
    tzset();
}

static void an_array_grows_and_keeps_what_it_holds(void **state)
{
    int *at = NULL;
    size_t room = 0;
    (void)state;
    for (size_t count = 0; count < 1000; count++) {
        int *grown = kiln_room(at, count, &room, sizeof *at);
        assert_non_null(grown);
        assert_true(room > count && room < 2 * count + 17);
        at = grown;
        at[count] = (int)count;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(at[i], i);
    assert_ptr_equal(kiln_room(at, 999, &room, sizeof *at), at); /* there is room */
    size_t huge = SIZE_MAX / 64, before = huge;
    assert_null(kiln_room(NULL, huge, &huge, 16));
    assert_int_equal(huge, before);
    free(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_are_utc),
        cmocka_unit_test(an_array_grows_and_keeps_what_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
