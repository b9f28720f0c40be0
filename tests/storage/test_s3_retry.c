/* test_s3_retry.c - the table of outcomes, the waits and the budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "schemas/error.h"
#include "storage/objects/s3/retry.h"

static void answers_mean_what_the_table_says(void **state)
{
    (void)state;
    static const struct {
        long status;
        const char *code;
        enum kiln_s3_action action;
        int kiln;
    } rows[] = {
        {200, "", KILN_S3_DONE, KILN_OK},
        {204, "", KILN_S3_DONE, KILN_OK},
        {503, "SlowDown", KILN_S3_RETRY, KILN_UNAVAILABLE},
        {503, "SlowDownWrite", KILN_S3_RETRY, KILN_UNAVAILABLE},
        {503, "", KILN_S3_RETRY, KILN_UNAVAILABLE},
        {400, "RequestTimeout", KILN_S3_RETRY, KILN_TIMEOUT},
        {400, "ThrottlingException", KILN_S3_RETRY, KILN_UNAVAILABLE},
        {408, "", KILN_S3_RETRY, KILN_TIMEOUT},
        {429, "", KILN_S3_RETRY, KILN_UNAVAILABLE},
        {499, "", KILN_S3_RETRY, KILN_UNAVAILABLE},
        {500, "InternalError", KILN_S3_RETRY, KILN_UNAVAILABLE},
        {502, "", KILN_S3_RETRY, KILN_UNAVAILABLE},
        {504, "", KILN_S3_RETRY, KILN_TIMEOUT},
        {520, "", KILN_S3_RETRY, KILN_UNAVAILABLE},
        {409, "ConditionalRequestConflict", KILN_S3_RETRY, KILN_UNAVAILABLE},
        {400, "BadDigest", KILN_S3_RETRY, KILN_CORRUPT},
        {412, "PreconditionFailed", KILN_S3_VERIFY, KILN_PROTOCOL},
        {403, "RequestTimeTooSkewed", KILN_S3_CLOCK, KILN_DENIED},
        {400, "ExpiredToken", KILN_S3_CREDENTIALS, KILN_DENIED},
        {403, "SignatureDoesNotMatch", KILN_S3_STOP, KILN_DENIED},
        {403, "InvalidAccessKeyId", KILN_S3_STOP, KILN_DENIED},
        {403, "AccessDenied", KILN_S3_STOP, KILN_DENIED},
        {403, "", KILN_S3_STOP, KILN_DENIED},
        {404, "NoSuchBucket", KILN_S3_STOP, KILN_CONFIG},
        {404, "", KILN_S3_STOP, KILN_NOT_FOUND},
        {301, "PermanentRedirect", KILN_S3_STOP, KILN_CONFIG},
        {307, "", KILN_S3_STOP, KILN_CONFIG},
        {400, "AuthorizationHeaderMalformed", KILN_S3_STOP, KILN_CONFIG},
        {400, "InvalidArgument", KILN_S3_STOP, KILN_INTERNAL},
        {411, "MissingContentLength", KILN_S3_STOP, KILN_INTERNAL},
        {501, "NotImplemented", KILN_S3_STOP, KILN_UNSUPPORTED},
        {507, "", KILN_S3_STOP, KILN_FULL},
        {299, "", KILN_S3_STOP, KILN_PROTOCOL},
        {999, "Whatever", KILN_S3_STOP, KILN_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_s3_outcome o = kiln_s3_outcome_of_answer(rows[i].status, rows[i].code);
        if (o.action != rows[i].action || o.code != rows[i].kiln)
            fail_msg("%ld %s: action %d code %d, wanted %d %d", rows[i].status, rows[i].code,
                     o.action, o.code, rows[i].action, rows[i].kiln);
        assert_non_null(o.hint);
    }
}

static void every_end_has_a_code(void **state)
{
    (void)state;
    for (long status = 100; status < 600; status++) {
        struct kiln_s3_outcome o = kiln_s3_outcome_of_answer(status, "");
        assert_int_equal(o.action == KILN_S3_DONE, o.code == KILN_OK);
    }
    for (int transport = 1; transport < CURL_LAST; transport++) {
        struct kiln_s3_outcome o = kiln_s3_outcome_of_transport(transport);
        assert_true(o.action != KILN_S3_DONE && o.code != KILN_OK);
    }
    assert_int_equal(kiln_s3_outcome_of_transport(CURLE_PEER_FAILED_VERIFICATION).action,
                     KILN_S3_STOP);
    assert_int_equal(kiln_s3_outcome_of_transport(CURLE_COULDNT_CONNECT).action, KILN_S3_RETRY);
    assert_int_equal(kiln_s3_outcome_of_transport(CURLE_OPERATION_TIMEDOUT).action, KILN_S3_VERIFY);
}

static void waits_grow_to_a_cap_and_are_spread(void **state)
{
    (void)state;
    uint64_t random = 1;
    static const uint32_t room[] = {0, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000, 5000};
    for (uint32_t tries = 1; tries <= 10; tries++) {
        uint32_t low = UINT32_MAX, high = 0;
        for (int i = 0; i < 2000; i++) {
            uint32_t ms = kiln_s3_backoff_ms(tries, &random);
            low = ms < low ? ms : low;
            high = ms > high ? ms : high;
        }
        assert_true(high <= room[tries]);
        assert_true(low < room[tries] / 20 && high > room[tries] * 19 / 20);
    }
}

static void deadlines_are_short_first(void **state)
{
    (void)state;
    assert_int_equal(kiln_s3_deadline_ms(0, 100000), 2000);
    assert_int_equal(kiln_s3_deadline_ms(1, 100000), 6000);
    assert_int_equal(kiln_s3_deadline_ms(9, 0), 6000);
    assert_int_equal(kiln_s3_deadline_ms(0, 512 * 1024 + 256 * 1000), 3000);
    assert_int_equal(kiln_s3_deadline_ms(0, UINT64_MAX), 600000);
}

static void retries_drip_when_everything_fails(void **state)
{
    (void)state;
    struct kiln_s3_budget budget = kiln_s3_budget_new(1000);
    uint32_t wait = 0;
    for (int i = 0; i < 20; i++)
        assert_int_equal(kiln_s3_budget_take(&budget, 1000), 0);
    for (int i = 0; i < 8; i++)
        wait = kiln_s3_budget_take(&budget, 1000);
    assert_int_equal(wait, 2000); /* the 8th in debt at 4 a second */
    assert_int_equal(kiln_s3_budget_take(&budget, 1000 + 3000), 0);
    struct kiln_s3_budget rested = kiln_s3_budget_new(0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(kiln_s3_budget_take(&rested, 3600 * 1000), 0);
    assert_true(kiln_s3_budget_take(&rested, 3600 * 1000) > 0); /* rest adds no more than a burst */
    assert_true(kiln_s3_budget_take(&rested, 0) > 0); /* a clock that goes back is harmless */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_mean_what_the_table_says),
        cmocka_unit_test(every_end_has_a_code),
        cmocka_unit_test(waits_grow_to_a_cap_and_are_spread),
        cmocka_unit_test(deadlines_are_short_first),
        cmocka_unit_test(retries_drip_when_everything_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
