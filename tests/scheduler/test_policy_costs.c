/* test_policy_costs.c - what the policy makes of measured costs: the size of a batch, unlike
 * workers, the tail, and when a job will begin. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/policy.h"

/* --- batches, classes of devices, the tail, estimates -------------------------------------------
 */
static void teach_mode(const char *mode, const char *device, uint32_t jobs, double seconds)
{
    const struct kiln_cost_shape shape = {.model = "",
                                          .width = 1024,
                                          .height = 1024,
                                          .steps = 8,
                                          .jobs = jobs,
                                          .device = device,
                                          .mode = mode};
    for (int i = 0; i < 20; i++)
        kiln_cost_learn_compute(costs, &shape, seconds);
}

static void teach(const char *device, uint32_t jobs, double seconds)
{
    teach_mode("", device, jobs, seconds);
}

static void classed_worker(const char *name, const char *device, uint32_t capacity,
                           uint32_t batch_max)
{
    struct kiln_policy_worker w = {.model = "m",
                                   .lora_set = "",
                                   .capacity = capacity,
                                   .batch_max = batch_max,
                                   .device = device};
    assert_int_equal(kiln_policy_worker_set(policy, name, &w, &err), 0);
}

/* Eight at once cost a picture no less than two at once; one alone costs more. */
static void batches_are_no_larger_than_they_pay(void **state)
{
    (void)state;
    teach("gpu", 8, 8.0);
    teach("gpu", 4, 4.0);
    teach("gpu", 2, 2.04);
    teach("gpu", 1, 1.3);
    for (uint64_t id = 1; id <= 64; id++)
        add(job(id, ""));
    classed_worker("w", "gpu", 1, 8);
    assert_int_equal(pick_at(0).count, 2);
}

/* What was never measured is tried now and then, as long as much waits. */
static void smaller_batches_are_tried(void **state)
{
    (void)state;
    teach("gpu", 8, 8.0);
    for (uint64_t id = 1; id <= 1000; id++)
        add(job(id, ""));
    classed_worker("w", "gpu", 1, 8);
    uint32_t halves = 0;
    for (int i = 0; i < 64; i++) {
        struct kiln_policy_pick pick = pick_at(i * 10000);
        halves += pick.count == 4;
        assert_true(pick.count == 4 || pick.count == 8);
        kiln_policy_release(policy, "w", pick.tag);
    }
    assert_in_range(halves, 1, 8);
}

/* The last job goes to the fast worker, although the slow one has been idle for longer.
 */
static void a_slow_worker_begins_nothing_at_the_end(void **state)
{
    (void)state;
    teach("fast", 1, 1.0);
    teach("slow", 1, 10.0);
    classed_worker("a-slow", "slow", 1, 1);
    classed_worker("fast", "fast", 1, 1);
    for (uint64_t id = 1; id <= 40; id++)
        add(job(id, ""));
    uint64_t tag[2] = {0, 0};
    int64_t now = 0, free_at[2] = {0, 0}, end = 0;
    int rendered[2] = {0, 0};
    while (rendered[0] + rendered[1] < 40) {
        struct kiln_policy_pick pick;
        for (int w = 0; w < 2; w++) {
            if (tag[w] && free_at[w] <= now) {
                kiln_policy_release(policy, w ? "fast" : "a-slow", tag[w]);
                tag[w] = 0;
            }
        }
        while (kiln_policy_pick(policy, now, &pick)) {
            int w = strcmp(pick.worker, "fast") == 0;
            tag[w] = pick.tag;
            free_at[w] = now + (w ? 1000 : 10000);
            end = free_at[w] > end ? free_at[w] : end;
            rendered[w]++;
        }
        now += 100;
    }
    assert_in_range(rendered[0], 2, 4);
    assert_in_range(end, 36000, 40000); /* 40 s of work at speed 1.1, no less than 36.4 s */
}

static void work_ahead_is_taken_back_for_an_idle_worker(void **state)
{
    (void)state;
    struct kiln_policy_taken_back taken;
    teach("", 1, 4.0);
    add(job(1, ""));
    add(job(2, ""));
    worker("busy", 2, 1);
    struct kiln_policy_pick running = pick_at(0), ahead = pick_at(1500);
    assert_string_equal(ahead.worker, "busy");
    assert_false(kiln_policy_take_back(policy, 1500, &taken)); /* nobody is idle */
    worker("idle", 2, 1);
    assert_true(kiln_policy_take_back(policy, 1500, &taken));
    assert_string_equal(taken.worker, "busy");
    assert_int_equal(taken.tag, ahead.tag);
    assert_true(fabs(taken.gain_s - 2.5) < 0.1);               /* it ends at 5.5 s, not at 8 s */
    assert_false(kiln_policy_take_back(policy, 1500, &taken)); /* not twice */
    kiln_policy_release(policy, "busy", ahead.tag);
    add(job(ahead.ids[0], ""));
    assert_string_equal(pick_at(1501).worker, "idle");
    kiln_policy_release(policy, "busy", running.tag);
    none_at(5000);
}

