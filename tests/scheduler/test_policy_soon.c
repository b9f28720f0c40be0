/* test_policy_soon.c - of which waiting jobs it is looked up where they would begin: those that go
 * soon, ask, and were not looked at since something changed.  However many jobs wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/policy.h"

static struct kiln_policy_job asking(uint64_t id)
{
    struct kiln_policy_job j = job(id, "");
    j.asks = true;
    j.queued_ms = (int64_t)id;
    return j;
}

static uint32_t asked; /* how often it was asked whether a look is outdated */

static bool before_turn(const void *arg, const struct kiln_reuse_look *look)
{
    asked++;
    return look->turn < *(const uint64_t *)arg;
}

/* All but those whose set begins with "bare". */
static bool is_served(const void *arg, const char *lora_set)
{
    (void)arg;
    return strncmp(lora_set, "bare", 4) != 0;
}

static size_t to_look(uint64_t turn, uint64_t *ids, size_t max)
{
    asked = 0;
    return kiln_policy_to_look(policy, is_served, before_turn, &turn, ids, max);
}

static void expect(uint64_t id, uint32_t skip, uint64_t turn)
{
    const struct kiln_reuse_look look = {.turn = turn, .marks = {{(uint32_t)id}}};
    const struct kiln_donor donor = {.job = skip, .step = skip};
    kiln_policy_expect(policy, id, &donor, &look);
}

static void only_outdated_looks_of_jobs_that_ask(void **state)
{
    (void)state;
    uint64_t ids[16];
    struct kiln_policy_job ink = job(20, "ink:1"), later = asking(21);
    later.not_before_ms = 1000;
    add(job(10, ""));
    add(ink);
    assert_int_equal(to_look(1, ids, 16), 0);
    assert_int_equal(asked, 0);
    for (uint64_t id = 4; id >= 1; id--)
        add(asking(id));
    add(later);
    assert_int_equal(to_look(1, ids, 16), 4); /* in the order in which they go */
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(ids[i], i + 1);
    assert_int_equal(to_look(1, ids, 3), 3);
    expect(2, 0, 1);
    expect(3, 6, 1); /* in a group of its own */
    assert_int_equal(to_look(1, ids, 16), 2);
    assert_true(ids[0] == 1 && ids[1] == 4);
    assert_int_equal(to_look(2, ids, 16), 4);
    worker("w", 4, 4);
    struct kiln_policy_pick pick = pick_at(100); /* it tells the looks */
    assert_true(pick.skip == 0 && pick.count == 4 && pick.ids[0] == 10 && pick.ids[2] == 2);
    assert_true(pick.looks[2].turn == 1 && pick.looks[2].marks.at[0] == 2);
    assert_true(pick.looks[0].turn == 0 && pick.looks[3].turn == 0);
    kiln_policy_finish(policy, "w", pick.tag);
    pick = pick_at(200);
    assert_true(pick.skip == 6 && pick.ids[0] == 3 && pick.looks[0].turn == 0);
    kiln_policy_finish(policy, "w", pick.tag);
    assert_int_equal(to_look(9, ids, 16), 0); /* that of 21 is when it is awake */
    kiln_policy_remove(policy, 20);
    pick = pick_at(2000);
    assert_int_equal(pick.ids[0], 21);
    assert_int_equal(to_look(9, ids, 16), 0);
    assert_int_equal(asked, 0);
}

/* As many of each queue as there is room for, the first ones. */
static void every_queue_has_its_share(void **state)
{
    (void)state;
    static uint64_t ids[2 * KILN_POLICY_SOON];
    uint64_t id = 1;
    for (int tenant = 0; tenant < 4; tenant++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", tenant);
        for (int i = 0; i < 1000; i++) {
            struct kiln_policy_job j = asking(id++);
            j.tenant = name;
            add(j);
        }
    }
    assert_int_equal(to_look(1, ids, 2 * KILN_POLICY_SOON), KILN_POLICY_SOON);
    uint32_t of[4] = {0};
    for (size_t i = 0; i < KILN_POLICY_SOON; i++) {
        assert_true((ids[i] - 1) % 1000 < KILN_POLICY_SOON / 4);
        of[(ids[i] - 1) / 1000]++;
    }
    for (int tenant = 0; tenant < 4; tenant++)
        assert_int_equal(of[tenant], KILN_POLICY_SOON / 4);
}

