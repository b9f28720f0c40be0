/* test_ledger_moves.c - jobs that go back, fail, are cancelled and tried again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/rig.h"

static void assign_again(struct kiln_job *job, const char *assignment)
{
    uint64_t id = job->id;
    size_t count = 0;
    kiln_job_release(job);
    kiln_test_ok(kiln_ledger_assign(rig.ledger, "w0", assignment, &id, 1, job, &count, &rig.err),
                 rig.err);
    assert_int_equal(count, 1);
}

/* Seconds until the job may run again. */
static double pause_of(uint64_t id)
{
    char sql[128];
    snprintf(sql, sizeof sql,
             "SELECT extract(epoch FROM not_before - now()) FROM job WHERE id = %llu",
             (unsigned long long)id);
    char *text = kiln_test_sql(rig.stack, sql);
    double value = strtod(text, NULL);
    free(text);
    return value;
}

static void error_of(uint64_t id, int *ret_code, char ret_text[256])
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT error FROM job WHERE id = %llu", (unsigned long long)id);
    char *text = kiln_test_sql(rig.stack, sql);
    snprintf(ret_text, 256, "%s", text ? text : "");
    free(text);
    snprintf(sql, sizeof sql, "SELECT error_code FROM job WHERE id = %llu", (unsigned long long)id);
    *ret_code = (int)kiln_test_count(rig.stack, sql);
}

static void handing_back_costs_no_attempt(void **state)
{
    (void)state;
    struct kiln_job job;
    char assignment[32];
    kiln_rig_assigned("handed back", 1, &job);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(
            kiln_rig_return(&job, (struct kiln_return){.code = KILN_OK, .reason = "drain"}),
            KILN_JOB_QUEUED);
        snprintf(assignment, sizeof assignment, "hb%d", i);
        assign_again(&job, assignment);
    }
    assert_int_equal(job.attempt, 6); /* the fence grew all the same */
    assert_true(kiln_rig_commit(&job));
    kiln_job_release(&job);
}

static void a_job_fails_when_its_attempts_are_used_up(void **state)
{
    (void)state;
    struct kiln_job job;
    struct kiln_return trouble = {.code = KILN_DEVICE, .reason = "the device fell off"};
    double base = kiln_config_number(rig.stack->config, KILN_KEY_BACKOFF_BASE_S);
    int code;
    char text[256];
    kiln_rig_assigned("unlucky", 1, &job);
    assert_int_equal(kiln_config_int(rig.stack->config, KILN_KEY_MAX_ATTEMPTS), 3);
    assert_int_equal(kiln_rig_return(&job, trouble), KILN_JOB_QUEUED);
    assert_true(pause_of(job.id) <= base);
    assert_int_equal(kiln_rig_return(&job, trouble),
                     KILN_JOB_QUEUED); /* the answer was lost: asked again */
    assign_again(&job, "u2");
    assert_int_equal(kiln_rig_return(&job, trouble), KILN_JOB_QUEUED);
    assert_true(pause_of(job.id) <= 2 * base);
    assign_again(&job, "u3");
    assert_int_equal(kiln_rig_return(&job, trouble), KILN_JOB_FAILED);
    assert_int_equal(kiln_rig_return(&job, trouble), KILN_JOB_FAILED);
    error_of(job.id, &code, text);
    assert_int_equal(code, KILN_DEVICE);
    assert_string_equal(text, "the device fell off");
    kiln_rig_expect("unlucky", "failed", KILN_JOB_FAILED, 1);
    uint64_t moved;
    kiln_test_ok(kiln_ledger_retry(rig.ledger, "p", job.id, NULL, &moved, &rig.err), rig.err);
    assert_int_equal(moved, 1);
    assign_again(&job, "u4");
    assert_int_equal(job.attempt, 4);
    assert_int_equal(kiln_rig_return(&job, trouble), KILN_JOB_QUEUED); /* attempts started again */
    kiln_job_release(&job);
}

