/* rig.c - a ledger on a private Postgres, and the steps that its tests share. */
#include "tests/support/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct kiln_rig rig;

int kiln_rig_start(void **state)
{
    (void)state;
    rig.stack = kiln_test_stack_start(KILN_STACK_TABLES);
    return kiln_ledger_open(rig.stack->config, "test", &rig.ledger, &rig.err);
}

int kiln_rig_stop(void **state)
{
    (void)state;
    kiln_ledger_close(rig.ledger);
    kiln_test_stack_stop(rig.stack);
    return 0;
}

void kiln_rig_expect(const char *batch, const char *state, int number, long long expected)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job j JOIN batch b ON b.id = j.batch_id"
             " WHERE b.name = '%s' AND j.state = %d",
             batch, number);
    assert_int_equal(kiln_test_count(rig.stack, sql), expected);
    snprintf(sql, sizeof sql,
             "SELECT coalesce(sum(t.%s), 0) FROM batch_tally t JOIN batch b ON b.id = t.batch_id"
             " WHERE b.name = '%s'",
             state, batch);
    assert_int_equal(kiln_test_count(rig.stack, sql), expected);
}

void kiln_rig_expect_sums(void)
{
    assert_int_equal(
        kiln_test_count(
            rig.stack,
            "SELECT count(*) FROM (SELECT batch_id, sum(queued) q, sum(assigned) a,"
            " sum(done) d, sum(failed) f, sum(cancelled) c FROM batch_tally GROUP BY 1)"
            " t FULL JOIN (SELECT batch_id, count(*) FILTER (WHERE state = 0) q,"
            " count(*) FILTER (WHERE state = 1) a, count(*) FILTER (WHERE state = 2) d,"
            " count(*) FILTER (WHERE state = 3) f, count(*) FILTER (WHERE state = 4) c"
            " FROM job GROUP BY 1) j USING (batch_id)"
            " WHERE (t.q, t.a, t.d, t.f, t.c) IS DISTINCT FROM (j.q, j.a, j.d, j.f, j.c)"),
        0);
}

long long kiln_rig_rows(const char *table, uint64_t id)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE job_id = %llu", table,
             (unsigned long long)id);
    return kiln_test_count(rig.stack, sql);
}

int kiln_rig_collect(void *arg, const struct kiln_waiting *job)
{
    struct kiln_rig_found *found = arg;
    found->jobs[found->count] = *job;
    found->at[found->count++] = job->id;
    return 0;
}

size_t kiln_rig_assigned(const char *batch, size_t count, struct kiln_job *jobs)
{
    struct kiln_rig_found found = {0};
    uint64_t before = (uint64_t)kiln_test_count(rig.stack, "SELECT coalesce(max(id), 0) FROM job");
    size_t got = 0;
    kiln_test_insert(rig.ledger, batch, count);
    kiln_test_ok(
        kiln_ledger_waiting(rig.ledger, "p", before, 64, kiln_rig_collect, &found, &rig.err),
        rig.err);
    assert_int_equal(found.count, count);
    kiln_test_ok(
        kiln_ledger_assign(rig.ledger, "w0", batch, found.at, found.count, jobs, &got, &rig.err),
        rig.err);
    assert_int_equal(got, count);
    return got;
}

void kiln_rig_release(struct kiln_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kiln_job_release(&jobs[i]);
}

bool kiln_rig_commit(const struct kiln_job *job)
{
    struct kiln_test_picture picture;
    bool ours = false;
    kiln_test_picture(&picture, job);
    kiln_test_ok(kiln_ledger_commit(rig.ledger, &picture.commit, &ours, &rig.err), rig.err);
    return ours;
}

int kiln_rig_return(const struct kiln_job *job, struct kiln_return how)
{
    int state = -2;
    how.id = job->id;
    how.attempt = job->attempt;
    kiln_test_ok(kiln_ledger_return(rig.ledger, &how, 1, &state, &rig.err), rig.err);
    return state;
}
