/* test_ledger.c - the life of a job in a real Postgres: assignment, commit, fences, leader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libpq-fe.h>

#include "storage/ledger/internal.h"
#include "tests/support/rig.h"

static void a_job_lives_from_intake_to_done(void **state)
{
    (void)state;
    struct kiln_job jobs[3];
    size_t count = kiln_rig_assigned("life", 3, jobs);
    kiln_rig_expect("life", "assigned", KILN_JOB_ASSIGNED, 3);
    assert_int_equal(jobs[0].attempt, 1);
    assert_string_equal(jobs[1].prompt, "picture 1");
    for (size_t i = 0; i < count; i++) {
        struct kiln_test_picture picture;
        bool ours = false;
        kiln_test_picture(&picture, &jobs[i]);
        kiln_test_ok(kiln_ledger_commit(rig.ledger, &picture.commit, &ours, &rig.err), rig.err);
        assert_true(ours);
    }
    kiln_rig_expect("life", "done", KILN_JOB_DONE, 3);
    kiln_rig_expect("life", "assigned", KILN_JOB_ASSIGNED, 0);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM image"), 3);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM object"), 12);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM latent"), 3);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM event"), 6);
    kiln_rig_release(jobs, count);
}

/* --- fences ---------------------------------------------------------------------------------- */

static void a_stale_attempt_commits_nothing(void **state)
{
    (void)state;
    struct kiln_job old, new;
    size_t count = 0;
    kiln_rig_assigned("stale", 1, &old);
    assert_int_equal(kiln_rig_return(&old, (struct kiln_return){.code = KILN_OK}), KILN_JOB_QUEUED);
    kiln_test_ok(kiln_ledger_assign(rig.ledger, "w1", "again", &old.id, 1, &new, &count, &rig.err),
                 rig.err);
    assert_int_equal(count, 1);
    assert_int_equal(new.attempt, 2);
    assert_false(kiln_rig_commit(&old));
    assert_int_equal(kiln_rig_rows("image", old.id) + kiln_rig_rows("object", old.id), 0);
    assert_int_equal(kiln_rig_return(&old, (struct kiln_return){.code = KILN_DEVICE}), -1);
    assert_true(kiln_rig_commit(&new));
    assert_int_equal(kiln_rig_rows("image", old.id), 1);
    kiln_rig_release(&old, 1);
    kiln_rig_release(&new, 1);
}

static void a_commit_may_be_repeated(void **state)
{
    (void)state;
    struct kiln_job job;
    kiln_rig_assigned("double", 1, &job);
    assert_true(kiln_rig_commit(&job));
    assert_true(kiln_rig_commit(&job));
    assert_int_equal(kiln_rig_rows("image", job.id), 1);
    assert_int_equal(kiln_rig_rows("object", job.id), 4);
    kiln_rig_expect("double", "done", KILN_JOB_DONE, 1);
    kiln_rig_release(&job, 1);
}

/* More than one round trip takes; two of them are no longer ours. */
static void many_pictures_are_committed_at_once(void **state)
{
    (void)state;
    enum { MANY = 140 };
    static struct kiln_job jobs[MANY];
    static struct kiln_test_picture pictures[MANY];
    struct kiln_commit commits[MANY];
    bool ours[MANY];
    uint64_t moved;
    kiln_rig_assigned("many 1", 64, jobs);
    kiln_rig_assigned("many 2", 64, jobs + 64);
    kiln_rig_assigned("many 3", 12, jobs + 128);
    kiln_test_ok(kiln_ledger_cancel(rig.ledger, "p", jobs[7].id, NULL, &moved, &rig.err), rig.err);
    jobs[139].attempt = 9;
    for (int i = 0; i < MANY; i++) {
        kiln_test_picture(&pictures[i], &jobs[i]);
        commits[i] = pictures[i].commit;
    }
    commits[5].start = "job:17";
    char sql[80];
    snprintf(sql, sizeof sql, "UPDATE job SET parent = 18 WHERE id = %llu",
             (unsigned long long)jobs[5].id);
    free(kiln_test_sql(rig.stack, sql));
    for (int run = 0; run < 2; run++) { /* the second finds all done */
        kiln_test_ok(kiln_ledger_commit_many(rig.ledger, commits, MANY, ours, &rig.err), rig.err);
        for (int i = 0; i < MANY; i++)
            assert_int_equal(ours[i], i != 7 && i != 139);
    }
    assert_int_equal(kiln_rig_rows("image", jobs[7].id), 0);
    assert_int_equal(kiln_rig_rows("image", jobs[138].id), 1);
    kiln_rig_expect("many 2", "done", KILN_JOB_DONE, 64);
    char *origins = kiln_test_sql(
        rig.stack,
        "SELECT string_agg(DISTINCT concat_ws(' ', i.start, i.parent, l.start, l.parent),"
        " ',') FROM image i JOIN latent l USING (job_id) JOIN batch b ON b.id = batch_id"
        " WHERE name LIKE 'many %'");
    assert_string_equal(origins, "0 0,job:17 18 job:17 18");
    free(origins);
    commits[3].latent_encoding = NULL; /* a latent object without its encoding: a bug of ours */
    assert_int_equal(kiln_ledger_commit_many(rig.ledger, commits, 4, ours, &rig.err),
                     KILN_INTERNAL);
    kiln_rig_release(jobs, MANY);
}

