/* test_worker_process.c - the whole kiln-worker on real servers, the test in the scheduler's place.
 *
 * Each test starts a worker of its own name on one shared Redis and Postgres.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/stored.h"
#include "tests/support/worker_process.h"

/* For what takes a moment on an idle machine, and is shorter than the endless jobs of 50 s. */
#define LIMIT_S 60

static struct kiln_test_stack *stack;

static int start_stack(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    return 0;
}

static int stop_stack(void **state)
{
    (void)state;
    kiln_test_stack_stop(stack);
    return 0;
}

/* The number of jobs of a batch in a state. */
static long long jobs_in(const char *batch, enum kiln_job_state job_state)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = '%s' "
             "AND j.state = %d",
             batch, (int)job_state);
    return kiln_test_count(stack, sql);
}

static bool until_in(const char *batch, enum kiln_job_state job_state, long long wanted)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = '%s' "
             "AND j.state = %d",
             batch, (int)job_state);
    return kiln_test_until(stack, sql, wanted, LIMIT_S);
}

/* The tries that count, of all jobs of a batch. */
static long long tries_of(const char *batch)
{
    char sql[160];
    snprintf(sql, sizeof sql,
             "SELECT sum(tries) FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = '%s'",
             batch);
    return kiln_test_count(stack, sql);
}

/* What the ledger says of a worker. */
static bool is_state(const char *worker, const char *wanted)
{
    char sql[160];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM worker WHERE name = '%s' AND state = '%s'",
             worker, wanted);
    return kiln_test_count(stack, sql) == 1;
}

/* The stop comes last, since the store must be whole afterwards too. */
static void assert_clean_end(struct kiln_test_worker *worker)
{
    struct kiln_heartbeat beat;
    assert_int_equal(kiln_test_worker_stop(worker), 0);
    assert_int_equal(kiln_test_worker_said(worker, "worker_ended"), 1);
    assert_true(is_state(worker->id, "gone"));
    assert_false(kiln_test_heartbeat(stack, worker->id, &beat));
    kiln_test_assert_stored(stack);
}

static void test_done(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    struct kiln_heartbeat beat;
    uint64_t ids[6];
    struct kiln_job job = kiln_test_job("a cat");
    job.width = 512;
    job.height = 256;
    kiln_test_worker_start(&worker, stack, "w-done", NULL, true);
    assert_true(kiln_test_heartbeat(stack, "w-done", &beat));
    assert_string_equal(beat.engine, "testcard");
    assert_int_equal(beat.pid, worker.process.pid);
    assert_int_equal(beat.room, 2);
    assert_int_equal(beat.places, KILN_HEARTBEAT_HELD_MAX);
    assert_int_equal(beat.held_count, 0);
    kiln_test_queue_jobs(stack, "done", &job, 6, ids);
    kiln_test_assign(stack, "w-done", "done-1", ids, 4);
    kiln_test_assign(stack, "w-done", "done-2", ids + 4, 2);
    assert_true(until_in("done", KILN_JOB_DONE, 6));
    assert_clean_end(&worker);
    assert_int_equal(kiln_test_count(stack,
                                     "SELECT count(*) FROM image WHERE worker = 'w-done' AND "
                                     "model_name = 'testcard'"),
                     6);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM object o JOIN image i USING "
                                            "(job_id) WHERE i.worker = 'w-done'"),
                     6 * 4);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM latent"), 6);
}