static void a_final_error_fails_at_once(void **state)
{
    (void)state;
    struct kiln_job job;
    struct kiln_return end = {.code = KILN_BAD_INPUT, .reason = "no such LoRA", .final = true};
    kiln_rig_assigned("final", 1, &job);
    assert_int_equal(kiln_rig_return(&job, end), KILN_JOB_FAILED);
    kiln_job_release(&job);
}

static void a_job_that_kills_its_workers_is_poisoned(void **state)
{
    (void)state;
    struct kiln_job job;
    struct kiln_return crash = {.code = KILN_UNAVAILABLE, .reason = "w0 is gone", .crashed = true};
    int code;
    char text[256];
    kiln_rig_assigned("poison", 1, &job);
    assert_int_equal(kiln_rig_return(&job, crash), KILN_JOB_QUEUED);
    struct kiln_rig_found ids = {0};
    kiln_test_ok(
        kiln_ledger_waiting(rig.ledger, "p", job.id - 1, 1, kiln_rig_collect, &ids, &rig.err),
        rig.err);
    assert_int_equal(ids.jobs[0].crashes, 1);
    assert_true(ids.jobs[0].not_before_ms >= ids.jobs[0].queued_ms);
    assign_again(&job, "p2");
    assert_int_equal(kiln_rig_return(&job, crash), KILN_JOB_QUEUED);
    assign_again(&job, "p3");
    assert_int_equal(kiln_rig_return(&job, crash), KILN_JOB_FAILED);
    error_of(job.id, &code, text);
    assert_int_equal(code, KILN_POISONED);
    assert_string_equal(text, "its worker died 3 times while it was rendered; last: w0 is gone");
    kiln_job_release(&job);
}

static void pauses_grow_and_are_capped(void **state)
{
    (void)state;
    struct kiln_config *config = kiln_config_new();
    struct kiln_ledger *patient;
    struct kiln_job job;
    double longest = 0;
    kiln_test_ok(kiln_config_set(config, "postgres", rig.stack->conninfo, "test", &rig.err),
                 rig.err);
    kiln_test_ok(kiln_config_set(config, "max_attempts", "20", "test", &rig.err), rig.err);
    kiln_test_ok(kiln_config_set(config, "backoff_base_s", "2", "test", &rig.err), rig.err);
    kiln_test_ok(kiln_config_set(config, "backoff_max_s", "100", "test", &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_open(config, "patient", &patient, &rig.err), rig.err);
    kiln_rig_assigned("patience", 1, &job);
    for (int i = 0; i < 15; i++) {
        struct kiln_return back = {job.id, job.attempt, KILN_TIMEOUT, "slow", false, false};
        int to;
        char assignment[16];
        kiln_test_ok(kiln_ledger_return(patient, &back, 1, &to, &rig.err), rig.err);
        double pause = pause_of(job.id), limit = 2.0 * (1 << i);
        assert_true(pause <= (limit < 100 ? limit : 100));
        longest = pause > longest ? pause : longest;
        snprintf(assignment, sizeof assignment, "pa%d", i);
        assign_again(&job, assignment);
    }
    assert_true(longest > 20); /* nine draws below 100 s: all under 20 s once in two million runs */
    kiln_job_release(&job);
    kiln_ledger_close(patient);
    kiln_config_free(config);
}

/* --- cancel and retry ------------------------------------------------------------------------ */

static void a_batch_is_cancelled_and_retried_page_by_page(void **state)
{
    (void)state;
    uint64_t moved = 0;
    struct kiln_job job;
    kiln_rig_assigned("pages", 1, &job);
    struct kiln_new_job *jobs = kiln_test_jobs("pages", 12000);
    uint64_t inserted;
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, 12000, &inserted, &rig.err),
                 rig.err);
    kiln_test_jobs_free(jobs, 12000);
    assert_true(kiln_rig_commit(&job));
    kiln_job_release(&job);
    kiln_test_ok(kiln_ledger_cancel(rig.ledger, "p", 0, "pages", &moved, &rig.err), rig.err);
    assert_int_equal(moved, 11999);
    kiln_test_ok(kiln_ledger_cancel(rig.ledger, "p", 0, "pages", &moved, &rig.err), rig.err);
    assert_int_equal(moved, 0);
    kiln_rig_expect("pages", "cancelled", KILN_JOB_CANCELLED, 11999);
    kiln_rig_expect("pages", "done", KILN_JOB_DONE, 1);
    kiln_test_ok(kiln_ledger_retry(rig.ledger, "p", 0, "pages", &moved, &rig.err), rig.err);
    assert_int_equal(moved, 11999);
    kiln_rig_expect("pages", "queued", KILN_JOB_QUEUED, 11999);
    kiln_test_ok(kiln_ledger_cancel(rig.ledger, "p", 0, "pages", &moved, &rig.err), rig.err);
}