static void a_cancelled_job_is_not_committed(void **state)
{
    (void)state;
    struct kiln_job job;
    uint64_t moved = 0;
    kiln_rig_assigned("cancelled", 1, &job);
    kiln_test_ok(kiln_ledger_cancel(rig.ledger, "p", job.id, NULL, &moved, &rig.err), rig.err);
    assert_int_equal(moved, 1);
    assert_false(kiln_rig_commit(&job));
    assert_int_equal(kiln_rig_rows("object", job.id), 0);
    kiln_rig_expect("cancelled", "cancelled", KILN_JOB_CANCELLED, 1);
    bool ours = true;
    kiln_test_ok(kiln_ledger_still_ours(rig.ledger, &job, 1, &ours, &rig.err), rig.err);
    assert_false(ours);
    kiln_rig_release(&job, 1);
}

static void an_assignment_may_be_repeated(void **state)
{
    (void)state;
    struct kiln_job jobs[3], again[3], other[3];
    size_t count = kiln_rig_assigned("again", 3, jobs), got = 9;
    uint64_t ids[3] = {jobs[0].id, jobs[1].id, jobs[2].id};
    kiln_test_ok(kiln_ledger_assign(rig.ledger, "w0", "again", ids, 3, again, &got, &rig.err),
                 rig.err);
    assert_int_equal(got, 3);
    assert_int_equal(again[2].attempt, 1);
    kiln_rig_release(again, got);
    kiln_test_ok(kiln_ledger_assign(rig.ledger, "w1", "other", ids, 3, other, &got, &rig.err),
                 rig.err);
    assert_int_equal(got, 0);
    kiln_rig_release(jobs, count);
}

struct asking {
    uint64_t ids[8];
    size_t count;
};

static int note_asking(void *arg, const struct kiln_job *job)
{
    struct asking *asking = arg;
    assert_true(asking->count < 8 && job->teleport == KILN_TELEPORT_AUTO && job->prompt[0]);
    asking->ids[asking->count++] = job->id;
    return 0;
}

static int stop_asking(void *arg, const struct kiln_job *job)
{
    (void)arg, (void)job;
    return KILN_FULL;
}

static int count_asking(void *arg, const struct kiln_waiting *job)
{
    *(int *)arg += job->asks;
    return 0;
}

/* Jobs 1 to 8: the first is not named, 2 asks, 3 does not, 4 ran before, 5 has LoRAs, 6 has
 * guidance, 7 asks but its row is damaged, 8 is not named. */
