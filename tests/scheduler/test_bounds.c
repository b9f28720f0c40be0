/* test_bounds.c - the lower bounds, against sums done by hand and against every schedule of small
 * fleets. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/policy/bounds.h"

static void assert_near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-9 * fmax(1, fabs(wanted))))
        fail_msg("%.12g, not %.12g", value, wanted);
}

static void work_and_setups_are_shared(void **state)
{
    (void)state;
    struct kiln_bound_set sets[] = {{.work_s = 90, .longest_s = 1, .switch_s = 2},
                                    {.work_s = 30, .longest_s = 1, .switch_s = 3},
                                    {.work_s = 0, .longest_s = 0, .switch_s = 99}};
    struct kiln_bound bound = kiln_bound_of(sets, 3, kiln_bound_fleet_of(4));
    assert_near(bound.makespan_s, 125.0 / 4);
    assert_near(bound.work_s, 120);
    assert_int_equal(bound.switches, 2);
    sets[0].resident = true; /* what is there need not be loaded */
    bound = kiln_bound_of(sets, 3, kiln_bound_fleet_of(4));
    assert_near(bound.makespan_s, 123.0 / 4);
    assert_int_equal(bound.switches, 1);
}

static void the_longest_job_is_not_split(void **state)
{
    (void)state;
    struct kiln_bound_set sets[] = {{.work_s = 10, .longest_s = 10, .switch_s = 5},
                                    {.work_s = 3, .longest_s = 1, .switch_s = 5}};
    assert_near(kiln_bound_of(sets, 2, kiln_bound_fleet_of(100)).makespan_s, 15);
}

static void unlike_workers(void **state)
{
    (void)state;
    struct kiln_bound_set set = {.work_s = 120, .longest_s = 12, .switch_s = 4};
    struct kiln_bound_fleet fleet = {.speed_sum = 5, .speed_min = 1, .speed_max = 4};
    assert_near(kiln_bound_of(&set, 1, fleet).makespan_s, 124.0 / 5);
    set.work_s = set.longest_s;
    assert_near(kiln_bound_of(&set, 1, fleet).makespan_s, 4 + 12.0 / 4);
}

static void late_arrivals_bound_the_end(void **state)
{
    (void)state;
    struct kiln_bound_job jobs[] = {
        {0, 1, false}, {10, 1, false}, {10, 1, false}, {10, 4, false}, {20, 0.5, true}};
    assert_near(kiln_bound_arrivals(jobs, 5, 9, kiln_bound_fleet_of(1)), 20.5);
    assert_near(kiln_bound_arrivals(jobs, 4, 9, kiln_bound_fleet_of(1)), 16);
    assert_near(kiln_bound_arrivals(jobs, 4, 9, kiln_bound_fleet_of(4)), 14);
}

static void late_arrivals_of_more_sets_than_workers_are_loaded(void **state)
{
    (void)state;
    struct kiln_bound_job jobs[] = {{10, 1, true}, {10, 1, true}, {10, 4, false}, {11, 1, true}};
    assert_near(kiln_bound_arrivals(jobs, 4, 3, kiln_bound_fleet_of(1)), 10 + 7 + 2 * 3);
    assert_near(kiln_bound_arrivals(jobs, 4, 3, kiln_bound_fleet_of(2)), 10 + (7 + 3) / 2.0);
    assert_near(kiln_bound_arrivals(jobs, 4, 3, kiln_bound_fleet_of(3)), 14);
}

static void nothing_is_perfect(void **state)
{
    (void)state;
    assert_near(kiln_bound_of(NULL, 0, kiln_bound_fleet_of(0)).makespan_s, 0);
    assert_near(kiln_bound_arrivals(NULL, 0, 1, kiln_bound_fleet_of(8)), 0);
    assert_near(kiln_bound_ratio(0, 0), 1);
    assert_near(kiln_bound_ratio(3, 2), 1.5);
    struct kiln_bound_set set = {.work_s = 1, .longest_s = 1};
    assert_true(isinf(kiln_bound_of(&set, 1, kiln_bound_fleet_of(0)).makespan_s));
}

/* The best of all schedules of a few jobs: every order of every assignment, by depth first search.
 * A worker pays for each change of set. */
enum { JOBS = 6, WORKERS = 2, SETS = 3 };
struct puzzle {
    double arrival_s[JOBS], work_s[JOBS], switch_s[SETS], best_s;
    int set[JOBS];
};

