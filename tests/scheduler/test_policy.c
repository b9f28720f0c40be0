/* test_policy.c - the rules of the policy, each once by hand, under simulated time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/policy.h"

/* --- the rules, one by one ------------------------------------------------------------------- */
static void a_batch_is_one_group(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 8; id++) {
        struct kiln_policy_job j = job(id, "");
        j.width = id % 2 ? 1024 : 512;
        add(j);
    }
    worker("w", 2, 8);
    struct kiln_policy_pick first = pick_at(0);
    none_at(0); /* four pictures take a while: too soon to bind the next batch to this worker */
    struct kiln_policy_pick second = pick_at(3000);
    assert_int_equal(first.count, 4);
    assert_int_equal(second.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(first.ids[i] % 2, first.ids[0] % 2);
        assert_int_equal(second.ids[i] % 2, 1 - first.ids[0] % 2);
    }
    none_at(3000);
}

static void one_running_one_ahead(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 5; id++)
        add(job(id, ""));
    worker("w", 2, 1);
    struct kiln_policy_pick first = pick_at(0);
    pick_at(0);
    none_at(0);
    kiln_policy_release(policy, "w", first.tag);
    assert_int_equal(pick_at(1).ids[0], 3);
    none_at(1);
}

static void empty_hands_first(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 2; id++)
        add(job(id, ""));
    worker("a", 2, 1);
    worker("b", 2, 1);
    struct kiln_policy_pick first = pick_at(0);
    /* A second assignment for the first worker would leave the other one idle. */
    kiln_policy_release(policy, "none", 1);
    struct kiln_policy_pick second = pick_at(0);
    assert_string_not_equal(first.worker, second.worker);
}

static void stays_on_its_set(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 20; id++)
        add(job(id, id % 2 ? "a:1" : "b:1"));
    worker("w", 1, 1);
    char order[21] = "";
    for (int i = 0; i < 20; i++) {
        struct kiln_policy_pick pick = pick_at(i);
        order[i] = pick.ids[0] % 2 ? 'a' : 'b';
        kiln_policy_release(policy, "w", pick.tag);
    }
    assert_string_equal(order, "aaaaaaaaaabbbbbbbbbb");
}

static void leaves_when_others_wait_too_long(void **state)
{
    (void)state;
    worker("w", 1, 1);
    struct kiln_policy_job old = job(1000, "b:1");
    int64_t left_at = -1;
    for (int64_t second = 0; second < 600 && left_at < 0; second++) {
        struct kiln_policy_job fresh = job((uint64_t)second + 1, "a:1");
        fresh.queued_ms = second * 1000;
        add(fresh);
        if (second == 1) {
            old.queued_ms = 1000;
            add(old);
        }
        struct kiln_policy_pick pick = pick_at(second * 1000);
        if (pick.ids[0] == 1000)
            left_at = second;
        kiln_policy_release(policy, "w", pick.tag);
    }
    /* A switch costs 1 s and 256 s of waiting weigh as much. */
    assert_in_range(left_at, 256, 268);
}

static void no_set_is_opened_twice_without_need(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 40; id++)
        add(job(id, id <= 20 ? "a:1" : "b:1"));
    struct kiln_policy_worker w = {.model = "m", .lora_set = "", .capacity = 1, .batch_max = 1};
    assert_int_equal(kiln_policy_worker_set(policy, "w1", &w, &err), 0);
    assert_int_equal(kiln_policy_worker_set(policy, "w2", &w, &err), 0);
    for (int i = 0; i < 40; i++) {
        struct kiln_policy_pick pick = pick_at(i);
        kiln_policy_release(policy, pick.worker, pick.tag);
    }
    struct kiln_policy_counts counts;
    kiln_policy_counts(policy, &counts);
    assert_int_equal(counts.waiting, 0);
    assert_int_equal(counts.switches, 2);
}

static void overloaded_set_is_joined(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 400; id++)
        add(job(id, "a:1"));
    worker("w1", 1, 1);
    worker("w2", 1, 1);
    struct kiln_policy_pick first = pick_at(0), second = pick_at(0);
    assert_string_not_equal(first.worker, second.worker);
    assert_int_equal(second.rule, KILN_RULE_JOIN);
}

static void priority_and_age(void **state)
{
    (void)state;
    struct kiln_policy_job low = job(1, ""), high = job(2, ""), old = job(3, "");
    low.queued_ms = high.queued_ms = 10 * 3600 * 1000;
    high.priority = 3;
    old.queued_ms = 0; /* ten hours older: worth more than three levels */
    add(low);
    add(high);
    add(old);
    worker("w", 1, 8);
    struct kiln_policy_pick pick = pick_at(10 * 3600 * 1000);
    assert_int_equal(pick.count, 3);
    assert_int_equal(pick.ids[0], 3);
    assert_int_equal(pick.ids[1], 2);
    assert_int_equal(pick.ids[2], 1);
}