/* Each job takes half a millisecond, so that a page of the usual size meets the time limit. */
static void a_page_beyond_the_time_limit_is_made_smaller(void **state)
{
    (void)state;
    enum { JOBS = 4000 };
    struct kiln_ledger *hasty;
    struct kiln_config *config = kiln_config_new();
    struct kiln_new_job *jobs = kiln_test_jobs("slow", JOBS);
    uint64_t moved = 0, inserted;
    kiln_test_ok(kiln_config_set(config, "postgres", rig.stack->conninfo, "test", &rig.err),
                 rig.err);
    kiln_test_ok(kiln_config_set(config, "statement_timeout_s", "1", "test", &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, JOBS, &inserted, &rig.err),
                 rig.err);
    kiln_test_jobs_free(jobs, JOBS);
    free(kiln_test_sql(rig.stack, "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$"
                                  " BEGIN PERFORM pg_sleep(0.0005); RETURN NEW; END $$;"
                                  "CREATE TRIGGER slowly BEFORE UPDATE ON job FOR EACH ROW"
                                  " EXECUTE FUNCTION slowly()"));
    kiln_test_ok(kiln_ledger_open(config, "hasty", &hasty, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_cancel(hasty, "p", 0, "slow", &moved, &rig.err), rig.err);
    free(kiln_test_sql(rig.stack, "DROP TRIGGER slowly ON job; DROP FUNCTION slowly()"));
    assert_int_equal(moved, JOBS);
    kiln_rig_expect("slow", "cancelled", KILN_JOB_CANCELLED, JOBS);
    kiln_ledger_close(hasty);
    kiln_config_free(config);
}

static void what_is_not_there_is_named(void **state)
{
    (void)state;
    uint64_t moved;
    assert_int_equal(kiln_ledger_cancel(rig.ledger, "p", 999999999, NULL, &moved, &rig.err),
                     KILN_NOT_FOUND);
    assert_non_null(strstr(rig.err.text, "999999999"));
    assert_int_equal(kiln_ledger_retry(rig.ledger, "p", 0, "no batch", &moved, &rig.err),
                     KILN_NOT_FOUND);
    assert_non_null(strstr(rig.err.text, "'no batch'"));
}

static void the_sums_agree_with_the_rows(void **state)
{
    (void)state;
    kiln_rig_expect_sums();
}

static int count_held(void *arg, const struct kiln_assigned_job *held)
{
    (void)held;
    ++*(int *)arg;
    return 0;
}

static int held_now(void)
{
    int count = 0;
    kiln_test_ok(kiln_ledger_assigned(rig.ledger, "p", count_held, &count, &rig.err), rig.err);
    return count;
}

static long long assignments_named(const char *id)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM assignment WHERE id = '%s'", id);
    return kiln_test_count(rig.stack, sql);
}

/* The jobs of a worker are found through its assignments; the row of one outlives its last job for
 * a while, and no job is ever assigned without one. */
