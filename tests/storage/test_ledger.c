/* test_ledger.c - the life of a job in a real Postgres: intake, assignment, commit, return. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libpq-fe.h>

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

/* --- fences ----------------------------------------------------------------------------------- */

static bool commit(const struct kiln_job *job)
{
    struct kiln_test_picture picture;
    bool ours = false;
    kiln_test_picture(&picture, job);
    kiln_test_ok(kiln_ledger_commit(ledger, &picture.commit, &ours, &err), err);
    return ours;
}

static int give_back(const struct kiln_job *job, struct kiln_return how)
{
    int state = -2;
    how.id = job->id;
    how.attempt = job->attempt;
    kiln_test_ok(kiln_ledger_return(ledger, &how, 1, &state, &err), err);
    return state;
}

static long long rows_of(const char *table, uint64_t id)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE job_id = %llu", table,
             (unsigned long long)id);
    return kiln_test_count(stack, sql);
}

static void a_stale_attempt_commits_nothing(void **state)
{
    (void)state;
    struct kiln_job old, new;
    size_t count = 0;
    assigned_jobs("stale", 1, &old);
    assert_int_equal(give_back(&old, (struct kiln_return){.code = KILN_OK}), KILN_JOB_QUEUED);
    kiln_test_ok(kiln_ledger_assign(ledger, "w1", "again", &old.id, 1, &new, &count, &err), err);
    assert_int_equal(count, 1);
    assert_int_equal(new.attempt, 2);
    assert_false(commit(&old));
    assert_int_equal(rows_of("image", old.id) + rows_of("object", old.id), 0);
    assert_int_equal(give_back(&old, (struct kiln_return){.code = KILN_DEVICE}), -1);
    assert_true(commit(&new));
    assert_int_equal(rows_of("image", old.id), 1);
    release(&old, 1);
    release(&new, 1);
}

static void a_commit_may_be_repeated(void **state)
{
    (void)state;
    struct kiln_job job;
    assigned_jobs("double", 1, &job);
    assert_true(commit(&job));
    assert_true(commit(&job));
    assert_int_equal(rows_of("image", job.id), 1);
    assert_int_equal(rows_of("object", job.id), 4);
    expect_state("double", "done", KILN_JOB_DONE, 1);
    release(&job, 1);
}

static void a_cancelled_job_is_not_committed(void **state)
{
    (void)state;
    struct kiln_job job;
    uint64_t moved = 0;
    assigned_jobs("cancelled", 1, &job);
    kiln_test_ok(kiln_ledger_cancel(ledger, "p", job.id, NULL, &moved, &err), err);
    assert_int_equal(moved, 1);
    assert_false(commit(&job));
    assert_int_equal(rows_of("object", job.id), 0);
    expect_state("cancelled", "cancelled", KILN_JOB_CANCELLED, 1);
    bool ours = true;
    kiln_test_ok(kiln_ledger_still_ours(ledger, &job, 1, &ours, &err), err);
    assert_false(ours);
    release(&job, 1);
}

static void an_assignment_may_be_repeated(void **state)
{
    (void)state;
    struct kiln_job jobs[3], again[3], other[3];
    size_t count = assigned_jobs("again", 3, jobs), got = 9;
    uint64_t ids[3] = {jobs[0].id, jobs[1].id, jobs[2].id};
    kiln_test_ok(kiln_ledger_assign(ledger, "w0", "again", ids, 3, again, &got, &err), err);
    assert_int_equal(got, 3);
    assert_int_equal(again[2].attempt, 1);
    release(again, got);
    kiln_test_ok(kiln_ledger_assign(ledger, "w1", "other", ids, 3, other, &got, &err), err);
    assert_int_equal(got, 0);
    release(jobs, count);
}

static void two_schedulers_never_assign_one_job_twice(void **state)
{
    (void)state;
    struct kiln_ledger *second;
    struct kiln_job mine[40], yours[40];
    struct ids ids = {0};
    size_t a = 0, b = 0;
    uint64_t before = (uint64_t)kiln_test_count(stack, "SELECT max(id) FROM job");
    kiln_test_ok(kiln_ledger_open(stack->config, "second", &second, &err), err);
    kiln_test_insert(ledger, "two", 40);
    kiln_test_ok(kiln_ledger_waiting(ledger, "p", before, 64, collect, &ids, &err), err);
    kiln_test_ok(kiln_ledger_assign(ledger, "w0", "x", ids.at, 25, mine, &a, &err), err);
    kiln_test_ok(kiln_ledger_assign(second, "w1", "y", ids.at, 40, yours, &b, &err), err);
    assert_int_equal(a, 25);
    assert_int_equal(b, 15);
    release(mine, a);
    release(yours, b);
    kiln_ledger_close(second);
}

