/* test_policy_avoid.c - a job that failed at a worker goes to another one first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/policy.h"

static void add_failed(uint64_t id, const char *set, const char *at, int64_t not_before_ms)
{
    struct kiln_policy_job j = job(id, set);
    j.avoid = at;
    j.not_before_ms = not_before_ms;
    add(j);
}

static void worker_with(const char *name, const char *set, uint32_t capacity)
{
    struct kiln_policy_worker w = {
        .model = "m", .lora_set = set, .capacity = capacity, .batch_max = 4, .minor = 9};
    assert_int_equal(kiln_policy_worker_set(policy, name, &w, &err), 0);
}

/* Whichever of the two has the set: each is asked in turn. */
static void another_worker_comes_first(void **state)
{
    (void)state;
    worker_with("a", "ink:1", 2);
    worker_with("b", "", 2);
    add_failed(1, "ink:1", "a", 0);
    struct kiln_policy_pick pick = pick_at(1000);
    assert_string_equal(pick.worker, "b");
    kiln_policy_finish(policy, "b", pick.tag);
    add_failed(2, "ink:1", "b", 0);
    assert_string_equal(pick_at(2000).worker, "a");
}

static void alone_a_worker_tries_again(void **state)
{
    (void)state;
    worker_with("a", "", 2);
    add_failed(1, "", "a", 0);
    assert_string_equal(pick_at(1000).worker, "a");
}

/* One that drains, that has no room at all or that has another model is no other worker. */
static void who_cannot_take_it_is_not_waited_for(void **state)
{
    (void)state;
    struct kiln_policy_worker drains = {
        .model = "m", .lora_set = "", .capacity = 2, .batch_max = 4, .minor = 9, .draining = true};
    struct kiln_policy_worker photo = {
        .model = "photo", .lora_set = "", .capacity = 2, .batch_max = 4, .minor = 9};
    worker_with("a", "", 2);
    worker_with("refuses", "", 0);
    assert_int_equal(kiln_policy_worker_set(policy, "drains", &drains, &err), 0);
    assert_int_equal(kiln_policy_worker_set(policy, "photo", &photo, &err), 0);
    struct kiln_policy_job j = job(1, "");
    j.model = "m";
    j.avoid = "a";
    add(j);
    assert_string_equal(pick_at(1000).worker, "a");
}

/* A busy worker is waited for, but only for a minute after the pause. */
static void it_is_not_kept_away_for_ever(void **state)
{
    (void)state;
    worker_with("a", "", 2);
    worker_with("b", "", 0);
    kiln_policy_adopt(policy, "b", 77, false);
    add_failed(9, "", "a", 5000);
    none_at(6000);
    none_at(64000);
    struct kiln_policy_pick pick = pick_at(65001);
    assert_string_equal(pick.worker, "a");
    assert_int_equal(pick.ids[0], 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KILN_POLICY_TEST(another_worker_comes_first),
        KILN_POLICY_TEST(alone_a_worker_tries_again),
        KILN_POLICY_TEST(who_cannot_take_it_is_not_waited_for),
        KILN_POLICY_TEST(it_is_not_kept_away_for_ever),
    };
    return cmocka_run_group_tests_name("policy_avoid", tests, NULL, NULL);
}
