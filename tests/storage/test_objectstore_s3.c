/* test_objectstore_s3.c - the S3 backend against a real Swift. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "storage/objects/s3/sigv4.h"
#include "tests/support/process.h"
#include "tests/support/random.h"
#include "tests/support/stack.h"
#include "tests/support/store.h"
#include "tests/support/swift.h"

static struct test_swift *swift;

static void must_put(struct kiln_store *store, const char *key, const void *data, size_t size)
{
    struct kiln_error err = {0};
    struct kiln_put put = {
        .key = key, .data = data, .size = size, .content_type = "application/octet-stream"};
    if (kiln_store_put(store, &put, 1, &err))
        fail_msg("%s", err.text);
}

static void must_hold(struct kiln_store *store, const char *key, const void *data, size_t size)
{
    struct kiln_error err = {0};
    void *back = NULL;
    size_t got = 0;
    if (kiln_store_get(store, key, 64 << 20, &back, &got, &err))
        fail_msg("%s", err.text);
    assert_int_equal(got, size);
    assert_memory_equal(back, data, size);
    free(back);
}

static void put_get_head_delete(void **state)
{
    (void)state;
    struct kiln_store *store = test_s3_store(test_swift_port(swift), "basic", NULL);
    struct kiln_error err = {0};
    uint64_t size = 99;
    must_put(store, "images/2026/11/7/full-aa.webp", "abc", 3);
    must_put(store, "images/2026/11/7/full-aa.webp", "abc", 3);
    must_put(store, "empty", "", 0);
    must_hold(store, "images/2026/11/7/full-aa.webp", "abc", 3);
    must_hold(store, "empty", "", 0);
    assert_int_equal(kiln_store_head(store, "images/2026/11/7/full-aa.webp", &size, &err), 0);
    assert_int_equal(size, 3);
    assert_int_equal(kiln_store_delete(store, "empty", &err), 0);
    assert_int_equal(kiln_store_delete(store, "empty", &err), 0);
    assert_int_equal(kiln_store_head(store, "empty", &size, &err), KILN_NOT_FOUND);
    void *data = NULL;
    size_t got = 0;
    assert_int_equal(kiln_store_get(store, "empty", 10, &data, &got, &err), KILN_NOT_FOUND);
    assert_non_null(strstr(err.text, "NoSuchKey"));
    assert_int_equal(kiln_store_get(store, "images/2026/11/7/full-aa.webp", 2, &data, &got, &err),
                     KILN_FULL);
    assert_null(data);
    if (kiln_store_probe(store, 0, &err))
        fail_msg("%s", err.text);
    kiln_store_close(store);
}

static void a_large_object_survives(void **state)
{
    (void)state;
    struct kiln_store *store = test_s3_store(test_swift_port(swift), "", NULL);
    size_t size = 9 * 1024 * 1024 + 17;
    uint8_t *data = malloc(size);
    assert_non_null(data);
    struct test_random random = {1};
    test_random_fill(&random, data, size);
    must_put(store, "large", data, size);
    must_hold(store, "large", data, size);
    free(data);
    kiln_store_close(store);
}

static int note(void *arg, const char *key, uint64_t size, int64_t modified_s)
{
    char *text = arg;
    assert_true(modified_s > 1600000000);
    size_t len = strlen(text);
    snprintf(text + len, 4096 - len, "%s=%llu ", key, (unsigned long long)size);
    return 0;
}

static void list_is_in_key_order_and_ours_alone(void **state)
{
    (void)state;
    static const char *const keys[] = {"b", "a/z", "a.b", "a-b", "a0", "a/b/c", "a/b.c"};
    struct kiln_store *store = test_s3_store(test_swift_port(swift), "list/one", NULL);
    struct kiln_store *other = test_s3_store(test_swift_port(swift), "list", NULL);
    struct kiln_error err = {0};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        must_put(store, keys[i], keys[i], strlen(keys[i]));
    must_put(other, "one-more", "x", 1);
    char all[4096] = "", sub[4096] = "", none[4096] = "";
    assert_int_equal(kiln_store_list(store, "", note, all, &err), 0);
    assert_string_equal(all, "a-b=3 a.b=3 a/b.c=5 a/b/c=5 a/z=3 a0=2 b=1 ");
    assert_int_equal(kiln_store_list(store, "a/b", note, sub, &err), 0);
    assert_string_equal(sub, "a/b.c=5 a/b/c=5 ");
    assert_int_equal(kiln_store_list(store, "zzz", note, none, &err), 0);
    assert_string_equal(none, "");
    kiln_store_close(store);
    kiln_store_close(other);
}

struct counting {
    size_t count;
    char last[64];
};

static int count_in_order(void *arg, const char *key, uint64_t size, int64_t modified_s)
{
    (void)size, (void)modified_s;
    struct counting *counting = arg;
    assert_true(strcmp(counting->last, key) < 0);
    snprintf(counting->last, sizeof counting->last, "%s", key);
    counting->count++;
    return 0;
}

#define MANY 250 /* three of this Swift's pages */

