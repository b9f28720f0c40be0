/* test_access.c - hosts, origins, tokens and sessions of the gallery. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "scheduler/gallery/web/access.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static void test_hosts(void **state)
{
    (void)state;
    struct kiln_web_access access = {.host_count = 0};
    struct kiln_error err;
    assert_int_equal(kiln_web_access_hosts(&access, "Gallery.Example, other.example", &err), 0);
    static const char *const good[] = {"localhost",           "localhost:9480", "127.0.0.1:1",
                                       "[::1]:9480",          "LOCALHOST",      "gallery.example",
                                       "gallery.example:443", "Other.Example"};
    static const char *const bad[] = {"evil.example",     "localhost.evil.example",
                                      "evil.example:80",  "localhost:",
                                      "localhost:80:80",  "localhost:8a",
                                      "127.0.0.1.nip.io", "[::1",
                                      "[::1]x",           "",
                                      "gallery.example.", "localhost:123456",
                                      "127.0.0.2",        "user@localhost"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!kiln_web_host_allowed(&access, good[i], NULL))
            fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (kiln_web_host_allowed(&access, bad[i], NULL))
            fail_msg("%s is allowed", bad[i]);
    assert_false(kiln_web_host_allowed(&access, NULL, NULL));
    assert_true(kiln_web_host_allowed(&access, "10.1.2.3:9480", "10.1.2.3"));
    assert_true(kiln_web_host_allowed(&access, "[fd00::1]:9480", "fd00::1"));
    assert_false(kiln_web_host_allowed(&access, "10.1.2.4:9480", "10.1.2.3"));
    struct kiln_web_access none = {.host_count = 0};
    assert_int_equal(kiln_web_access_hosts(&none, "http://a/", &err), KILN_CONFIG);
}

static void test_origins(void **state)
{
    (void)state;
    const char *host = "localhost:9480";
    assert_true(kiln_web_origin_allowed("same-origin", NULL, host, false));
    assert_true(kiln_web_origin_allowed(NULL, "http://localhost:9480", host, false));
    assert_true(kiln_web_origin_allowed(NULL, "https://LOCALHOST:9480", host, false));
    assert_true(kiln_web_origin_allowed(NULL, NULL, host, true)); /* a script with the token */
    assert_false(kiln_web_origin_allowed(NULL, NULL, host, false));
    assert_false(kiln_web_origin_allowed(NULL, "null", host, true));
    assert_false(kiln_web_origin_allowed(NULL, "http://localhost", host, true));
    assert_false(kiln_web_origin_allowed(NULL, "http://localhost:9480.evil", host, false));
    assert_false(kiln_web_origin_allowed("cross-site", "http://localhost:9480", host, true));
    assert_false(kiln_web_origin_allowed("same-site", NULL, host, false));
    assert_false(kiln_web_origin_allowed("none", NULL, host, false));
}

static void test_tokens(void **state)
{
    (void)state;
    struct kiln_web_access access = {.token = TOKEN}, open = {.host_count = 0};
    assert_true(kiln_web_bearer_allowed(&access, "Bearer " TOKEN));
    assert_true(kiln_web_bearer_allowed(&access, "bearer " TOKEN));
    assert_false(kiln_web_bearer_allowed(&access, "Bearer " TOKEN "x"));
    assert_false(kiln_web_bearer_allowed(&access, "Basic " TOKEN));
    assert_false(kiln_web_bearer_allowed(&access, "Bearer "));
    assert_false(kiln_web_bearer_allowed(&access, NULL));
    assert_false(kiln_web_bearer_allowed(&open, "Bearer "));
}

static void test_sessions(void **state)
{
    (void)state;
    struct kiln_web_access access = {.token = TOKEN}, other = {.token = TOKEN "2"};
    char session[KILN_WEB_SESSION_MAX], forged[KILN_WEB_SESSION_MAX];
    int64_t now_s = 1800000000;
    kiln_web_session_make(&access, now_s, session);
    assert_true(kiln_web_session_valid(&access, session, now_s));
    assert_true(kiln_web_session_valid(&access, session, now_s + KILN_WEB_SESSION_S - 1));
    assert_false(kiln_web_session_valid(&access, session, now_s + KILN_WEB_SESSION_S));
    assert_false(kiln_web_session_valid(&other, session, now_s));
    for (size_t i = 0; session[i]; i++) { /* any letter changed */
        snprintf(forged, sizeof forged, "%s", session);
        forged[i] = forged[i] == '1' ? '2' : '1';
        if (kiln_web_session_valid(&access, forged, now_s))
            fail_msg("forged at %zu: %s", i, forged);
    }
    static const char *const bad[] = {"", ".", "1.", "1800000001", "99999999999999999999.00"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(kiln_web_session_valid(&access, bad[i], now_s));
    assert_false(kiln_web_session_valid(&access, NULL, now_s));
}

static void write_token(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

static void test_token_file(void **state)
{
    (void)state;
    struct kiln_web_access access = {.host_count = 0};
    struct kiln_error err;
    char path[] = "/tmp/kiln-token-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_token(path, TOKEN "\nsecond line\n", 0600);
    assert_int_equal(kiln_web_access_token(&access, path, &err), 0);
    assert_string_equal(access.token, TOKEN);
    write_token(path, TOKEN "\n", 0644);
    assert_int_equal(kiln_web_access_token(&access, path, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "chmod 600"));
    write_token(path, "short\n", 0600);
    assert_int_equal(kiln_web_access_token(&access, path, &err), KILN_CONFIG);
    unlink(path);
    assert_int_equal(kiln_web_access_token(&access, path, &err), KILN_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),      cmocka_unit_test(test_origins),
        cmocka_unit_test(test_tokens),     cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_token_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