static void only_jobs_that_ask_for_a_latent_are_told(void **state)
{
    (void)state;
    struct kiln_rig_found ids = {0};
    struct asking asking = {0};
    uint64_t before = (uint64_t)kiln_test_count(rig.stack, "SELECT max(id) FROM job");
    kiln_test_insert(rig.ledger, "asking", 8);
    kiln_test_ok(kiln_ledger_waiting(rig.ledger, "p", before, 64, kiln_rig_collect, &ids, &rig.err),
                 rig.err);
    char text[512];
    snprintf(text, sizeof text,
             "WITH n AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM job WHERE id > %llu)"
             " UPDATE job j SET guidance = CASE n WHEN 6 THEN 4 ELSE 0 END,"
             " teleport = CASE n WHEN 3 THEN 1 ELSE 2 END, attempt = CASE n WHEN 4 THEN 1 ELSE 0"
             " END, lora_set = CASE n WHEN 5 THEN 'ink:1' ELSE '' END,"
             " mode = CASE n WHEN 7 THEN 'no mode' ELSE '' END FROM n WHERE n.id = j.id",
             (unsigned long long)before);
    free(kiln_test_sql(rig.stack, text));
    kiln_test_ok(kiln_ledger_asking(rig.ledger, "p", &ids.at[1], 6, note_asking, &asking, &rig.err),
                 rig.err);
    assert_int_equal(asking.count, 1);
    assert_int_equal(asking.ids[0], ids.at[1]);
    int count = 0; /* of them 7, whose record alone is damaged */
    kiln_test_ok(kiln_ledger_waiting(rig.ledger, "p", before, 64, count_asking, &count, &rig.err),
                 rig.err);
    assert_int_equal(count, 4);
    const uint64_t gone[] = {ids.at[7] + 1000, ids.at[0]};
    asking.count = 0;
    kiln_test_ok(kiln_ledger_asking(rig.ledger, "p", gone, 2, note_asking, &asking, &rig.err),
                 rig.err);
    assert_true(asking.count == 1 && asking.ids[0] == ids.at[0]);
    assert_int_equal(
        kiln_ledger_asking(rig.ledger, "other", ids.at, 8, stop_asking, NULL, &rig.err), 0);
    assert_int_equal(kiln_ledger_asking(rig.ledger, "p", ids.at, 8, stop_asking, NULL, &rig.err),
                     KILN_FULL);
    uint64_t moved;
    free(kiln_test_sql(rig.stack, "UPDATE job SET mode = '' WHERE mode = 'no mode'"));
    kiln_test_ok(kiln_ledger_cancel(rig.ledger, "p", 0, "asking", &moved, &rig.err), rig.err);
}

/* More than fit into one round trip; the last two want jobs that others have. */
static void many_assignments_are_made_at_once(void **state)
{
    enum { ALL = 20 };
    (void)state;
    struct kiln_rig_found ids = {0};
    struct kiln_new_assignment wanted[ALL];
    struct kiln_job jobs[ALL][2];
    char names[ALL][16];
    uint64_t before = (uint64_t)kiln_test_count(rig.stack, "SELECT max(id) FROM job");
    kiln_test_insert(rig.ledger, "handed", 2 * (ALL - 2) + 1);
    kiln_test_ok(kiln_ledger_waiting(rig.ledger, "p", before, 64, kiln_rig_collect, &ids, &rig.err),
                 rig.err);
    for (size_t i = 0; i < ALL; i++) {
        snprintf(names[i], sizeof names[i], "handed-%zu", i);
        size_t at = i < ALL - 1 ? 2 * i : 0;
        wanted[i] = (struct kiln_new_assignment){.worker = i % 2 ? "w1" : "w0",
                                                 .assignment = names[i],
                                                 .ids = &ids.at[at],
                                                 .count = i == ALL - 2 ? 1 : 2,
                                                 .jobs = jobs[i]};
    }
    kiln_test_ok(kiln_ledger_assign_many(rig.ledger, wanted, ALL, &rig.err), rig.err);
    for (size_t i = 0; i < ALL; i++) {
        assert_int_equal(wanted[i].given, i == ALL - 1 ? 0 : wanted[i].count);
        for (size_t k = 0; k < wanted[i].given; k++)
            assert_int_equal(jobs[i][k].attempt, 1);
        kiln_rig_release(jobs[i], wanted[i].given);
    }
    assert_int_equal(kiln_test_count(rig.stack,
                                     "SELECT count(*) FROM job WHERE state = 1 AND"
                                     " assignment LIKE 'handed-%' AND attempt = 1 AND worker ="
                                     " 'w' || substr(assignment, 8)::int % 2"),
                     2 * (ALL - 2) + 1);
    assert_int_equal(
        kiln_test_count(rig.stack, "SELECT count(*) FROM assignment WHERE id LIKE 'handed-%'"),
        ALL - 1);
}

