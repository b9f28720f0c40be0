/* test_policy_modes.c - jobs that are not exact: their batches, their costs, and older workers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/wire/wire.h"
#include "tests/support/policy.h"

static void add_mode(uint64_t id, const char *set, const char *mode)
{
    struct kiln_policy_job j = job(id, set);
    j.mode = mode;
    add(j);
}

/* A worker of a release with this minor version of the protocol. */
static void worker_of(uint32_t minor, const char *name, const char *set)
{
    struct kiln_policy_worker w = {
        .model = "m", .lora_set = set, .capacity = 2, .batch_max = 4, .minor = minor};
    assert_int_equal(kiln_policy_worker_set(policy, name, &w, &err), 0);
}

/* Jobs that differ only in their start have the same mode, and the policy knows no more of it. */
static void a_batch_is_of_one_mode(void **state)
{
    (void)state;
    static const char *const modes[] = {"", "coarse=4+3", "coarse=auto", "start=3"};
    for (uint64_t id = 0; id < 16; id++)
        add_mode(id + 1, "", modes[id % 4]);
    worker("w", 2, 8);
    for (int batch = 0; batch < 4; batch++) {
        struct kiln_policy_pick pick = pick_at(batch * 10000);
        assert_int_equal(pick.count, 4);
        for (uint32_t i = 0; i < pick.count; i++)
            assert_int_equal(pick.ids[i] % 4, pick.ids[0] % 4);
        kiln_policy_finish(policy, "w", pick.tag);
    }
    none_at(100000);
}

static void an_older_worker_gets_exact_jobs(void **state)
{
    (void)state;
    struct kiln_policy_why why;
    add_mode(1, "", "coarse=4+3");
    add_mode(2, "", "");
    add_mode(3, "", "start=3");
    add_mode(4, "", "coarse=auto"); /* which an exact run fulfils */
    worker_of(4, "old", "");
    for (int i = 0; i < 2; i++) {
        struct kiln_policy_pick exact = pick_at(i * 500);
        assert_true(exact.count == 1 && exact.ids[0] % 2 == 0);
        kiln_policy_finish(policy, "old", exact.tag);
    }
    none_at(1000);
    assert_int_equal(kiln_policy_why(policy, 1, 1000, &why, &err), 0);
    assert_int_equal(why.reason, KILN_REASON_NO_WORKER);
    assert_non_null(strstr(why.text, "its mode is coarse=4+3"));
    assert_true(isinf(why.start_s));
    worker("new", 2, 4);
    assert_int_equal(kiln_policy_why(policy, 1, 1000, &why, &err), 0);
    assert_int_not_equal(why.reason, KILN_REASON_NO_WORKER);
    struct kiln_policy_pick pick = pick_at(1000);
    assert_string_equal(pick.worker, "new");
}

/* A release that knows coarse first and starts, but neither variety nor masks. */
static void each_worker_gets_the_modes_it_knows(void **state)
{
    (void)state;
    struct kiln_policy_why why;
    add_mode(1, "", "variety=0.3");
    add_mode(2, "", "coarse=auto,variety=0.3");
    add_mode(3, "", "start=3");
    add_mode(4, "", "inpaint=3");
    worker_of(5, "between", "");
    assert_int_equal(pick_at(0).ids[0], 3);
    none_at(1000);
    assert_int_equal(kiln_policy_why(policy, 2, 1000, &why, &err), 0);
    assert_int_equal(why.reason, KILN_REASON_NO_WORKER);
    assert_non_null(strstr(why.text, "an older release that does not know this mode"));
    worker_of(KILN_MODE_MINOR_VARIETY, "new", "");
    struct kiln_policy_pick pick = pick_at(2000);
    assert_string_equal(pick.worker, "new");
    assert_int_equal(pick.count, 1); /* another variety is another mode */
}

/* Files of LoRAs are no longer the newest that a group may need. */
static void a_third_level_waits_for_a_worker_that_knows_it(void **state)
{
    (void)state;
    add_mode(1, "", "coarse=3+1+3");
    add_mode(2, "ink:1@0123456789abcdef", "coarse=3+1+3");
    worker_of(KILN_MODE_MINOR_MIDDLE - 1, "old", "");
    none_at(1000);
    worker_of(KILN_MODE_MINOR_MIDDLE, "new", "");
    assert_string_equal(pick_at(2000).worker, "new");
    assert_string_equal(pick_at(3000).worker, "new");
}

