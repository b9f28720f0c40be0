/* test_policy.c - the policy under simulated time: every rule once by hand, then seeded fleets
 * that must keep the invariants whatever comes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/policy.h"

static struct kiln_cost_model *costs;
static struct kiln_policy *policy;
static struct kiln_error err;

static int setup(void **state)
{
    (void)state;
    costs = kiln_cost_model_new(1024);
    assert_non_null(costs);
    assert_int_equal(kiln_policy_new(NULL, costs, &policy, &err), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kiln_policy_free(policy);
    kiln_cost_model_free(costs);
    return 0;
}

static struct kiln_policy_job job(uint64_t id, const char *lora_set)
{
    return (struct kiln_policy_job){.id = id,
                                    .batch_id = 1,
                                    .model = "",
                                    .lora_set = lora_set,
                                    .tenant = "default",
                                    .width = 1024,
                                    .height = 1024,
                                    .steps = 8};
}

static void add(struct kiln_policy_job j)
{
    assert_int_equal(kiln_policy_add(policy, &j, &err), 0);
}

static void worker(const char *name, uint32_t capacity, uint32_t batch_max)
{
    struct kiln_policy_worker w = {
        .model = "m", .lora_set = "", .capacity = capacity, .batch_max = batch_max};
    assert_int_equal(kiln_policy_worker_set(policy, name, &w, &err), 0);
}

static struct kiln_policy_pick pick_at(int64_t now_ms)
{
    struct kiln_policy_pick pick;
    assert_true(kiln_policy_pick(policy, now_ms, &pick));
    return pick;
}

static void none_at(int64_t now_ms)
{
    struct kiln_policy_pick pick;
    assert_false(kiln_policy_pick(policy, now_ms, &pick));
}

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
    /* A switch costs 1 s and 32 s of unfairness weigh as much. */
    assert_in_range(left_at, 30, 40);
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

static void promises_go_first(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 50; id++)
        add(job(id, ""));
    struct kiln_policy_job promised = job(99, "a:1");
    promised.max_wait_s = 20;
    add(promised);
    worker("w", 1, 1);
    struct kiln_policy_pick pick;
    int64_t second = 0;
    for (; second < 40; second++) {
        pick = pick_at(second * 1000);
        if (pick.ids[0] == 99)
            break;
        kiln_policy_release(policy, "w", pick.tag);
    }
    assert_in_range(second, 14, 20); /* not before it must, but in time */
    assert_int_equal(pick.rule, KILN_RULE_OVERDUE);
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
    assert_int_equal(why.hold, KILN_HOLD_NO_WORKER);
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

/* --- fleets under simulated time ------------------------------------------------------------- */
static uint64_t random_state;
static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((random_state >> 33) % bound);
}