/* --- intake ----------------------------------------------------------------------------------- */

static void a_record_comes_back_as_it_went_in(void **state)
{
    (void)state;
    struct kiln_new_job *jobs = kiln_test_jobs("record", 1);
    struct kiln_job *in = &jobs->job, out;
    free(in->prompt);
    in->prompt = strdup("a \"quoted\" {brace}, back\\slash,\n\xf0\x9f\x90\x99 NULL '; --");
    free(in->negative_prompt);
    in->negative_prompt = strdup("blur");
    in->custom_id = strdup("my/id {1,2}");
    in->style = strdup("anime");
    in->index = 4294967295u;
    in->seed = 18446744073709551615u;
    in->guidance = 3.0000000000000004;
    in->lora_count = 2;
    in->loras[0] = (struct kiln_lora){"ink", 0.1};
    in->loras[1] = (struct kiln_lora){"wash", -1.0 / 3};
    in->lora_auto = in->embed_metadata = true;
    in->priority = -10;
    in->max_wait_s = 3600;
    in->kind = KILN_KIND_LATENT_CACHE;
    in->latents = KILN_LATENTS_TRAJECTORY;
    in->teleport = KILN_TELEPORT_OFF;
    uint64_t inserted, before = (uint64_t)kiln_test_count(stack, "SELECT max(id) FROM job");
    struct ids ids = {0};
    size_t count;
    kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs, 1, &inserted, &err), err);
    kiln_test_ok(kiln_ledger_waiting(ledger, "p", before, 64, collect, &ids, &err), err);
    assert_string_equal(ids.jobs[0].lora_set, "ink:0.1+wash:-0.3333");
    assert_string_equal(ids.jobs[0].tenant, "tester");
    assert_int_equal(ids.jobs[0].priority, -10);
    assert_true(ids.jobs[0].guidance == 3.0000000000000004);
    kiln_test_ok(kiln_ledger_assign(ledger, "w", "r", ids.at, 1, &out, &count, &err), err);
    assert_string_equal(out.batch, "record");
    assert_string_equal(out.prompt, in->prompt);
    assert_string_equal(out.negative_prompt, "blur");
    assert_string_equal(out.custom_id, in->custom_id);
    assert_string_equal(out.style, "anime");
    assert_int_equal(out.index, in->index);
    assert_true(out.seed == in->seed);
    assert_true(out.guidance == in->guidance);
    assert_int_equal(out.lora_count, 2);
    assert_string_equal(out.loras[1].name, "wash");
    assert_true(out.loras[0].scale == 0.1 && out.loras[1].scale == -1.0 / 3);
    assert_true(out.lora_auto && out.embed_metadata);
    assert_int_equal(out.priority, -10);
    assert_int_equal(out.max_wait_s, 3600);
    assert_int_equal(out.kind, KILN_KIND_LATENT_CACHE);
    assert_int_equal(out.latents, KILN_LATENTS_TRAJECTORY);
    assert_int_equal(out.teleport, KILN_TELEPORT_OFF);
    assert_true(commit(&out)); /* a latent-cache job leaves a latent and no picture */
    assert_int_equal(rows_of("image", out.id), 0);
    assert_int_equal(rows_of("latent", out.id), 1);
    kiln_job_release(&out);
    kiln_test_jobs_free(jobs, 1);
}

static void inserting_twice_adds_nothing(void **state)
{
    (void)state;
    struct kiln_new_job *jobs = kiln_test_jobs("twice", 4500); /* several statements */
    uint64_t inserted = 0;
    kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs, 4000, &inserted, &err), err);
    assert_int_equal(inserted, 4000);
    kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs, 4500, &inserted, &err), err);
    assert_int_equal(inserted, 500);
    expect_state("twice", "queued", KILN_JOB_QUEUED, 4500);
    kiln_test_jobs_free(jobs, 4500);
    kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", NULL, 0, &inserted, &err), err);
    assert_int_equal(inserted, 0);
}

