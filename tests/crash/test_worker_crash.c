/* test_worker_crash.c - a worker, and the servers under it, break in the middle of work.
 *
 * The test plays the scheduler.  After every break the ledger and the store must agree: no row
 * without its object, no second image, no half commit.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/ledger/ledger.h"
#include "tests/support/stored.h"
#include "tests/support/worker_process.h"

#define LIMIT_S 60

static struct kiln_test_stack *stack;

static int start_stack(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    return 0;
}

static int stop_stack(void **state)
{
    (void)state;
    kiln_test_stack_stop(stack);
    return 0;
}

static bool until_in(const char *batch, enum kiln_job_state job_state, long long wanted)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = '%s' "
             "AND j.state = %d",
             batch, (int)job_state);
    return kiln_test_until(stack, sql, wanted, LIMIT_S);
}

/* What the scheduler does when a heartbeat has expired. */
static void return_held(const char *worker)
{
    char sql[200];
    snprintf(sql, sizeof sql,
             "SELECT string_agg(id || ' ' || attempt, ' ') FROM job WHERE state = %d "
             "AND worker = '%s'",
             KILN_JOB_ASSIGNED, worker);
    char *list = kiln_test_sql(stack, sql), *at = list;
    struct kiln_ledger *ledger;
    struct kiln_error err;
    assert_int_equal(kiln_ledger_open(stack->config, "test", &ledger, &err), 0);
    while (at && *at) {
        struct kiln_return back = {
            .code = KILN_UNAVAILABLE, .reason = "worker gone", .crashed = true};
        int moved;
        back.id = strtoull(at, &at, 10);
        back.attempt = (uint32_t)strtoul(at, &at, 10);
        if (kiln_ledger_return(ledger, &back, 1, &moved, &err) != 0)
            fail_msg("%s", err.text);
        assert_int_equal(moved, KILN_JOB_QUEUED);
    }
    kiln_ledger_close(ledger);
    free(list);
}

static void assert_ends_well(struct kiln_test_worker *worker)
{
    assert_int_equal(kiln_test_worker_stop(worker), 0);
    kiln_test_assert_stored(stack);
}

/* kill -9 at many moments of a batch of fast jobs; whatever was committed is whole, the rest is
 * drawn by the successor, which takes the id over at once. */
static void test_worker_killed(void **state)
{
    (void)state;
    enum { ROUNDS = 6, JOBS = 16 };
    struct kiln_test_worker worker;
    struct kiln_job job = kiln_test_job("killed");
    uint64_t ids[JOBS];
    long long stored = 0;
    job.width = job.height = 256;
    for (int round = 0; round < ROUNDS; round++) {
        char batch[32], name[32], sql[200];
        snprintf(batch, sizeof batch, "killed-%d", round);
        kiln_test_worker_start(&worker, stack, "w-killed", NULL, true);
        kiln_test_queue_jobs(stack, batch, &job, JOBS, ids);
        snprintf(name, sizeof name, "killed-%d-a", round);
        kiln_test_assign(stack, "w-killed", name, ids, JOBS);
        kiln_test_sleep_ms(5 + 30 * round);
        kiln_test_worker_signal(&worker, SIGKILL);
        assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), 128 + SIGKILL);
        /* What it had sent to the ledger may still be committed. */
        assert_true(kiln_test_until(stack,
                                    "SELECT count(*) FROM pg_stat_activity"
                                    " WHERE application_name LIKE 'kiln-worker%'",
                                    0, LIMIT_S));
        kiln_test_assert_stored(stack);
        return_held("w-killed");
        snprintf(sql, sizeof sql,
                 "SELECT string_agg(j.id::text, ' ') FROM job j JOIN batch b ON b.id = "
                 "j.batch_id WHERE b.name = '%s' AND state = %d",
                 batch, KILN_JOB_QUEUED);
        size_t left = 0;
        char *list = kiln_test_sql(stack, sql), *at = list;
        while (at && *at)
            ids[left++] = strtoull(at, &at, 10);
        free(list);
        kiln_test_worker_start(&worker, stack, "w-killed", NULL, true);
        snprintf(name, sizeof name, "killed-%d-b", round);
        if (left > 0)
            kiln_test_assign(stack, "w-killed", name, ids, left);
        assert_true(until_in(batch, KILN_JOB_DONE, JOBS));
        assert_int_equal(kiln_test_worker_stop(&worker), 0);
        long long now = kiln_test_assert_stored(stack);
        assert_true(now > stored);
        stored = now;
    }
}

