/* test_policy_in_flight.c - how much is in flight at a worker: one running and one ahead, and as
 * many short assignments as hide the latency of the messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/policy.h"

static uint64_t tags[64];
static uint32_t in_flight;

/* What a picture of 1024x1024 was seen to take. */
static void teach(double seconds)
{
    const struct kiln_cost_shape shape = {
        .model = "", .width = 1024, .height = 1024, .steps = 8, .jobs = 1};
    for (int i = 0; i < 20; i++)
        kiln_cost_learn_compute(costs, &shape, seconds);
}

/* The worker reports how much of what is in flight is rendered, and how many assignments it takes
 * in all: `capacity`, or `capacity_short` while they are short. */
static void says(const char *name, uint32_t rendered, uint32_t capacity, uint32_t capacity_short)
{
    const struct kiln_policy_worker w = {.model = "m",
                                         .lora_set = "",
                                         .capacity = capacity,
                                         .capacity_short = capacity_short,
                                         .rendered = rendered,
                                         .batch_max = 1};
    assert_int_equal(kiln_policy_worker_set(policy, name, &w, &err), 0);
}

static void queue_jobs(uint64_t first, uint32_t count)
{
    for (uint64_t id = first; id < first + count; id++)
        add(job(id, ""));
}

/* Takes what the policy gives until it gives nothing; returns how much is in flight. */
static uint32_t fill(int64_t now_ms)
{
    struct kiln_policy_pick pick;
    while (in_flight < 64 && kiln_policy_pick(policy, now_ms, &pick))
        tags[in_flight++] = pick.tag;
    return in_flight;
}

static void finish(const char *name, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        kiln_policy_finish(policy, name, tags[i]);
    in_flight -= count;
    for (uint32_t i = 0; i < in_flight; i++)
        tags[i] = tags[i + count];
}

/* A worker that has finished what makes it known. */
static void known_worker(const char *name, double seconds)
{
    in_flight = 0;
    teach(seconds);
    says(name, 0, 2, 16);
    for (uint64_t id = 1000; id < 1003; id++) {
        add(job(id, ""));
        assert_int_equal(fill(0), 1);
        finish(name, 1);
    }
}

static void short_work_lies_ahead_by_its_time(void **state)
{
    (void)state;
    known_worker("w", 0.1);
    queue_jobs(1, 50);
    assert_int_equal(fill(0), 6); /* one runs; half a second lies ahead */
    finish("w", 2);
    assert_int_equal(fill(200), 6);
}

static void long_work_is_one_ahead(void **state)
{
    (void)state;
    known_worker("w", 0.6);
    queue_jobs(1, 50);
    assert_int_equal(fill(0), 2);
}

static void a_worker_is_known_before_it_gets_more(void **state)
{
    (void)state;
    in_flight = 0;
    teach(0.1);
    says("new", 0, 2, 16);
    queue_jobs(1, 50);
    assert_int_equal(fill(0), 2);
    finish("new", 2);
    assert_int_equal(fill(200), 2);
    finish("new", 1);
    assert_int_equal(fill(300), 6);
}

/* A returned assignment says nothing of how quick the worker is. */
static void returning_is_not_finishing(void **state)
{
    (void)state;
    in_flight = 0;
    teach(0.1);
    says("new", 0, 2, 16);
    queue_jobs(1, 50);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(fill(i), 2);
        kiln_policy_release(policy, "new", tags[0]);
        tags[0] = tags[--in_flight];
    }
    assert_int_equal(fill(10), 2);
}

/* The mean of its kind says that a picture takes 100 ms; this worker takes longer. */
static void a_worker_that_is_slower_than_its_kind_gets_no_more(void **state)
{
    (void)state;
    known_worker("w", 0.1);
    queue_jobs(1, 50);
    assert_int_equal(fill(0), 6);
    says("w", 0, 6, 16);
    finish("w", 1);
    assert_int_equal(fill(900), 6);
    finish("w", 1);
    (void)fill(1100); /* the time is known from here on */
    says("w", 0, 5, 16);
    finish("w", 1);
    assert_int_equal(fill(1200), 5); /* what was given first is still there after a second */
    finish("w", 4);
    assert_int_equal(fill(1300), 6); /* it goes on: what is left is from a moment ago */
}

/* What is stored and committed keeps the worker from nothing, until it has as many in flight as it
 * takes. */
static void rendered_work_leaves_room(void **state)
{
    (void)state;
    known_worker("w", 0.1);
    queue_jobs(1, 50);
    assert_int_equal(fill(0), 6);
    says("w", 3, 6, 16);
    assert_int_equal(fill(300), 9); /* three rendered, one running, five ahead */
    says("w", 6, 9, 16);
    assert_int_equal(fill(600), 10); /* a second in all */
}

/* An assignment may be rendered and released before the next heartbeat says so: what is left is not
 * rendered. */