static void one_call_may_bring_several_batches(void **state)
{
    (void)state;
    struct kiln_new_job *jobs = kiln_test_jobs("left", 6);
    uint64_t inserted = 0;
    for (size_t i = 0; i < 6; i += 2) {
        free(jobs[i].job.batch);
        jobs[i].job.batch = strdup("right");
    }
    kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs, 6, &inserted, &err), err);
    assert_int_equal(inserted, 6);
    expect_state("left", "queued", KILN_JOB_QUEUED, 3);
    expect_state("right", "queued", KILN_JOB_QUEUED, 3);
    kiln_test_jobs_free(jobs, 6);
}

struct account {
    uint64_t accepted, duplicate, refused;
};

static struct account announce(const char *batch, const char *token, uint64_t announced)
{
    struct account got;
    kiln_test_ok(kiln_ledger_announce(ledger, "p", batch, token, announced, &got.accepted,
                                      &got.duplicate, &got.refused, &err),
                 err);
    return got;
}

/* Entry ids "1000-0", "1000-1", ... */
static void number_entries(struct kiln_new_job *jobs, size_t count, char ids[][16],
                           const char *token)
{
    for (size_t i = 0; i < count; i++) {
        snprintf(ids[i], 16, "1000-%zu", i);
        jobs[i].entry = ids[i];
        jobs[i].token = token;
    }
}

static void a_call_is_counted_once_however_often_it_is_delivered(void **state)
{
    (void)state;
    char ids[10][16];
    uint64_t inserted;
    struct kiln_new_job *jobs = kiln_test_jobs("calls", 10);
    number_entries(jobs, 10, ids, "first");
    kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs, 6, &inserted, &err), err);
    number_entries(jobs, 10, ids, "second"); /* six of these ten are there already */
    for (int delivery = 0; delivery < 3; delivery++) {
        kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs, 5, &inserted, &err), err);
        kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs + 5, 5, &inserted, &err), err);
        for (int i = 0; i < 2; i++)
            kiln_test_ok(kiln_ledger_refuse(ledger, "p", "calls", "second", "k99", "no", &err),
                         err);
        struct account second = announce("calls", "second", 11);
        assert_int_equal(second.accepted, 4);
        assert_int_equal(second.duplicate, 6);
        assert_int_equal(second.refused, 1);
    }
    struct account first = announce("calls", "first", 6);
    assert_int_equal(first.accepted, 6);
    assert_int_equal(first.duplicate + first.refused, 0);
    struct account nobody = announce("a new batch", "third", 0);
    assert_int_equal(nobody.accepted + nobody.duplicate + nobody.refused, 0);
    kiln_test_jobs_free(jobs, 10);
}

static void a_key_twice_in_one_call_is_a_duplicate(void **state)
{
    (void)state;
    uint64_t inserted;
    struct kiln_new_job *jobs = kiln_test_jobs("same key", 3);
    free((char *)jobs[2].key);
    jobs[2].key = strdup(jobs[0].key);
    kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs, 3, &inserted, &err), err);
    assert_int_equal(inserted, 2);
    struct account got = announce("same key", "t", 3);
    assert_int_equal(got.accepted, 2);
    assert_int_equal(got.duplicate, 1);
    kiln_test_jobs_free(jobs, 3);
}

/* --- going back ------------------------------------------------------------------------------- */

static void assign_again(struct kiln_job *job, const char *assignment)
{
    uint64_t id = job->id;
    size_t count = 0;
    kiln_job_release(job);
    kiln_test_ok(kiln_ledger_assign(ledger, "w0", assignment, &id, 1, job, &count, &err), err);
    assert_int_equal(count, 1);
}

/* Seconds until the job may run again. */
static double pause_of(uint64_t id)
{
    char sql[128];
    snprintf(sql, sizeof sql,
             "SELECT extract(epoch FROM not_before - now()) FROM job WHERE id = %llu",
             (unsigned long long)id);
    char *text = kiln_test_sql(stack, sql);
    double value = strtod(text, NULL);
    free(text);
    return value;
}