/* What begins in a moment, or would end no sooner elsewhere, stays where it is. */
static void what_gains_nothing_is_left(void **state)
{
    (void)state;
    struct kiln_policy_taken_back taken;
    teach("", 1, 4.0);
    add(job(1, ""));
    add(job(2, ""));
    worker("busy", 2, 1);
    pick_at(0);
    pick_at(3000);
    worker("idle", 2, 1);
    assert_false(kiln_policy_take_back(policy, 3900, &taken));
    struct kiln_policy_worker other = {
        .model = "m", .lora_set = "x:1", .capacity = 2, .batch_max = 1};
    kiln_policy_worker_remove(policy, "idle");
    for (int i = 0; i < 10; i++)
        kiln_cost_learn_switch(costs, "", "", 30.0);
    assert_int_equal(kiln_policy_worker_set(policy, "idle", &other, &err), 0);
    assert_false(kiln_policy_take_back(policy, 3000, &taken));
}

/* The starts of a backlog, foretold at the beginning and seen under simulated time. */
static void starts_are_foretold(void **state)
{
    (void)state;
    enum { JOBS = 400, WORKERS = 4 };
    const double backlog_s = JOBS * (2 * 1.0 + 0.5) / 3 / WORKERS; /* a third is coarse first */
    static struct kiln_policy_why told[JOBS + 1];
    int64_t free_at[WORKERS] = {0}, began[JOBS + 1] = {0};
    uint64_t tag[WORKERS] = {0};
    teach("", 1, 1.0);
    teach_mode("coarse=4+3", "", 1, 0.5);
    random_state = 11;
    for (uint64_t id = 1; id <= JOBS; id++) {
        char set[16];
        uint32_t lora = random_below(1 + random_below(30));
        snprintf(set, sizeof(set), lora ? "s%u:1" : "", lora);
        struct kiln_policy_job next = job(id, set);
        next.mode = id % 3 == 0 ? "coarse=4+3" : "";
        add(next);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%u", i);
        worker(name, 1, 1);
    }
    uint32_t rendered = 0, asked = 0, within = 0;
    double off = 0;
    for (int64_t now = 0; rendered < JOBS; now += 100) {
        struct kiln_policy_pick pick;
        for (uint32_t i = 0; i < WORKERS; i++) {
            char name[16];
            snprintf(name, sizeof(name), "%u", i);
            if (tag[i] && free_at[i] <= now)
                kiln_policy_release(policy, name, tag[i]);
            tag[i] = free_at[i] <= now ? 0 : tag[i];
        }
        while (kiln_policy_pick(policy, now, &pick)) {
            uint32_t w = (uint32_t)atoi(pick.worker);
            tag[w] = pick.tag;
            began[pick.ids[0]] = now;
            free_at[w] = now + (int64_t)((pick.switch_s + (pick.ids[0] % 3 == 0 ? 0.5 : 1)) * 1000);
            rendered++;
        }
        for (uint64_t id = 1; now == 0 && id <= JOBS; id++) /* everybody has work now */
            if (kiln_policy_why(policy, id, now, &told[id], &err))
                assert_int_equal(err.code, KILN_NOT_FOUND); /* it is rendered already */
    }
    for (uint64_t id = 1; id <= JOBS; id++) {
        if (told[id].text[0] == '\0')
            continue;
        double start_s = (double)began[id] / 1000;
        asked++;
        within += start_s >= told[id].low_s - 0.2 && start_s <= told[id].high_s + 0.2;
        off += fabs(start_s - told[id].start_s);
        assert_true(told[id].low_s <= told[id].start_s && told[id].start_s <= told[id].high_s);
    }
    printf("%u of %u starts within the band, %.1f s off in the mean of a backlog of %.0f s\n",
           within, asked, off / asked, backlog_s);
    assert_true(within >= asked * 9 / 10);
    assert_true(off / asked < 0.25 * backlog_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KILN_POLICY_TEST(batches_are_no_larger_than_they_pay),
        KILN_POLICY_TEST(smaller_batches_are_tried),
        KILN_POLICY_TEST(a_slow_worker_begins_nothing_at_the_end),
        KILN_POLICY_TEST(work_ahead_is_taken_back_for_an_idle_worker),
        KILN_POLICY_TEST(what_gains_nothing_is_left),
        KILN_POLICY_TEST(starts_are_foretold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
