/* test_queue_crash.c - everything of the queue is killed, paused or emptied at random moments of a
 * seeded run, with real schedulers, workers, Redis and Postgres.
 *
 * However the run goes, at its end every job is done exactly once and the ledger and the store
 * agree.  KILN_CRASH_SEED=n runs that seed alone; KILN_CRASH_SEEDS=n runs so many.  (Not KILN_
 * names of settings: they are taken out of the environment before a program is started.)
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "tests/support/scheduler_process.h"
#include "tests/support/stored.h"
#include "tests/support/worker_process.h"

#define WORKERS 2
#define JOBS 120
#define FAULTS 9
#define LIMIT_S 90
#define LINE "{\"prompt\":\"a car @step_ms=40\",\"width\":64,\"height\":64,\"steps\":3}"
#define OTHER                                                                                      \
    "{\"prompt\":\"a tree @step_ms=20\",\"width\":128,\"height\":64,\"steps\":2,\"priority\":3}"

struct run {
    struct kiln_test_stack *stack;
    struct kiln_test_scheduler schedulers[2];
    struct kiln_test_worker workers[WORKERS];
    uint64_t random;
    uint64_t seed;
};

static uint32_t random_below(struct run *run, uint32_t bound)
{
    run->random = run->random * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((run->random >> 33) % bound);
}

static void start_worker(struct run *run, uint32_t which, bool ready)
{
    char id[8];
    snprintf(id, sizeof(id), "w%u", which);
    kiln_test_worker_start(&run->workers[which], run->stack, id, NULL, ready);
}

static void start_scheduler(struct run *run, uint32_t which)
{
    kiln_test_scheduler_start(&run->schedulers[which], run->stack, which ? "b" : "a");
}

/* What a supervisor does. */
static void revive(struct run *run)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (run->workers[i].process.pid == 0 || kiln_test_worker_wait(&run->workers[i], 0) != -1)
            start_worker(run, i, false);
    for (uint32_t i = 0; i < 2; i++)
        if (run->schedulers[i].process.pid == 0)
            start_scheduler(run, i);
}

static const char *fault(struct run *run)
{
    uint32_t which = random_below(run, 2), what = random_below(run, 7);
    switch (what) {
    case 0:
        kiln_test_scheduler_kill(&run->schedulers[which]);
        return "kill -9 of a scheduler";
    case 1:
        kiln_test_scheduler_kill(&run->schedulers[0]);
        kiln_test_scheduler_kill(&run->schedulers[1]);
        return "kill -9 of both schedulers";
    case 2:
        kiln_test_worker_signal(&run->workers[which], SIGKILL);
        (void)kiln_test_worker_wait(&run->workers[which], 10);
        return "kill -9 of a worker";
    case 3:
        kiln_test_worker_signal(&run->workers[which], SIGSTOP);
        kiln_test_sleep_ms(2500);
        kiln_test_worker_signal(&run->workers[which], SIGCONT);
        return "a worker paused beyond its lease";
    case 4:
        kiln_test_kill(run->stack, KILN_TEST_REDIS);
        kiln_test_sleep_ms(random_below(run, 1500));
        kiln_test_restart(run->stack, KILN_TEST_REDIS, NULL);
        return "kill -9 of Redis";
    case 5:
        kiln_test_kill(run->stack, KILN_TEST_POSTGRES);
        kiln_test_sleep_ms(random_below(run, 800));
        kiln_test_restart(run->stack, KILN_TEST_POSTGRES, NULL);
        return "kill -9 of Postgres";
    default:
        kiln_test_flushall(run->stack);
        return "FLUSHALL";
    }
}

static void end_all(struct run *run)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        kiln_test_worker_signal(&run->workers[i], SIGKILL);
        (void)kiln_test_worker_wait(&run->workers[i], 10);
    }
    for (uint32_t i = 0; i < 2; i++)
        if (run->schedulers[i].process.pid)
            kiln_test_scheduler_kill(&run->schedulers[i]);
}

static void wait_until_done(struct run *run)
{
    int64_t until = kiln_clock_ms() + LIMIT_S * 1000;
    long long done = 0;
    while (done < JOBS && kiln_clock_ms() < until) {
        revive(run);
        kiln_test_sleep_ms(200);
        done = kiln_test_count(run->stack, "SELECT count(*) FROM job WHERE state = 2");
    }
    if (done == JOBS)
        return;
    char *states =
        kiln_test_sql(run->stack, "SELECT string_agg(format('%s:%s', state, n), ' ') FROM "
                                  "(SELECT state, count(*) n FROM job GROUP BY 1) s");
    fail_msg("seed %llu: jobs by state: %s; wanted 2:%d", (unsigned long long)run->seed, states,
             JOBS);
}

static void one_run(uint64_t seed)
{
    struct run run = {.seed = seed, .random = seed * 2654435761u + 1};
    run.stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    printf("seed %llu\n", (unsigned long long)seed);
    start_scheduler(&run, 0);
    start_scheduler(&run, 1);
    for (uint32_t i = 0; i < WORKERS; i++)
        start_worker(&run, i, true);

    /* The first half comes in while schedulers die; the second is safe before Redis may lose its
     * last second or everything. */
    kiln_test_enqueue(run.stack, "b", "t1", LINE, 0, JOBS / 2, true);
    kiln_test_scheduler_kill(&run.schedulers[random_below(&run, 2)]);
    revive(&run);
    assert_int_equal(kiln_test_receipt(run.stack, "t1").refused, 0);
    kiln_test_enqueue(run.stack, "b", "t2", OTHER, JOBS / 2, JOBS / 2, true);
    (void)kiln_test_receipt(run.stack, "t2");
    assert_int_equal(kiln_test_count(run.stack, "SELECT count(*) FROM job"), JOBS);

    for (int i = 0; i < FAULTS; i++) {
        kiln_test_sleep_ms(random_below(&run, 900));
        printf("  %s\n", fault(&run));
        kiln_test_sleep_ms(random_below(&run, 300));
        revive(&run);
    }
    wait_until_done(&run);
    assert_int_equal(kiln_test_count(run.stack, "SELECT count(*) FROM image"), JOBS);
    assert_int_equal(kiln_test_count(run.stack, "SELECT count(*) FROM event WHERE state = 2"),
                     JOBS);
    assert_true(kiln_test_assert_stored(run.stack) >= JOBS);
    printf("  %d jobs, %lld assignments\n", JOBS,
           kiln_test_count(run.stack, "SELECT sum(attempt) FROM job"));
    end_all(&run);
    kiln_test_stack_stop(run.stack);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value = text ? strtoull(text, NULL, 10) : otherwise;
    unsetenv(name);
    return value;
}

static uint64_t only_seed, seed_count;

static void every_job_is_done_exactly_once(void **state)
{
    (void)state;
    if (only_seed)
        one_run(only_seed);
    for (uint64_t seed = 1; !only_seed && seed <= seed_count; seed++)
        one_run(seed);
}

int main(void)
{
    only_seed = number("KILN_CRASH_SEED", 0);
    seed_count = number("KILN_CRASH_SEEDS", 2);
    /* Killed workers must not make innocent jobs look poisoned. */
    setenv("KILN_MAX_ATTEMPTS", "50", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_job_is_done_exactly_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
