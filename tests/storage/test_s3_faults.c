/* test_s3_faults.c - the S3 backend behind a proxy that misbehaves, in front of a real Swift: every
 * object arrives once and intact, or the error names what happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/faultproxy.h"
#include "tests/support/process.h"
#include "tests/support/random.h"
#include "tests/support/store.h"
#include "tests/support/swift.h"

#define OBJECT_SIZE (96 * 1024)

static struct test_swift *swift;
static struct test_proxy *proxy;
static uint8_t body[OBJECT_SIZE];

static void script(const struct test_fault_rule *rules, int count)
{
    test_proxy_script(proxy, rules, count);
}

static struct kiln_store *through_proxy(const char *prefix)
{
    return test_s3_store(test_proxy_port(proxy), prefix, NULL);
}

static int put(struct kiln_store *store, const char *key, struct kiln_error *err)
{
    struct kiln_put one = {.key = key, .data = body, .size = sizeof body};
    return kiln_store_put(store, &one, 1, err);
}

/* What Swift itself holds, asked without the proxy. */
static void must_have_landed(const char *prefix, const char *key)
{
    struct kiln_store *store = test_s3_store(test_swift_port(swift), prefix, NULL);
    struct kiln_error err = {0};
    void *back = NULL;
    size_t size = 0;
    if (kiln_store_get(store, key, 2 * OBJECT_SIZE, &back, &size, &err))
        fail_msg("%s", err.text);
    assert_int_equal(size, OBJECT_SIZE);
    assert_memory_equal(back, body, OBJECT_SIZE);
    free(back);
    kiln_store_close(store);
}

/* One PUT under a script: it works within limit_s, and Swift stored it `stored` times. */
static struct test_proxy_counts put_under(const char *key, const struct test_fault_rule *rules,
                                          int count, double limit_s, int stored)
{
    struct kiln_store *store = through_proxy("faults");
    struct kiln_error err = {0};
    script(rules, count);
    double start = kiln_test_now_s();
    if (put(store, key, &err))
        fail_msg("%s", err.text);
    double took = kiln_test_now_s() - start;
    if (took > limit_s)
        fail_msg("%s took %.1f s, limit %.1f s", key, took, limit_s);
    struct test_proxy_counts counts = test_proxy_counts(proxy);
    assert_int_equal(counts.puts_passed, stored);
    assert_int_equal(counts.rules_left, 0);
    must_have_landed("faults", key);
    kiln_store_close(store);
    return counts;
}

static void busy_servers_are_asked_again(void **state)
{
    (void)state;
    const struct test_fault_rule rules[] = {
        {"PUT", FAULT_503, 1, 0}, {"PUT", FAULT_500_HTML, 1, 0}, {"PUT", FAULT_CONFLICT, 1, 0}};
    struct test_proxy_counts counts = put_under("busy", rules, 3, 20, 1);
    assert_int_equal(counts.requests, 4);
}

static void what_one_can_do_without_is_asked_for_once(void **state)
{
    (void)state;
    const struct test_fault_rule rules[] = {{"GET", FAULT_503, 1, 0}};
    struct kiln_store *store = through_proxy("faults");
    struct kiln_error err = {0};
    void *back = NULL;
    size_t size = 0;
    assert_int_equal(put(store, "once", &err), 0);
    script(rules, 1);
    kiln_store_try_once(store, true);
    assert_int_not_equal(kiln_store_get(store, "once", 2 * OBJECT_SIZE, &back, &size, &err), 0);
    assert_int_equal(test_proxy_counts(proxy).requests, 1);
    kiln_store_try_once(store, false);
    script(rules, 1);
    if (kiln_store_get(store, "once", 2 * OBJECT_SIZE, &back, &size, &err))
        fail_msg("%s", err.text);
    assert_int_equal(test_proxy_counts(proxy).requests, 2);
    free(back);
    kiln_store_close(store);
}