/* However many tenants and sizes another model has. */
static void every_model_has_its_share(void **state)
{
    (void)state;
    static uint64_t ids[KILN_POLICY_SOON];
    uint64_t id = 1;
    for (uint32_t size = 0; size < 40; size++)
        for (int i = 0; i < 100; i++) {
            struct kiln_policy_job j = asking(id++);
            j.width = 512 + 16 * size;
            add(j);
        }
    struct kiln_policy_job other = asking(id);
    other.model = "other";
    add(other);
    for (size_t max = 2; max <= KILN_POLICY_SOON; max *= 32) {
        const size_t count = to_look(1, ids, max);
        size_t there = 0;
        for (size_t i = 0; i < count; i++)
            there += ids[i] == id;
        assert_int_equal(there, 1);
        assert_true(count <= max && asked <= KILN_POLICY_SOON);
    }
}

/* Those with LoRAs too, and sets whose jobs do not ask, or are gone, take nothing. */
static void every_lora_set_has_its_share(void **state)
{
    (void)state;
    static uint64_t ids[KILN_POLICY_SOON];
    uint64_t id = 1;
    char set[32];
    for (int i = 0; i < 3000; i++)
        add(asking(id++));
    for (int i = 0; i < 20; i++) {
        snprintf(set, sizeof set, "ink:%d", i + 1);
        struct kiln_policy_job j = asking(id);
        j.lora_set = set;
        j.asks = i < 10;
        add(j);
        if (i < 5)
            kiln_policy_remove(policy, id);
        id++;
    }
    assert_int_equal(to_look(1, ids, 12), 7); /* 2 of the first set, and 5 sets of 1 job */
    bool found[20] = {false};
    for (int i = 0; i < 7; i++)
        if (ids[i] > 3000)
            found[ids[i] - 3001] = true;
    for (int i = 0; i < 20; i++)
        assert_int_equal(found[i], i >= 5 && i < 10);
    assert_true(asked <= KILN_POLICY_SOON);
    for (id = 1; id <= 3020; id++)
        kiln_policy_remove(policy, id);
    assert_int_equal(to_look(1, ids, 12), 0);
    assert_int_equal(asked, 0);
}

/* However many such sets and jobs wait. */
static void sets_that_no_latent_serves_take_nothing(void **state)
{
    (void)state;
    static uint64_t ids[2 * KILN_POLICY_SOON];
    uint64_t id = 1;
    char set[32];
    for (int of = 0; of < 60; of++)
        for (int i = 0; i < 50; i++) {
            snprintf(set, sizeof set, "bare:%d", of + 1);
            struct kiln_policy_job j = asking(id++);
            j.lora_set = set;
            add(j);
        }
    const uint64_t before = id;
    for (int i = 0; i < 3000; i++)
        add(asking(id++));
    assert_int_equal(to_look(1, ids, 2 * KILN_POLICY_SOON), KILN_POLICY_SOON);
    assert_int_equal(asked, KILN_POLICY_SOON);
    for (size_t i = 0; i < KILN_POLICY_SOON; i++)
        assert_int_equal(ids[i], before + i);
}

/* A million jobs, in one queue or in thousands: no more are looked at. */
static void a_huge_queue_costs_no_more(void **state)
{
    (void)state;
    static uint64_t ids[2 * KILN_POLICY_SOON];
    const uint64_t jobs = 1000000;
    for (uint64_t id = 1; id <= jobs; id++)
        add(asking(id));
    assert_int_equal(to_look(1, ids, 2 * KILN_POLICY_SOON), KILN_POLICY_SOON);
    assert_int_equal(asked, KILN_POLICY_SOON);
    for (uint64_t id = 1; id <= 20000; id++) {
        struct kiln_policy_job j = asking(jobs + id);
        j.width = 64 + 16 * (uint32_t)(id % 5000);
        j.priority = 1; /* before the others */
        add(j);
    }
    assert_int_equal(to_look(1, ids, 2 * KILN_POLICY_SOON), KILN_POLICY_SOON);
    assert_int_equal(asked, KILN_POLICY_SOON);
    assert_true(ids[0] > jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KILN_POLICY_TEST(only_outdated_looks_of_jobs_that_ask),
        KILN_POLICY_TEST(every_queue_has_its_share),
        KILN_POLICY_TEST(every_model_has_its_share),
        KILN_POLICY_TEST(every_lora_set_has_its_share),
        KILN_POLICY_TEST(sets_that_no_latent_serves_take_nothing),
        KILN_POLICY_TEST(a_huge_queue_costs_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
