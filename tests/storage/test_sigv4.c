/* test_sigv4.c - the signer against published signatures.
 *
 * Vectors: the aws-sig-v4-test-suite (service "service", 30 August 2015) as far as the S3 path
 * rule allows, and the worked examples of the S3 API reference (24 May 2013).  Both use AWS's
 * documented example keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "schemas/digest.h"
#include "storage/objects/s3/sigv4.h"

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SUITE_TIME 1440938160 /* 2015-08-30 12:36:00 */
#define DOC_TIME 1369353600   /* 2013-05-24 00:00:00 */

static const struct kiln_sigv4_credentials suite_keys = {
    "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", NULL};
static const struct kiln_sigv4_credentials doc_keys = {
    "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", NULL};

struct vector {
    const char *name, *method, *path;
    struct kiln_sigv4_pair query[4];
    struct kiln_sigv4_pair headers[8];
    const char *payload_hash, *signed_headers, *signature;
};

#define HOST                                                                                       \
    {                                                                                              \
        "Host", "example.amazonaws.com"                                                            \
    }
#define DATE                                                                                       \
    {                                                                                              \
        "X-Amz-Date", "20150830T123600Z"                                                           \
    }
#define DOC_HOST                                                                                   \
    {                                                                                              \
        "Host", "examplebucket.s3.amazonaws.com"                                                   \
    }
#define DOC_DATE                                                                                   \
    {                                                                                              \
        "x-amz-date", "20130524T000000Z"                                                           \
    }
