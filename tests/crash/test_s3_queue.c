/* test_s3_queue.c - the whole queue on real servers: jobs in by Redis, rows in Postgres, pictures
 * to Swift's S3 through a proxy that misbehaves, while the worker is killed in mid-batch and the
 * store cannot be reached for a while.  Every job is done exactly once, and every object that the
 * ledger names is in the bucket with the very bytes.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/faultproxy.h"
#include "tests/support/scheduler_process.h"
#include "tests/support/store.h"
#include "tests/support/stored.h"
#include "tests/support/swift.h"
#include "tests/support/worker_process.h"

#define LIMIT_S 120
#define JOBS 40
#define PREFIX "whole"
#define LINE "{\"prompt\":\"a car @step_ms=40\",\"width\":320,\"height\":256,\"steps\":2}"

static struct test_swift *swift;
static struct test_proxy *proxy;
static struct kiln_test_stack *stack;
static struct kiln_test_worker worker;

static void start_worker(void)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", test_proxy_port(proxy));
    const char *more[] = {"--store", "s3://" TEST_BUCKET "/" PREFIX, "--s3-endpoint", endpoint,
                          NULL};
    kiln_test_worker_start(&worker, stack, "w0", more, true);
}

static void until(const char *sql, long long wanted)
{
    assert_true(kiln_test_until(stack, sql, wanted, LIMIT_S));
}

/* --- the bucket as a directory, for kiln_test_assert_stored ---------------------------------- */
struct copying {
    struct kiln_store *from, *to;
    int count;
};

static int copy(void *arg, const char *key, uint64_t size, int64_t modified_s)
{
    struct copying *copying = arg;
    struct kiln_put put = {.key = key, .size = (size_t)size};
    void *data = NULL;
    (void)modified_s;
    int code = kiln_store_get(copying->from, key, 1 << 24, &data, &put.size, NULL);
    put.data = data;
    if (!code)
        code = kiln_store_put(copying->to, &put, 1, NULL);
    free(data);
    copying->count++;
    return code;
}

static int copy_bucket(void)
{
    char url[300];
    snprintf(url, sizeof url, "file://%s/store", stack->dir);
    struct kiln_config *config = test_config((const char *[]){"store", url, NULL});
    struct copying copying = {.from = test_s3_store(test_swift_port(swift), PREFIX, NULL)};
    struct kiln_error err = {0};
    assert_int_equal(kiln_store_open(config, &copying.to, &err), 0);
    struct kiln_store *list = test_s3_store(test_swift_port(swift), PREFIX, NULL);
    if (kiln_store_list(list, "", copy, &copying, &err))
        fail_msg("%s", err.text);
    kiln_store_close(list);
    kiln_store_close(copying.from);
    kiln_store_close(copying.to);
    kiln_config_free(config);
    return copying.count;
}

static void every_picture_is_in_the_bucket(void **state)
{
    (void)state;
    const struct test_fault_rule faults[] = {
        {"PUT", FAULT_503, 6, 0},       {"PUT", FAULT_RESET_AFTER, 4, 0},
        {"PUT", FAULT_TRUNCATE, 2, 0},  {"PUT", FAULT_RESET_BEFORE, 4, 0},
        {"PUT", FAULT_GARBAGE, 2, 0},   {"PUT", FAULT_CLOSE_AFTER, 4, 0},
        {"PUT", FAULT_WRONG_ETAG, 2, 0}};
    struct kiln_test_scheduler scheduler;
    test_proxy_script(proxy, faults, sizeof faults / sizeof *faults);
    kiln_test_scheduler_start(&scheduler, stack, "a");
    start_worker();
    kiln_test_enqueue(stack, "b", "t", LINE, 0, JOBS, true);
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, JOBS);
    until("SELECT least(count(*), 4) FROM job WHERE state = 2", 4);
    kiln_test_worker_signal(&worker, SIGKILL);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), 128 + SIGKILL);
    start_worker();
    const struct test_fault_rule away[] = {{"", FAULT_RESET_BEFORE, 16, 0}};
    test_proxy_script(proxy, away, 1);
    until("SELECT count(*) FROM job WHERE state = 2", JOBS);
    assert_int_equal(kiln_test_worker_stop(&worker), 0);
    assert_int_equal(kiln_test_scheduler_stop(&scheduler), 0);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM image"), JOBS);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM event WHERE state = 2"), JOBS);
    int objects = copy_bucket();
    long long rows = kiln_test_assert_stored(stack);
    struct test_proxy_counts counts = test_proxy_counts(proxy);
    print_message("%lld object rows, %d objects in the bucket, %d requests\n", rows, objects,
                  counts.requests);
    assert_int_equal(rows, JOBS * 3); /* full, 256, latent */
    assert_true(objects >= rows);     /* a killed worker may leave orphans */
}

int main(void)
{
    swift = test_swift_start();
    if (!swift)
        return 77;
    proxy = test_proxy_start(test_swift_port(swift));
    kiln_store_close(test_s3_store(test_swift_port(swift), PREFIX, NULL)); /* keys: environment */
    setenv("KILN_MAX_ATTEMPTS", "50", 1);
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_picture_is_in_the_bucket)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_test_worker_signal(&worker, SIGKILL);
    kiln_test_stack_stop(stack);
    test_proxy_stop(proxy);
    test_swift_stop(swift);
    return failed;
}
