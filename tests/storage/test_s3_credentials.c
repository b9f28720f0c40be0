/* test_s3_credentials.c - where keys are found, and what is said when they are not; and the
 * settings of an S3 store that are refused before any network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/objects/s3/client.h"
#include "tests/support/files.h"
#include "tests/support/store.h"

static void clear_environment(void)
{
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    unsetenv("AWS_SESSION_TOKEN");
    unsetenv("AWS_SHARED_CREDENTIALS_FILE");
    unsetenv("AWS_PROFILE");
    setenv("HOME", "/nonexistent", 1);
}

static const char file_text[] = "\r\n# keys\n[default]\naws_access_key_id = AKIDDEFAULT\n"
                                "aws_secret_access_key=de/fault+=\n\n[ two ]\r\n"
                                "aws_access_key_id=AKIDTWO\r\n; comment\n"
                                "aws_secret_access_key = second\r\n"
                                "aws_session_token\t=\ttok==\nregion = nowhere\n"
                                "[half]\naws_access_key_id = AKIDHALF";

static void the_file_has_profiles(void **state)
{
    (void)state;
    struct kiln_s3_credentials c = {0};
    struct kiln_error err = {0};
    size_t len = sizeof file_text - 1;
    assert_int_equal(kiln_s3_credentials_parse(file_text, len, "f", "default", &c, &err), 0);
    assert_string_equal(c.access_key, "AKIDDEFAULT");
    assert_string_equal(c.secret_key, "de/fault+=");
    assert_string_equal(c.session_token, "");
    assert_int_equal(kiln_s3_credentials_parse(file_text, len, "f", "two", &c, &err), 0);
    assert_string_equal(c.access_key, "AKIDTWO");
    assert_string_equal(c.secret_key, "second");
    assert_string_equal(c.session_token, "tok==");
    assert_string_equal(c.origin, "f, profile two");
    assert_int_equal(kiln_s3_credentials_parse(file_text, len, "f", "half", &c, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "[half]"));
    assert_int_equal(kiln_s3_credentials_parse(file_text, len, "f", "three", &c, &err),
                     KILN_CONFIG);
    assert_non_null(strstr(err.text, "f has no profile [three]"));
    kiln_s3_credentials_wipe(&c);
    assert_string_equal(c.secret_key, "");
}

static void bad_values_are_refused_without_showing_them(void **state)
{
    (void)state;
    struct kiln_s3_credentials c = {0};
    struct kiln_error err = {0};
    static const char *const bad[] = {
        "[default]\naws_access_key_id=a\naws_secret_access_key=topsecret with blank\n",
        "[default]\naws_access_key_id=a\naws_secret_access_key=topsecret\x01\n",
        "[default]\naws_access_key_id=a\naws_secret_access_key=\n"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(
            kiln_s3_credentials_parse(bad[i], strlen(bad[i]), "f", "default", &c, &err),
            KILN_CONFIG);
        assert_null(strstr(err.text, "topsecret"));
    }
    char longest[8192];
    int len = snprintf(longest, sizeof longest, "[default]\naws_session_token=%05000d\n", 1);
    assert_int_equal(kiln_s3_credentials_parse(longest, (size_t)len, "f", "default", &c, &err),
                     KILN_CONFIG);
}

static void places_are_searched_in_order(void **state)
{
    (void)state;
    struct kiln_s3_credentials c = {0};
    struct kiln_error err = {0};
    clear_environment();
    assert_int_equal(kiln_s3_credentials_load("", "", &c, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "AWS_ACCESS_KEY_ID is not set"));
    assert_non_null(strstr(err.text, "/nonexistent/.aws/credentials"));
    kiln_test_write("keys", file_text);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "keys", 1);
    assert_int_equal(kiln_s3_credentials_load("", "", &c, &err), 0);
    assert_string_equal(c.access_key, "AKIDDEFAULT");
    setenv("AWS_PROFILE", "two", 1);
    assert_int_equal(kiln_s3_credentials_load("", "", &c, &err), 0);
    assert_string_equal(c.access_key, "AKIDTWO");
    setenv("AWS_ACCESS_KEY_ID", "AKIDENV", 1);
    assert_int_equal(kiln_s3_credentials_load("", "", &c, &err), KILN_CONFIG);
    setenv("AWS_SECRET_ACCESS_KEY", "envsecret", 1);
    assert_int_equal(kiln_s3_credentials_load("", "", &c, &err), 0);
    assert_string_equal(c.access_key, "AKIDENV");
    assert_string_equal(c.session_token, "");
    assert_int_equal(kiln_s3_credentials_load("keys", "default", &c, &err), 0);
    assert_string_equal(c.access_key, "AKIDDEFAULT"); /* a named file wins */
    assert_int_equal(kiln_s3_credentials_load("missing", "default", &c, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "missing"));
    assert_int_equal(kiln_s3_credentials_load("/dev/zero", "default", &c, &err), KILN_CONFIG);
    clear_environment();
}

