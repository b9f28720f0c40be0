/* test_ledger.c - the life of a job in a real Postgres: intake, assignment, commit, return. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/jobs.h"
#include "tests/support/stack.h"

static struct kiln_test_stack *stack;
static struct kiln_ledger *ledger;
static struct kiln_error err;

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_TABLES);
    return kiln_ledger_open(stack->config, "test", &ledger, &err);
}

static int stop(void **state)
{
    (void)state;
    kiln_ledger_close(ledger);
    kiln_test_stack_stop(stack);
    return 0;
}

/* Jobs of a batch in a state, as the rows say and as the batch's sums say. */
static void expect_state(const char *batch, const char *state, int number, long long expected)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job j JOIN batch b ON b.id = j.batch_id"
             " WHERE b.name = '%s' AND j.state = %d",
             batch, number);
    assert_int_equal(kiln_test_count(stack, sql), expected);
    snprintf(sql, sizeof sql,
             "SELECT coalesce(sum(t.%s), 0) FROM batch_tally t JOIN batch b ON b.id = t.batch_id"
             " WHERE b.name = '%s'",
             state, batch);
    assert_int_equal(kiln_test_count(stack, sql), expected);
}

struct ids {
    uint64_t at[64];
    struct kiln_waiting jobs[64];
    size_t count;
    char batch[32];
};

static int collect(void *arg, const struct kiln_waiting *job)
{
    struct ids *ids = arg;
    ids->jobs[ids->count] = *job;
    ids->at[ids->count++] = job->id;
    return 0;
}

/* Inserts a batch of its own and assigns all of it to w0. */
static size_t assigned_jobs(const char *batch, size_t count, struct kiln_job *jobs)
{
    struct ids ids = {0};
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT coalesce(max(id), 0) FROM job");
    uint64_t before = (uint64_t)kiln_test_count(stack, sql);
    size_t got = 0;
    kiln_test_insert(ledger, batch, count);
    kiln_test_ok(kiln_ledger_waiting(ledger, "p", before, 64, collect, &ids, &err), err);
    assert_int_equal(ids.count, count);
    kiln_test_ok(kiln_ledger_assign(ledger, "w0", batch, ids.at, ids.count, jobs, &got, &err), err);
    assert_int_equal(got, count);
    return got;
}

static void release(struct kiln_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kiln_job_release(&jobs[i]);
}

static void a_job_lives_from_intake_to_done(void **state)
{
    (void)state;
    struct kiln_job jobs[3];
    size_t count = assigned_jobs("life", 3, jobs);
    expect_state("life", "assigned", KILN_JOB_ASSIGNED, 3);
    assert_int_equal(jobs[0].attempt, 1);
    assert_string_equal(jobs[1].prompt, "picture 1");
    for (size_t i = 0; i < count; i++) {
        struct kiln_test_picture picture;
        bool ours = false;
        kiln_test_picture(&picture, &jobs[i]);
        kiln_test_ok(kiln_ledger_commit(ledger, &picture.commit, &ours, &err), err);
        assert_true(ours);
    }
    expect_state("life", "done", KILN_JOB_DONE, 3);
    expect_state("life", "assigned", KILN_JOB_ASSIGNED, 0);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM image"), 3);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM object"), 12);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM latent"), 3);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM event"), 6);
    release(jobs, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_lives_from_intake_to_done),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
