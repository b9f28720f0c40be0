/* test_policy_files.c - LoRA files on the workers' disks: a fetch costs time, and moves no job
 * behind one that waits less. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/wire/wire.h"
#include "tests/support/policy.h"

#define FOX 0xf0f0000000000001u
#define OWL 0xab00000000000002u
#define FOX_SET "fox:1@f0f0000000000001"
#define OWL_SET "owl:1@ab00000000000002"
#define BOTH_SET "fox:1@f0f0000000000001+owl:1@ab00000000000002"

/* count -1: it tells none.  Each has loaded another set, so that none is better otherwise. */
static void worker_with_files(const char *name, const uint64_t *files, int count, uint32_t capacity)
{
    struct kiln_policy_worker w = {.model = "m",
                                   .lora_set = "other:1",
                                   .capacity = capacity,
                                   .batch_max = 1,
                                   .minor = KILN_WIRE_MINOR,
                                   .files = count < 0 ? NULL : files,
                                   .file_count = count < 0 ? 0 : (uint32_t)count};
    assert_int_equal(kiln_policy_worker_set(policy, name, &w, &err), 0);
}

static void waits_since(uint64_t id, const char *set, int64_t queued_ms)
{
    struct kiln_policy_job j = job(id, set);
    j.queued_ms = queued_ms;
    add(j);
}

/* Of many idle ones the only one that has it takes it, though it is idle for the shortest time. */
static void an_idle_worker_that_has_the_file_takes_the_set(void **state)
{
    (void)state;
    const uint64_t other = OWL, fox[] = {OWL, FOX}; /* in any order */
    char name[16];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "w%d", i);
        worker_with_files(name, &other, 1, 1);
    }
    worker_with_files("has", fox, 2, 1);
    waits_since(1, FOX_SET, 0);
    struct kiln_policy_pick pick = pick_at(1000);
    assert_string_equal(pick.worker, "has");
    assert_true(pick.load == KILN_SWITCH_COLD);
    const double loads_s = pick.switch_s;
    waits_since(2, FOX_SET, 0); /* whoever fetches is expected to be ready later */
    pick = pick_at(1000);
    assert_string_not_equal(pick.worker, "has");
    assert_true(pick.switch_s > loads_s + 0.5);
}

static void a_measured_fetch_is_expected(void **state)
{
    (void)state;
    const uint64_t none = 0;
    worker_with_files("w", &none, 0, 1); /* told: it has none */
    for (int i = 0; i < 8; i++) {
        kiln_cost_learn_switch(costs, "", BOTH_SET, 0.25);
        kiln_cost_learn_fetch(costs, 3.0);
    }
    waits_since(1, BOTH_SET, 0);
    struct kiln_policy_pick pick = pick_at(0);
    assert_true(pick.switch_s > 6.24 && pick.switch_s < 6.26);
    kiln_policy_finish(policy, "w", pick.tag);
    worker_with_files("silent", NULL, -1, 1); /* told nothing: nothing counts as missing */
    waits_since(2, OWL_SET, 0);
    kiln_cost_learn_switch(costs, "", OWL_SET, 0.25);
    pick = pick_at(10000);
    assert_string_equal(pick.worker, "silent");
    assert_true(pick.switch_s < 0.3);
}

/* Sets that wait equally long: first the one whose files are here.  Not if another waits longer. */
static void equal_sets_are_opened_where_their_files_are(void **state)
{
    (void)state;
    const uint64_t owl = OWL;
    worker_with_files("w", &owl, 1, 1);
    waits_since(1, FOX_SET, 5000);
    waits_since(2, BOTH_SET, 5000);
    waits_since(3, OWL_SET, 5000);
    struct kiln_policy_pick pick = pick_at(6000);
    assert_int_equal(pick.ids[0], 3);
    kiln_policy_finish(policy, "w", pick.tag);
    waits_since(4, OWL_SET, 5001); /* a millisecond less */
    worker_with_files("w", &owl, 1, 1);
    pick = pick_at(7000);
    assert_true(pick.ids[0] == 1 || pick.ids[0] == 4); /* 4: it is at that set now */
    if (pick.ids[0] == 4) {
        kiln_policy_finish(policy, "w", pick.tag);
        pick = pick_at(8000);
    }
    assert_int_equal(pick.ids[0], 1);
}