/* Anything may happen at any time; every job is picked once, in one group, or removed by us. */
static void random_fleet(uint64_t seed)
{
    enum { JOBS = 3000, WORKERS = 5 };
    static uint8_t fate[JOBS + 1]; /* 0 not added, 1 waits, 2 picked, 3 removed */
    static struct kiln_policy_job jobs[JOBS + 1];
    static char sets[40][16];
    memset(fate, 0, sizeof(fate));
    random_state = seed;
    for (int i = 0; i < 40; i++)
        snprintf(sets[i], sizeof(sets[i]), "s%d:1", i);
    uint32_t next = 1, left = JOBS;
    for (int64_t now = 1; left > 0 && now < 200000; now++) {
        if (next <= JOBS && random_below(2)) {
            struct kiln_policy_job j = job(next, sets[random_below(1 + random_below(40))]);
            j.tenant = sets[random_below(6)];
            j.batch_id = random_below(10);
            j.steps = 1 + random_below(3);
            j.priority = (int32_t)random_below(21) - 10;
            j.max_wait_s = random_below(4) ? 0 : 1 + random_below(50);
            j.not_before_ms = random_below(4) ? 0 : now + random_below(500);
            j.queued_ms = now;
            j.alone = random_below(20) == 0;
            jobs[next] = j;
            add(j);
            fate[next++] = 1;
        }
        char name[16];
        snprintf(name, sizeof(name), "w%u", random_below(WORKERS));
        uint32_t what = random_below(40);
        if (what < 10)
            worker(name, 1 + random_below(2), 1 + random_below(8));
        else if (what == 11)
            kiln_policy_worker_gone(policy, name);
        else if (what == 12 && next > 1) {
            uint32_t id = 1 + random_below(next - 1);
            bool there = kiln_policy_remove(policy, id);
            assert_int_equal(there, fate[id] == 1);
            if (there)
                fate[id] = 3, left--;
        }
        struct kiln_policy_pick pick;
        if (!kiln_policy_pick(policy, now, &pick))
            continue;
        assert_in_range(pick.count, 1, 8);
        for (uint32_t i = 0; i < pick.count; i++) {
            const struct kiln_policy_job *j = &jobs[pick.ids[i]], *first = &jobs[pick.ids[0]];
            assert_int_equal(fate[pick.ids[i]], 1);
            assert_string_equal(j->lora_set, first->lora_set);
            assert_int_equal(j->steps, first->steps);
            assert_true(j->not_before_ms <= now);
            assert_true(!j->alone || pick.count == 1);
            fate[pick.ids[i]] = 2;
            left--;
        }
        if (random_below(8))
            kiln_policy_release(policy, pick.worker, pick.tag);
    }
    assert_int_equal(left, 0);
    struct kiln_policy_counts counts;
    kiln_policy_counts(policy, &counts);
    assert_int_equal(counts.waiting, 0);
    assert_true(counts.backlog_s == 0);
}

static void random_fleets_lose_nothing(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        random_fleet(seed);
        teardown(state);
        setup(state);
    }
}

/* A backlog on a fleet, one job a batch: returns the makespan over the lower bound. */
static double backlog_ratio(uint32_t jobs, uint32_t sets, uint32_t workers, uint64_t *ret_switches)
{
    double free_at[64] = {0}, work = 0, seconds = 1.0;
    uint64_t tag[64] = {0};
    static bool seen[4096];
    memset(seen, 0, sizeof(seen));
    uint32_t distinct = 0;
    for (uint32_t id = 1; id <= jobs; id++) {
        /* Roughly Zipf: the bare model most often. */
        uint32_t set = random_below(4) ? 0 : random_below(1 + random_below(1 + random_below(sets)));
        char name[16] = "";
        if (set)
            snprintf(name, sizeof(name), "s%u:1", set);
        distinct += set && !seen[set];
        seen[set] = true;
        add(job(id, name));
        work += seconds;
    }
    for (uint32_t i = 0; i < workers; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%u", i);
        worker(name, 1, 1);
    }
    uint32_t left = jobs;
    double makespan = 0;
    while (left > 0) {
        uint32_t at = 0;
        for (uint32_t i = 1; i < workers; i++)
            if (free_at[i] < free_at[at])
                at = i;
        char name[16];
        snprintf(name, sizeof(name), "%u", at);
        kiln_policy_release(policy, name, tag[at]);
        double now = free_at[at];
        struct kiln_policy_pick pick;
        while (kiln_policy_pick(policy, (int64_t)(now * 1000), &pick)) {
            uint32_t w = (uint32_t)atoi(pick.worker);
            tag[w] = pick.tag;
            free_at[w] = now + pick.switch_s + seconds * pick.count;
            makespan = free_at[w] > makespan ? free_at[w] : makespan;
            left -= pick.count;
        }
        if (left > 0 && free_at[at] <= now)
            free_at[at] = now + 0.1; /* nothing for it now: ask again */
    }
    struct kiln_policy_counts counts;
    kiln_policy_counts(policy, &counts);
    *ret_switches = counts.switches;
    return makespan / ((work + distinct * 1.0) / workers);
}

