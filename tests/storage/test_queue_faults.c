/* test_queue_faults.c - ledger and bus while the n-th call of a kind fails, for every n.
 *
 * One scenario runs over and over, each time with another call failing, once or from there on,
 * until it takes fewer calls than n.  A step may fail, with a code that fits and without a crash or
 * a leak (the sanitizer build looks); when all is well again the same step must work, and in the
 * end the ledger must hold each job done once.  This covers the ambiguous failures too: calls that
 * fail after the server has done its part.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/bus/bus.h"
#include "storage/ledger/migrate.h"
#include "tests/support/faults.h"
#include "tests/support/jobs.h"
#include "tests/support/stack.h"

#define JOBS 3
#define SWEEP_MAX 5000
#define STRIDE 9

static struct kiln_test_stack *stack;
static struct kiln_error err;
static struct kiln_new_job *jobs;
static bool ever_fired;

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    jobs = kiln_test_jobs("b", JOBS);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    kiln_test_jobs_free(jobs, JOBS);
    kiln_test_stack_stop(stack);
    return 0;
}

/* The first try of a step failed: is that what a failed call may lead to? */
static void expect_fit(int rc, const char *step)
{
    bool fired = kiln_fault_disarm();
    ever_fired |= fired;
    bool fits = rc == KILN_NO_MEMORY || rc == KILN_UNAVAILABLE || rc == KILN_PROTOCOL;
    if (!fired || !fits || rc != err.code || err.text[0] == '\0')
        fail_msg("%s: %s (%s), %s", step, kiln_code_name(rc), err.text,
                 fired ? "after a fault" : "although nothing had failed");
}

/* Runs the step; if the fault makes it fail, once more without. */
#define STEP(call)                                                                                 \
    do {                                                                                           \
        int first_ = (call);                                                                       \
        if (first_ != 0) {                                                                         \
            expect_fit(first_, #call);                                                             \
            kiln_test_ok(call, err);                                                               \
        }                                                                                          \
    } while (0)

/* Runs the scenario for every n, until nothing fails any more; and failing on from every stride-th
 * call, which mostly ends like failing once and takes longer. */
static void sweep(enum kiln_fault kind, void (*scenario)(void))
{
    for (int keep_on = 0; keep_on < 2; keep_on++) {
        int n = 1, stride = keep_on ? STRIDE : 1;
        for (ever_fired = true; ever_fired && n < SWEEP_MAX; n += stride) {
            ever_fired = false;
            kiln_fault_arm(kind, n, keep_on);
            scenario();
            ever_fired |= kiln_fault_disarm();
        }
        assert_true(n > 2 && n < SWEEP_MAX);
    }
}

/* --- the ledger ------------------------------------------------------------------------------ */

struct found {
    uint64_t ids[JOBS];
    size_t count;
};

static int note(void *arg, const struct kiln_waiting *job)
{
    struct found *found = arg;
    if (found->count < JOBS)
        found->ids[found->count++] = job->id;
    return 0;
}

static int note_new(struct kiln_ledger *ledger, uint64_t after, struct found *found)
{
    found->count = 0;
    return kiln_ledger_waiting(ledger, "p", after, JOBS, note, found, &err);
}

/* Assigns again after a hand-back of all, commits the first alone and the others together. */
static void through_the_ledger(struct kiln_ledger *ledger, uint64_t before)
{
    struct found found;
    struct kiln_job got[JOBS];
    struct kiln_return back[JOBS];
    struct kiln_test_picture pictures[JOBS];
    struct kiln_commit commits[JOBS];
    uint64_t inserted, accepted, duplicate, refused;
    bool ours[JOBS] = {false};
    int states[JOBS];
    size_t count = 0;
    STEP(kiln_ledger_insert_jobs(ledger, "p", jobs, JOBS, &inserted, &err));
    STEP(kiln_ledger_announce(ledger, "p", jobs[0].job.batch, "t", JOBS, &accepted, &duplicate,
                              &refused, &err));
    assert_int_equal(accepted, JOBS);
    STEP(note_new(ledger, before, &found));
    assert_int_equal(found.count, JOBS);
    STEP(kiln_ledger_assign(ledger, "w", "one", found.ids, JOBS, got, &count, &err));
    assert_int_equal(count, JOBS);
    for (int i = 0; i < JOBS; i++) {
        back[i] = (struct kiln_return){got[i].id, got[i].attempt, KILN_OK, "", false, false};
        kiln_job_release(&got[i]);
    }
    STEP(kiln_ledger_return(ledger, back, JOBS, states, &err));
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(states[i], KILN_JOB_QUEUED);
    struct kiln_new_assignment two[2] = {{"w", "two", found.ids, 1, got, 0},
                                         {"w", "three", &found.ids[1], JOBS - 1, &got[1], 0}};
    STEP(kiln_ledger_assign_many(ledger, two, 2, &err));
    assert_int_equal(two[0].given + two[1].given, JOBS);
    for (int i = 0; i < JOBS; i++) {
        kiln_test_picture(&pictures[i], &got[i]);
        commits[i] = pictures[i].commit;
    }
    STEP(kiln_ledger_commit(ledger, &commits[0], &ours[0], &err));
    STEP(kiln_ledger_commit_many(ledger, &commits[1], JOBS - 1, &ours[1], &err));
    for (int i = 0; i < JOBS; i++) {
        assert_true(ours[i]);
        kiln_job_release(&got[i]);
    }
}

static void expect_count(const char *what, uint64_t before, long long expected)
{
    char sql[256];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s > %llu", what, (unsigned long long)before);
    assert_int_equal(kiln_test_count(stack, sql), expected);
}

/* A batch of its own for each run. */
static void rename_batch(void)
{
    static int run;
    run++;
    for (int i = 0; i < JOBS; i++) {
        free(jobs[i].job.batch);
        jobs[i].job.batch = calloc(1, 16);
        snprintf(jobs[i].job.batch, 16, "b%d", run);
    }
}

static void ledger_scenario(void)
{
    static uint64_t before; /* id of the newest job of earlier runs */
    struct kiln_ledger *ledger;
    STEP(kiln_ledger_open(stack->config, "test", &ledger, &err));
    STEP(kiln_ledger_check(ledger, &err));
    through_the_ledger(ledger, before);
    kiln_ledger_close(ledger);
    ever_fired |= kiln_fault_disarm();
    expect_count("job WHERE state = 2 AND id", before, JOBS);
    expect_count("image WHERE job_id", before, JOBS);
    expect_count("event WHERE job_id", before, 4 * JOBS);
    before = (uint64_t)kiln_test_count(stack, "SELECT max(id) FROM job");
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job") -
                         kiln_test_count(stack, "SELECT sum(done) FROM batch_tally"),
                     0);
    rename_batch();
}