/* A job that killed its worker is not in the stream for the successor to find; what was never read
 * is. */
static void test_old_stream(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    struct kiln_job job = kiln_test_job("poison @crash");
    uint64_t id;
    kiln_test_worker_start(&worker, stack, "w-old", NULL, true);
    kiln_test_queue_jobs(stack, "old", &job, 1, &id);
    kiln_test_assign(stack, "w-old", "old-1", &id, 1);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), 128 + SIGKILL);
    kiln_test_worker_start(&worker, stack, "w-old", NULL, true);
    kiln_test_sleep_ms(500);
    assert_int_equal(kiln_test_worker_wait(&worker, 0), -1); /* it lives */
    return_held("w-old");
    assert_ends_well(&worker);
    /* While nobody is there an order and an assignment arrive: the order was meant for the
     * predecessor, the assignment was never begun and is. */
    const struct kiln_control order = {.kind = KILN_CONTROL_DRAIN, .id = "w-old"};
    struct kiln_job good = kiln_test_job("unread");
    kiln_test_queue_jobs(stack, "unread", &good, 1, &id);
    kiln_test_control_worker(stack, "w-old", &order);
    kiln_test_assign(stack, "w-old", "old-2", &id, 1);
    kiln_test_worker_start(&worker, stack, "w-old", NULL, true);
    assert_true(until_in("unread", KILN_JOB_DONE, 1));
    assert_int_equal(kiln_test_worker_wait(&worker, 0), -1);
    assert_ends_well(&worker);
}

/* A picture is ready while Postgres hangs, then while it is gone: both are committed afterwards. */
static void test_ledger_away(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    const char *more[] = {"--statement-timeout-s", "1", NULL};
    struct kiln_job job = kiln_test_job("ledger @step_ms=300");
    uint64_t ids[8];
    kiln_test_worker_start(&worker, stack, "w-ledger", more, true);
    kiln_test_queue_jobs(stack, "ledger", &job, 8, ids);
    kiln_test_assign(stack, "w-ledger", "ledger-1", ids, 4);
    assert_true(kiln_test_worker_draws(&worker, LIMIT_S));
    kiln_test_freeze(stack, KILN_TEST_POSTGRES);
    bool away = kiln_test_worker_hears(&worker, "ledger_away", LIMIT_S);
    kiln_test_thaw(stack, KILN_TEST_POSTGRES);
    assert_true(away);
    assert_true(until_in("ledger", KILN_JOB_DONE, 4));
    kiln_test_assign(stack, "w-ledger", "ledger-2", ids + 4, 4);
    assert_true(kiln_test_worker_draws(&worker, LIMIT_S));
    kiln_test_kill(stack, KILN_TEST_POSTGRES);
    kiln_test_sleep_ms(1500);
    kiln_test_restart(stack, KILN_TEST_POSTGRES, NULL);
    assert_true(until_in("ledger", KILN_JOB_DONE, 8));
    assert_true(kiln_test_worker_hears(&worker, "ledger_back", LIMIT_S));
    assert_ends_well(&worker);
}

/* Without Redis what is held is finished; afterwards the worker hears again, also when Redis has
 * forgotten everything and its clock-made ids start anew. */