static void who_has_waited_longer_goes_first_fetched_or_not(void **state)
{
    (void)state;
    const uint64_t owl = OWL;
    worker_with_files("w", &owl, 1, 1);
    waits_since(1, OWL_SET, 5001);
    waits_since(2, FOX_SET, 5000);
    assert_int_equal(pick_at(6000).ids[0], 2);
}

/* Another machine has it, and the store does not: the job comes back once and goes there, also if
 * that worker is the last of many or busy just now. */
static void what_failed_for_want_of_a_file_goes_where_it_is(void **state)
{
    (void)state;
    const uint64_t owl = OWL, fox = FOX;
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "w%d", i);
        worker_with_files(name, &owl, 1, 1);
    }
    worker_with_files("has", &fox, 1, 0);
    kiln_policy_adopt(policy, "has", 77, false); /* busy, and takes nothing ahead */
    struct kiln_policy_job j = job(1, FOX_SET);
    j.avoid = "w3";
    add(j);
    none_at(1000);
    none_at(30000);
    kiln_policy_release(policy, "has", 77);
    worker_with_files("has", &fox, 1, 1);
    assert_string_equal(pick_at(31000).worker, "has");
}

static void a_worker_with_the_file_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    const uint64_t owl = OWL, fox = FOX;
    worker_with_files("failed", &owl, 1, 1);
    worker_with_files("lacks", &owl, 1, 1);
    worker_with_files("has", &fox, 1, 0);
    kiln_policy_adopt(policy, "has", 77, false);
    struct kiln_policy_job j = job(1, FOX_SET);
    j.avoid = "failed";
    add(j);
    none_at(59000);
    (void)pick_at(60001);
}

/* Who has the file is looked up again as soon as a worker comes, tells another list or leaves, also
 * within one millisecond. */
static void a_worker_that_no_longer_has_the_file_is_not_waited_for(void **state)
{
    (void)state;
    const uint64_t owl = OWL, fox = FOX;
    struct kiln_policy_job j = job(1, FOX_SET);
    j.avoid = "failed";
    worker_with_files("failed", &owl, 1, 1);
    add(j);
    worker_with_files("has", &fox, 1, 0);
    kiln_policy_adopt(policy, "has", 77, false);
    none_at(1000);
    worker_with_files("lacks", &owl, 1, 1);
    none_at(1000);
    worker_with_files("has", &owl, 1, 0);
    const struct kiln_policy_pick pick = pick_at(1000);
    assert_string_equal(pick.worker, "lacks");
    kiln_policy_finish(policy, "lacks", pick.tag);
    worker_with_files("has", &fox, 1, 0);
    j.id = 2;
    add(j);
    none_at(1000);
    kiln_policy_worker_remove(policy, "has");
    assert_string_equal(pick_at(1000).worker, "lacks");
}

/* And if nobody has it, or the only one that has it is the one where it failed. */
static void what_no_other_worker_has_any_other_may_try(void **state)
{
    (void)state;
    const uint64_t owl = OWL, fox = FOX;
    worker_with_files("has", &fox, 1, 1);
    worker_with_files("lacks", &owl, 1, 1);
    struct kiln_policy_job j = job(1, FOX_SET);
    j.avoid = "has";
    add(j);
    assert_string_equal(pick_at(1000).worker, "lacks");
    kiln_policy_worker_remove(policy, "lacks");
    kiln_policy_worker_remove(policy, "has");
    worker_with_files("a", &owl, 1, 1);
    worker_with_files("b", &owl, 1, 1);
    j.id = 2;
    j.avoid = "a";
    add(j);
    assert_string_equal(pick_at(2000).worker, "b");
}