static void a_late_answer_is_given_up_and_verified(void **state)
{
    (void)state;
    const struct test_fault_rule rules[] = {{"PUT", FAULT_SLOW, 1, 20000}};
    struct test_proxy_counts counts = put_under("slow", rules, 1, 15, 1);
    assert_int_equal(counts.heads, 1); /* found, so the body went once */
}

static void a_hanging_server_is_given_up(void **state)
{
    (void)state;
    const struct test_fault_rule rules[] = {{"PUT", FAULT_HANG, 1, 0}};
    struct test_proxy_counts counts = put_under("hang", rules, 1, 15, 1);
    assert_int_equal(counts.heads, 1); /* not there, so it was sent again */
}

static void a_reset_after_the_body_is_verified(void **state)
{
    (void)state;
    const struct test_fault_rule rules[] = {{"PUT", FAULT_RESET_AFTER, 1, 0}};
    struct test_proxy_counts counts = put_under("reset-after", rules, 1, 15, 1);
    assert_int_equal(counts.heads, 1);
}

/* A key that may only put gets a 403 for its HEAD: the body is then sent again. */
static void without_the_right_to_head_it_is_sent_again(void **state)
{
    (void)state;
    const struct test_fault_rule rules[] = {{"PUT", FAULT_RESET_AFTER, 1, 0},
                                            {"HEAD", FAULT_DENY, 1, 0}};
    put_under("no-head", rules, 2, 15, 2);
}

static void a_reset_in_the_body_is_sent_again(void **state)
{
    (void)state;
    const struct test_fault_rule rules[] = {{"PUT", FAULT_RESET_BEFORE, 2, 0}};
    put_under("reset-before", rules, 1, 15, 1);
}

static void a_412_is_verified(void **state)
{
    (void)state;
    const struct test_fault_rule rules[] = {{"PUT", FAULT_PRECONDITION, 1, 0}};
    struct test_proxy_counts counts = put_under("exists", rules, 1, 15, 1);
    assert_int_equal(counts.heads, 1);
}

static void a_wrong_etag_is_sent_again(void **state)
{
    (void)state;
    const struct test_fault_rule rules[] = {{"PUT", FAULT_WRONG_ETAG, 1, 0}};
    put_under("etag", rules, 1, 15, 2);
}

static void no_http_is_asked_again(void **state)
{
    (void)state;
    const struct test_fault_rule rules[] = {{"PUT", FAULT_GARBAGE, 2, 0}};
    put_under("garbage", rules, 1, 15, 1);
}

/* A kept connection that the server closed silently costs nothing but a reconnect. */
static void closed_kept_connections_are_replaced(void **state)
{
    (void)state;
    struct kiln_store *store = through_proxy("kept");
    struct kiln_error err = {0};
    const struct test_fault_rule rules[] = {{"", FAULT_CLOSE_AFTER, 6, 0}};
    script(rules, 1);
    char key[16];
    for (int i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "%d", i);
        if (put(store, key, &err))
            fail_msg("%s", err.text);
    }
    assert_int_equal(test_proxy_counts(proxy).puts_passed, 6);
    kiln_store_close(store);
}

static void connections_are_kept(void **state)
{
    (void)state;
    struct kiln_store *store = through_proxy("kept");
    struct kiln_error err = {0};
    script(NULL, 0);
    char key[16];
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_int_equal(put(store, key, &err), 0);
    }
    assert_int_equal(test_proxy_counts(proxy).connections, 1);
    kiln_store_close(store);
}

static void damaged_answers_are_fetched_again(void **state)
{
    (void)state;
    struct kiln_store *store = through_proxy("read");
    struct kiln_error err = {0};
    script(NULL, 0);
    assert_int_equal(put(store, "a", &err), 0);
    const struct test_fault_rule rules[] = {{"GET", FAULT_TRUNCATE, 1, 0},
                                            {"GET", FAULT_FLIP, 1, 0},
                                            {"GET", FAULT_503, 1, 0},
                                            {"GET", FAULT_SLOW, 1, 2500}};
    script(rules, 4);
    void *back = NULL;
    size_t size = 0;
    /* The slow one falls on a later try, whose limit is 6 s. */
    if (kiln_store_get(store, "a", 1 << 20, &back, &size, &err))
        fail_msg("%s", err.text);
    assert_int_equal(test_proxy_counts(proxy).rules_left, 0);
    assert_int_equal(size, OBJECT_SIZE);
    assert_memory_equal(back, body, OBJECT_SIZE);
    free(back);
    kiln_store_close(store);
}