static void backfill_only_when_nothing_else_waits(void **state)
{
    (void)state;
    struct kiln_policy_job backfill = job(1, "a:1");
    backfill.priority = -10;
    add(backfill);
    worker("w", 1, 1);
    struct kiln_policy_pick pick = pick_at(0);
    assert_int_equal(pick.ids[0], 1);
    kiln_policy_release(policy, "w", pick.tag);
    backfill.id = 2;
    add(backfill);
    add(job(3, "b:1"));
    assert_int_equal(pick_at(1).ids[0], 3); /* although its own set has work */
}

static void backfill_is_given_up_at_batch_ends(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 3; id++) {
        struct kiln_policy_job backfill = job(id, "");
        backfill.priority = -10;
        add(backfill);
    }
    worker("w", 2, 1);
    struct kiln_policy_pick running = pick_at(0);
    none_at(0); /* nothing of it is bound to the busy worker */
    add(job(9, ""));
    struct kiln_policy_pick ahead = pick_at(1);
    assert_int_equal(ahead.ids[0], 9);
    kiln_policy_release(policy, "w", running.tag);
    none_at(2);
    kiln_policy_release(policy, "w", ahead.tag);
    assert_in_range(pick_at(3).ids[0], 1, 3);
}

static void tenants_share(void **state)
{
    (void)state;
    uint32_t served[2] = {0, 0};
    for (uint64_t id = 1; id <= 4000; id++) {
        struct kiln_policy_job j = job(id, "");
        j.tenant = id <= 3000 ? "many" : "few";
        j.queued_ms = (int64_t)id;
        add(j);
    }
    worker("w", 1, 4);
    for (int i = 0; i < 400; i++) {
        struct kiln_policy_pick pick = pick_at(10000 + i);
        for (uint32_t k = 0; k < pick.count; k++)
            served[pick.ids[k] > 3000]++;
        kiln_policy_release(policy, "w", pick.tag);
    }
    assert_in_range(served[1], 600, 1000);
    assert_in_range(served[0], 600, 1000);
}

static void deadlines_go_first(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 50; id++)
        add(job(id, ""));
    struct kiln_policy_job urgent = job(99, "a:1");
    urgent.max_wait_s = 20;
    add(urgent);
    worker("w", 1, 1);
    struct kiln_policy_pick pick;
    int64_t second = 0;
    for (; second < 40; second++) {
        pick = pick_at(second * 1000);
        if (pick.ids[0] == 99)
            break;
        kiln_policy_release(policy, "w", pick.tag);
    }
    assert_in_range(second, 11, 20); /* not before it must, but in time */
    assert_int_equal(pick.rule, KILN_RULE_OVERDUE);
}

/* Worker h renders a:1, and w has been at b:1 for so long that it may leave; a deadline of a:1
 * comes that needs the fleet at once. */
static void deadline_in_a_set_with_a_holder(void)
{
    struct kiln_policy_job urgent = job(99, "a:1");
    urgent.max_wait_s = 4;
    add(job(1, "a:1"));
    add(job(2, "a:1"));
    worker("h", 1, 1);
    kiln_policy_release(policy, "h", pick_at(0).tag);
    assert_int_equal(pick_at(0).ids[0], 2);
    for (uint64_t id = 10; id < 30; id++)
        add(job(id, "b:1"));
    worker("w", 1, 1);
    for (int i = 0; i < 10; i++)
        kiln_policy_release(policy, "w", pick_at(0).tag);
    add(urgent);
}

static void busy_holder_is_waited_for(void **state)
{
    (void)state;
    deadline_in_a_set_with_a_holder();
    struct kiln_policy_pick pick = pick_at(1);
    assert_string_equal(pick.worker, "w");
    assert_int_equal(pick.rule, KILN_RULE_STAY);
    assert_in_range(pick.ids[0], 10, 29);
}

static void draining_holder_is_not_waited_for(void **state)
{
    (void)state;
    deadline_in_a_set_with_a_holder();
    struct kiln_policy_worker h = {
        .model = "m", .lora_set = "a:1", .capacity = 1, .batch_max = 1, .draining = true};
    assert_int_equal(kiln_policy_worker_set(policy, "h", &h, &err), 0);
    struct kiln_policy_pick pick = pick_at(1);
    assert_string_equal(pick.worker, "w");
    assert_int_equal(pick.rule, KILN_RULE_OVERDUE);
    assert_int_equal(pick.ids[0], 99);
}

static void missed_deadlines_force_no_switch(void **state)
{
    (void)state;
    deadline_in_a_set_with_a_holder();
    struct kiln_policy_pick pick = pick_at(5000);
    assert_string_equal(pick.worker, "w");
    assert_int_equal(pick.rule, KILN_RULE_STAY);
    assert_in_range(pick.ids[0], 10, 29);
}