static void a_backlog_is_near_the_bound(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) { /* what a job and a switch really cost here */
        struct kiln_cost_shape shape = {
            .model = "", .width = 1024, .height = 1024, .steps = 8, .jobs = 1};
        kiln_cost_learn_compute(costs, &shape, 1.0);
        kiln_cost_learn_switch(costs, "", "", 1.0);
    }
    random_state = 7;
    uint64_t switches = 0;
    double ratio = backlog_ratio(20000, 400, 8, &switches);
    printf("20000 jobs, 8 workers: %.4f of the lower bound, %llu switches\n", ratio,
           (unsigned long long)switches);
    assert_true(ratio < 1.02);
    assert_in_range(switches, 100, 500); /* in arrival order there would be thousands */
}

/* Every job of a large queue is drawn once, in a batch of one kind, and nobody stands idle while
 * work waits. */
static void a_million_jobs_and_a_thousand_workers(void **state)
{
    (void)state;
    enum { JOBS = 1000000, WORKERS = 1000, HELD = 2 * WORKERS };
    static struct kiln_policy_pick held[HELD];
    uint8_t *drawn = calloc(JOBS + 1, 1);
    uint32_t *kind = calloc(JOBS + 1, sizeof(*kind));
    assert_non_null(drawn);
    assert_non_null(kind);
    random_state = 3;
    for (uint32_t id = 1; id <= JOBS; id++) {
        char set[16], tenant[16];
        uint32_t lora = random_below(1 + random_below(1500)), steps = 1 + random_below(3);
        snprintf(set, sizeof(set), "s%u:1", lora);
        snprintf(tenant, sizeof(tenant), "t%u", random_below(10));
        struct kiln_policy_job j = job(id, set);
        kind[id] = lora * 4 + steps;
        j.steps = steps;
        j.tenant = tenant;
        j.queued_ms = id / 20;
        j.max_wait_s = random_below(50) ? 0 : 100000;
        add(j);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%u", i);
        worker(name, 2, 8);
    }
    uint32_t left = JOBS, first = 0, count = 0;
    for (int64_t now = 50000; left > 0; now++) {
        while (count < HELD && kiln_policy_pick(policy, now, &held[(first + count) % HELD])) {
            const struct kiln_policy_pick *pick = &held[(first + count++) % HELD];
            assert_in_range(pick->count, 1, 8);
            left -= pick->count;
            for (uint32_t i = 0; i < pick->count; i++) {
                assert_int_equal(kind[pick->ids[i]], kind[pick->ids[0]]);
                assert_int_equal(drawn[pick->ids[i]]++, 0);
            }
        }
        assert_true(count >= WORKERS || left < WORKERS);
        kiln_policy_release(policy, held[first].worker, held[first].tag);
        first = (first + 1) % HELD;
        count--;
    }
    struct kiln_policy_counts counts;
    kiln_policy_counts(policy, &counts);
    assert_int_equal(counts.waiting, 0);
    assert_true(counts.backlog_s == 0);
    free(drawn);
    free(kind);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_batch_is_one_group),
        TEST(one_running_one_ahead),
        TEST(empty_hands_first),
        TEST(stays_on_its_set),
        TEST(leaves_when_others_wait_too_long),
        TEST(no_set_is_opened_twice_without_need),
        TEST(overloaded_set_is_joined),
        TEST(priority_and_age),
        TEST(backfill_only_when_nothing_else_waits),
        TEST(tenants_share),
        TEST(promises_go_first),
        TEST(suspects_are_alone),
        TEST(sleepers_wait),
        TEST(other_models_are_not_for_us),
        TEST(draining_takes_nothing),
        TEST(bounds_are_answers),
        TEST(random_fleets_lose_nothing),
        TEST(a_backlog_is_near_the_bound),
        TEST(a_million_jobs_and_a_thousand_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