static void test_bus_away(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    struct kiln_heartbeat beat = {0};
    struct kiln_job job = kiln_test_job("bus @step_ms=500");
    uint64_t ids[6];
    kiln_test_worker_start(&worker, stack, "w-bus", NULL, true);
    kiln_test_queue_jobs(stack, "bus", &job, 6, ids);
    kiln_test_assign(stack, "w-bus", "bus-1", ids, 2);
    assert_true(kiln_test_worker_draws(&worker, LIMIT_S));
    kiln_test_kill(stack, KILN_TEST_REDIS);
    assert_true(until_in("bus", KILN_JOB_DONE, 2));
    assert_true(kiln_test_worker_hears(&worker, "bus_away", LIMIT_S));
    assert_true(kiln_test_worker_hears(&worker, " deaf ", LIMIT_S));
    kiln_test_restart(stack, KILN_TEST_REDIS, NULL);
    assert_true(kiln_test_worker_hears(&worker, "hears_again", LIMIT_S));
    kiln_test_assign(stack, "w-bus", "bus-2", ids + 2, 2);
    assert_true(until_in("bus", KILN_JOB_DONE, 4));
    kiln_test_flushall(stack);
    kiln_test_assign(stack, "w-bus", "bus-3", ids + 4, 2);
    assert_true(until_in("bus", KILN_JOB_DONE, 6));
    for (int i = 0; i < LIMIT_S * 10; i++, kiln_test_sleep_ms(100))
        if (kiln_test_heartbeat(stack, "w-bus", &beat) && beat.room == 2)
            break;
    assert_int_equal(beat.room, 2);
    assert_ends_well(&worker);
}

/* Redis hangs (its sockets still accept) when the worker is told to end: it ends all the same. */
static void test_end_without_bus(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    const char *more[] = {"--drain-s", "3", NULL};
    struct kiln_job job = kiln_test_job("end @step_ms=500");
    uint64_t ids[2];
    kiln_test_worker_start(&worker, stack, "w-end", more, true);
    kiln_test_queue_jobs(stack, "end", &job, 2, ids);
    kiln_test_assign(stack, "w-end", "end-1", ids, 2);
    assert_true(kiln_test_worker_draws(&worker, LIMIT_S));
    kiln_test_freeze(stack, KILN_TEST_REDIS);
    int status = kiln_test_worker_stop(&worker);
    kiln_test_thaw(stack, KILN_TEST_REDIS);
    assert_int_equal(status, 0);
    assert_true(until_in("end", KILN_JOB_DONE, 2));
    kiln_test_assert_stored(stack);
}

/* The store cannot be written (a file lies where its directory belongs): pictures wait, the log
 * says so once, and all is done when the way is free. */
static void test_store_blocked(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    struct kiln_job job = kiln_test_job("blocked");
    uint64_t ids[2 * KILN_HEARTBEAT_HELD_MAX];
    char store[256], images[300], aside[300];
    snprintf(store, sizeof store, "%s/store", stack->dir);
    snprintf(images, sizeof images, "%s/images", store);
    snprintf(aside, sizeof aside, "%s/aside", stack->dir);
    kiln_test_worker_start(&worker, stack, "w-blocked", NULL, true);
    assert_true(rename(images, aside) == 0 || errno == ENOENT);
    FILE *file = fopen(images, "we");
    assert_non_null(file);
    fclose(file);
    kiln_test_queue_jobs(stack, "blocked", &job, 2 * KILN_HEARTBEAT_HELD_MAX, ids);
    for (int i = 0; i < KILN_HEARTBEAT_HELD_MAX; i++) {
        char name[24];
        snprintf(name, sizeof name, "blocked-%d", i);
        kiln_test_assign(stack, "w-blocked", name, ids + 2 * i, 2);
    }
    assert_true(kiln_test_worker_hears(&worker, "store_away", LIMIT_S));
    kiln_test_sleep_ms(1500);
    /* What is drawn waits, and nothing more is asked for. */
    struct kiln_heartbeat beat = {0};
    for (int i = 0; i < LIMIT_S * 10; i++, kiln_test_sleep_ms(100))
        if (kiln_test_heartbeat(stack, "w-blocked", &beat) &&
            beat.drawn == KILN_HEARTBEAT_HELD_MAX)
            break;
    assert_int_equal(beat.held_count, KILN_HEARTBEAT_HELD_MAX);
    assert_int_equal(beat.drawn, KILN_HEARTBEAT_HELD_MAX);
    assert_int_equal(beat.room, 0);
    assert_int_equal(beat.places, 0);
    assert_int_equal(kiln_test_worker_said(&worker, "store_away"), 1);
    assert_int_equal(unlink(images), 0);
    assert_true(rename(aside, images) == 0 || errno == ENOENT);
    assert_true(until_in("blocked", KILN_JOB_DONE, 2 * KILN_HEARTBEAT_HELD_MAX));
    assert_true(kiln_test_worker_hears(&worker, "store_back", LIMIT_S));
    assert_ends_well(&worker);
}