static void what_ends_was_rendered(void **state)
{
    (void)state;
    known_worker("w", 2.0);
    queue_jobs(1, 50);
    assert_int_equal(fill(0), 2);
    says("w", 1, 3, 16);
    assert_int_equal(fill(2000), 3);
    says("w", 2, 4, 16);
    assert_int_equal(fill(4000), 4); /* two rendered, one running, one ahead */
    finish("w", 2);
    assert_int_equal(fill(4100), 2); /* nothing more */
}

static void of_long_work_four_are_in_flight_at_most(void **state)
{
    (void)state;
    known_worker("w", 2.0);
    queue_jobs(1, 50);
    assert_int_equal(fill(0), 2);
    for (uint32_t rendered = 1; rendered <= 5; rendered++) {
        says("w", rendered, in_flight + 1, 16);
        assert_int_equal(fill(rendered * 2000), rendered < 2 ? 3 : 4);
    }
}

/* Its word bounds it: it has no places, or few. */
static void nobody_gets_more_than_it_has_places_for(void **state)
{
    (void)state;
    known_worker("w", 0.01);
    queue_jobs(1, 50);
    says("w", 0, 2, 0);
    assert_int_equal(fill(0), 2);
    says("w", 0, 2, 7);
    assert_int_equal(fill(0), 7);
    says("w", 0, 2, 99);
    assert_int_equal(fill(0), 16);
}

static void short_work_is_shared_out_evenly(void **state)
{
    (void)state;
    uint32_t of_a = 0;
    teach(0.1);
    says("a", 0, 2, 16);
    says("b", 0, 2, 16);
    for (int i = 0; i < 3; i++) { /* both become known */
        queue_jobs(100, 2);
        struct kiln_policy_pick one = pick_at(0), other = pick_at(0);
        kiln_policy_finish(policy, one.worker, one.tag);
        kiln_policy_finish(policy, other.worker, other.tag);
    }
    queue_jobs(1, 8);
    for (uint32_t i = 0; i < 8; i++)
        of_a += pick_at(0).worker[0] == 'a';
    none_at(0);
    assert_int_equal(of_a, 4);
}

/* After a cold first batch far too much is expected; how far it is says when the next is due. */
static void what_goes_faster_than_expected_gets_the_next_sooner(void **state)
{
    (void)state;
    struct kiln_policy_worker w = {
        .model = "m", .lora_set = "", .capacity = 2, .capacity_short = 16, .batch_max = 1};
    known_worker("w", 8);
    queue_jobs(1, 50);
    assert_int_equal(fill(0), 1);
    assert_int_equal(fill(2000), 1);
    w.left_s = 5; /* 7 in all */
    assert_int_equal(kiln_policy_worker_set(policy, "w", &w, &err), 0);
    assert_int_equal(fill(2500), 1);
    w.left_s = 1.5;
    assert_int_equal(kiln_policy_worker_set(policy, "w", &w, &err), 0);
    assert_int_equal(fill(2501), 2);
    w.left_s = 0.1; /* of the first of two: the second still takes its time */
    assert_int_equal(kiln_policy_worker_set(policy, "w", &w, &err), 0);
    assert_int_equal(fill(2600), 2);
}

/* Who is late keeps what it has: nothing is expected later than before. */
static void what_goes_slower_is_not_put_off(void **state)
{
    (void)state;
    struct kiln_policy_worker w = {.model = "m",
                                   .lora_set = "",
                                   .capacity = 2,
                                   .capacity_short = 16,
                                   .batch_max = 1,
                                   .left_s = 30};
    known_worker("w", 4);
    queue_jobs(1, 50);
    assert_int_equal(fill(0), 1);
    assert_int_equal(kiln_policy_worker_set(policy, "w", &w, &err), 0);
    assert_int_equal(fill(2100), 2);
}

/* A job that crashed a worker is rendered with nothing before or behind it. */
static void a_suspect_is_alone(void **state)
{
    (void)state;
    known_worker("w", 0.1);
    struct kiln_policy_job suspect = job(1, "");
    suspect.alone = true;
    suspect.priority = 10;
    add(suspect);
    assert_int_equal(fill(0), 1);
    queue_jobs(2, 10);
    assert_int_equal(fill(0), 1);
    finish("w", 1);
    assert_int_equal(fill(100), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KILN_POLICY_TEST(short_work_lies_ahead_by_its_time),
        KILN_POLICY_TEST(long_work_is_one_ahead),
        KILN_POLICY_TEST(a_worker_is_known_before_it_gets_more),
        KILN_POLICY_TEST(returning_is_not_finishing),
        KILN_POLICY_TEST(a_worker_that_is_slower_than_its_kind_gets_no_more),
        KILN_POLICY_TEST(rendered_work_leaves_room),
        KILN_POLICY_TEST(what_ends_was_rendered),
        KILN_POLICY_TEST(of_long_work_four_are_in_flight_at_most),
        KILN_POLICY_TEST(nobody_gets_more_than_it_has_places_for),
        KILN_POLICY_TEST(short_work_is_shared_out_evenly),
        KILN_POLICY_TEST(what_goes_faster_than_expected_gets_the_next_sooner),
        KILN_POLICY_TEST(what_goes_slower_is_not_put_off),
        KILN_POLICY_TEST(a_suspect_is_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