/* Loads are made ahead of arrivals. */
static void search(struct puzzle *puzzle, unsigned done, double end_s[WORKERS], int holds[WORKERS])
{
    double now_s = fmax(end_s[0], end_s[1]);
    if (now_s >= puzzle->best_s)
        return;
    if (done == (1u << JOBS) - 1)
        puzzle->best_s = now_s;
    for (int job = 0; job < JOBS; job++) {
        for (int w = 0; w < WORKERS && !(done & 1u << job); w++) {
            double was_s = end_s[w];
            int held = holds[w], set = puzzle->set[job];
            end_s[w] += held == set ? 0 : puzzle->switch_s[set];
            end_s[w] = fmax(end_s[w], puzzle->arrival_s[job]) + puzzle->work_s[job];
            holds[w] = set;
            search(puzzle, done | 1u << job, end_s, holds);
            end_s[w] = was_s;
            holds[w] = held;
        }
    }
}

static void no_schedule_beats_the_bound(void **state)
{
    (void)state;
    srand(5);
    for (int round = 0; round < 60; round++) {
        struct puzzle puzzle = {.best_s = INFINITY};
        struct kiln_bound_set sets[SETS] = {{0}};
        int holds[WORKERS] = {round % (SETS + 1) - 1, -1}; /* -1: nothing */
        for (int set = 0; set < SETS; set++) {
            puzzle.switch_s[set] = rand() % 50 / 10.0;
            sets[set].switch_s = puzzle.switch_s[set];
            sets[set].resident = holds[0] == set;
        }
        for (int job = 0; job < JOBS; job++) {
            int set = puzzle.set[job] = rand() % SETS;
            double work_s = puzzle.work_s[job] = 0.1 + rand() % 100 / 10.0;
            sets[set].work_s += work_s;
            sets[set].longest_s = fmax(sets[set].longest_s, work_s);
        }
        search(&puzzle, 0, (double[WORKERS]){0}, holds);
        double bound_s = kiln_bound_of(sets, SETS, kiln_bound_fleet_of(WORKERS)).makespan_s;
        assert_true(isfinite(puzzle.best_s));
        assert_true(bound_s <= puzzle.best_s + 1e-9);
        assert_true(bound_s > 0);
    }
}

static void no_schedule_beats_the_bound_of_arrivals(void **state)
{
    (void)state;
    int larger = 0, met = 0;
    srand(7);
    for (int round = 0; round < 100; round++) {
        struct puzzle puzzle = {.best_s = INFINITY};
        struct kiln_bound_job jobs[JOBS];
        bool seen[SETS] = {0};
        double load_s = INFINITY, now_s = 0;
        for (int set = 0; set < SETS; set++)
            load_s = fmin(load_s, puzzle.switch_s[set] = 1 + rand() % 40 / 10.0);
        for (int job = 0; job < JOBS; job++) {
            puzzle.set[job] = job < SETS ? job : rand() % SETS;
            puzzle.arrival_s[job] = now_s += rand() % 4;
            puzzle.work_s[job] = 0.1 + rand() % 30 / 10.0;
        }
        for (int job = JOBS; job-- > 0;) {
            const int set = puzzle.set[job];
            jobs[job] =
                (struct kiln_bound_job){puzzle.arrival_s[job], puzzle.work_s[job], !seen[set]};
            seen[set] = true;
        }
        search(&puzzle, 0, (double[WORKERS]){0}, (int[WORKERS]){-1, -1});
        double bound_s = kiln_bound_arrivals(jobs, JOBS, load_s, kiln_bound_fleet_of(WORKERS));
        assert_true(bound_s <= puzzle.best_s + 1e-9);
        larger += bound_s > kiln_bound_arrivals(jobs, JOBS, 0, kiln_bound_fleet_of(WORKERS));
        met += bound_s > puzzle.best_s - 1e-9;
    }
    assert_true(larger > 0 && met > 0); /* the loads count, and the bound is met at times */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_and_setups_are_shared),
        cmocka_unit_test(the_longest_job_is_not_split),
        cmocka_unit_test(unlike_workers),
        cmocka_unit_test(late_arrivals_bound_the_end),
        cmocka_unit_test(late_arrivals_of_more_sets_than_workers_are_loaded),
        cmocka_unit_test(nothing_is_perfect),
        cmocka_unit_test(no_schedule_beats_the_bound),
        cmocka_unit_test(no_schedule_beats_the_bound_of_arrivals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