static void error_of(uint64_t id, int *ret_code, char ret_text[256])
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT error FROM job WHERE id = %llu", (unsigned long long)id);
    char *text = kiln_test_sql(stack, sql);
    snprintf(ret_text, 256, "%s", text ? text : "");
    free(text);
    snprintf(sql, sizeof sql, "SELECT error_code FROM job WHERE id = %llu", (unsigned long long)id);
    *ret_code = (int)kiln_test_count(stack, sql);
}

static void handing_back_costs_no_attempt(void **state)
{
    (void)state;
    struct kiln_job job;
    char assignment[32];
    assigned_jobs("handed back", 1, &job);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(give_back(&job, (struct kiln_return){.code = KILN_OK, .reason = "drain"}),
                         KILN_JOB_QUEUED);
        snprintf(assignment, sizeof assignment, "hb%d", i);
        assign_again(&job, assignment);
    }
    assert_int_equal(job.attempt, 6); /* the fence grew all the same */
    assert_true(commit(&job));
    kiln_job_release(&job);
}

static void a_job_fails_when_its_attempts_are_used_up(void **state)
{
    (void)state;
    struct kiln_job job;
    struct kiln_return trouble = {.code = KILN_DEVICE, .reason = "the device fell off"};
    double base = kiln_config_number(stack->config, KILN_KEY_BACKOFF_BASE_S);
    int code;
    char text[256];
    assigned_jobs("unlucky", 1, &job);
    assert_int_equal(kiln_config_int(stack->config, KILN_KEY_MAX_ATTEMPTS), 3);
    assert_int_equal(give_back(&job, trouble), KILN_JOB_QUEUED);
    assert_true(pause_of(job.id) <= base);
    assert_int_equal(give_back(&job, trouble),
                     KILN_JOB_QUEUED); /* the answer was lost: asked again */
    assign_again(&job, "u2");
    assert_int_equal(give_back(&job, trouble), KILN_JOB_QUEUED);
    assert_true(pause_of(job.id) <= 2 * base);
    assign_again(&job, "u3");
    assert_int_equal(give_back(&job, trouble), KILN_JOB_FAILED);
    assert_int_equal(give_back(&job, trouble), KILN_JOB_FAILED);
    error_of(job.id, &code, text);
    assert_int_equal(code, KILN_DEVICE);
    assert_string_equal(text, "the device fell off");
    expect_state("unlucky", "failed", KILN_JOB_FAILED, 1);
    uint64_t moved;
    kiln_test_ok(kiln_ledger_retry(ledger, "p", job.id, NULL, &moved, &err), err);
    assert_int_equal(moved, 1);
    assign_again(&job, "u4");
    assert_int_equal(job.attempt, 4);
    assert_int_equal(give_back(&job, trouble), KILN_JOB_QUEUED); /* attempts started again */
    kiln_job_release(&job);
}

static void a_final_error_fails_at_once(void **state)
{
    (void)state;
    struct kiln_job job;
    struct kiln_return end = {.code = KILN_BAD_INPUT, .reason = "no such LoRA", .final = true};
    assigned_jobs("final", 1, &job);
    assert_int_equal(give_back(&job, end), KILN_JOB_FAILED);
    kiln_job_release(&job);
}

static void a_job_that_kills_its_workers_is_poisoned(void **state)
{
    (void)state;
    struct kiln_job job;
    struct kiln_return crash = {.code = KILN_UNAVAILABLE, .reason = "w0 is gone", .crashed = true};
    int code;
    char text[256];
    assigned_jobs("poison", 1, &job);
    assert_int_equal(give_back(&job, crash), KILN_JOB_QUEUED);
    struct ids ids = {0};
    kiln_test_ok(kiln_ledger_waiting(ledger, "p", job.id - 1, 1, collect, &ids, &err), err);
    assert_int_equal(ids.jobs[0].crashes, 1);
    assert_true(ids.jobs[0].not_before_ms >= ids.jobs[0].queued_ms);
    assign_again(&job, "p2");
    assert_int_equal(give_back(&job, crash), KILN_JOB_QUEUED);
    assign_again(&job, "p3");
    assert_int_equal(give_back(&job, crash), KILN_JOB_FAILED);
    error_of(job.id, &code, text);
    assert_int_equal(code, KILN_POISONED);
    assert_string_equal(text, "its worker died 3 times while it was drawn; last: w0 is gone");
    kiln_job_release(&job);
}