/* After hold_s a picture that the store does not take goes back to the queue, to be drawn
 * elsewhere. */
static void test_store_given_up(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    const char *more[] = {"--hold-s", "0.5", NULL};
    struct kiln_job job = kiln_test_job("given");
    uint64_t ids[2];
    char images[300], aside[300];
    snprintf(images, sizeof images, "%s/store/images", stack->dir);
    snprintf(aside, sizeof aside, "%s/aside", stack->dir);
    kiln_test_worker_start(&worker, stack, "w-given", more, true);
    assert_true(rename(images, aside) == 0 || errno == ENOENT);
    fclose(fopen(images, "we"));
    kiln_test_queue_jobs(stack, "given", &job, 2, ids);
    kiln_test_assign(stack, "w-given", "given-1", ids, 2);
    assert_true(until_in("given", KILN_JOB_QUEUED, 2));
    assert_int_equal(unlink(images), 0);
    assert_true(rename(aside, images) == 0 || errno == ENOENT);
    assert_ends_well(&worker);
}

/* A disk that is really full: a tmpfs of 256 KiB under the store.  The last test, since its rows
 * name objects of that disk, which goes away with it. */
static void test_disk_full(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    struct kiln_job job = kiln_test_job("full");
    uint64_t ids[40];
    char dir[256], url[300];
    snprintf(dir, sizeof dir, "%s/small", stack->dir);
    snprintf(url, sizeof url, "file://%s", dir);
    assert_int_equal(mkdir(dir, 0755), 0);
    if (mount("tmpfs", dir, "tmpfs", 0, "size=256k") != 0) {
        print_message("skip: no right to mount a small disk: %s\n", strerror(errno));
        skip();
    }
    const char *more[] = {"--store", url, NULL};
    job.width = job.height = 256;
    kiln_test_worker_start(&worker, stack, "w-full", more, true);
    kiln_test_queue_jobs(stack, "full", &job, 40, ids);
    kiln_test_assign(stack, "w-full", "full-1", ids, 40);
    bool full = kiln_test_worker_hears(&worker, "store_away", LIMIT_S);
    bool named = kiln_test_worker_said(&worker, "code=full") > 0;
    int grown = mount("tmpfs", dir, "tmpfs", MS_REMOUNT, "size=64m");
    bool done = until_in("full", KILN_JOB_DONE, 40);
    int status = kiln_test_worker_stop(&worker);
    umount2(dir, MNT_DETACH);
    assert_true(full);
    assert_true(named);
    assert_int_equal(grown, 0);
    assert_true(done);
    assert_int_equal(status, 0);
}

/* Told to end while the store is blocked: drawn pictures are handed back within the limit. */
static void test_end_without_store(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    const char *more[] = {"--drain-s", "1", NULL};
    struct kiln_job job = kiln_test_job("nostore");
    uint64_t ids[4];
    char images[300], aside[300];
    snprintf(images, sizeof images, "%s/store/images", stack->dir);
    snprintf(aside, sizeof aside, "%s/aside", stack->dir);
    kiln_test_worker_start(&worker, stack, "w-nostore", more, true);
    assert_true(rename(images, aside) == 0 || errno == ENOENT);
    fclose(fopen(images, "we"));
    kiln_test_queue_jobs(stack, "nostore", &job, 4, ids);
    kiln_test_assign(stack, "w-nostore", "nostore-1", ids, 4);
    assert_true(kiln_test_worker_hears(&worker, "store_away", LIMIT_S));
    assert_int_equal(kiln_test_worker_stop(&worker), 0);
    assert_true(until_in("nostore", KILN_JOB_QUEUED, 4));
    assert_int_equal(unlink(images), 0);
    assert_true(rename(aside, images) == 0 || errno == ENOENT);
    kiln_test_assert_stored(stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worker_killed),   cmocka_unit_test(test_old_stream),
        cmocka_unit_test(test_ledger_away),     cmocka_unit_test(test_bus_away),
        cmocka_unit_test(test_end_without_bus), cmocka_unit_test(test_store_blocked),
        cmocka_unit_test(test_store_given_up),  cmocka_unit_test(test_end_without_store),
        cmocka_unit_test(test_disk_full),
    };
    return cmocka_run_group_tests(tests, start_stack, stop_stack);
}