static void two_schedulers_never_assign_one_job_twice(void **state)
{
    (void)state;
    struct kiln_ledger *second;
    struct kiln_job mine[40], yours[40];
    struct kiln_rig_found ids = {0};
    size_t a = 0, b = 0;
    uint64_t before = (uint64_t)kiln_test_count(rig.stack, "SELECT max(id) FROM job");
    kiln_test_ok(kiln_ledger_open(rig.stack->config, "second", &second, &rig.err), rig.err);
    kiln_test_insert(rig.ledger, "two", 40);
    kiln_test_ok(kiln_ledger_waiting(rig.ledger, "p", before, 64, kiln_rig_collect, &ids, &rig.err),
                 rig.err);
    kiln_test_ok(kiln_ledger_assign(rig.ledger, "w0", "x", ids.at, 25, mine, &a, &rig.err),
                 rig.err);
    kiln_test_ok(kiln_ledger_assign(second, "w1", "y", ids.at, 40, yours, &b, &rig.err), rig.err);
    assert_int_equal(a, 25);
    assert_int_equal(b, 15);
    kiln_rig_release(mine, a);
    kiln_rig_release(yours, b);
    kiln_ledger_close(second);
}

/* --- reading ------------------------------------------------------------------------------- */

static int collect_held(void *arg, const struct kiln_assigned_job *held)
{
    struct kiln_rig_found *ids = arg;
    if (strcmp(held->assignment, ids->batch) == 0) {
        assert_string_equal(held->worker, "w0");
        assert_int_equal(held->attempt, 1);
        assert_true(held->assigned_ms > 1700000000000);
        ids->at[ids->count++] = held->id;
    }
    return 0;
}

static int refuse_to_read(void *arg, const struct kiln_waiting *job)
{
    (void)arg;
    (void)job;
    return KILN_FULL;
}

static void waiting_jobs_are_paged_and_held_ones_listed(void **state)
{
    (void)state;
    struct kiln_job jobs[5];
    uint64_t before = (uint64_t)kiln_test_count(rig.stack, "SELECT max(id) FROM job");
    size_t count = kiln_rig_assigned("held", 5, jobs);
    kiln_test_insert(rig.ledger, "paged", 7);
    struct kiln_rig_found ids = {0}, held = {.batch = "held"};
    for (uint64_t after = before; ids.count < 7; after = ids.at[ids.count - 1]) {
        size_t had = ids.count;
        kiln_test_ok(
            kiln_ledger_waiting(rig.ledger, "p", after, 3, kiln_rig_collect, &ids, &rig.err),
            rig.err);
        assert_int_equal(ids.count - had, had == 6 ? 1 : 3);
    }
    assert_int_equal(
        kiln_ledger_waiting(rig.ledger, "p", before, 3, refuse_to_read, NULL, &rig.err), KILN_FULL);
    kiln_test_ok(kiln_ledger_assigned(rig.ledger, "p", collect_held, &held, &rig.err), rig.err);
    assert_int_equal(held.count, 5);
    bool ours[5];
    jobs[3].attempt = 7;
    kiln_test_ok(kiln_ledger_still_ours(rig.ledger, jobs, 5, ours, &rig.err), rig.err);
    assert_true(ours[0] && ours[1] && ours[2] && !ours[3] && ours[4]);
    kiln_rig_release(jobs, count);
}

/* Counts the rows and checks their order; stops at *arg if that is not 0. */
struct walk {
    long long rows, stop_at;
};

static int step(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct walk *walk = arg;
    assert_int_equal(kiln_row_i64(rows, row, 0), ++walk->rows);
    return walk->rows == walk->stop_at ? kiln_fail(err, KILN_CANCELLED, "enough") : 0;
}

static void a_long_result_is_walked_row_by_row(void **state)
{
    (void)state;
    static const struct kiln_statement series = {
        "series", "SELECT n, repeat('x', 100) FROM generate_series(1, $1::bigint) n"};
    struct kiln_params params = {0};
    struct walk all = {0}, some = {.stop_at = 1500}, none = {0};
    kiln_bind_i64(&params, 25000);
    kiln_test_ok(kiln_ledger_each(rig.ledger, &series, &params, step, &all, &rig.err), rig.err);
    assert_int_equal(all.rows, 25000);
    kiln_bind_i64(&params, 25000);
    assert_int_equal(kiln_ledger_each(rig.ledger, &series, &params, step, &some, &rig.err),
                     KILN_CANCELLED);
    assert_int_equal(some.rows, 1500);
    kiln_bind_i64(&params, 0);
    kiln_test_ok(kiln_ledger_each(rig.ledger, &series, &params, step, &none, &rig.err), rig.err);
    assert_int_equal(none.rows, 0);
}

