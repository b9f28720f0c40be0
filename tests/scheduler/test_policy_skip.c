/* test_policy_skip.c - jobs that are expected to begin from stored latents: they share a batch with
 * jobs that have as many steps left, but the last ones with all; they cost what they run, and wait
 * for nobody. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/policy.h"

static const struct kiln_cost_shape whole = {
    .model = "", .width = 1024, .height = 1024, .steps = 8, .jobs = 1};

static void add_skip(uint64_t id, uint32_t skip, int64_t queued_ms)
{
    struct kiln_policy_job j = job(id, "");
    j.skip = skip;
    j.queued_ms = queued_ms;
    add(j);
}

static void expect(uint64_t id, uint32_t skip)
{
    const struct kiln_reuse_look look = {.turn = id};
    const struct kiln_donor donor = {.job = skip, .step = skip};
    kiln_policy_expect(policy, id, &donor, &look);
}

static double forwards_s(double forwards)
{
    const double step = (kiln_cost_tflop(&whole) - 1e-5 * 1024 * 1024) / 8;
    return 0.8 * (forwards * step + 1e-5 * 1024 * 1024) / kiln_cost_tflop(&whole);
}

static void a_batch_has_as_many_steps_left(void **state)
{
    (void)state;
    static const uint32_t skips[] = {0, 6, 0, 2};
    for (uint64_t id = 0; id < 32; id++)
        add_skip(id + 1, skips[id % 4], (int64_t)id);
    worker("w", 2, 8);
    uint32_t seen = 0;
    for (int batch = 0; batch < 4; batch++) {
        struct kiln_policy_pick pick = pick_at(100 + batch * 10000);
        assert_int_equal(pick.count, 8);
        for (uint32_t i = 0; i < pick.count; i++)
            assert_int_equal(skips[(pick.ids[i] - 1) % 4], skips[(pick.ids[0] - 1) % 4]);
        seen += pick.count;
        kiln_policy_finish(policy, "w", pick.tag);
    }
    assert_int_equal(seen, 32);
    none_at(100000);
}

/* Whoever has waited longest goes first, alone if nobody has as many steps left; the others keep
 * their order. */
static void nobody_waits_for_a_partner(void **state)
{
    (void)state;
    static const uint32_t skips[] = {0, 6, 0, 2, 0};
    static const uint64_t firsts[] = {1, 2, 4};
    for (uint64_t id = 1; id <= 5; id++)
        add_skip(id, skips[id - 1], (int64_t)id);
    worker("w", 2, 4);
    for (int batch = 0; batch < 2; batch++) {
        struct kiln_policy_pick pick = pick_at(100 + batch); /* at once, whoever may come later */
        assert_int_equal(pick.ids[0], firsts[batch]);
        assert_int_equal(pick.count, batch == 0 ? 3 : 2);
        kiln_policy_finish(policy, "w", pick.tag);
    }
}

/* When all that wait fit one assignment, they are one: the worker knows whether a call for each
 * number of steps is faster there.  Those for which a latent was found look for it again. */
static void the_last_ones_go_together(void **state)
{
    (void)state;
    static const uint32_t skips[] = {0, 6, 0, 2, 0, 6};
    struct kiln_policy_job other = job(9, "");
    for (uint64_t id = 1; id <= 6; id++) {
        add_skip(id, 0, (int64_t)id);
        expect(id, skips[id - 1]);
    }
    other.width = 512;
    other.queued_ms = 10;
    add(other);
    worker("w", 2, 8);
    const struct kiln_policy_pick pick = pick_at(100);
    assert_int_equal(pick.count, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(pick.looks[i].turn, skips[pick.ids[i] - 1] ? 0 : pick.ids[i]);
    kiln_policy_finish(policy, "w", pick.tag);
    assert_int_equal(pick_at(200).ids[0], 9);
}

/* ... but backfill does not come along with work that others wait for. */
static void backfill_does_not_go_with_the_last_ones(void **state)
{
    (void)state;
    struct kiln_policy_job later = job(3, "");
    add_skip(1, 0, 1);
    add_skip(2, 6, 2);
    later.queued_ms = 3;
    later.priority = -10;
    add(later);
    expect(3, 2);
    worker("w", 2, 8);
    const struct kiln_policy_pick pick = pick_at(100);
    assert_int_equal(pick.count, 2);
    assert_int_equal(pick.ids[0] + pick.ids[1], 3);
    kiln_policy_finish(policy, "w", pick.tag);
    assert_int_equal(pick_at(200).ids[0], 3);
}

/* A batch is queued at one moment: no kind waits for the whole of the other. */
static void jobs_of_one_moment_go_in_their_order(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 32; id++)
        add_skip(id, id % 2 ? 2 : 6, 0);
    worker("w", 2, 4);
    for (uint64_t batch = 0; batch < 8; batch++) {
        struct kiln_policy_pick pick = pick_at((int64_t)batch * 10000);
        assert_int_equal(pick.count, 4);
        for (uint64_t i = 0; i < 4; i++)
            assert_int_equal(pick.ids[i], batch / 2 * 8 + batch % 2 + 2 * i + 1);
        kiln_policy_finish(policy, "w", pick.tag);
    }
}