/* One that fetches no files of the registry would draw what its own folder has under the name. */
static void a_file_of_the_registry_waits_for_a_worker_that_fetches_it(void **state)
{
    (void)state;
    struct kiln_policy_why why;
    add_mode(1, "ink:1@0123456789abcdef", "");
    worker_of(KILN_WIRE_MINOR_FILES - 1, "old", "");
    none_at(1000);
    assert_int_equal(kiln_policy_why(policy, 1, 1000, &why, &err), 0);
    assert_int_equal(why.reason, KILN_REASON_NO_WORKER);
    assert_non_null(strstr(why.text, "its LoRAs are files of the registry"));
    worker_of(KILN_WIRE_MINOR_FILES, "new", "");
    assert_string_equal(pick_at(2000).worker, "new");
}

/* Its holder will never render it: another worker opens the set, although that costs a load. */
static void a_set_that_only_older_workers_hold_is_opened(void **state)
{
    (void)state;
    kiln_cost_learn_switch(costs, "", "ink:1", 100);
    worker_of(4, "old", "ink:1");
    worker("new", 2, 4);
    add_mode(1, "ink:1", "start=3");
    struct kiln_policy_pick pick = pick_at(0);
    assert_string_equal(pick.worker, "new");
    assert_int_equal(pick.ids[0], 1);
}

/* However many older workers have been idle longer. */
static void older_workers_hide_no_newer_one(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "old-%02d", i);
        worker_of(4, name, "");
    }
    none_at(50);
    worker("new", 2, 4);
    for (uint64_t id = 1; id <= 3; id++)
        add_mode(id, "ink:1", "coarse=4+3");
    struct kiln_policy_pick pick = pick_at(100);
    assert_string_equal(pick.worker, "new");
    for (int i = 0; i < 10; i++)
        if (kiln_policy_pick(policy, 100 + i, &pick))
            assert_string_equal(pick.worker, "new");
}

/* Work ahead at a new worker is not taken back for an old one that cannot render it. */
static void nothing_is_taken_back_for_an_older_worker(void **state)
{
    (void)state;
    struct kiln_policy_taken_back taken;
    worker("new", 2, 1);
    const struct kiln_cost_shape shape = {
        .model = "", .width = 1024, .height = 1024, .steps = 8, .jobs = 1, .mode = "start=3"};
    for (int i = 0; i < 4; i++)
        kiln_cost_learn_compute(costs, &shape, 10);
    add_mode(1, "", "start=3");
    add_mode(2, "", "start=3");
    pick_at(0);
    assert_string_equal(pick_at(8500).worker, "new");
    worker_of(4, "old", "");
    assert_false(kiln_policy_take_back(policy, 8500, &taken));
    worker("other", 2, 1);
    assert_true(kiln_policy_take_back(policy, 8500, &taken));
    assert_string_equal(taken.worker, "new");
}

/* A random fleet of both kinds: no job is lost, and none goes to a worker that does not know it. */
static void mixed_fleets_render_everything(void **state)
{
    (void)state;
    static const char *const modes[] = {"", "coarse=4+3", "coarse=auto", "start=3", "start@0.5"};
    static const char *const sets[] = {"", "a:1", "b:1", "c:1"};
    static bool exact[2001], seen[2001];
    random_state = 30;
    for (int i = 0; i < 12; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%s-%d", i % 3 ? "old" : "new", i);
        if (i % 3)
            worker_of(4, name, sets[i % 4]);
        else
            worker(name, 2, 4);
    }
    struct kiln_policy_pick pick, flights[64];
    size_t count = 0, done = 0;
    uint64_t next = 1;
    for (int64_t now_ms = 0; now_ms < 4000000 && done < 2000; now_ms += 200) {
        for (int i = 0; i < 4 && next <= 2000; i++, next++) {
            const char *mode = modes[random_below(5)];
            exact[next] = !mode[0] || strcmp(mode, "coarse=auto") == 0;
            struct kiln_policy_job j = job(next, sets[random_below(4)]);
            j.mode = mode;
            j.queued_ms = now_ms;
            j.max_wait_s = random_below(4) ? 0 : 60;
            add(j);
        }
        while (count < 64 && kiln_policy_pick(policy, now_ms, &pick)) {
            for (uint32_t i = 0; i < pick.count; i++) {
                assert_false(seen[pick.ids[i]]);
                seen[pick.ids[i]] = true;
                assert_true(exact[pick.ids[i]] || pick.worker[0] == 'n');
            }
            flights[count++] = pick;
        }
        done += finish_some(flights, &count);
    }
    assert_int_equal(done, 2000);
}

