/* test_webhook.c - which URLs are told that a batch has ended, the signature, and the times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "storage/webhook/webhook.h"

#define BYTE20(x) x x x x x x x x x x x x x x x x x x x x

/* RFC 4231, section 4: cases 1 to 4, and 6 and 7, whose key has 131 bytes. */
static void macs_are_those_of_rfc_4231(void **state)
{
    (void)state;
    static char fifty_dd[51], fifty_cd[51], long_key[132];
    memset(fifty_dd, 0xdd, 50);
    memset(fifty_cd, 0xcd, 50);
    memset(long_key, 0xaa, 131);
    const struct {
        const char *key, *text, *mac;
    } rows[] = {
        {BYTE20("\x0b"), "Hi There",
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {"Jefe", "what do ya want for nothing?",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {BYTE20("\xaa"), fifty_dd,
         "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
        {"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16"
         "\x17"
         "\x18\x19",
         fifty_cd, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
        {long_key, "Test Using Larger Than Block-Size Key - Hash Key First",
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
        {long_key,
         "This is a test using a larger than block-size key and a larger than block-size data. The "
         "key needs to be hashed before being used by the HMAC algorithm.",
         "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char mac[KILN_WEBHOOK_MAC_MAX];
        assert_true(kiln_webhook_mac(rows[i].key, strlen(rows[i].key), rows[i].text,
                                     strlen(rows[i].text), mac));
        assert_string_equal(mac, rows[i].mac);
    }
}

static void the_time_is_signed_with_the_body(void **state)
{
    (void)state;
    char out[KILN_WEBHOOK_SIGNATURE_MAX], mac[KILN_WEBHOOK_MAC_MAX];
    static const char text[] = "1795249523.{\"batch\":\"cats\"}";
    assert_true(kiln_webhook_sign("key", 3, 1795249523, "{\"batch\":\"cats\"}", out));
    assert_true(kiln_webhook_mac("key", 3, text, strlen(text), mac));
    assert_int_equal(strncmp(out, "t=1795249523,v1=", 16), 0);
    assert_string_equal(out + 16, mac);
    assert_true(kiln_webhook_sign("key", 3, INT64_MAX, "", out));
    assert_int_equal(strlen(out), 2 + 19 + 4 + 64);
}

static void hosts_are_told_only_if_they_are_named(void **state)
{
    (void)state;
    static const char list[] = "hooks.example.org, 127.0.0.1:8080 [::1]:81,,[2001:db8::1]";
    static const char *const good[] = {"http://hooks.example.org/x?y=1",
                                       "https://hooks.example.org",
                                       "HTTPS://Hooks.Example.ORG:443/",
                                       "http://hooks.example.org:80/",
                                       "http://127.0.0.1:8080/",
                                       "https://127.0.0.1:8080/",
                                       "http://[::1]:81/",
                                       "https://[2001:db8::1]/"};
    static const char *const bad[] = {"http://hooks.example.org:8080/",
                                      "https://hooks.example.org:80/",
                                      "http://127.0.0.1/",
                                      "http://127.0.0.1:80800/",
                                      "http://127.0.0.1:808/",
                                      "http://[::1]/",
                                      "http://example.org/",
                                      "http://hooks.example.org.evil.net/",
                                      "http://evil.net/hooks.example.org",
                                      "http://evil.net#hooks.example.org",
                                      "http://evil.net?@hooks.example.org/",
                                      "http://hooks.example.org@evil.net/",
                                      "http://evil.net@hooks.example.org/",
                                      "http://user:pass@hooks.example.org/",
                                      "http://evil.net\\@hooks.example.org/",
                                      "http://169.254.169.254/latest/meta-data",
                                      "ftp://hooks.example.org/",
                                      "file:///etc/passwd",
                                      "gopher://127.0.0.1:8080/",
                                      "hooks.example.org",
                                      "http://",
                                      "http:///x",
                                      ""};
    struct kiln_error err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (kiln_webhook_check(good[i], list, &err))
            fail_msg("%s: %s", good[i], err.text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (kiln_webhook_check(bad[i], list, &err) != KILN_BAD_INPUT)
            fail_msg("%s is let through", bad[i]);
    assert_int_equal(kiln_webhook_check(good[0], "", &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "webhook_hosts"));
    assert_int_equal(kiln_webhook_check(good[0], " , ", &err), KILN_BAD_INPUT);
    assert_true(kiln_webhook_is_url("https://x") && !kiln_webhook_is_url("mail -s done me"));
}

static void people_see_no_path(void **state)
{
    (void)state;
    char out[KILN_WEBHOOK_SHOWN_MAX];
    assert_string_equal(kiln_webhook_shown("https://hooks.example.org/T0/secret?k=v", out),
                        "https://hooks.example.org:443");
    assert_string_equal(kiln_webhook_shown("nonsense", out), "?");
}

static void attempts_grow_apart_and_end_within_a_day(void **state)
{
    (void)state;
    int64_t age_s = 0;
    uint32_t tries = 1, before = 0, wait_s;
    for (; (wait_s = kiln_webhook_retry_s(tries, age_s)) > 0; tries++) {
        assert_true(wait_s >= before);
        before = wait_s;
        age_s += wait_s + KILN_WEBHOOK_TRY_S; /* each runs into its limit */
    }
    assert_int_equal(tries, KILN_WEBHOOK_TRIES_MAX);
    assert_in_range(age_s, 12 * 3600, KILN_WEBHOOK_DAY_S);
    assert_int_equal(kiln_webhook_retry_s(1, 0), 2);
    assert_int_equal(kiln_webhook_retry_s(3, KILN_WEBHOOK_DAY_S), 0); /* no leader for a day */
    assert_int_equal(kiln_webhook_retry_s(UINT32_MAX, 0), 0);
}

static void nothing_is_sent_without_a_secret(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_webhook_message message = {
        .url = "http://127.0.0.1:1/", .delivery = "d", .body = "{}", .secret_file = ""};
    message.hosts = "";
    assert_int_equal(kiln_webhook_post(&message, NULL, &err), KILN_BAD_INPUT);
    message.hosts = "127.0.0.1:1";
    assert_int_equal(kiln_webhook_post(&message, NULL, &err), KILN_CONFIG);
    message.secret_file = "/dev/null";
    assert_int_equal(kiln_webhook_post(&message, NULL, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "is empty"));
    message.secret_file = "/nowhere/secret";
    assert_int_equal(kiln_webhook_post(&message, NULL, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "/nowhere/secret"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(macs_are_those_of_rfc_4231),
        cmocka_unit_test(the_time_is_signed_with_the_body),
        cmocka_unit_test(hosts_are_told_only_if_they_are_named),
        cmocka_unit_test(people_see_no_path),
        cmocka_unit_test(attempts_grow_apart_and_end_within_a_day),
        cmocka_unit_test(nothing_is_sent_without_a_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