static void many_puts_and_pages(void **state)
{
    (void)state;
    struct kiln_store *store = test_s3_store(test_swift_port(swift), "many", NULL);
    struct kiln_put *puts = calloc(MANY, sizeof *puts);
    char(*keys)[32] = calloc(MANY, sizeof *keys);
    assert_true(puts && keys);
    for (int i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof keys[i], "o/%05d", i);
        puts[i] = (struct kiln_put){.key = keys[i], .data = keys[i], .size = strlen(keys[i])};
    }
    struct kiln_error err = {0};
    double start = kiln_test_now_s();
    if (kiln_store_put(store, puts, MANY, &err))
        fail_msg("%s", err.text);
    print_message("%d puts: %.0f a second\n", MANY, MANY / (kiln_test_now_s() - start));
    struct counting counting = {0};
    assert_int_equal(kiln_store_list(store, "o/", count_in_order, &counting, &err), 0);
    assert_int_equal(counting.count, MANY);
    free(puts);
    free(keys);
    kiln_store_close(store);
}

static void says_how_fast_pictures_go(void **state)
{
    (void)state;
    struct kiln_store *store = test_s3_store(test_swift_port(swift), "speed", NULL);
    size_t size = 150 * 1024;
    uint8_t *data = malloc(size);
    assert_non_null(data);
    struct test_random random = {3};
    test_random_fill(&random, data, size);
    struct kiln_put puts[100];
    char keys[100][32];
    for (int i = 0; i < 100; i++) {
        snprintf(keys[i], sizeof keys[i], "%d.webp", i);
        puts[i] = (struct kiln_put){.key = keys[i], .data = data, .size = size};
    }
    struct kiln_error err = {0};
    double start = kiln_test_now_s();
    assert_int_equal(kiln_store_put(store, puts, 100, &err), 0);
    print_message("150 KiB objects: %.0f puts a second\n", 100 / (kiln_test_now_s() - start));
    free(data);
    kiln_store_close(store);
}

/* bucket.localhost: curl and glibc know that every name under localhost is this machine. */
static void the_bucket_may_be_in_the_host_name(void **state)
{
    (void)state;
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "http://localhost:%d", test_swift_port(swift));
    struct kiln_store *by_host =
        test_s3_store(test_swift_port(swift), "styles",
                      (const char *[]){"s3_endpoint", endpoint, "s3_addressing", "host", NULL});
    struct kiln_store *by_path = test_s3_store(test_swift_port(swift), "styles", NULL);
    char all[4096] = "";
    struct kiln_error err = {0};
    must_put(by_host, "a/b", "one", 3);
    must_hold(by_path, "a/b", "one", 3);
    must_put(by_path, "c", "two", 3);
    must_hold(by_host, "c", "two", 3);
    if (kiln_store_list(by_host, "", note, all, &err))
        fail_msg("%s", err.text);
    assert_string_equal(all, "a/b=3 c=3 ");
    kiln_store_close(by_host);
    kiln_store_close(by_path);
}

#define KEPT 2048

static size_t keep(char *data, size_t size, size_t count, void *arg)
{
    char *text = arg;
    size_t len = strlen(text), room = KEPT - 1 - len;
    strncat(text, data, size * count < room ? size * count : room);
    return size * count;
}