static void costs_are_of_their_mode(void **state)
{
    (void)state;
    struct kiln_cost_shape exact = {
        .model = "", .width = 1024, .height = 1024, .steps = 8, .jobs = 1};
    struct kiln_cost_shape coarse = exact, start = exact, automatic = exact;
    coarse.mode = "coarse=4+3";
    start.mode = "start=3";
    automatic.mode = "coarse=auto";
    double step = (kiln_cost_tflop(&exact) - 1e-5 * 1024 * 1024) / 8;
    assert_true(fabs(kiln_cost_tflop(&coarse) - 4 * step - 1e-5 * 1024 * 1024) < 1e-6);
    assert_true(fabs(kiln_cost_tflop(&start) - 5 * step - 1e-5 * 1024 * 1024) < 1e-6);
    assert_true(kiln_cost_tflop(&automatic) == kiln_cost_tflop(&exact));
    /* What is learned of one says how fast the device is, and so what the others take. */
    kiln_cost_learn_compute(costs, &exact, 0.8);
    assert_true(fabs(kiln_cost_compute(costs, &coarse) -
                     0.8 * kiln_cost_tflop(&coarse) / kiln_cost_tflop(&exact)) < 1e-9);
    kiln_cost_learn_compute(costs, &coarse, 0.3);
    kiln_cost_learn_compute(costs, &automatic, 0.31);
    assert_true(kiln_cost_compute(costs, &exact) == 0.8);
    assert_true(kiln_cost_compute(costs, &coarse) == 0.3);
    assert_true(kiln_cost_compute(costs, &automatic) == 0.31);
    /* What auto becomes depends on the LoRAs; the work of another mode does not. */
    struct kiln_cost_shape neon = automatic, coarse_neon = coarse;
    neon.lora_set = coarse_neon.lora_set = "neon:1";
    kiln_cost_learn_compute(costs, &neon, 0.79);
    assert_true(kiln_cost_compute(costs, &neon) == 0.79);
    assert_true(kiln_cost_compute(costs, &automatic) == 0.31);
    assert_true(kiln_cost_compute(costs, &coarse_neon) == 0.3);
    /* Kept and restored under their modes. */
    struct kiln_cost_model *other = kiln_cost_model_new(64);
    struct kiln_cost_row row;
    for (uint64_t turn = 0; kiln_cost_changed(costs, &turn, &row);)
        assert_true(kiln_cost_restore(other, &row));
    assert_true(kiln_cost_compute(other, &coarse) == 0.3);
    assert_true(kiln_cost_compute(other, &neon) == 0.79);
    assert_true(kiln_cost_compute(other, &exact) == 0.8);
    kiln_cost_model_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KILN_POLICY_TEST(a_batch_is_of_one_mode),
        KILN_POLICY_TEST(an_older_worker_gets_exact_jobs),
        KILN_POLICY_TEST(each_worker_gets_the_modes_it_knows),
        KILN_POLICY_TEST(a_third_level_waits_for_a_worker_that_knows_it),
        KILN_POLICY_TEST(a_file_of_the_registry_waits_for_a_worker_that_fetches_it),
        KILN_POLICY_TEST(a_set_that_only_older_workers_hold_is_opened),
        KILN_POLICY_TEST(older_workers_hide_no_newer_one),
        KILN_POLICY_TEST(nothing_is_taken_back_for_an_older_worker),
        KILN_POLICY_TEST(mixed_fleets_render_everything),
        KILN_POLICY_TEST(costs_are_of_their_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