static void costs_are_of_the_steps_left(void **state)
{
    (void)state;
    struct kiln_policy_counts counts;
    kiln_cost_learn_compute(costs, &whole, 0.8);
    add_skip(1, 0, 0);
    kiln_policy_counts(policy, &counts);
    assert_true(fabs(counts.backlog_s - 0.8) < 1e-9);
    add_skip(2, 6, 1);
    kiln_policy_counts(policy, &counts);
    assert_true(fabs(counts.backlog_s - 0.8 - forwards_s(2)) < 1e-9);
    worker("w", 2, 1);
    struct kiln_policy_pick pick = pick_at(10);
    assert_true(pick.ids[0] == 1 && fabs(pick.compute_s - 0.8) < 1e-9);
    kiln_policy_finish(policy, "w", pick.tag);
    pick = pick_at(20);
    assert_true(pick.ids[0] == 2 && fabs(pick.compute_s - forwards_s(2)) < 1e-9);
}

/* Small steps of a coarse run cost what they are; what those of coarse=auto are is not known here.
 */
static void small_steps_left_out_cost_little(void **state)
{
    (void)state;
    static const char *const modes[] = {"coarse=4+2", "coarse=auto"};
    kiln_cost_learn_compute(costs, &whole, 0.8);
    for (int i = 0; i < 2; i++) {
        struct kiln_policy_counts counts;
        struct kiln_policy_job j = job(1, "");
        const struct kiln_donor donor = {.job = 7, .step = 1, .coarse = true};
        const struct kiln_reuse_look look = {.turn = 1};
        j.mode = modes[i];
        add(j);
        kiln_policy_counts(policy, &counts);
        const double before = counts.backlog_s;
        kiln_policy_expect(policy, 1, &donor, &look);
        kiln_policy_counts(policy, &counts);
        if (i == 0)
            assert_true(fabs(before - counts.backlog_s - (forwards_s(3) - forwards_s(2.75))) <
                        1e-9);
        else
            assert_true(counts.backlog_s == before);
        assert_true(kiln_policy_remove(policy, 1));
    }
}

/* Where its group has no room, what was found for a job is not lost: it is looked up as it goes. */
static void a_hit_without_a_group_is_looked_up_again(void **state)
{
    (void)state;
    const struct kiln_policy_limits one = {.groups = 1};
    kiln_policy_free(policy);
    assert_int_equal(kiln_policy_new(&one, costs, &policy, &err), 0);
    add_skip(1, 0, 0);
    add_skip(2, 0, 1);
    expect(1, 6);
    expect(2, 0);
    worker("w", 2, 8);
    const struct kiln_policy_pick pick = pick_at(100);
    assert_true(pick.count == 2 && pick.skip == 0);
    assert_true(pick.looks[0].turn == 0 && pick.looks[1].turn == 2);
}