static void suspects_are_alone(void **state)
{
    (void)state;
    struct kiln_policy_job suspect = job(1, ""), second = job(2, "");
    suspect.alone = second.alone = true;
    add(suspect);
    add(second);
    for (uint64_t id = 3; id <= 6; id++)
        add(job(id, ""));
    worker("w", 2, 8);
    uint32_t seen = 0;
    while (seen < 6) {
        struct kiln_policy_pick picks[2];
        int count = 0;
        while (count < 2 && kiln_policy_pick(policy, 1, &picks[count]))
            count++;
        assert_true(count > 0);
        for (int i = 0; i < count; i++) {
            for (uint32_t k = 0; k < picks[i].count; k++)
                if (picks[i].ids[k] <= 2)
                    assert_true(count == 1 && picks[i].count == 1);
            seen += picks[i].count;
            kiln_policy_release(policy, "w", picks[i].tag);
        }
    }
}

static void sleepers_wait(void **state)
{
    (void)state;
    struct kiln_policy_job j = job(1, "");
    j.not_before_ms = 5000;
    add(j);
    worker("w", 1, 1);
    none_at(10);
    assert_int_equal(kiln_policy_next_ms(policy, 10), 5000);
    none_at(4999);
    assert_int_equal(pick_at(5000).ids[0], 1);
}

static void other_models_are_not_for_us(void **state)
{
    (void)state;
    struct kiln_policy_job j = job(1, "");
    j.model = "other";
    add(j);
    worker("w", 1, 1);
    none_at(0);
    struct kiln_policy_why why;
    assert_int_equal(kiln_policy_why(policy, 1, 0, &why, &err), 0);
    assert_int_equal(why.reason, KILN_REASON_NO_WORKER);
    assert_string_equal(why.text, "no live worker serves other");
    assert_true(isinf(why.start_s));
    assert_int_equal(kiln_policy_why(policy, 2, 0, &why, &err), KILN_NOT_FOUND);
    struct kiln_policy_worker other = {
        .model = "other", .lora_set = "", .capacity = 1, .batch_max = 1};
    assert_int_equal(kiln_policy_worker_set(policy, "o", &other, &err), 0);
    assert_string_equal(pick_at(1).worker, "o");
}

static void draining_takes_nothing(void **state)
{
    (void)state;
    add(job(1, ""));
    struct kiln_policy_worker w = {
        .model = "m", .lora_set = "", .capacity = 2, .batch_max = 1, .draining = true};
    assert_int_equal(kiln_policy_worker_set(policy, "w", &w, &err), 0);
    none_at(0);
}

static void bounds_are_answers(void **state)
{
    (void)state;
    struct kiln_policy *small = NULL;
    struct kiln_policy_limits limits = {.jobs = 3, .sets = 2, .groups = 4, .tenants = 2};
    assert_int_equal(kiln_policy_new(&limits, costs, &small, &err), 0);
    struct kiln_policy_job j = job(1, "a:1");
    assert_int_equal(kiln_policy_add(small, &j, &err), 0);
    assert_int_equal(kiln_policy_add(small, &j, &err), KILN_EXISTS);
    j = job(2, "b:1");
    assert_int_equal(kiln_policy_add(small, &j, &err), 0);
    j = job(3, "c:1");
    assert_int_equal(kiln_policy_add(small, &j, &err), KILN_FULL);
    assert_true(kiln_policy_remove(small, 1));
    assert_int_equal(kiln_policy_add(small, &j, &err), 0); /* its set made room */
    j = job(4, "b:1");
    assert_int_equal(kiln_policy_add(small, &j, &err), 0);
    j = job(5, "b:1");
    assert_int_equal(kiln_policy_add(small, &j, &err), KILN_FULL);
    assert_int_equal(kiln_policy_remove_batch(small, 1), 3);
    struct kiln_policy_counts counts;
    kiln_policy_counts(small, &counts);
    assert_int_equal(counts.waiting + counts.groups + counts.sets, 0);
    kiln_policy_free(small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KILN_POLICY_TEST(a_batch_is_one_group),
        KILN_POLICY_TEST(one_running_one_ahead),
        KILN_POLICY_TEST(empty_hands_first),
        KILN_POLICY_TEST(stays_on_its_set),
        KILN_POLICY_TEST(leaves_when_others_wait_too_long),
        KILN_POLICY_TEST(no_set_is_opened_twice_without_need),
        KILN_POLICY_TEST(overloaded_set_is_joined),
        KILN_POLICY_TEST(priority_and_age),
        KILN_POLICY_TEST(backfill_only_when_nothing_else_waits),
        KILN_POLICY_TEST(backfill_is_given_up_at_batch_ends),
        KILN_POLICY_TEST(tenants_share),
        KILN_POLICY_TEST(deadlines_go_first),
        KILN_POLICY_TEST(busy_holder_is_waited_for),
        KILN_POLICY_TEST(draining_holder_is_not_waited_for),
        KILN_POLICY_TEST(missed_deadlines_force_no_switch),
        KILN_POLICY_TEST(suspects_are_alone),
        KILN_POLICY_TEST(sleepers_wait),
        KILN_POLICY_TEST(other_models_are_not_for_us),
        KILN_POLICY_TEST(draining_takes_nothing),
        KILN_POLICY_TEST(bounds_are_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