static void test_kinds(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[3];
    struct kiln_job job = kiln_test_job("kinds");
    kiln_test_worker_start(&worker, stack, "w-kinds", NULL, true);
    kiln_test_queue_jobs(stack, "plain", &job, 1, ids);
    job.kind = KILN_KIND_LATENT_CACHE;
    kiln_test_queue_jobs(stack, "cache", &job, 1, ids + 1);
    job.kind = KILN_KIND_IMAGE;
    job.latents = KILN_LATENTS_TRAJECTORY;
    job.embed_metadata = true;
    kiln_test_queue_jobs(stack, "trajectory", &job, 1, ids + 2);
    kiln_test_assign(stack, "w-kinds", "kinds-1", ids, 3); /* three kinds in one assignment */
    assert_true(until_in("plain", KILN_JOB_DONE, 1));
    assert_true(until_in("cache", KILN_JOB_DONE, 1));
    assert_true(until_in("trajectory", KILN_JOB_DONE, 1));
    assert_clean_end(&worker);
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM image WHERE job_id = %llu",
             (unsigned long long)ids[1]);
    assert_int_equal(kiln_test_count(stack, sql), 0);
    snprintf(sql, sizeof sql, "SELECT states FROM latent WHERE job_id = %llu",
             (unsigned long long)ids[2]);
    assert_int_equal(kiln_test_count(stack, sql), 3);
}

static void test_failures(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[3];
    struct kiln_job fatal = kiln_test_job("a @fail=unsupported"),
                    again = kiln_test_job("b @fail=device"), good = kiln_test_job("c");
    kiln_test_worker_start(&worker, stack, "w-fail", NULL, true);
    kiln_test_queue_jobs(stack, "fatal", &fatal, 1, ids);
    kiln_test_queue_jobs(stack, "again", &again, 1, ids + 1);
    kiln_test_queue_jobs(stack, "good", &good, 1, ids + 2);
    kiln_test_assign(stack, "w-fail", "fail-1", ids, 3);
    assert_true(until_in("good", KILN_JOB_DONE, 1));
    assert_true(until_in("fatal", KILN_JOB_FAILED, 1));
    assert_true(until_in("again", KILN_JOB_QUEUED, 1));
    assert_int_equal(kiln_test_count(stack, "SELECT error_code FROM job j JOIN batch b ON b.id = "
                                            "j.batch_id WHERE b.name = 'fatal'"),
                     KILN_UNSUPPORTED);
    assert_int_equal(tries_of("again"), 1);
    assert_clean_end(&worker);
}

/* A worker whose device breaks batch after batch ends by itself, for its supervisor to see. */
static void test_broken_device(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[3];
    struct kiln_job job = kiln_test_job("a @fail_all=device");
    kiln_test_worker_start(&worker, stack, "w-broken", NULL, true);
    kiln_test_queue_jobs(stack, "broken", &job, 3, ids);
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "broken-%d", i);
        kiln_test_assign(stack, "w-broken", name, &ids[i], 1);
    }
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), EX_UNAVAILABLE);
    assert_int_equal(jobs_in("broken", KILN_JOB_QUEUED), 3);
}

/* A lost device ends the worker with the batch that found it lost, whose jobs count a try; what had
 * not begun goes back without. */
static void test_lost_device(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[4];
    struct kiln_job job = kiln_test_job("a @lost @step_ms=1000"), next = kiln_test_job("b");
    kiln_test_worker_start(&worker, stack, "w-lost", NULL, true);
    kiln_test_queue_jobs(stack, "lost", &job, 1, ids);
    kiln_test_queue_jobs(stack, "beside", &job, 1, ids + 1);
    kiln_test_queue_jobs(stack, "behind", &next, 2, ids + 2);
    kiln_test_assign(stack, "w-lost", "lost-1", ids, 1);
    kiln_test_assign(stack, "w-lost", "lost-2", ids + 1, 1); /* may begin while lost-1 ends */
    kiln_test_assign(stack, "w-lost", "lost-3", ids + 2, 2);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), EX_UNAVAILABLE);
    assert_int_equal(kiln_test_worker_said(&worker, "worker_ended"), 0);
    assert_int_equal(kiln_test_worker_said(&worker, "the test card's device is lost\" code=device"),
                     1);
    assert_int_equal(jobs_in("lost", KILN_JOB_QUEUED), 1);
    assert_int_equal(tries_of("lost"), 1);
    assert_int_equal(jobs_in("behind", KILN_JOB_QUEUED), 2);
    assert_int_equal(tries_of("behind"), 0);
}