static void a_wrong_clock_is_learned_once(void **state)
{
    (void)state;
    struct kiln_store *store = through_proxy("clock");
    struct kiln_error err = {0};
    script(NULL, 0);
    test_proxy_clock(proxy, 300);
    char key[16];
    for (int i = 0; i < 5; i++) {
        snprintf(key, sizeof key, "%d", i);
        if (put(store, key, &err))
            fail_msg("%s", err.text);
    }
    test_proxy_clock(proxy, 0);
    struct test_proxy_counts counts = test_proxy_counts(proxy);
    assert_int_equal(counts.skewed, 1);
    assert_int_equal(counts.puts_passed, 5);
    kiln_store_close(store);
}

static void the_right_to_put_is_enough_to_work(void **state)
{
    (void)state;
    struct kiln_store *store = through_proxy("rights");
    struct kiln_error err = {0};
    const struct test_fault_rule put_only[] = {{"GET", FAULT_DENY, 1, 0},
                                               {"DELETE", FAULT_DENY, 1, 0}};
    const struct test_fault_rule nothing[] = {{"PUT", FAULT_DENY, 1, 0}};
    script(put_only, 2);
    if (kiln_store_probe(store, 0, &err))
        fail_msg("%s", err.text);
    assert_int_equal(test_proxy_counts(proxy).rules_left, 0);
    script(nothing, 1);
    assert_int_equal(kiln_store_probe(store, 0, &err), KILN_DENIED);
    assert_non_null(strstr(err.text, "give it rights"));
    kiln_store_close(store);
}

static void redirects_are_not_followed(void **state)
{
    (void)state;
    struct kiln_store *store = through_proxy("redirect");
    struct kiln_error err = {0};
    const struct test_fault_rule rules[] = {{"PUT", FAULT_REDIRECT, 1, 0}};
    script(rules, 1);
    assert_int_equal(put(store, "a", &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "307"));
    assert_non_null(strstr(err.text, "s3_region"));
    assert_int_equal(test_proxy_counts(proxy).requests, 1);
    kiln_store_close(store);
}

static void write_credentials(const char *token)
{
    FILE *file = fopen("credentials", "w");
    assert_non_null(file);
    fprintf(file,
            "# test\n[other]\naws_access_key_id = x\n[kiln]\naws_access_key_id=%s\n"
            "aws_secret_access_key = %s\naws_session_token = %s\n",
            TEST_S3_KEY, TEST_S3_SECRET, token);
    assert_int_equal(fclose(file), 0);
}

static void expired_credentials_are_read_again(void **state)
{
    (void)state;
    struct kiln_error err = {0};
    write_credentials("old");
    struct kiln_store *store = test_s3_store(
        test_proxy_port(proxy), "token",
        (const char *[]){"s3_credentials_file", "credentials", "s3_profile", "kiln", NULL});
    const struct test_fault_rule rules[] = {{"PUT", FAULT_EXPIRED, 1, 0}};
    script(rules, 1);
    assert_int_equal(put(store, "a", &err), KILN_DENIED); /* the file holds the same as before */
    assert_non_null(strstr(err.text, "ExpiredToken"));
    assert_non_null(strstr(err.text, "renew"));
    write_credentials("new");
    script(rules, 1);
    if (put(store, "a", &err))
        fail_msg("%s", err.text);
    assert_int_equal(test_proxy_counts(proxy).requests, 2);
    must_have_landed("token", "a");
    kiln_store_close(store);
}

