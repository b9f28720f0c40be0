/* test_policy_fleet.c - the policy with whole fleets under simulated time: seeded ones that must
 * keep the invariants whatever comes, a backlog against its lower bound, a million jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/policy.h"

/* --- fleets under simulated time ------------------------------------------------------------- */
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
            kiln_policy_worker_remove(policy, name);
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
        kiln_policy_rig_teardown(state);
        kiln_policy_rig_setup(state);
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

/* Every job of a large queue is rendered once, in a batch of one kind, and no worker is idle while
 * work waits. */
static void a_million_jobs_and_a_thousand_workers(void **state)
{
    (void)state;
    enum { JOBS = 1000000, WORKERS = 1000, HELD = 2 * WORKERS };
    static struct kiln_policy_pick held[HELD];
    uint8_t *rendered = calloc(JOBS + 1, 1);
    uint32_t *kind = calloc(JOBS + 1, sizeof(*kind));
    assert_non_null(rendered);
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
                assert_int_equal(rendered[pick->ids[i]]++, 0);
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
    free(rendered);
    free(kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KILN_POLICY_TEST(random_fleets_lose_nothing),
        KILN_POLICY_TEST(a_backlog_is_near_the_bound),
        KILN_POLICY_TEST(a_million_jobs_and_a_thousand_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