static int open_s3(const char *url, const char *endpoint, const char *addressing,
                   const char *region, struct kiln_s3_client **ret, struct kiln_error *err)
{
    struct kiln_config *config = test_config((const char *[]){
        "s3_endpoint", endpoint, "s3_addressing", addressing, "s3_region", region, NULL});
    int code = kiln_s3_client_new(config, url, ret, err);
    kiln_config_free(config);
    return code;
}

static void endpoints_become_urls(void **state)
{
    (void)state;
    static const struct {
        const char *endpoint, *addressing, *region, *base, *host, *root;
    } rows[] = {
        {"", "path", "eu-central-1", "https://s3.eu-central-1.amazonaws.com",
         "s3.eu-central-1.amazonaws.com", "/bucket"},
        {"", "host", "us-east-1", "https://bucket.s3.us-east-1.amazonaws.com",
         "bucket.s3.us-east-1.amazonaws.com", ""},
        {"", "path", "cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn",
         "s3.cn-north-1.amazonaws.com.cn", "/bucket"},
        {"http://127.0.0.1:8080", "path", "r", "http://127.0.0.1:8080", "127.0.0.1:8080",
         "/bucket"},
        {"http://127.0.0.1:80/", "path", "r", "http://127.0.0.1", "127.0.0.1", "/bucket"},
        {"https://S3.example.org:443", "host", "r", "https://bucket.S3.example.org",
         "bucket.S3.example.org", ""},
        {"https://[::1]:9000", "path", "r", "https://[::1]:9000", "[::1]:9000", "/bucket"},
    };
    setenv("AWS_ACCESS_KEY_ID", "a", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "b", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_s3_client *client = NULL;
        struct kiln_error err = {0};
        if (open_s3("bucket", rows[i].endpoint, rows[i].addressing, rows[i].region, &client, &err))
            fail_msg("%s", err.text);
        assert_string_equal(client->base, rows[i].base);
        assert_string_equal(client->host, rows[i].host);
        assert_string_equal(client->root, rows[i].root);
        kiln_s3_client_free(client);
    }
}

static void bad_settings_are_refused(void **state)
{
    (void)state;
    static const char *const endpoints[] = {"ftp://h", "http://h/path", "http://u:p@h", "h:80:90",
                                            "http://", "http://h?x=1",  "https://"};
    static const char *const buckets[] = {"", "ab", "UPPER", "a..b", "-abc", "abc.", "a_b", "a/b"};
    struct kiln_s3_client *client = NULL;
    struct kiln_error err = {0};
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++)
        if (open_s3("bucket", endpoints[i], "path", "r", &client, &err) != KILN_CONFIG)
            fail_msg("taken: %s", endpoints[i]);
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++)
        if (open_s3(buckets[i], "http://h", "path", "r", &client, &err) != KILN_CONFIG)
            fail_msg("taken: %s", buckets[i]);
    assert_int_equal(open_s3("bucket", "http://h", "path", "a b", &client, &err), KILN_CONFIG);
    assert_null(client);
    static const char *const urls[] = {"s3://", "s3://bucket/../x", "s3://bucket//x",
                                       "s3://bucket/a b"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct kiln_config *config =
            test_config((const char *[]){"store", urls[i], "s3_endpoint", "http://h", NULL});
        struct kiln_store *store = NULL;
        assert_int_equal(kiln_store_open(config, &store, &err), KILN_CONFIG);
        kiln_config_free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_has_profiles),
        cmocka_unit_test(bad_values_are_refused_without_showing_them),
        cmocka_unit_test(places_are_searched_in_order),
        cmocka_unit_test(endpoints_become_urls),
        cmocka_unit_test(bad_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
