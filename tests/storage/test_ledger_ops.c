/* test_ledger_ops.c - what operators ask reads by index, and batches end without a trace.
 *
 * The plans are those that auto_explain logs of the statements as the ledger runs them, over tables
 * large enough for the choice to matter: 60,000 done jobs, and
 * questions about the last ten seconds of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/read/batch.h"
#include "storage/ledger/read/ops.h"
#include "tests/support/jobs.h"
#include "tests/support/stack.h"

#define OLD_JOBS 60000

static struct kiln_test_stack *stack;
static struct kiln_ledger *ledger;
static struct kiln_error err;

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_TABLES);
    kiln_test_restart(stack, KILN_TEST_POSTGRES,
                      (const char *const[]){"-c", "session_preload_libraries=auto_explain", "-c",
                                            "auto_explain.log_min_duration=0", NULL});
    return kiln_ledger_open(stack->config, "test", &ledger, &err);
}

static int stop(void **state)
{
    (void)state;
    kiln_ledger_close(ledger);
    kiln_test_stack_stop(stack);
    return 0;
}

/* Done jobs of batch 'old', a second apart and all of last year, with their pictures and moves. */
static void fill(void)
{
    char sql[512];
    free(kiln_test_sql(stack, "INSERT INTO batch (pool, name) VALUES ('p', 'old')"));
    snprintf(sql, sizeof sql,
             "INSERT INTO job (batch_id, seed, guidance, index, width, height, steps, max_wait_s,"
             " priority, kind, latents, teleport, embed_metadata, lora_auto, pool, key, token,"
             " prompt, negative_prompt, tenant, model, loras, lora_set, state, finished_at)"
             " SELECT 1, i, 0, i, 256, 256, 8, 0, 0, 0, 0, 0, false, false, 'p', 'k' || i, 't',"
             " 'a picture', '', 'x', '', '[]', '', 2, '2025-01-01'::timestamptz + i * interval"
             " '1 s' FROM generate_series(1, %d) i",
             OLD_JOBS);
    free(kiln_test_sql(stack, sql));
    free(kiln_test_sql(
        stack,
        "INSERT INTO image SELECT id, batch_id, finished_at, seed, 0, 256, 256, 8, 1, 0, 100,"
        " 800, 100, 0, 0, NULL, NULL, NULL, pool, prompt, '', 'h', '', 'm', 'h', '[]', '',"
        " NULL, tenant, 'w' FROM job ORDER BY id"));
    free(kiln_test_sql(stack, "INSERT INTO object SELECT id, 1000, finished_at, 256, 256, 'full',"
                              " 'images/' || id, 'h', 'image/webp' FROM job ORDER BY id"));
    free(kiln_test_sql(stack, "INSERT INTO event (job_id, at, was, state, code, attempt) SELECT id,"
                              " finished_at, 1, 2, 0, 1 FROM job ORDER BY id"));
    free(kiln_test_sql(stack, "INSERT INTO batch_tally (batch_id, shard, done) SELECT 1, 0,"
                              " count(*) FROM job"));
    free(kiln_test_sql(stack, "VACUUM ANALYZE")); /* also sums the page ranges up */
}

static void expect(const char *log, const char *words, const char *index, const char *never)
{
    const char *last = NULL;
    for (const char *at = log; (at = strstr(at, words)) != NULL; at++)
        last = at;
    if (!last)
        fail_msg("no plan for: %s", words);
    const char *end = strstr(last, "LOG:  ");
    char *plan = strndup(last, end ? (size_t)(end - last) : strlen(last));
    assert_non_null(plan);
    if (!strstr(plan, index) || strstr(plan, never))
        fail_msg("%s\nexpected %s and no %s", plan, index, never);
    free(plan);
}

struct seen {
    size_t rows;
    uint64_t jobs;
    double gpu_seconds;
};

static int see_batch(void *arg, const struct kiln_batch_row *batch, struct kiln_error *failed)
{
    struct seen *seen = arg;
    (void)failed;
    seen->rows++;
    seen->jobs += batch->jobs.at[KILN_JOB_DONE];
    return 0;
}

static int see_usage(void *arg, const struct kiln_usage_row *usage, struct kiln_error *failed)
{
    struct seen *seen = arg;
    (void)failed;
    seen->rows++;
    seen->jobs += usage->jobs;
    seen->gpu_seconds += usage->gpu_seconds;
    return 0;
}

static int see_cause(void *arg, const struct kiln_cause_row *cause, struct kiln_error *failed)
{
    struct seen *seen = arg;
    (void)failed;
    seen->rows++;
    seen->jobs += cause->jobs;
    return 0;
}

