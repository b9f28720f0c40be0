/* test_in_the_way_s3.c - keys of S3 that expire under a worker: `kiln wait` says so within seconds
 * and what to do, the worker takes no more jobs, and all are done once the keys work again.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "tests/support/faultproxy.h"
#include "tests/support/scheduler_process.h"
#include "tests/support/store.h"
#include "tests/support/swift.h"
#include "tests/support/worker_process.h"

#define LIMIT_S 120
#define JOBS 60
#define LINE "{\"prompt\":\"a car\",\"width\":64,\"height\":64,\"steps\":2}"

static struct test_swift *swift;
static struct test_proxy *proxy;
static struct kiln_test_stack *stack;
static struct kiln_test_worker worker;

/* Starts `kiln wait b`, whose messages go to wait.txt. */
static pid_t start_wait(void)
{
    char program[512];
    assert_true(kiln_test_built("kiln", program, sizeof program));
    pid_t pid = kiln_test_fork();
    if (pid == 0) {
        dup2(open("wait.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        execl(program, "kiln", "wait", "b", "--config", stack->conf, NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    return pid;
}

/* Whether the wait has said the text within so many seconds. */
static bool wait_says(const char *text, double limit_s)
{
    static char said[100000];
    for (double end_ms = kiln_monotonic_ms() + limit_s * 1e3; kiln_monotonic_ms() < end_ms;) {
        FILE *file = fopen("wait.txt", "re");
        if (file) {
            said[fread(said, 1, sizeof said - 1, file)] = '\0';
            fclose(file);
            if (strstr(said, text))
                return true;
        }
        usleep(100000);
    }
    print_message("the wait says: %s\n", said);
    return false;
}

static void expired_keys_are_said_and_survived(void **state)
{
    (void)state;
    const struct test_fault_rule expired[] = {{"", FAULT_EXPIRED, 1000000, 0}};
    struct kiln_test_scheduler scheduler;
    struct kiln_heartbeat beat;
    char endpoint[64];
    int status = -1;
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", test_proxy_port(proxy));
    const char *more[] = {"--store", "s3://" TEST_BUCKET "/way", "--s3-endpoint", endpoint, NULL};
    kiln_test_scheduler_start(&scheduler, stack, "a");
    kiln_test_worker_start(&worker, stack, "w0", more, true);
    test_proxy_script(proxy, expired, 1);
    kiln_test_enqueue(stack, "b", "t", LINE, 0, JOBS, true);
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, JOBS);
    pid_t waiting = start_wait();
    double start_ms = kiln_monotonic_ms();
    assert_true(wait_says("batch b waits: the store of worker w0 denies access: ", 20));
    print_message("said after %.0f ms\n", kiln_monotonic_ms() - start_ms);
    assert_true(wait_says("ExpiredToken", 1));
    assert_true(wait_says("renew the keys of S3", 1));
    assert_true(kiln_test_heartbeat(stack, "w0", &beat));
    assert_int_equal(beat.room, 0);
    assert_string_equal(beat.trouble, "store");
    assert_string_equal(beat.trouble_code, "denied");
    test_proxy_script(proxy, NULL, 0);
    assert_true(kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 2", JOBS, LIMIT_S));
    assert_int_equal(waitpid(waiting, &status, 0), waiting);
    assert_int_equal(status, 0);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM image"), JOBS);
    assert_int_equal(kiln_test_worker_stop(&worker), 0);
    assert_int_equal(kiln_test_scheduler_stop(&scheduler), 0);
}

int main(void)
{
    swift = test_swift_start();
    if (!swift)
        return 77;
    proxy = test_proxy_start(test_swift_port(swift));
    kiln_store_close(test_s3_store(test_swift_port(swift), "way", NULL)); /* keys: environment */
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    const struct CMUnitTest tests[] = {cmocka_unit_test(expired_keys_are_said_and_survived)};
    int failed = cmocka_run_group_tests_name("in_the_way_s3", tests, NULL, NULL);
    kiln_test_worker_signal(&worker, SIGKILL);
    kiln_test_stack_stop(stack);
    test_proxy_stop(proxy);
    test_swift_stop(swift);
    return failed;
}
