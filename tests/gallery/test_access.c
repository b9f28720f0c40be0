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
#define PRODUCER "fedcba9876543210fedcba9876543210"

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

/* A gallery for readers alone, one that also takes jobs, and an open one that does. */
static const struct kiln_web_access readers = {.tokens[KILN_WEB_READER] = TOKEN};
static const struct kiln_web_access both = {.tokens[KILN_WEB_READER] = TOKEN,
                                            .tokens[KILN_WEB_PRODUCER] = PRODUCER};
static const struct kiln_web_access makers = {.tokens[KILN_WEB_PRODUCER] = PRODUCER};

static void test_tokens(void **state)
{
    (void)state;
    const struct kiln_web_access none = {.host_count = 0};
    assert_int_equal(kiln_web_bearer_right(&readers, "Bearer " TOKEN), KILN_WEB_READER);
    assert_int_equal(kiln_web_bearer_right(&readers, "bearer " TOKEN), KILN_WEB_READER);
    assert_int_equal(kiln_web_bearer_right(&readers, "Bearer " PRODUCER), KILN_WEB_NOBODY);
    assert_int_equal(kiln_web_bearer_right(&readers, "Bearer " TOKEN "x"), KILN_WEB_NOBODY);
    assert_int_equal(kiln_web_bearer_right(&readers, "Basic " TOKEN), KILN_WEB_NOBODY);
    assert_int_equal(kiln_web_bearer_right(&readers, "Bearer "), KILN_WEB_NOBODY);
    assert_int_equal(kiln_web_bearer_right(&readers, NULL), KILN_WEB_NOBODY);
    assert_int_equal(kiln_web_bearer_right(&none, "Bearer "), KILN_WEB_NOBODY);
    assert_int_equal(kiln_web_bearer_right(&both, "Bearer " TOKEN), KILN_WEB_READER);
    assert_int_equal(kiln_web_bearer_right(&both, "Bearer " PRODUCER), KILN_WEB_PRODUCER);
    assert_int_equal(kiln_web_bearer_right(&makers, "Bearer "), KILN_WEB_NOBODY);
    assert_int_equal(kiln_web_bearer_right(&makers, "Bearer " PRODUCER), KILN_WEB_PRODUCER);
}

static void test_sessions(void **state)
{
    (void)state;
    const struct kiln_web_access other = {.tokens[KILN_WEB_READER] = TOKEN "2"};
    char session[KILN_WEB_SESSION_MAX], forged[KILN_WEB_SESSION_MAX];
    int64_t now_s = 1800000000;
    kiln_web_session_make(&both, KILN_WEB_PRODUCER, now_s, session);
    assert_int_equal(kiln_web_session_right(&both, session, now_s), KILN_WEB_PRODUCER);
    assert_int_equal(kiln_web_session_right(&makers, session, now_s), KILN_WEB_PRODUCER);
    assert_int_equal(kiln_web_session_right(&readers, session, now_s), KILN_WEB_NOBODY);
    kiln_web_session_make(&both, KILN_WEB_READER, now_s, session);
    assert_int_equal(kiln_web_session_right(&both, session, now_s), KILN_WEB_READER);
    assert_int_equal(kiln_web_session_right(&both, session, now_s + KILN_WEB_SESSION_S - 1),
                     KILN_WEB_READER);
    assert_int_equal(kiln_web_session_right(&both, session, now_s + KILN_WEB_SESSION_S),
                     KILN_WEB_NOBODY);
    assert_int_equal(kiln_web_session_right(&other, session, now_s), KILN_WEB_NOBODY);
    for (size_t i = 0; session[i]; i++) { /* any letter changed */
        snprintf(forged, sizeof forged, "%s", session);
        forged[i] = forged[i] == '1' ? '2' : '1';
        if (kiln_web_session_right(&both, forged, now_s))
            fail_msg("forged at %zu: %s", i, forged);
    }
    static const char *const bad[] = {"", ".", "1.", "1800000001", "99999999999999999999.00"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kiln_web_session_right(&both, bad[i], now_s), KILN_WEB_NOBODY);
    assert_int_equal(kiln_web_session_right(&both, NULL, now_s), KILN_WEB_NOBODY);
}

static void write_token(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

static int read_token(struct kiln_web_access *access, const char *path, struct kiln_error *err)
{
    access->tokens[KILN_WEB_READER][0] = '\0';
    return kiln_web_access_token(access, KILN_WEB_READER, "gallery_token_file", path, err);
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
    assert_int_equal(read_token(&access, path, &err), 0);
    assert_string_equal(access.tokens[KILN_WEB_READER], TOKEN);
    assert_int_equal(kiln_web_access_token(&access, KILN_WEB_PRODUCER, "second", path, &err),
                     KILN_CONFIG); /* one token cannot have two rights */
    assert_non_null(strstr(err.text, "second"));
    write_token(path, TOKEN "\n", 0644);
    assert_int_equal(read_token(&access, path, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "chmod 600"));
    write_token(path, "short\n", 0600);
    assert_int_equal(read_token(&access, path, &err), KILN_CONFIG);
    unlink(path);
    assert_int_equal(read_token(&access, path, &err), KILN_CONFIG);
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