/* Runs from latents are never measured; their batches are as large as those of whole runs. */
static void batches_are_as_large_as_those_of_whole_runs(void **state)
{
    (void)state;
    struct kiln_cost_shape shape = whole;
    for (uint32_t n = 1; n <= 8; n *= 2)
        for (int i = 0; i < 4; i++) {
            shape.jobs = n;
            kiln_cost_learn_compute(costs, &shape, 0.8 * n); /* a batch gains nothing */
        }
    for (uint64_t id = 1; id <= 32; id++)
        add_skip(id, 2, (int64_t)id);
    worker("w", 2, 8);
    assert_int_equal(pick_at(100).count, 1);
}

static void an_expectation_moves_a_job(void **state)
{
    (void)state;
    struct kiln_policy_counts counts;
    struct kiln_policy_group groups[4];
    struct kiln_policy_job later = job(5, "");
    kiln_cost_learn_compute(costs, &whole, 0.8);
    for (uint64_t id = 1; id <= 4; id++)
        add_skip(id, 0, (int64_t)id);
    later.not_before_ms = 5000;
    later.queued_ms = 5;
    add(later);
    expect(2, 2);
    expect(4, 2);
    expect(5, 2); /* it backs off */
    expect(99, 2);
    assert_int_equal(kiln_policy_groups(policy, groups, 4), 2);
    for (int i = 0; i < 2; i++)
        assert_true(groups[i].jobs == 2 && (groups[i].skip == 0 || groups[i].skip == 2));
    kiln_policy_counts(policy, &counts);
    assert_int_equal(counts.waiting, 5);
    assert_true(fabs(counts.backlog_s - 2 * 0.8 - 2 * forwards_s(6)) < 1e-9);
    worker("w", 4, 2);
    struct kiln_policy_pick pick = pick_at(100);
    assert_true(pick.count == 2 && pick.ids[0] == 1 && pick.ids[1] == 3);
    kiln_policy_finish(policy, "w", pick.tag);
    expect(4, 0); /* back again: its donors are used up */
    kiln_policy_remove(policy, 2);
    pick = pick_at(300);
    assert_true(pick.count == 1 && pick.ids[0] == 4 && pick.skip == 0);
    kiln_policy_finish(policy, "w", pick.tag);
    pick = pick_at(6000);
    assert_true(pick.count == 1 && pick.ids[0] == 5);
    assert_true(fabs(pick.compute_s - forwards_s(6)) < 1e-9);
    kiln_policy_counts(policy, &counts);
    assert_int_equal(counts.groups, 0);
}

/* A retried job runs in full: it keeps its place among those that avoid a worker or run alone. */
static void a_job_that_failed_is_not_expected_to(void **state)
{
    (void)state;
    struct kiln_policy_group group;
    struct kiln_policy_job suspect = job(1, ""), failed = job(2, "");
    suspect.alone = true;
    failed.avoid = "w";
    add(suspect);
    expect(1, 2);
    assert_int_equal(kiln_policy_groups(policy, &group, 1), 1);
    assert_int_equal(group.skip, 0);
    kiln_policy_remove(policy, 1);
    add(failed);
    expect(2, 2);
    assert_int_equal(kiln_policy_groups(policy, &group, 1), 1);
    assert_int_equal(group.skip, 0);
}

/* Being moved is not being away, which would lift its tenant to the level of the one that is
 * served: the rich one, whose jobs are older, is a round ahead. */
static void a_move_costs_a_tenant_nothing(void **state)
{
    (void)state;
    struct kiln_cost_shape small = whole;
    struct kiln_policy_job rich = job(10, ""), poor = job(2, "");
    small.width = 512;
    kiln_cost_learn_compute(costs, &whole, 30);
    kiln_cost_learn_compute(costs, &small, 0.1);
    rich.tenant = "rich";
    poor.tenant = "poor";
    poor.queued_ms = 50;
    poor.mode = "start=3"; /* which the first worker does not know */
    add(poor);
    add(rich);
    for (rich.id = 11; rich.id < 14; rich.id++) {
        rich.width = 512;
        rich.queued_ms = (int64_t)rich.id;
        add(rich);
    }
    const struct kiln_policy_worker old = {
        .model = "m", .lora_set = "", .capacity = 2, .batch_max = 1, .minor = 4};
    assert_int_equal(kiln_policy_worker_set(policy, "old", &old, &err), 0);
    for (uint64_t id = 10; id < 12; id++) {
        struct kiln_policy_pick pick = pick_at((int64_t)id * 1000);
        assert_int_equal(pick.ids[0], id);
        kiln_policy_finish(policy, "old", pick.tag);
    }
    kiln_policy_worker_remove(policy, "old");
    expect(2, 4);
    worker("new", 2, 1);
    assert_int_equal(pick_at(20000).ids[0], 2);
}