/* Anybody with the URL may fetch the object, nobody with a changed one. */
static void a_presigned_url_opens_the_object(void **state)
{
    (void)state;
    struct kiln_store *store = test_s3_store(test_swift_port(swift), "signed", NULL);
    struct kiln_put put = {
        .key = "a", .data = "for your eyes", .size = 13, .content_type = "image/webp"};
    assert_int_equal(kiln_store_put(store, &put, 1, NULL), 0);
    char url[2048], text[KEPT], answered[KEPT], *signed_url = NULL, *again = NULL;
    struct kiln_error err;
    int64_t now_s = (int64_t)time(NULL);
    assert_int_equal(kiln_store_presign(store, "a", now_s, 60, &signed_url, &err), 0);
    assert_int_equal(kiln_store_presign(store, "a", now_s, 60, &again, &err), 0);
    assert_string_equal(signed_url, again); /* so that a browser's cache holds */
    assert_int_equal(strncmp(signed_url, kiln_store_origin(store), strlen("http://127.0.0.1:")), 0);
    int fd;
    uint64_t size;
    assert_int_equal(kiln_store_open_object(store, "a", &fd, &size, &err), KILN_UNSUPPORTED);
    assert_int_equal(kiln_store_presign(store, "../a", now_s, 60, &again, &err), KILN_BAD_INPUT);
    free(again);
    kiln_store_close(store);
    for (int changed = 0; changed < 2; changed++) {
        snprintf(url, sizeof url, "%s%s", signed_url, changed ? "&x=1" : "");
        long status = 0;
        CURL *easy = curl_easy_init();
        text[0] = answered[0] = '\0';
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, keep);
        curl_easy_setopt(easy, CURLOPT_HEADERDATA, answered);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, text);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 20000L);
        assert_int_equal(curl_easy_perform(easy), CURLE_OK);
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_cleanup(easy);
        assert_int_equal(status, changed ? 403 : 200);
        assert_int_equal(strcmp(text, "for your eyes") == 0, !changed);
        assert_int_equal(
            strcasestr(answered, "cache-control: public, max-age=31536000, immutable") != NULL,
            !changed); /* browsers may keep a picture for ever */
    }
    free(signed_url);
}

/* A server with a certificate that nobody vouches for: at once, and without a retry. */
static void an_untrusted_certificate_is_named(void **state)
{
    (void)state;
    if (system("openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2 "
               "-keyout key.pem -out cert.pem >/dev/null 2>&1") != 0) {
        print_message("openssl is not installed\n");
        skip();
    }
    char port[16], endpoint[64];
    snprintf(port, sizeof port, "%d", kiln_test_free_port());
    snprintf(endpoint, sizeof endpoint, "https://localhost:%s", port);
    pid_t server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execlp("openssl", "openssl", "s_server", "-accept", port, "-cert", "cert.pem", "-key",
               "key.pem", "-www", (char *)NULL);
        _exit(127);
    }
    struct kiln_store *store =
        test_s3_store(0, "tls", (const char *[]){"s3_endpoint", endpoint, NULL});
    struct kiln_error err = {0};
    uint64_t size;
    double start = kiln_test_now_s();
    assert_int_equal(kiln_store_head(store, "a", &size, &err), KILN_DENIED);
    assert_non_null(strstr(err.text, "certificate"));
    assert_true(kiln_test_now_s() - start < 60);
    kiln_store_close(store);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

typedef int ask_store(struct kiln_store *store, struct kiln_error *err);

/* Opens with other keys than the right ones. */
static int ask_with(ask_store *ask, const char *key, const char *secret, const char *bucket,
                    struct kiln_error *err)
{
    char endpoint[64], url[128];
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", test_swift_port(swift));
    snprintf(url, sizeof url, "s3://%s", bucket);
    setenv("AWS_ACCESS_KEY_ID", key, 1);
    setenv("AWS_SECRET_ACCESS_KEY", secret, 1);
    struct kiln_config *config =
        test_config((const char *[]){"store", url, "s3_endpoint", endpoint, NULL});
    struct kiln_store *store = NULL;
    assert_int_equal(kiln_store_open(config, &store, err), 0);
    int code = ask(store, err);
    kiln_store_close(store);
    kiln_config_free(config);
    return code;
}

static int probe(struct kiln_store *store, struct kiln_error *err)
{
    return kiln_store_probe(store, 0, err);
}

static int probe_with(const char *key, const char *secret, const char *bucket,
                      struct kiln_error *err)
{
    return ask_with(probe, key, secret, bucket, err);
}

/* A store that answers is there, even one that lets nobody in; one try is all it gets. */
static void a_reach_is_one_try(void **state)
{
    (void)state;
    struct kiln_error err = {0};
    const char *key = TEST_S3_KEY, *secret = TEST_S3_SECRET;
    assert_int_equal(ask_with(kiln_store_reach, key, secret, TEST_BUCKET, &err), 0);
    assert_int_equal(ask_with(kiln_store_reach, "test:nobody", "testing", TEST_BUCKET, &err), 0);
    assert_int_equal(ask_with(kiln_store_reach, key, secret, "no-such-bucket", &err),
                     KILN_NOT_FOUND);
    struct kiln_store *closed = test_s3_store(1, "", NULL);
    double start = kiln_test_now_s();
    assert_int_equal(kiln_store_reach(closed, &err), KILN_UNAVAILABLE);
    assert_true(kiln_test_now_s() - start < 20);
    kiln_store_close(closed);
}

