/* test_silent_bus.c - a worker whose connections to Redis fall silent, or whose keys there somebody
 * else has used: its lease, which is the beat, must survive what Redis itself survives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/bus/bus.h"
#include "tests/support/jobs.h"
#include "tests/support/link.h"
#include "tests/support/worker_process.h"

#define LIMIT_S 60
#define LEASE_S 3
#define KEY(part) "kiln:{" KILN_TEST_POOL "}:" part

static struct kiln_test_stack *stack, view; /* view: through the link */
static struct test_link *cable;

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES | KILN_STACK_TCP);
    cable = test_link_start(stack->port[KILN_TEST_REDIS]);
    view = *stack;
    snprintf(view.conf, sizeof view.conf, "%.120s/link.conf", stack->dir);
    FILE *conf = fopen(view.conf, "we");
    if (!conf)
        return -1;
    fprintf(conf, "redis = redis://127.0.0.1:%d\npostgres = %s\n", test_link_port(cable),
            stack->conninfo);
    return fclose(conf);
}

static int stop(void **state)
{
    (void)state;
    test_link_stop(cable);
    kiln_test_stack_stop(stack);
    return 0;
}

static void start_worker(struct kiln_test_worker *worker, const char *id)
{
    const char *const more[] = {"--lease-s", "3", "--heartbeat-s", "0.5", NULL};
    kiln_test_worker_start(worker, &view, id, more, true);
}

/* How long in all, of so many leases, there was no beat. */
static double without_beat_s(const char *worker, int leases)
{
    struct kiln_heartbeat beat;
    double without = 0, since = kiln_test_now_s();
    while (kiln_test_now_s() - since < leases * LEASE_S) {
        double at = kiln_test_now_s();
        bool there = kiln_test_heartbeat(stack, worker, &beat);
        kiln_test_sleep_ms(50);
        without += there ? 0 : kiln_test_now_s() - at;
    }
    return without;
}

static bool has_room(const char *worker)
{
    struct kiln_heartbeat beat = {0};
    for (int i = 0; i < LIMIT_S * 10 && beat.room == 0; i++, kiln_test_sleep_ms(100))
        if (!kiln_test_heartbeat(stack, worker, &beat))
            beat.room = 0;
    return beat.room > 0;
}

/* What is open falls silent for good, as behind a router that has forgotten it. */
static void a_silent_connection_does_not_cost_the_lease(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    start_worker(&worker, "w-hush");
    for (int i = 0; i < 2; i++) {
        kiln_test_sleep_ms(600);
        test_link_hush(cable);
        assert_true(without_beat_s("w-hush", 2) == 0);
        assert_true(has_room("w-hush")); /* it hears its stream again too */
    }
    assert_int_equal(kiln_test_worker_stop(&worker), 0);
}

/* Redis itself hangs for longer than a third of the lease, and less than what is left of it. */
static void a_redis_that_pauses_does_not_cost_the_lease(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    start_worker(&worker, "w-pause");
    kiln_test_sleep_ms(600);
    kiln_test_freeze(stack, KILN_TEST_REDIS);
    kiln_test_sleep_ms(LEASE_S * 1000 / 2);
    kiln_test_thaw(stack, KILN_TEST_REDIS);
    assert_true(without_beat_s("w-pause", 2) == 0);
    assert_int_equal(kiln_test_worker_stop(&worker), 0);
}

static void keys_of_another_type_are_taken_back(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    struct kiln_heartbeat beat;
    uint64_t id;
    kiln_test_redis(stack, "SET " KEY("beat:w-damaged") " x");
    kiln_test_redis(stack, "SET " KEY("worker:w-damaged") " x");
    start_worker(&worker, "w-damaged");
    kiln_test_redis(stack, "SET " KEY("beat:w-damaged") " x");
    kiln_test_redis(stack, "SET " KEY("worker:w-damaged") " x");
    for (int i = 0; i < LIMIT_S * 10 && kiln_test_worker_said(&worker, "key_deleted") < 4; i++)
        kiln_test_sleep_ms(100);
    for (int i = 0; i < LIMIT_S * 10 && !kiln_test_heartbeat(stack, "w-damaged", &beat); i++)
        kiln_test_sleep_ms(100);
    assert_true(kiln_test_heartbeat(stack, "w-damaged", &beat));
    assert_int_equal(kiln_test_worker_said(&worker, "key_deleted"), 4);
    assert_int_equal(kiln_test_worker_said(&worker, "bus_away"), 0);
    struct kiln_job job = kiln_test_job("a cat");
    kiln_test_queue_jobs(stack, "b", &job, 1, &id);
    kiln_test_assign(stack, "w-damaged", "a-1", &id, 1);
    assert_true(kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 2", 1, LIMIT_S));
    kiln_test_redis(stack, "SET " KEY("events") " x"); /* nobody leads: they are dropped */
    assert_int_equal(kiln_test_worker_stop(&worker), 0);
}

/* Nobody leads, so nobody repairs the stream. */
static void events_that_redis_refuses_are_dropped_at_once(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    struct kiln_job job = kiln_test_job("a dog");
    uint64_t id;
    kiln_test_redis(stack, "SET " KEY("events") " x");
    start_worker(&worker, "w-refused");
    (void)kiln_test_worker_hears(&worker, "events_refused", LIMIT_S);
    assert_int_equal(kiln_test_worker_said(&worker, "events_refused"), 1);
    assert_int_equal(kiln_test_worker_said(&worker, "WRONGTYPE"), 1);
    assert_int_equal(kiln_test_worker_said(&worker, "bus_away"), 0);
    kiln_test_redis(stack, "DEL " KEY("events"));
    kiln_test_queue_jobs(stack, "dogs", &job, 1, &id);
    kiln_test_assign(stack, "w-refused", "a-2", &id, 1);
    assert_true(kiln_test_until(stack,
                                "SELECT count(*) FROM job j JOIN batch b ON b.id = batch_id"
                                " WHERE state = 2 AND b.name = 'dogs'",
                                1, LIMIT_S));
    assert_int_equal(kiln_test_worker_stop(&worker), 0);
    kiln_test_redis(stack, "XTRIM " KEY("events") " MAXLEN 0"); /* fails for another type */
    assert_int_equal(kiln_test_worker_said(&worker, "events_refused"), 1);
    assert_int_equal(kiln_test_worker_said(&worker, "events_lost"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_connection_does_not_cost_the_lease),
        cmocka_unit_test(a_redis_that_pauses_does_not_cost_the_lease),
        cmocka_unit_test(keys_of_another_type_are_taken_back),
        cmocka_unit_test(events_that_redis_refuses_are_dropped_at_once),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