static void workers_are_remembered(void **state)
{
    (void)state;
    kiln_test_ok(kiln_ledger_worker_seen(rig.ledger, "p", "w0", "host", "cpu", "failed",
                                         "no model in /m", &rig.err),
                 rig.err);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM worker WHERE trouble LIKE"
                                                " 'no model%'"),
                     1);
    kiln_test_ok(
        kiln_ledger_worker_seen(rig.ledger, "p", "w0", "host", "cpu", "gone", NULL, &rig.err),
        rig.err);
    free(kiln_test_sql(rig.stack, "UPDATE worker SET last_seen = now() - interval '1 hour'"));
    kiln_test_ok(kiln_ledger_worker_lost(rig.ledger, "p", "w0", 5000, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_worker_lost(rig.ledger, "p", "w0", 60000, &rig.err), rig.err);
    char *near = kiln_test_sql(rig.stack, "SELECT now() - last_seen BETWEEN interval '5 s' AND"
                                          " interval '20 s' FROM worker");
    assert_string_equal(near, "t");
    free(near);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM worker WHERE state = 'gone'"
                                                " AND trouble IS NULL"),
                     1);
}

/* --- leadership and moves -------------------------------------------------------------------- */

static bool no_lock(int rc)
{
    return rc == KILN_STALE || rc == KILN_UNAVAILABLE;
}

static void one_leads_and_the_other_takes_over(void **state)
{
    (void)state;
    struct kiln_ledger *second;
    bool first_leads, second_leads;
    kiln_test_ok(kiln_ledger_open(rig.stack->config, "standby", &second, &rig.err), rig.err);
    for (int i = 0; i < 3; i++) {
        kiln_test_ok(kiln_ledger_lead(rig.ledger, "p", &first_leads, &rig.err), rig.err);
        kiln_test_ok(kiln_ledger_lead(second, "p", &second_leads, &rig.err), rig.err);
        assert_true(first_leads && !second_leads);
    }
    /* The leader's connection is cut: whoever asks first has it, and only that one. */
    free(kiln_test_sql(rig.stack, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                                  " WHERE application_name = 'test'"));
    kiln_test_ok(kiln_ledger_lead(second, "p", &second_leads, &rig.err), rig.err);
    assert_true(no_lock(kiln_ledger_lead(rig.ledger, "p", &first_leads, &rig.err)));
    kiln_ledger_stand_down(rig.ledger);
    kiln_test_ok(kiln_ledger_lead(rig.ledger, "p", &first_leads, &rig.err), rig.err);
    assert_true(second_leads && !first_leads);
    kiln_ledger_close(second);
    for (int i = 0; i < 100 && !first_leads; i++)
        kiln_test_ok(kiln_ledger_lead(rig.ledger, "p", &first_leads, &rig.err), rig.err);
    assert_true(first_leads);
    kiln_ledger_stand_down(rig.ledger);
}

static void cut_leader(void)
{
    free(kiln_test_sql(rig.stack, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                                  " WHERE application_name = 'test'"));
}

/* Between two statements of a leader its session ends.  Every way to the server is closed to it
 * then, also when nobody else leads: nothing is written without the lock. */
static void a_leader_without_its_lock_writes_nothing(void **state)
{
    (void)state;
    bool leads = false;
    struct kiln_job jobs[2];
    struct kiln_return back = {.code = KILN_OK, .reason = "test"};
    struct kiln_rig_found found = {.batch = "lock"};
    uint64_t moved = 0, batch = 0;
    int moved_to = -1;
    assert_int_equal(kiln_rig_assigned("lock", 2, jobs), 2);
    back.id = jobs[0].id;
    back.attempt = jobs[0].attempt;
    kiln_test_ok(kiln_ledger_lead(rig.ledger, "p", &leads, &rig.err), rig.err);
    assert_true(leads);
    for (int i = 0; i < 4; i++) { /* each is the first to meet the dead connection once */
        cut_leader();
        if (i == 0)
            assert_true(no_lock(kiln_ledger_return(rig.ledger, &back, 1, &moved_to, &rig.err)));
        if (i == 1)
            assert_true(no_lock(kiln_ledger_cancel(rig.ledger, "p", 0, "lock", &moved, &rig.err)));
        if (i == 2)
            assert_true(no_lock(
                kiln_ledger_waiting(rig.ledger, "p", 0, 10, kiln_rig_collect, &found, &rig.err)));
        for (int again = 0; again < 2; again++) {
            assert_true(no_lock(kiln_ledger_return(rig.ledger, &back, 1, &moved_to, &rig.err)));
            assert_true(
                no_lock(kiln_ledger_cancel(rig.ledger, "p", jobs[1].id, "", &moved, &rig.err)));
            assert_true(no_lock(kiln_ledger_batch_id(rig.ledger, "p", "lock", &batch, &rig.err)));
            assert_true(no_lock(kiln_ledger_lead(rig.ledger, "p", &leads, &rig.err)));
        }
        kiln_rig_expect("lock", "assigned", KILN_JOB_ASSIGNED, 2);
        kiln_ledger_stand_down(rig.ledger);
        kiln_test_ok(kiln_ledger_lead(rig.ledger, "p", &leads, &rig.err), rig.err);
        assert_true(leads);
    }
    kiln_test_ok(kiln_ledger_return(rig.ledger, &back, 1, &moved_to, &rig.err), rig.err);
    assert_int_equal(moved_to, KILN_JOB_QUEUED);
    kiln_ledger_stand_down(rig.ledger);
    kiln_rig_release(jobs, 2);
}