static int see_event(void *arg, const struct kiln_event_row *event, struct kiln_error *failed)
{
    struct seen *seen = arg;
    (void)failed;
    (void)event;
    seen->rows++;
    return 0;
}

/* Every question once; all are about the end of the tables, so none may read them whole. */
static void questions_use_their_index(void **state)
{
    (void)state;
    struct kiln_event_filter all = {0}, one = {.job = 7};
    struct kiln_event_tail tail = {0};
    struct seen batches = {0}, usage = {0}, causes = {0}, events = {0}, followed = {0}, job = {0};
    fill();
    int64_t since_ms = kiln_test_count(
        stack, "SELECT (extract(epoch FROM max(at)) * 1000)::bigint - 9500 FROM event");
    kiln_test_ok(kiln_ledger_batches(ledger, "p", NULL, see_batch, &batches, &err), err);
    kiln_test_ok(kiln_ledger_usage(ledger, "p", since_ms, 3, see_usage, &usage, &err), err);
    kiln_test_ok(kiln_ledger_causes(ledger, "p", NULL, 0, see_cause, &causes, &err), err);
    kiln_test_ok(kiln_ledger_events(ledger, "p", &all, since_ms, see_event, &events, &err), err);
    kiln_test_ok(kiln_ledger_events(ledger, "p", &one, 0, see_event, &job, &err), err);
    tail.since_ms = since_ms;
    kiln_test_ok(kiln_ledger_tail(ledger, "p", &all, &tail, see_event, &followed, &err), err);
    assert_int_equal(batches.jobs, OLD_JOBS);
    assert_int_equal(usage.jobs, 10);
    assert_true(usage.gpu_seconds > 9.99 && usage.gpu_seconds < 10.01);
    assert_int_equal(causes.rows, 0);
    assert_int_equal(events.rows, 10);
    assert_int_equal(job.rows, 1);
    assert_int_equal(followed.rows, 10);
    char *log = kiln_test_postgres_log(stack);
    expect(log, "string_agg(tenant, ','", "batch_tally", "Scan on job");
    expect(log, "WITH made AS", "image_created", "Seq Scan on image");
    expect(log, "WITH made AS", "object_created", "Seq Scan on object");
    expect(log, "WITH failed AS", "job_trouble", "Seq Scan on job");
    expect(log, "ON b.id = j.batch_id WHERE j.pool", "event_pkey", "Seq Scan on event");
    expect(log, "LEFT JOIN job j ON j.id = e.job_id", "event_at", "Seq Scan on event");
    free(log);
}

/* Three pages of jobs, and a job that is assigned: all but that one go, and then the batch. */
static void a_removal_leaves_what_runs_and_then_nothing(void **state)
{
    (void)state;
    struct kiln_removed removed;
    struct seen usage = {0}, batches = {0};
    free(kiln_test_sql(stack, "DELETE FROM event; DELETE FROM object WHERE job_id > 5000;"
                              " DELETE FROM image WHERE job_id > 5000;"
                              " DELETE FROM job WHERE id > 5000"));
    free(kiln_test_sql(stack, "UPDATE batch_tally SET done = 4999, assigned = 1"));
    free(kiln_test_sql(stack, "ALTER TABLE job DISABLE TRIGGER job_move_is_legal;"
                              " UPDATE job SET state = 1 WHERE id = 2500"));
    free(kiln_test_sql(stack, "DELETE FROM object WHERE job_id = 2500;"
                              " DELETE FROM image WHERE job_id = 2500"));
    assert_int_equal(kiln_ledger_remove_batch(ledger, "p", "old", &removed, &err), KILN_STALE);
    assert_int_equal(removed.jobs, 4999);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job"), 1);
    assert_int_equal(kiln_test_count(stack, "SELECT sum(done) FROM batch_tally"), 0);
    free(kiln_test_sql(stack, "UPDATE job SET state = 4, finished_at = now()"));
    kiln_test_ok(kiln_ledger_remove_batch(ledger, "p", "old", &removed, &err), err);
    assert_int_equal(removed.jobs, 1);
    kiln_test_ok(kiln_ledger_batches(ledger, "p", NULL, see_batch, &batches, &err), err);
    assert_int_equal(batches.rows, 0);
    kiln_test_ok(kiln_ledger_usage(ledger, "p", 0, 0, see_usage, &usage, &err), err);
    assert_int_equal(usage.jobs, 4999);
    assert_true(usage.gpu_seconds > 4998.5 && usage.gpu_seconds < 4999.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_use_their_index),
        cmocka_unit_test(a_removal_leaves_what_runs_and_then_nothing),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