/* The worker is at a set of its own, so both others wait. */
static void why_says_that_a_file_is_nowhere(void **state)
{
    (void)state;
    struct kiln_policy_why why;
    const uint64_t owl = OWL;
    worker_with_files("w", &owl, 1, 1);
    waits_since(9, "other:1", 0);
    (void)pick_at(0);
    waits_since(1, FOX_SET, 0);
    waits_since(2, OWL_SET, 0);
    for (uint64_t id = 1; id <= 2; id++) {
        assert_int_equal(kiln_policy_why(policy, id, 1000, &why, &err), 0);
        assert_int_equal(why.reason, KILN_REASON_UNOPENED);
        assert_int_equal(strstr(why.text, "no worker has all its files on disk") != NULL, id == 1);
    }
}

/* --- nothing to fetch: nothing changes ----------------------------------------------------------
 */

#define WORKERS 12
#define JOBS 600
#define SETS 10

struct decision {
    char worker[KILN_NAME_MAX + 1];
    uint64_t id;
    int64_t at_ms;
};

/* A random fleet from the same seed; told: its workers tell that they have every file. */
static size_t run_fleet(uint64_t seed, bool told, struct decision *ret)
{
    struct kiln_policy_pick flights[WORKERS * 2];
    uint64_t files[SETS];
    char name[16], set[64];
    size_t count = 0, in_flight = 0;
    for (uint64_t i = 0; i < SETS; i++)
        files[i] = (i * 7919 % SETS + 1) << 40;
    random_state = seed;
    for (uint64_t id = 1; id <= JOBS; id++) {
        const uint64_t of = random_below(SETS);
        snprintf(set, sizeof set, "s%d:1@%016llx", (int)of, (unsigned long long)((of + 1) << 40));
        struct kiln_policy_job j = job(id, set);
        j.queued_ms = random_below(3) * 1000;
        j.max_wait_s = random_below(5) == 0 ? 30 : 0;
        add(j);
    }
    for (int64_t now_ms = 3000; count < JOBS; now_ms += 500) {
        for (int i = 0; i < WORKERS; i++) {
            snprintf(name, sizeof name, "w%d", i);
            worker_with_files(name, files, told ? SETS : -1, 2);
        }
        struct kiln_policy_pick pick;
        while (in_flight < WORKERS * 2 && kiln_policy_pick(policy, now_ms, &pick)) {
            ret[count] = (struct decision){.id = pick.ids[0], .at_ms = now_ms};
            memcpy(ret[count++].worker, pick.worker, sizeof pick.worker);
            flights[in_flight++] = pick;
        }
        finish_some(flights, &in_flight);
    }
    return count;
}

static void where_every_file_is_there_all_decisions_are_as_before(void **state)
{
    static struct decision untold[JOBS], told[JOBS];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        assert_int_equal(run_fleet(seed, false, untold), JOBS);
        kiln_policy_rig_teardown(state);
        kiln_policy_rig_setup(state);
        assert_int_equal(run_fleet(seed, true, told), JOBS);
        kiln_policy_rig_teardown(state);
        kiln_policy_rig_setup(state);
        for (size_t i = 0; i < JOBS; i++) {
            assert_string_equal(told[i].worker, untold[i].worker);
            assert_int_equal(told[i].id, untold[i].id);
            assert_int_equal(told[i].at_ms, untold[i].at_ms);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KILN_POLICY_TEST(an_idle_worker_that_has_the_file_takes_the_set),
        KILN_POLICY_TEST(a_measured_fetch_is_expected),
        KILN_POLICY_TEST(equal_sets_are_opened_where_their_files_are),
        KILN_POLICY_TEST(who_has_waited_longer_goes_first_fetched_or_not),
        KILN_POLICY_TEST(what_failed_for_want_of_a_file_goes_where_it_is),
        KILN_POLICY_TEST(a_worker_with_the_file_is_not_waited_for_for_ever),
        KILN_POLICY_TEST(a_worker_that_no_longer_has_the_file_is_not_waited_for),
        KILN_POLICY_TEST(what_no_other_worker_has_any_other_may_try),
        KILN_POLICY_TEST(why_says_that_a_file_is_nowhere),
        KILN_POLICY_TEST(where_every_file_is_there_all_decisions_are_as_before),
    };
    return cmocka_run_group_tests_name("policy_files", tests, NULL, NULL);
}
