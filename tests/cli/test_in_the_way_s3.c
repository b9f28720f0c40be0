/* test_in_the_way_s3.c - keys of S3 that expire under a worker: `wait`, `run` and `watch` say so in
 * time and what to do, the listings name it, the worker takes no more jobs, and all are done once
 * the keys work again.  The limit is that of in_the_way.sh: KILN_TROUBLE_LIMIT_MS.
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
#define RUN_JOBS 10 /* in a batch of their own */
#define LINE "{\"prompt\":\"a car\",\"width\":64,\"height\":64,\"steps\":2}"

static struct test_swift *swift;
static struct test_proxy *proxy;
static struct kiln_test_stack *stack;
static struct kiln_test_worker worker;

static double limit_ms, from_ms;
static char said[200000];

/* Starts kiln with these words, its output in FILE. */
static pid_t start(const char *file, const char *const *words)
{
    char program[512];
    const char *argv[16] = {"kiln", "--config", stack->conf};
    for (int i = 0; words[i]; i++)
        argv[3 + i] = words[i];
    assert_true(kiln_test_built("kiln", program, sizeof program));
    pid_t pid = kiln_test_fork();
    if (pid == 0) {
        dup2(open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(STDOUT_FILENO, STDERR_FILENO);
        execv(program, (char *const *)argv);
        _exit(127);
    }
    assert_true(pid > 0);
    return pid;
}

static bool has(const char *name, const char *text)
{
    FILE *file = fopen(name, "re");
    said[file ? fread(said, 1, sizeof said - 1, file) : 0] = '\0';
    if (file)
        fclose(file);
    return strstr(said, text) != NULL;
}

/* The file gets the text within the limit. */
static void hears(const char *file, const char *text)
{
    while (!has(file, text)) {
        if (kiln_monotonic_ms() - from_ms > limit_ms)
            fail_msg("%s lacks \"%s\" after %.0f ms: %s", file, text, limit_ms, said);
        usleep(20000);
    }
    print_message(" %.0f |", kiln_monotonic_ms() - from_ms);
}

/* One call of a listing names the trouble. */
static void names(const char *verb, const char *argument, const char *text)
{
    int status;
    from_ms = kiln_monotonic_ms();
    pid_t pid = start("listing.txt", (const char *[]){verb, argument, NULL});
    assert_int_equal(waitpid(pid, &status, 0), pid);
    hears("listing.txt", text);
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
    FILE *lines = fopen("r.jsonl", "we");
    assert_non_null(lines);
    for (int i = 0; i < RUN_JOBS; i++)
        fputs(LINE "\n", lines);
    assert_int_equal(fclose(lines), 0);
    from_ms = kiln_monotonic_ms();
    pid_t pids[] = {
        start("wait.txt", (const char *[]){"wait", "b", NULL}),
        start("run.txt", (const char *[]){"run", "r.jsonl", "--out", "gallery", more[0], more[1],
                                          more[2], more[3], NULL}),
        start("watch.txt", (const char *[]){"watch", "b", NULL}),
    };
    print_message("| S3 keys expired |");
    hears("wait.txt", "batch b waits: the store of worker w0 denies access: ");
    hears("run.txt", "batch r waits: the store of worker w0 denies access: ");
    hears("watch.txt", "! the store of worker w0 denies access: ");
    for (size_t i = 0; i < sizeof pids / sizeof *pids; i++) {
        const char *file = (const char *[]){"wait.txt", "run.txt", "watch.txt"}[i];
        assert_true(has(file, "ExpiredToken"));
        assert_true(has(file, "renew the keys of S3"));
    }
    char job[32];
    snprintf(job, sizeof job, "%lld",
             kiln_test_count(stack, "SELECT max(id) FROM job WHERE state = 0"));
    names("status", NULL, "! the store of worker w0 denies access: ");
    names("workers", NULL, "! its store denies access: ");
    names("errors", NULL, "now in the way: the store of worker w0 denies access: ");
    names("why", job, "the store of worker w0 denies access: ");
    print_message("\n");
    assert_true(kiln_test_heartbeat(stack, "w0", &beat));
    assert_int_equal(beat.room, 0);
    assert_string_equal(beat.trouble, "store");
    assert_string_equal(beat.trouble_code, "denied");
    test_proxy_script(proxy, NULL, 0);
    assert_true(kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 2", JOBS + RUN_JOBS,
                                LIMIT_S));
    for (size_t i = 0; i < sizeof pids / sizeof *pids; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM image"), JOBS + RUN_JOBS);
    assert_int_equal(kiln_test_worker_stop(&worker), 0);
    assert_int_equal(kiln_test_scheduler_stop(&scheduler), 0);
}

int main(void)
{
    const char *limit = getenv("KILN_TROUBLE_LIMIT_MS");
    limit_ms = limit ? strtod(limit, NULL) : 8000;
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