/* Everything at once: 150 objects, every kind of fault that lets a client recover. */
static void a_storm_loses_nothing(void **state)
{
    (void)state;
    enum { OBJECTS = 150 };
    static uint8_t data[OBJECTS][4096];
    static char keys[OBJECTS][16];
    static struct kiln_put puts[OBJECTS];
    struct test_random random = {77};
    test_random_fill(&random, data[0], sizeof data);
    for (int i = 0; i < OBJECTS; i++) {
        snprintf(keys[i], sizeof keys[i], "storm/%03d", i);
        puts[i] = (struct kiln_put){.key = keys[i], .data = data[i], .size = sizeof data[i]};
    }
    const struct test_fault_rule rules[] = {
        {"PUT", FAULT_503, 8, 0},          {"PUT", FAULT_RESET_AFTER, 4, 0},
        {"HEAD", FAULT_503, 2, 0},         {"PUT", FAULT_RESET_BEFORE, 4, 0},
        {"PUT", FAULT_GARBAGE, 3, 0},      {"PUT", FAULT_TRUNCATE, 3, 0},
        {"PUT", FAULT_WRONG_ETAG, 3, 0},   {"PUT", FAULT_CLOSE_AFTER, 5, 0},
        {"PUT", FAULT_500_HTML, 3, 0},     {"PUT", FAULT_CONFLICT, 2, 0},
        {"PUT", FAULT_PRECONDITION, 2, 0}, {"PUT", FAULT_SLOW, 2, 2500},
    };
    struct kiln_store *store = through_proxy("all");
    struct kiln_error err = {0};
    script(rules, sizeof rules / sizeof *rules);
    double start = kiln_test_now_s();
    if (kiln_store_put(store, puts, OBJECTS, &err))
        fail_msg("%s", err.text);
    struct test_proxy_counts counts = test_proxy_counts(proxy);
    int faults = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        faults += rules[i].count;
    print_message("%d objects through %d faults: %d requests, %d stored, %.1f s\n", OBJECTS, faults,
                  counts.requests, counts.puts_passed, kiln_test_now_s() - start);
    assert_int_equal(counts.rules_left, 0);
    kiln_store_close(store);
    store = test_s3_store(test_swift_port(swift), "all", NULL);
    for (int i = 0; i < OBJECTS; i++) {
        void *back = NULL;
        size_t size = 0;
        if (kiln_store_get(store, keys[i], 8192, &back, &size, &err))
            fail_msg("%s", err.text);
        assert_int_equal(size, sizeof data[i]);
        assert_memory_equal(back, data[i], size);
        free(back);
    }
    kiln_store_close(store);
}

int main(void)
{
    swift = test_swift_start();
    if (!swift)
        return 77;
    proxy = test_proxy_start(test_swift_port(swift));
    struct test_random random = {2};
    test_random_fill(&random, body, sizeof body);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_servers_are_asked_again),
        cmocka_unit_test(what_one_can_do_without_is_asked_for_once),
        cmocka_unit_test(a_late_answer_is_given_up_and_verified),
        cmocka_unit_test(a_hanging_server_is_given_up),
        cmocka_unit_test(a_reset_after_the_body_is_verified),
        cmocka_unit_test(without_the_right_to_head_it_is_sent_again),
        cmocka_unit_test(a_reset_in_the_body_is_sent_again),
        cmocka_unit_test(a_412_is_verified),
        cmocka_unit_test(a_wrong_etag_is_sent_again),
        cmocka_unit_test(no_http_is_asked_again),
        cmocka_unit_test(closed_kept_connections_are_replaced),
        cmocka_unit_test(connections_are_kept),
        cmocka_unit_test(damaged_answers_are_fetched_again),
        cmocka_unit_test(a_wrong_clock_is_learned_once),
        cmocka_unit_test(the_right_to_put_is_enough_to_work),
        cmocka_unit_test(redirects_are_not_followed),
        cmocka_unit_test(expired_credentials_are_read_again),
        cmocka_unit_test(a_storm_loses_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_proxy_stop(proxy);
    test_swift_stop(swift);
    return failed;
}