static void an_assignment_is_kept_while_anything_of_it_is_assigned(void **state)
{
    (void)state;
    struct kiln_job jobs[3];
    int before = held_now();
    kiln_rig_assigned("kept", 3, jobs);
    free(kiln_test_sql(rig.stack, "UPDATE assignment SET at = at - interval '1 minute'"));
    assert_true(kiln_rig_commit(&jobs[0]));
    assert_int_equal(held_now(), before + 2);
    assert_int_equal(kiln_rig_return(&jobs[1], (struct kiln_return){.code = KILN_OK}),
                     KILN_JOB_QUEUED);
    assert_int_equal(held_now(), before + 1);
    assert_int_equal(assignments_named("kept"), 1);
    assign_again(&jobs[1], "kept"); /* the same name again: each job is in it once */
    assert_int_equal(held_now(), before + 2);
    assert_int_equal(kiln_rig_return(&jobs[1], (struct kiln_return){.code = KILN_OK}),
                     KILN_JOB_QUEUED);
    free(kiln_test_sql(rig.stack, "UPDATE assignment SET at = at - interval '1 minute'"));
    assert_true(kiln_rig_commit(&jobs[2]));
    assign_again(&jobs[1], "kept later");
    assert_int_equal(held_now(), before + 1);
    assert_int_equal(assignments_named("kept"), 0);
    assert_true(kiln_rig_commit(&jobs[1]));
    assert_int_equal(held_now(), before);
    assert_int_equal(assignments_named("kept later"), 1); /* too young to be forgotten */
    kiln_rig_release(jobs, 3);
}

static long long moves_of(uint64_t id)
{
    return kiln_rig_rows("event", id);
}

/* What ended long ago keeps its rows but for its moves; what ended lately, or never, keeps all. */
static void moves_of_jobs_that_ended_long_ago_are_forgotten(void **state)
{
    (void)state;
    struct kiln_job jobs[3];
    char sql[256];
    uint64_t cursor = 0, gone = 0, all = 0;
    bool more = true;
    kiln_rig_assigned("long ago", 3, jobs);
    assert_true(kiln_rig_commit(&jobs[0]));
    assert_true(kiln_rig_commit(&jobs[1]));
    snprintf(
        sql, sizeof sql,
        "UPDATE job SET finished_at = finished_at - interval '91 days' WHERE id IN (%llu, %llu)",
        (unsigned long long)jobs[0].id, (unsigned long long)jobs[2].id);
    free(kiln_test_sql(rig.stack, sql));
    free(kiln_test_sql(rig.stack, "UPDATE job SET created_at = created_at - interval '91 days'"));
    for (int i = 0; more && i < 100; i++) {
        kiln_test_ok(kiln_ledger_forget(rig.ledger, "p", 90, &cursor, &gone, &more, &rig.err),
                     rig.err);
        all += gone;
    }
    assert_false(more);
    assert_int_equal(all, 2);
    assert_int_equal(moves_of(jobs[0].id), 0);
    assert_int_equal(kiln_rig_rows("image", jobs[0].id), 1);
    assert_int_equal(moves_of(jobs[1].id), 2);
    assert_int_equal(moves_of(jobs[2].id), 1);
    kiln_rig_release(jobs, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handing_back_costs_no_attempt),
        cmocka_unit_test(a_job_fails_when_its_attempts_are_used_up),
        cmocka_unit_test(a_final_error_fails_at_once),
        cmocka_unit_test(a_job_that_kills_its_workers_is_poisoned),
        cmocka_unit_test(pauses_grow_and_are_capped),
        cmocka_unit_test(a_batch_is_cancelled_and_retried_page_by_page),
        cmocka_unit_test(a_page_beyond_the_time_limit_is_made_smaller),
        cmocka_unit_test(what_is_not_there_is_named),
        cmocka_unit_test(the_sums_agree_with_the_rows),
        cmocka_unit_test(an_assignment_is_kept_while_anything_of_it_is_assigned),
        cmocka_unit_test(moves_of_jobs_that_ended_long_ago_are_forgotten),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