/* A statement at fault is told from a server that is away. */
static void a_refused_statement_leaves_the_leader_its_lock(void **state)
{
    (void)state;
    bool leads = false;
    uint64_t moved = 0;
    kiln_test_ok(kiln_ledger_lead(rig.ledger, "p", &leads, &rig.err), rig.err);
    int rc = kiln_ledger_cancel(rig.ledger, "p", UINT64_MAX, "", &moved, &rig.err);
    assert_int_equal(rc, KILN_BAD_INPUT);
    assert_true(kiln_ledger_refused(rig.ledger, rc));
    kiln_test_ok(kiln_ledger_lead(rig.ledger, "p", &leads, &rig.err), rig.err);
    cut_leader();
    rc = kiln_ledger_cancel(rig.ledger, "p", 1, "", &moved, &rig.err);
    assert_true(no_lock(rc));
    assert_false(kiln_ledger_refused(rig.ledger, rc));
    kiln_ledger_stand_down(rig.ledger);
}

static void the_database_refuses_illegal_moves(void **state)
{
    (void)state;
    for (int from = 0; from < KILN_JOB_STATE_COUNT; from++)
        for (int to = 0; to < KILN_JOB_STATE_COUNT; to++) {
            char sql[600];
            snprintf(sql, sizeof sql,
                     "DO $$ BEGIN ALTER TABLE job DISABLE TRIGGER USER;"
                     " UPDATE job SET state = %d WHERE id = 1;"
                     " ALTER TABLE job ENABLE TRIGGER USER;"
                     " UPDATE job SET state = %d WHERE id = 1;"
                     " RAISE EXCEPTION 'went through'; END $$",
                     from, to);
            PGconn *conn = PQconnectdb(rig.stack->conninfo);
            PGresult *result = PQexec(conn, sql); /* fails always: the message tells how */
            bool moved = strstr(PQresultErrorMessage(result), "went through") != NULL;
            assert_int_equal(moved,
                             kiln_move_legal((enum kiln_job_state)from, (enum kiln_job_state)to));
            PQclear(result);
            PQfinish(conn);
        }
}

static void the_sums_agree_with_the_rows(void **state)
{
    (void)state;
    kiln_rig_expect_sums();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_lives_from_intake_to_done),
        cmocka_unit_test(a_stale_attempt_commits_nothing),
        cmocka_unit_test(a_commit_may_be_repeated),
        cmocka_unit_test(many_pictures_are_committed_at_once),
        cmocka_unit_test(a_cancelled_job_is_not_committed),
        cmocka_unit_test(an_assignment_may_be_repeated),
        cmocka_unit_test(only_jobs_that_ask_for_a_latent_are_told),
        cmocka_unit_test(many_assignments_are_made_at_once),
        cmocka_unit_test(two_schedulers_never_assign_one_job_twice),
        cmocka_unit_test(waiting_jobs_are_paged_and_held_ones_listed),
        cmocka_unit_test(a_long_result_is_walked_row_by_row),
        cmocka_unit_test(workers_are_remembered),
        cmocka_unit_test(one_leads_and_the_other_takes_over),
        cmocka_unit_test(a_leader_without_its_lock_writes_nothing),
        cmocka_unit_test(a_refused_statement_leaves_the_leader_its_lock),
        cmocka_unit_test(the_database_refuses_illegal_moves),
        cmocka_unit_test(the_sums_agree_with_the_rows),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