#define UNRESERVED "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static const struct vector suite[] = {
    {"get-vanilla",
     "GET",
     "/",
     {{0}},
     {HOST, DATE},
     EMPTY_SHA256,
     "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-vanilla-empty-query-key",
     "GET",
     "/",
     {{"Param1", "value1"}},
     {HOST, DATE},
     EMPTY_SHA256,
     "host;x-amz-date",
     "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
    {"get-vanilla-query-order-key-case",
     "GET",
     "/",
     {{"Param2", "value2"}, {"Param1", "value1"}},
     {HOST, DATE},
     EMPTY_SHA256,
     "host;x-amz-date",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-vanilla-query-order-value",
     "GET",
     "/",
     {{"Param1", "value2"}, {"Param1", "value1"}},
     {HOST, DATE},
     EMPTY_SHA256,
     "host;x-amz-date",
     "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"},
    {"get-vanilla-query-unreserved",
     "GET",
     "/",
     {{UNRESERVED, UNRESERVED}},
     {HOST, DATE},
     EMPTY_SHA256,
     "host;x-amz-date",
     "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
    {"get-unreserved",
     "GET",
     "/" UNRESERVED,
     {{0}},
     {HOST, DATE},
     EMPTY_SHA256,
     "host;x-amz-date",
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {"get-utf8",
     "GET",
     "/\xe1\x88\xb4",
     {{0}},
     {HOST, DATE},
     EMPTY_SHA256,
     "host;x-amz-date",
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"get-header-key-duplicate",
     "GET",
     "/",
     {{0}},
     {HOST, {"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}, DATE},
     EMPTY_SHA256,
     "host;my-header1;x-amz-date",
     "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
    {"get-header-value-order",
     "GET",
     "/",
     {{0}},
     {HOST,
      {"My-Header1", "value4"},
      {"My-Header1", "value1"},
      {"My-Header1", "value3"},
      {"My-Header1", "value2"},
      DATE},
     EMPTY_SHA256,
     "host;my-header1;x-amz-date",
     "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
    {"get-header-value-trim",
     "GET",
     "/",
     {{0}},
     {HOST, {"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}, DATE},
     EMPTY_SHA256,
     "host;my-header1;my-header2;x-amz-date",
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"post-vanilla",
     "POST",
     "/",
     {{0}},
     {HOST, DATE},
     EMPTY_SHA256,
     "host;x-amz-date",
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"post-header-key-sort",
     "POST",
     "/",
     {{0}},
     {HOST, {"My-Header1", "value1"}, DATE},
     EMPTY_SHA256,
     "host;my-header1;x-amz-date",
     "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
    {"post-vanilla-query",
     "POST",
     "/",
     {{"Param1", "value1"}},
     {HOST, DATE},
     EMPTY_SHA256,
     "host;x-amz-date",
     "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
    {"post-x-www-form-urlencoded",
     "POST",
     "/",
     {{0}},
     {{"Content-Type", "application/x-www-form-urlencoded"}, HOST, DATE},
     "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
     "content-type;host;x-amz-date",
     "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
};

static const struct vector documented[] = {
    {"GET object with range",
     "GET",
     "/test.txt",
     {{0}},
     {DOC_HOST, {"Range", "bytes=0-9"}, {"x-amz-content-sha256", EMPTY_SHA256}, DOC_DATE},
     EMPTY_SHA256,
     "host;range;x-amz-content-sha256;x-amz-date",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"PUT object",
     "PUT",
     "/test$file.text",
     {{0}},
     {DOC_HOST,
      {"Date", "Fri, 24 May 2013 00:00:00 GMT"},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
      {"x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
      DOC_DATE},
     "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
     "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"GET bucket lifecycle",
     "GET",
     "/",
     {{"lifecycle", NULL}},
     {DOC_HOST, {"x-amz-content-sha256", EMPTY_SHA256}, DOC_DATE},
     EMPTY_SHA256,
     "host;x-amz-content-sha256;x-amz-date",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"GET bucket (list objects)",
     "GET",
     "/",
     {{"prefix", "J"}, {"max-keys", "2"}},
     {DOC_HOST, {"x-amz-content-sha256", EMPTY_SHA256}, DOC_DATE},
     EMPTY_SHA256,
     "host;x-amz-content-sha256;x-amz-date",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

static size_t count_pairs(const struct kiln_sigv4_pair *pairs, size_t max)
{
    size_t n = 0;
    while (n < max && pairs[n].name)
        n++;
    return n;
}

static struct kiln_sigv4_request request_of(const struct vector *v, const char *service,
                                            int64_t time_s)
{
    return (struct kiln_sigv4_request){.method = v->method,
                                       .path = v->path,
                                       .query = v->query,
                                       .query_count = count_pairs(v->query, 4),
                                       .headers = v->headers,
                                       .header_count = count_pairs(v->headers, 8),
                                       .payload_hash = v->payload_hash,
                                       .region = "us-east-1",
                                       .service = service,
                                       .time_s = time_s};
}

static void check(const struct vector *v, const struct kiln_sigv4_credentials *keys,
                  const char *service, int64_t time_s)
{
    struct kiln_sigv4_request request = request_of(v, service, time_s);
    char *got = NULL, want[512], date[KILN_SIGV4_DATE_SIZE];
    struct kiln_error err = {0};
    if (kiln_sigv4_authorization(&request, keys, &got, &err))
        fail_msg("%s: %s", v->name, err.text);
    kiln_sigv4_date(time_s, date);
    snprintf(want, sizeof want,
             "AWS4-HMAC-SHA256 Credential=%s/%.8s/us-east-1/%s/aws4_request, SignedHeaders=%s, "
             "Signature=%s",
             keys->access_key, date, service, v->signed_headers, v->signature);
    if (strcmp(got, want) != 0)
        fail_msg("%s:\n got %s\nwant %s", v->name, got, want);
    free(got);
}

static void the_test_suite_signs_as_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof suite / sizeof *suite; i++)
        check(&suite[i], &suite_keys, "service", SUITE_TIME);
}

static void the_s3_reference_signs_as_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof documented / sizeof *documented; i++)
        check(&documented[i], &doc_keys, "s3", DOC_TIME);
}

static void a_presigned_url_is_as_published(void **state)
{
    (void)state;
    static const struct kiln_sigv4_pair host[] = {DOC_HOST};
    struct kiln_sigv4_request request = {.method = "GET",
                                         .path = "/test.txt",
                                         .headers = host,
                                         .header_count = 1,
                                         .payload_hash = KILN_SIGV4_UNSIGNED,
                                         .region = "us-east-1",
                                         .service = "s3",
                                         .time_s = DOC_TIME};
    char *query = NULL;
    struct kiln_error err = {0};
    assert_int_equal(kiln_sigv4_presign(&request, &doc_keys, 86400, &query, &err), 0);
    assert_string_equal(
        query, "X-Amz-Algorithm=AWS4-HMAC-SHA256"
               "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
               "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400"
               "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
               "&X-Amz-SignedHeaders=host");
    free(query);
    query = NULL;
    struct kiln_sigv4_credentials temporary = doc_keys;
    temporary.session_token = "tok/en+==";
    assert_int_equal(kiln_sigv4_presign(&request, &temporary, 60, &query, &err), 0);
    assert_non_null(strstr(query, "&X-Amz-Security-Token=tok%2Fen%2B%3D%3D&"));
    free(query);
    query = NULL;
    assert_int_equal(kiln_sigv4_presign(&request, &doc_keys, 0, &query, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_sigv4_presign(&request, &doc_keys, 604801, &query, &err), KILN_BAD_INPUT);
    assert_null(query);
}

static void hmac(const void *key, size_t key_len, const char *text, uint8_t out[32])
{
    HMAC(EVP_sha256(), key, (int)key_len, (const uint8_t *)text, strlen(text), out, NULL);
}

/* The signature that a canonical request must get, written down once more. */
static void signature_of(const char *canonical, const char *scope, const char *date,
                         const struct kiln_sigv4_credentials *keys, char ret_hex[65])
{
    char text[512], day[9];
    uint8_t digest[32], a[32], b[32];
    kiln_sha256(canonical, strlen(canonical), digest);
    kiln_hex(digest, 32, ret_hex);
    int len = snprintf(text, sizeof text, "AWS4%s", keys->secret_key);
    snprintf(day, sizeof day, "%.8s", date);
    hmac(text, (size_t)len, day, a);
    hmac(a, 32, "us-east-1", b);
    hmac(b, 32, "s3", a);
    hmac(a, 32, "aws4_request", b);
    snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, ret_hex);
    hmac(b, 32, text, a);
    kiln_hex(a, 32, ret_hex);
}

/* Names sort by themselves: "x-amz-meta-a" before "x-amz-meta-a-b" although '-' < ':'. */
static void a_name_that_starts_another_sorts_first(void **state)
{
    (void)state;
    static const struct kiln_sigv4_pair headers[] = {
        {"x-amz-meta-a-b", "2"}, {"X-Amz-Meta-A", "1"}, {"Host", "h:8080"}, {"Expect", ""}};
    static const struct kiln_sigv4_pair query[] = {{"prefix", "a b/\xc3\xa4+"}, {"acl", ""}};
    struct kiln_sigv4_request request = {.method = "PUT",
                                         .path = "/b/k",
                                         .query = query,
                                         .query_count = 2,
                                         .headers = headers,
                                         .header_count = 4,
                                         .payload_hash = "x",
                                         .region = "us-east-1",
                                         .service = "s3",
                                         .time_s = DOC_TIME};
    char *got = NULL, signature[65], want[512];
    struct kiln_error err = {0};
    assert_int_equal(kiln_sigv4_authorization(&request, &doc_keys, &got, &err), 0);
    signature_of("PUT\n/b/k\nacl=&prefix=a%20b%2F%C3%A4%2B\nexpect:\nhost:h:8080\n"
                 "x-amz-meta-a:1\nx-amz-meta-a-b:2\n\n"
                 "expect;host;x-amz-meta-a;x-amz-meta-a-b\nx",
                 "20130524/us-east-1/s3/aws4_request", "20130524T000000Z", &doc_keys, signature);
    snprintf(want, sizeof want,
             "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
             "SignedHeaders=expect;host;x-amz-meta-a;x-amz-meta-a-b, Signature=%s",
             signature);
    assert_string_equal(got, want);
    free(got);
}

static void object_keys_are_their_own_encoding(void **state)
{
    (void)state;
    char *path = kiln_sigv4_path("/bucket/images/2026/11/7/full-0a.webp");
    assert_string_equal(path, "/bucket/images/2026/11/7/full-0a.webp");
    free(path);
    path = kiln_sigv4_path("");
    assert_string_equal(path, "/");
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_test_suite_signs_as_published),
        cmocka_unit_test(the_s3_reference_signs_as_published),
        cmocka_unit_test(a_presigned_url_is_as_published),
        cmocka_unit_test(a_name_that_starts_another_sorts_first),
        cmocka_unit_test(object_keys_are_their_own_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