/* Pictures that had come from the device before it was lost are stored, and not drawn again. */
static void test_lost_device_behind_pictures(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[3];
    struct kiln_job before = kiln_test_job("before"), lost = kiln_test_job("a @lost star");
    kiln_test_worker_start(&worker, stack, "w-late", NULL, true);
    kiln_test_queue_jobs(stack, "came-before", &before, 2, ids);
    kiln_test_queue_jobs(stack, "lost-late", &lost, 1, ids + 2);
    kiln_test_assign(stack, "w-late", "late-1", ids, 3);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), EX_UNAVAILABLE);
    assert_int_equal(jobs_in("came-before", KILN_JOB_DONE), 2);
    assert_int_equal(jobs_in("lost-late", KILN_JOB_QUEUED), 1);
    assert_int_equal(tries_of("lost-late"), 1);
}

/* A batch that comes no step further ends its process, which could not be helped otherwise. */
static void test_stalled(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[1];
    const char *more[] = {"--stall-s", "1", NULL};
    struct kiln_job stuck = kiln_test_job("stalled @step_ms=60000"),
                    slow = kiln_test_job("slow @step_ms=400");
    slow.steps = 4; /* longer than the limit as a whole, but it gets on */
    kiln_test_worker_start(&worker, stack, "w-stalled", more, true);
    kiln_test_queue_jobs(stack, "slow", &slow, 1, ids);
    kiln_test_assign(stack, "w-stalled", "slow-1", ids, 1);
    assert_true(until_in("slow", KILN_JOB_DONE, 1));
    kiln_test_queue_jobs(stack, "stalled", &stuck, 1, ids);
    kiln_test_assign(stack, "w-stalled", "stalled-1", ids, 1);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), EX_UNAVAILABLE);
    assert_int_equal(kiln_test_worker_said(&worker, "batch_stalled"), 1);
    assert_int_equal(jobs_in("stalled", KILN_JOB_ASSIGNED), 1);
}

static void test_stale(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[2];
    struct kiln_job slow = kiln_test_job("stale @step_ms=1000");
    kiln_test_worker_start(&worker, stack, "w-stale", NULL, true);
    kiln_test_queue_jobs(stack, "stale", &slow, 2, ids);
    kiln_test_assign(stack, "w-stale", "stale-1", ids, 2);
    /* Drawing takes 2 s; meanwhile the ledger gives the first job to another attempt. */
    assert_true(kiln_test_worker_draws(&worker, LIMIT_S));
    char sql[200];
    snprintf(sql, sizeof sql, "UPDATE job SET attempt = attempt + 1 WHERE id = %llu",
             (unsigned long long)ids[0]);
    free(kiln_test_sql(stack, sql));
    assert_true(until_in("stale", KILN_JOB_DONE, 1));
    assert_true(kiln_test_worker_hears(&worker, "result_dropped", LIMIT_S));
    assert_int_equal(jobs_in("stale", KILN_JOB_ASSIGNED), 1);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM object WHERE job_id = %llu",
             (unsigned long long)ids[0]);
    assert_int_equal(kiln_test_count(stack, sql), 0);
    assert_clean_end(&worker);
}