static void refusals_say_what_to_do(void **state)
{
    (void)state;
    struct kiln_error err = {0};
    assert_int_equal(probe_with(TEST_S3_KEY, "wrong", TEST_BUCKET, &err), KILN_DENIED);
    assert_non_null(strstr(err.text, "SignatureDoesNotMatch"));
    assert_non_null(strstr(err.text, "check the access key and secret key"));
    assert_null(strstr(err.text, "wrong"));
    assert_int_equal(probe_with("test:nobody", "testing", TEST_BUCKET, &err), KILN_DENIED);
    assert_non_null(strstr(err.text, "HTTP 403"));
    assert_int_equal(probe_with(TEST_S3_KEY, TEST_S3_SECRET, "no-such-bucket", &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "NoSuchBucket"));
    assert_non_null(strstr(err.text, "make the bucket"));
}

/* Ten tries last a while: a child makes them while the other tests run. */
static pid_t patient;

static int knock_at_a_closed_door(void)
{
    struct kiln_store *store = test_s3_store(1, "", NULL);
    struct kiln_error err = {0};
    uint64_t size;
    double start = kiln_test_now_s();
    int code = kiln_store_head(store, "a", &size, &err);
    bool good = code == KILN_UNAVAILABLE && kiln_test_now_s() - start < 60 &&
                strstr(err.text, "http://127.0.0.1:1") && strstr(err.text, "10 tries");
    if (!good)
        printf("code %d after %.1f s: %s\n", code, kiln_test_now_s() - start, err.text);
    kiln_store_close(store);
    return good ? 0 : 1;
}

static void a_server_that_is_not_there_is_named(void **state)
{
    (void)state;
    int status = -1;
    assert_int_equal(waitpid(patient, &status, 0), patient);
    assert_int_equal(status, 0);
}

/* More than one request takes, most of it not there. */
static void many_go_in_few_requests(void **state)
{
    enum { REAL = 12, ALL = 1003 };
    (void)state;
    struct kiln_store *store = test_s3_store(test_swift_port(swift), "many", NULL);
    struct kiln_error err = {0};
    static char keys[ALL][32];
    static struct kiln_deletion deletions[ALL];
    uint64_t size;
    for (int i = 0; i < ALL; i++) {
        snprintf(keys[i], sizeof keys[i], "d/%04d", i);
        deletions[i].key = keys[i];
        if (i % 90 == 0)
            must_put(store, keys[i], "x", 1);
    }
    must_put(store, "d/left", "x", 1);
    assert_int_equal((ALL + 89) / 90, REAL);
    double started = kiln_test_now_s();
    if (kiln_store_delete_many(store, deletions, ALL, &err))
        fail_msg("%s", err.text);
    print_message("%d keys in %.2f s\n", ALL, kiln_test_now_s() - started);
    for (int i = 0; i < ALL; i += 90)
        assert_int_equal(kiln_store_head(store, keys[i], &size, &err), KILN_NOT_FOUND);
    assert_int_equal(kiln_store_head(store, "d/left", &size, &err), 0);
    /* A key that breaks the rule fails alone. */
    deletions[1].key = "../x";
    deletions[2].key = "d/left";
    assert_int_equal(kiln_store_delete_many(store, deletions, 3, &err), KILN_BAD_INPUT);
    assert_int_equal(deletions[0].code, 0);
    assert_int_equal(deletions[1].code, KILN_BAD_INPUT);
    assert_int_equal(deletions[2].code, 0);
    assert_int_equal(kiln_store_head(store, "d/left", &size, &err), KILN_NOT_FOUND);
    kiln_store_close(store);
}

int main(void)
{
    patient = fork();
    if (patient == 0)
        exit(knock_at_a_closed_door());
    swift = test_swift_start();
    if (!swift)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_get_head_delete),
        cmocka_unit_test(many_go_in_few_requests),
        cmocka_unit_test(a_large_object_survives),
        cmocka_unit_test(list_is_in_key_order_and_ours_alone),
        cmocka_unit_test(many_puts_and_pages),
        cmocka_unit_test(says_how_fast_pictures_go),
        cmocka_unit_test(the_bucket_may_be_in_the_host_name),
        cmocka_unit_test(a_presigned_url_opens_the_object),
        cmocka_unit_test(an_untrusted_certificate_is_named),
        cmocka_unit_test(refusals_say_what_to_do),
        cmocka_unit_test(a_reach_is_one_try),
        cmocka_unit_test(a_server_that_is_not_there_is_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_swift_stop(swift);
    return failed;
}
