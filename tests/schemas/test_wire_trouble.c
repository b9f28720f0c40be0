/* test_wire_trouble.c - what a heartbeat tells of a store or a ledger that refuses pictures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/wire/wire.h"

static void a_trouble_comes_back(void **state)
{
    (void)state;
    struct kiln_heartbeat beat = {.worker = "w0",
                                  .incarnation = "i-1",
                                  .version = 1,
                                  .batch_max = 4,
                                  .trouble = "store",
                                  .trouble_code = "full",
                                  .trouble_error = "/s: No space left on \"device\"",
                                  .trouble_ms = 1500},
                          back;
    struct kiln_error err;
    char *text = kiln_heartbeat_encode(&beat);
    if (kiln_heartbeat_decode(text, strlen(text), &back, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    assert_memory_equal(&beat, &back, sizeof beat);
    free(text);
}

static void older_workers_tell_none(void **state)
{
    (void)state;
    static const char text[] =
        "{\"v\":1,\"worker\":\"w\",\"incarnation\":\"i\",\"version\":1,\"room\":2,\"batch_max\":4}";
    struct kiln_heartbeat beat;
    assert_int_equal(kiln_heartbeat_decode(text, strlen(text), &beat, NULL), 0);
    assert_string_equal(beat.trouble, "");
    assert_int_equal(beat.trouble_ms, 0);
}

static void a_longer_error_is_refused(void **state)
{
    (void)state;
    char text[1024], error[KILN_HEARTBEAT_ERROR_MAX + 1];
    struct kiln_heartbeat beat;
    struct kiln_error err;
    memset(error, 'x', sizeof error - 1);
    error[sizeof error - 1] = '\0';
    snprintf(text, sizeof text,
             "{\"v\":1,\"worker\":\"w\",\"incarnation\":\"i\",\"version\":1,\"room\":2,"
             "\"batch_max\":4,\"trouble_error\":\"%s\"}",
             error);
    assert_int_equal(kiln_heartbeat_decode(text, strlen(text), &beat, &err), KILN_PROTOCOL);
    assert_non_null(strstr(err.text, "trouble_error"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trouble_comes_back),
        cmocka_unit_test(older_workers_tell_none),
        cmocka_unit_test(a_longer_error_is_refused),
    };
    return cmocka_run_group_tests_name("wire_trouble", tests, NULL, NULL);
}