static void test_cancel(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[2];
    struct kiln_job slow = kiln_test_job("cancel @step_ms=40");
    struct kiln_control order = {.kind = KILN_CONTROL_CANCEL_JOB};
    slow.steps = 50;
    kiln_test_worker_start(&worker, stack, "w-cancel", NULL, true);
    kiln_test_queue_jobs(stack, "cancel", &slow, 2, ids);
    kiln_test_assign(stack, "w-cancel", "cancel-1", ids, 2);
    assert_true(kiln_test_worker_draws(&worker, LIMIT_S));
    char sql[200];
    snprintf(sql, sizeof sql, "UPDATE job SET state = %d WHERE id = %llu", KILN_JOB_CANCELLED,
             (unsigned long long)ids[0]);
    free(kiln_test_sql(stack, sql));
    order.job = ids[0];
    kiln_test_control_worker(stack, "w-cancel", &order);
    assert_true(until_in("cancel", KILN_JOB_DONE, 1));
    assert_int_equal(jobs_in("cancel", KILN_JOB_CANCELLED), 1);
    assert_true(kiln_test_worker_hears(&worker, "assignment_finished", LIMIT_S));
    /* A dropped assignment ends at the next step, long before its 50 s. */
    struct kiln_job endless = kiln_test_job("drop @step_ms=1000");
    endless.steps = 50;
    kiln_test_queue_jobs(stack, "drop", &endless, 1, ids);
    kiln_test_assign(stack, "w-cancel", "drop-1", ids, 1);
    assert_true(kiln_test_worker_draws(&worker, LIMIT_S));
    order = (struct kiln_control){.kind = KILN_CONTROL_DROP, .id = "drop-1"};
    kiln_test_control_worker(stack, "w-cancel", &order);
    assert_true(kiln_test_worker_hears(&worker, "assignment=drop-1", LIMIT_S));
    assert_clean_end(&worker);
}

/* With full hands: one runs, the others have not begun. */
static void test_drain(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    struct kiln_heartbeat beat;
    uint64_t ids[2 * KILN_HEARTBEAT_HELD_MAX];
    struct kiln_job slow = kiln_test_job("drain @step_ms=300");
    slow.steps = 8;
    kiln_test_worker_start(&worker, stack, "w-drain", NULL, true);
    kiln_test_queue_jobs(stack, "drain", &slow, 2 * KILN_HEARTBEAT_HELD_MAX, ids);
    for (int i = 0; i < KILN_HEARTBEAT_HELD_MAX; i++) {
        char name[24];
        snprintf(name, sizeof name, "drain-%d", i);
        kiln_test_assign(stack, "w-drain", name, ids + 2 * i, 2);
    }
    assert_true(kiln_test_worker_draws(&worker, LIMIT_S));
    for (int i = 0; i < LIMIT_S * 100; i++) {
        assert_true(kiln_test_heartbeat(stack, "w-drain", &beat));
        if (beat.held_count == KILN_HEARTBEAT_HELD_MAX)
            break;
        kiln_test_sleep_ms(10);
    }
    assert_int_equal(beat.held_count, KILN_HEARTBEAT_HELD_MAX);
    assert_int_equal(beat.drawn, 0);
    assert_int_equal(beat.room, 0);
    assert_int_equal(beat.places, 0);
    assert_clean_end(&worker);
    assert_int_equal(jobs_in("drain", KILN_JOB_DONE), 2);
    assert_int_equal(jobs_in("drain", KILN_JOB_QUEUED), 2 * (KILN_HEARTBEAT_HELD_MAX - 1));
    /* Handed back unused: the try does not count. */
    assert_int_equal(kiln_test_count(stack, "SELECT sum(tries) FROM job j JOIN batch b ON b.id = "
                                            "j.batch_id WHERE b.name = 'drain' AND j.state = 0"),
                     0);
}

static void test_second_signal(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[2];
    struct kiln_job endless = kiln_test_job("second @step_ms=1000");
    endless.steps = 50;
    kiln_test_worker_start(&worker, stack, "w-second", NULL, true);
    kiln_test_queue_jobs(stack, "second", &endless, 2, ids);
    kiln_test_assign(stack, "w-second", "second-1", ids, 2);
    assert_true(kiln_test_worker_draws(&worker, LIMIT_S));
    kiln_test_worker_signal(&worker, SIGTERM);
    assert_int_equal(kiln_test_worker_wait(&worker, 0.7), -1); /* it finishes the batch */
    kiln_test_worker_signal(&worker, SIGTERM);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), 0);
    assert_int_equal(jobs_in("second", KILN_JOB_QUEUED), 2);
}