static void pauses_grow_and_are_capped(void **state)
{
    (void)state;
    struct kiln_config *config = kiln_config_new();
    struct kiln_ledger *patient;
    struct kiln_job job;
    double longest = 0;
    kiln_test_ok(kiln_config_set(config, "postgres", stack->conninfo, "test", &err), err);
    kiln_test_ok(kiln_config_set(config, "max_attempts", "20", "test", &err), err);
    kiln_test_ok(kiln_config_set(config, "backoff_base_s", "2", "test", &err), err);
    kiln_test_ok(kiln_config_set(config, "backoff_max_s", "100", "test", &err), err);
    kiln_test_ok(kiln_ledger_open(config, "patient", &patient, &err), err);
    assigned_jobs("patience", 1, &job);
    for (int i = 0; i < 15; i++) {
        struct kiln_return back = {job.id, job.attempt, KILN_TIMEOUT, "slow", false, false};
        int to;
        char assignment[16];
        kiln_test_ok(kiln_ledger_return(patient, &back, 1, &to, &err), err);
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

/* --- cancel and retry ------------------------------------------------------------------------- */

static void a_batch_is_cancelled_and_retried_page_by_page(void **state)
{
    (void)state;
    uint64_t moved = 0;
    struct kiln_job job;
    assigned_jobs("pages", 1, &job);
    struct kiln_new_job *jobs = kiln_test_jobs("pages", 12000);
    uint64_t inserted;
    kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs, 12000, &inserted, &err), err);
    kiln_test_jobs_free(jobs, 12000);
    assert_true(commit(&job));
    kiln_job_release(&job);
    kiln_test_ok(kiln_ledger_cancel(ledger, "p", 0, "pages", &moved, &err), err);
    assert_int_equal(moved, 11999);
    kiln_test_ok(kiln_ledger_cancel(ledger, "p", 0, "pages", &moved, &err), err);
    assert_int_equal(moved, 0);
    expect_state("pages", "cancelled", KILN_JOB_CANCELLED, 11999);
    expect_state("pages", "done", KILN_JOB_DONE, 1);
    kiln_test_ok(kiln_ledger_retry(ledger, "p", 0, "pages", &moved, &err), err);
    assert_int_equal(moved, 11999);
    expect_state("pages", "queued", KILN_JOB_QUEUED, 11999);
    kiln_test_ok(kiln_ledger_cancel(ledger, "p", 0, "pages", &moved, &err), err);
}

static void what_is_not_there_is_named(void **state)
{
    (void)state;
    uint64_t moved;
    assert_int_equal(kiln_ledger_cancel(ledger, "p", 999999999, NULL, &moved, &err),
                     KILN_NOT_FOUND);
    assert_non_null(strstr(err.text, "999999999"));
    assert_int_equal(kiln_ledger_retry(ledger, "p", 0, "no batch", &moved, &err), KILN_NOT_FOUND);
    assert_non_null(strstr(err.text, "'no batch'"));
}

/* --- reading
 * ------------------------------------------------------------------------------------------------
 */

static int collect_held(void *arg, const struct kiln_held *held)
{
    struct ids *ids = arg;
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
    uint64_t before = (uint64_t)kiln_test_count(stack, "SELECT max(id) FROM job");
    size_t count = assigned_jobs("held", 5, jobs);
    kiln_test_insert(ledger, "paged", 7);
    struct ids ids = {0}, held = {.batch = "held"};
    for (uint64_t after = before; ids.count < 7; after = ids.at[ids.count - 1]) {
        size_t had = ids.count;
        kiln_test_ok(kiln_ledger_waiting(ledger, "p", after, 3, collect, &ids, &err), err);
        assert_int_equal(ids.count - had, had == 6 ? 1 : 3);
    }
    assert_int_equal(kiln_ledger_waiting(ledger, "p", before, 3, refuse_to_read, NULL, &err),
                     KILN_FULL);
    kiln_test_ok(kiln_ledger_held(ledger, "p", collect_held, &held, &err), err);
    assert_int_equal(held.count, 5);
    bool ours[5];
    jobs[3].attempt = 7;
    kiln_test_ok(kiln_ledger_still_ours(ledger, jobs, 5, ours, &err), err);
    assert_true(ours[0] && ours[1] && ours[2] && !ours[3] && ours[4]);
    release(jobs, count);
}