static bool has_group(const char *lora_set)
{
    struct kiln_policy_group groups[32];
    const size_t count = kiln_policy_groups(policy, groups, 32);
    for (size_t i = 0; i < count; i++)
        if (strcmp(groups[i].lora_set, lora_set) == 0)
            return true;
    return false;
}

/* At random: nothing is lost or given twice, and only the last of a set are in a batch with others
 * that have other steps left. */
static void random_expectations_lose_nothing(void **state)
{
    (void)state;
    enum { JOBS = 3000 };
    static bool seen[JOBS + 1];
    static uint32_t skips[JOBS + 1];
    static const char *sets[JOBS + 1];
    struct kiln_policy_pick flights[64], pick;
    struct kiln_policy_counts counts;
    size_t count = 0;
    uint64_t next = 1, done = 0;
    memset(seen, 0, sizeof seen);
    memset(skips, 0, sizeof skips);
    worker("a", 2, 8);
    worker("b", 2, 4);
    for (int64_t now_ms = 0; now_ms < 4000000 && done < JOBS; now_ms += 200) {
        for (int i = 0; i < 4 && next <= JOBS; i++, next++) {
            sets[next] = random_below(3) ? "" : "ink:1";
            struct kiln_policy_job j = job(next, sets[next]);
            j.tenant = random_below(2) ? "t" : "u";
            j.queued_ms = now_ms;
            j.max_wait_s = random_below(4) ? 0 : 60;
            j.not_before_ms = random_below(8) ? 0 : now_ms + 3000;
            j.skip = skips[next] = random_below(4) ? 0 : 1 + random_below(7);
            add(j);
        }
        for (int i = 0; i < 8; i++) {
            const uint64_t id = 1 + random_below((uint32_t)next);
            if (id > JOBS || seen[id])
                continue;
            skips[id] = random_below(8);
            expect(id, skips[id]);
        }
        while (count < 64 && kiln_policy_pick(policy, now_ms, &pick)) {
            for (uint32_t i = 0; i < pick.count; i++) {
                assert_false(seen[pick.ids[i]]);
                assert_string_equal(sets[pick.ids[i]], sets[pick.ids[0]]);
                if (skips[pick.ids[i]] != skips[pick.ids[0]])
                    assert_false(has_group(sets[pick.ids[0]]));
                seen[pick.ids[i]] = true;
            }
            flights[count++] = pick;
        }
        done += finish_some(flights, &count);
    }
    kiln_policy_counts(policy, &counts);
    assert_int_equal(done, JOBS);
    assert_true(counts.waiting == 0 && counts.groups == 0 && counts.backlog_s == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KILN_POLICY_TEST(a_batch_has_as_many_steps_left),
        KILN_POLICY_TEST(nobody_waits_for_a_partner),
        KILN_POLICY_TEST(the_last_ones_go_together),
        KILN_POLICY_TEST(backfill_does_not_go_with_the_last_ones),
        KILN_POLICY_TEST(jobs_of_one_moment_go_in_their_order),
        KILN_POLICY_TEST(costs_are_of_the_steps_left),
        KILN_POLICY_TEST(small_steps_left_out_cost_little),
        KILN_POLICY_TEST(a_hit_without_a_group_is_looked_up_again),
        KILN_POLICY_TEST(batches_are_as_large_as_those_of_whole_runs),
        KILN_POLICY_TEST(an_expectation_moves_a_job),
        KILN_POLICY_TEST(a_job_that_failed_is_not_expected_to),
        KILN_POLICY_TEST(a_move_costs_a_tenant_nothing),
        KILN_POLICY_TEST(random_expectations_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