static void the_ledger_survives_failing_memory(void **state)
{
    (void)state;
    sweep(KILN_FAULT_MEMORY, ledger_scenario);
}

static void the_ledger_survives_failing_polls(void **state)
{
    (void)state;
    sweep(KILN_FAULT_SYSTEM, ledger_scenario);
}

static void the_ledger_survives_failing_libpq(void **state)
{
    (void)state;
    sweep(KILN_FAULT_POSTGRES, ledger_scenario);
}

/* --- the bus --------------------------------------------------------------------------------- */

static int count_beat(void *arg, const char *worker, const char *beat, size_t len)
{
    (void)worker;
    (void)beat;
    ++*(int *)arg;
    return len == 1 ? 0 : KILN_PROTOCOL;
}

static int beats_now(struct kiln_bus *bus, int *ret)
{
    *ret = 0;
    return kiln_bus_heartbeats(bus, "p", NULL, count_beat, ret, &err);
}

/* Reads and acknowledges what is pending and what is new. */
static int consume(struct kiln_bus *bus)
{
    for (int pending = 1; pending >= 0; pending--) {
        struct kiln_bus_entries got;
        int rc = kiln_bus_read_group(bus, "s", "g", "c", pending, 100, 0, &got, &err);
        if (rc != 0)
            return rc;
        const char *ids[100];
        char copies[100][32];
        for (size_t i = 0; i < got.count; i++) {
            snprintf(copies[i], sizeof copies[i], "%s", got.at[i].id);
            ids[i] = copies[i];
        }
        rc = kiln_bus_ack(bus, "s", "g", ids, got.count, &err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int append_three(struct kiln_bus *bus)
{
    const char *fields[2] = {"job", "x"};
    int rc = 0;
    for (int i = 0; i < 3 && rc == 0; i++)
        rc = kiln_bus_append_async(bus, "s", fields, NULL, 1, &err);
    return rc ? rc : kiln_bus_flush(bus, &err);
}

static void bus_scenario(void)
{
    struct kiln_bus *bus;
    struct kiln_bus_entries got;
    const char *fields[2] = {"job", "x"};
    uint64_t length = 99;
    char *value = NULL;
    int beats = 0;
    STEP(kiln_bus_open(stack->config, &bus, &err));
    STEP(kiln_bus_group(bus, "s", "g", &err));
    STEP(kiln_bus_append(bus, "s", 1000, fields, NULL, 1, &err));
    STEP(append_three(bus));
    STEP(kiln_bus_read(bus, &(const char *){"s"}, &(const char *){"0"}, 1, 10, 5, &got, &err));
    assert_true(got.count >= 4);
    STEP(kiln_bus_claim(bus, "s", "g", "c", 100000, 10, &got, &err));
    STEP(consume(bus));
    STEP(consume(bus)); /* what a failed reading left behind */
    STEP(kiln_bus_length(bus, "s", &length, &err));
    assert_int_equal(length, 0);
    STEP(kiln_bus_heartbeat(bus, "kiln:{p}:beat:w", "b", 60000, &err));
    STEP(beats_now(bus, &beats));
    assert_int_equal(beats, 1);
    STEP(kiln_bus_push(bus, "receipt", "v", 60, &err));
    STEP(kiln_bus_pop(bus, "receipt", 20, &value, &err));
    free(value);
    kiln_bus_close(bus);
    ever_fired |= kiln_fault_disarm();
    kiln_test_flushall(stack);
}

static void the_bus_survives_failing_memory(void **state)
{
    (void)state;
    sweep(KILN_FAULT_MEMORY, bus_scenario);
}

static void the_bus_survives_failing_system_calls(void **state)
{
    (void)state;
    sweep(KILN_FAULT_SYSTEM, bus_scenario);
}

static void the_bus_survives_failing_hiredis(void **state)
{
    (void)state;
    sweep(KILN_FAULT_REDIS, bus_scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ledger_survives_failing_memory),
        cmocka_unit_test(the_ledger_survives_failing_polls),
        cmocka_unit_test(the_ledger_survives_failing_libpq),
        cmocka_unit_test(the_bus_survives_failing_memory),
        cmocka_unit_test(the_bus_survives_failing_system_calls),
        cmocka_unit_test(the_bus_survives_failing_hiredis),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