static void workers_are_remembered(void **state)
{
    (void)state;
    kiln_test_ok(kiln_ledger_worker_seen(ledger, "p", "w0", "host", "cpu", "alive", &err), err);
    kiln_test_ok(kiln_ledger_worker_seen(ledger, "p", "w0", "host", "cpu", "gone", &err), err);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM worker WHERE state = 'gone'"), 1);
}

/* --- leadership and moves --------------------------------------------------------------------- */

static void one_leads_and_the_other_takes_over(void **state)
{
    (void)state;
    struct kiln_ledger *second;
    bool first_leads, second_leads;
    kiln_test_ok(kiln_ledger_open(stack->config, "standby", &second, &err), err);
    for (int i = 0; i < 3; i++) {
        kiln_test_ok(kiln_ledger_lead(ledger, "p", &first_leads, &err), err);
        kiln_test_ok(kiln_ledger_lead(second, "p", &second_leads, &err), err);
        assert_true(first_leads && !second_leads);
    }
    /* The leader's connection is cut: whoever asks first has it, and only that one. */
    free(kiln_test_sql(stack, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                              " WHERE application_name = 'test'"));
    kiln_test_ok(kiln_ledger_lead(second, "p", &second_leads, &err), err);
    kiln_test_ok(kiln_ledger_lead(ledger, "p", &first_leads, &err), err);
    assert_true(second_leads && !first_leads);
    kiln_ledger_close(second);
    for (int i = 0; i < 100 && !first_leads; i++)
        kiln_test_ok(kiln_ledger_lead(ledger, "p", &first_leads, &err), err);
    assert_true(first_leads);
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
            PGconn *conn = PQconnectdb(stack->conninfo);
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
    assert_int_equal(
        kiln_test_count(
            stack, "SELECT count(*) FROM (SELECT batch_id, sum(queued) q, sum(assigned) a,"
                   " sum(done) d, sum(failed) f, sum(cancelled) c FROM batch_tally GROUP BY 1)"
                   " t FULL JOIN (SELECT batch_id, count(*) FILTER (WHERE state = 0) q,"
                   " count(*) FILTER (WHERE state = 1) a, count(*) FILTER (WHERE state = 2) d,"
                   " count(*) FILTER (WHERE state = 3) f, count(*) FILTER (WHERE state = 4) c"
                   " FROM job GROUP BY 1) j USING (batch_id)"
                   " WHERE (t.q, t.a, t.d, t.f, t.c) IS DISTINCT FROM (j.q, j.a, j.d, j.f, j.c)"),
        0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_lives_from_intake_to_done),
        cmocka_unit_test(a_stale_attempt_commits_nothing),
        cmocka_unit_test(a_commit_may_be_repeated),
        cmocka_unit_test(a_cancelled_job_is_not_committed),
        cmocka_unit_test(an_assignment_may_be_repeated),
        cmocka_unit_test(two_schedulers_never_assign_one_job_twice),
        cmocka_unit_test(a_record_comes_back_as_it_went_in),
        cmocka_unit_test(inserting_twice_adds_nothing),
        cmocka_unit_test(one_call_may_bring_several_batches),
        cmocka_unit_test(a_call_is_counted_once_however_often_it_is_delivered),
        cmocka_unit_test(a_key_twice_in_one_call_is_a_duplicate),
        cmocka_unit_test(handing_back_costs_no_attempt),
        cmocka_unit_test(a_job_fails_when_its_attempts_are_used_up),
        cmocka_unit_test(a_final_error_fails_at_once),
        cmocka_unit_test(a_job_that_kills_its_workers_is_poisoned),
        cmocka_unit_test(pauses_grow_and_are_capped),
        cmocka_unit_test(a_batch_is_cancelled_and_retried_page_by_page),
        cmocka_unit_test(what_is_not_there_is_named),
        cmocka_unit_test(waiting_jobs_are_paged_and_held_ones_listed),
        cmocka_unit_test(workers_are_remembered),
        cmocka_unit_test(one_leads_and_the_other_takes_over),
        cmocka_unit_test(the_database_refuses_illegal_moves),
        cmocka_unit_test(the_sums_agree_with_the_rows),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
