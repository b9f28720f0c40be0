/* test_clock_back.c - the machine's wall clock goes back by hours in mid-batch, under Redis,
 * Postgres, the scheduler and its worker at once: nobody is declared dead, nothing waits for the
 * hours to pass, and every job is done exactly once.
 *
 * The programs are the real ones; the clock is tests/doubles/clock.c, preloaded into all of them.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/scheduler_process.h"
#include "tests/support/stored.h"
#include "tests/support/worker_process.h"

#define LIMIT_S 60
#define HOUR_S 3600
#define LINE(words) "{\"prompt\":\"" words "\",\"width\":64,\"height\":64,\"steps\":2}"
#define SLOW LINE("a slow car @step_ms=100")

static struct kiln_test_stack *stack;
static struct kiln_test_scheduler scheduler;
static struct kiln_test_worker worker;
static int clock_fd;

static void set_clock(int64_t ahead_s)
{
    assert_int_equal(pwrite(clock_fd, &ahead_s, sizeof ahead_s, 0), sizeof ahead_s);
}

/* A copy, because Postgres' user may not be able to read the build directory. */
static void preload_clock(void)
{
    char here[3000], built[4000], text[4096];
    assert_true(kiln_test_built("tests/libclock.so", built, sizeof built));
    assert_non_null(getcwd(here, sizeof here));
    snprintf(text, sizeof text, "install -m 755 '%s' .", built);
    assert_int_equal(system(text), 0);
    clock_fd = open("clock", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    set_clock(0);
    snprintf(text, sizeof text, "%s/clock", here);
    setenv("TEST_CLOCK", text, 1);
    snprintf(text, sizeof text, "%s/libclock.so", here);
    setenv("LD_PRELOAD", text, 1);
}

/* Redis counts the time of a blocking read by the wall clock: when that goes back, a read that
 * nobody answers ends at our own time limit, 30 s by default. */
static void shorten_time_limit(void)
{
    FILE *conf = fopen(stack->conf, "ae");
    assert_non_null(conf);
    fputs("statement_timeout_s = 3\n", conf);
    assert_int_equal(fclose(conf), 0);
}

static int start(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0; /* their runtime wants to be the first that is loaded */
#endif
    preload_clock();
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    shorten_time_limit();
    kiln_test_scheduler_start(&scheduler, stack, "a");
    kiln_test_worker_start(&worker, stack, "w0", NULL, true);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    if (!stack)
        return 0;
    kiln_test_worker_signal(&worker, SIGKILL);
    (void)kiln_test_worker_wait(&worker, 10);
    kiln_test_scheduler_kill(&scheduler);
    kiln_test_stack_stop(stack);
    return 0;
}

static void until(const char *sql, long long wanted)
{
    assert_true(kiln_test_until(stack, sql, wanted, LIMIT_S));
}

static void the_clock_goes_back(void **state)
{
    (void)state;
    if (!stack)
        skip();
    long long before = kiln_test_count(stack, "SELECT extract(epoch FROM clock_timestamp())::int8");
    kiln_test_enqueue(stack, "b", "t1", SLOW, 0, 12, true);
    until("SELECT least(count(*), 1) FROM job WHERE state = 2", 1);
    set_clock(-HOUR_S);
    assert_true(kiln_test_count(stack, "SELECT extract(epoch FROM clock_timestamp())::int8") <
                before);
    kiln_test_enqueue(stack, "b", "t2", SLOW, 12, 8, true);
    assert_int_equal(kiln_test_receipt(stack, "t2").accepted, 8);
    until("SELECT count(*) FROM job WHERE state = 2", 20);
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "worker_lost"), 0);
    assert_int_equal(kiln_test_count(stack, "SELECT max(attempt) FROM job"), 1);
}

/* Its next try was set for a moment that is now hours ahead. */
static void a_pause_does_not_grow_by_hours(void **state)
{
    (void)state;
    if (!stack)
        skip();
    kiln_test_enqueue(stack, "b", "t3", LINE("@fail=device"), 20, 1, true);
    until("SELECT least(max(tries), 1) FROM job WHERE prompt ~ 'fail'", 1);
    set_clock(-2 * HOUR_S);
    until("SELECT count(*) FROM job WHERE state = 3 AND tries = 3", 1);
}

/* Its beat seems to live for hours, and its successor to be the older of the two. */
static void a_killed_worker_is_followed_at_once(void **state)
{
    (void)state;
    if (!stack)
        skip();
    kiln_test_enqueue(stack, "b", "t4", SLOW, 21, 8, true);
    until("SELECT least(count(*), 1) FROM job WHERE state = 1", 1);
    kiln_test_worker_signal(&worker, SIGKILL);
    assert_int_equal(kiln_test_worker_wait(&worker, 10), 128 + SIGKILL);
    set_clock(-4 * HOUR_S);
    for (int i = 0; i < 400; i++) { /* who supervises it starts it again */
        if (kiln_test_count(stack, "SELECT count(*) FROM job WHERE state = 2") == 28)
            break;
        if (worker.process.pid == 0 || kiln_test_worker_wait(&worker, 0.1) != -1)
            kiln_test_worker_start(&worker, stack, "w0", NULL, false);
    }
    until("SELECT count(*) FROM job WHERE state = 2", 28);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM image"), 28);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM event WHERE state = 2"), 28);
    assert_int_equal(kiln_test_assert_stored(stack), 28 * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_goes_back),
        cmocka_unit_test(a_pause_does_not_grow_by_hours),
        cmocka_unit_test(a_killed_worker_is_followed_at_once),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