static void test_drain_limit(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[1];
    const char *more[] = {"--drain-s", "0.5", NULL};
    struct kiln_job endless = kiln_test_job("limit @step_ms=1000");
    endless.steps = 50;
    kiln_test_worker_start(&worker, stack, "w-limit", more, true);
    kiln_test_queue_jobs(stack, "limit", &endless, 1, ids);
    kiln_test_assign(stack, "w-limit", "limit-1", ids, 1);
    assert_true(kiln_test_worker_draws(&worker, LIMIT_S));
    kiln_test_worker_signal(&worker, SIGTERM);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), 0);
    assert_int_equal(jobs_in("limit", KILN_JOB_QUEUED), 1);
}

static void test_drain_order(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    const struct kiln_control order = {.kind = KILN_CONTROL_DRAIN, .id = "w-order"};
    kiln_test_worker_start(&worker, stack, "w-order", NULL, true);
    kiln_test_control_worker(stack, "w-order", &order);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), 0);
}

static void test_one_id_one_worker(void **state)
{
    (void)state;
    struct kiln_test_worker first, second;
    kiln_test_worker_start(&first, stack, "w-twin", NULL, true);
    kiln_test_worker_start(&second, stack, "w-twin", NULL, false);
    assert_int_equal(kiln_test_worker_wait(&second, LIMIT_S), EX_CANTCREAT);
    assert_int_equal(kiln_test_worker_said(&second, "worker_id_taken"), 1);
    assert_int_equal(kiln_test_worker_said(&second, "worker_failed"), 1);
    assert_false(is_state("w-twin", "gone")); /* the row is that of the first */
    assert_clean_end(&first);
}

static void test_reload(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    kiln_test_worker_start(&worker, stack, "w-reload", NULL, true);
    kiln_test_worker_signal(&worker, SIGHUP);
    assert_true(kiln_test_worker_hears(&worker, "settings_read", LIMIT_S));
    FILE *conf = fopen(stack->conf, "ae");
    assert_non_null(conf);
    long end = ftell(conf);
    fprintf(conf, "no_such_setting = 1\n");
    fclose(conf);
    kiln_test_worker_signal(&worker, SIGHUP);
    assert_true(kiln_test_worker_hears(&worker, "settings_kept", LIMIT_S));
    assert_int_equal(truncate(stack->conf, end), 0);
    assert_clean_end(&worker);
}

static void test_wrong_settings(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    const char *unknown[] = {"--no-such-flag", NULL}, *store[] = {"--store", "ftp://x", NULL},
               *model[] = {"--engine", "pipeline", "--model", "/nonexistent", NULL};
    kiln_test_worker_start(&worker, stack, "w-wrong", unknown, false);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), EX_USAGE);
    kiln_test_worker_start(&worker, stack, "w-wrong", store, false);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), EX_CONFIG);
    kiln_test_worker_start(&worker, stack, "w-wrong", model, false);
    assert_true(kiln_test_worker_wait(&worker, LIMIT_S) > 0);
    assert_true(kiln_test_worker_said(&worker, "worker_failed") == 1);
    assert_true(is_state("w-wrong", "failed"));
    kiln_test_worker_start(&worker, stack, "../w", NULL, false);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), EX_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_done),          cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_failures),      cmocka_unit_test(test_broken_device),
        cmocka_unit_test(test_lost_device),   cmocka_unit_test(test_lost_device_behind_pictures),
        cmocka_unit_test(test_stalled),       cmocka_unit_test(test_stale),
        cmocka_unit_test(test_cancel),        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_second_signal), cmocka_unit_test(test_drain_limit),
        cmocka_unit_test(test_drain_order),   cmocka_unit_test(test_one_id_one_worker),
        cmocka_unit_test(test_reload),        cmocka_unit_test(test_wrong_settings),
    };
    return cmocka_run_group_tests(tests, start_stack, stop_stack);
}
