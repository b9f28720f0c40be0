/* test_daemon.c - kiln-scheduler with real workers (drawing test cards), Redis and Postgres: what
 * happens to jobs when one of them misbehaves. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"
#include "tests/support/jobs.h"
#include "tests/support/scheduler_process.h"
#include "tests/support/worker_process.h"

#define LINE(words) "{\"prompt\":\"" words "\",\"width\":64,\"height\":64,\"steps\":2}"
#define QUICK LINE("a red car")
#define SLOW LINE("a slow car @step_ms=200")
#define LIMIT_S 60

static struct kiln_test_stack *stack;
static struct kiln_test_scheduler scheduler, standby;
static struct kiln_test_worker workers[3];
static struct kiln_error err;

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    return stack ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    kiln_test_stack_stop(stack);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    kiln_test_flushall(stack);
    free(kiln_test_sql(stack, "SET client_min_messages = error; TRUNCATE batch, event CASCADE"));
    memset(workers, 0, sizeof(workers));
    memset(&standby, 0, sizeof(standby));
    kiln_test_scheduler_start(&scheduler, stack, "a");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        kiln_test_worker_signal(&workers[i], SIGCONT);
        kiln_test_worker_signal(&workers[i], SIGKILL);
        (void)kiln_test_worker_wait(&workers[i], 10);
    }
    if (standby.process.pid)
        kiln_test_scheduler_kill(&standby);
    if (scheduler.process.pid)
        kiln_test_scheduler_kill(&scheduler);
    return 0;
}

static void worker(int which, const char *id)
{
    kiln_test_worker_start(&workers[which], stack, id, NULL, true);
}

static void all_done(long long jobs)
{
    if (kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 2", jobs, LIMIT_S))
        return;
    char *states = kiln_test_sql(stack, "SELECT string_agg(format('%s:%s', state, n), ' ') FROM "
                                        "(SELECT state, count(*) n FROM job GROUP BY 1) s");
    fail_msg("jobs by state (0 queued 1 assigned 2 done 3 failed 4 cancelled): %s; wanted %lld",
             states ? states : "none", jobs);
}

/* Exactly once: a picture a done job, three objects of 64 pixels each. */
static void exactly_once(void)
{
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE state = 2"),
                     kiln_test_count(stack, "SELECT count(*) FROM image"));
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM (SELECT job_id FROM event WHERE "
                                            "state = 2 GROUP BY 1 HAVING count(*) > 1) twice"),
                     0);
}

static bool count_is(const char *sql, long long wanted)
{
    return kiln_test_until(stack, sql, wanted, LIMIT_S);
}

/* --- the plain case -------------------------------------------------------------------------- */
static void a_batch_is_rendered(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", QUICK, 0, 40, true);
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, 40);
    all_done(40);
    exactly_once();
    assert_int_equal(kiln_test_count(stack, "SELECT max(attempt) FROM job"), 1);
    assert_int_equal(kiln_test_scheduler_stop(&scheduler), 0);
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "scheduler_ended"), 1);
}

static void jobs_wait_for_a_worker(void **state)
{
    (void)state;
    kiln_test_enqueue(stack, "b", "t", QUICK, 0, 5, true);
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, 5);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE state = 0"), 5);
    worker(0, "w0");
    all_done(5);
}

static void errors_are_tried_again_and_then_given_up(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", LINE("@fail=device"), 0, 1, false);
    kiln_test_enqueue(stack, "b", "t", QUICK, 1, 3, false);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 3 AND tries = 3", 1));
    all_done(3);
    struct kiln_ledger *ledger = NULL;
    uint64_t moved = 0;
    kiln_test_ok(kiln_ledger_open(stack->config, "test", &ledger, &err), err);
    kiln_test_ok(kiln_ledger_retry(ledger, KILN_TEST_POOL, 0, "b", &moved, &err), err);
    kiln_ledger_close(ledger);
    assert_int_equal(moved, 1);
    kiln_test_control(stack, &(struct kiln_control){.kind = KILN_CONTROL_WAKE});
    /* It fails anew, which shows that it was assigned again. */
    assert_true(count_is("SELECT count(*) FROM event WHERE state = 3", 2));
}

/* --- workers --------------------------------------------------------------------------------- */
static void a_lost_workers_jobs_go_to_another(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 8, true);
    assert_true(kiln_test_worker_draws(&workers[0], LIMIT_S));
    kiln_test_worker_signal(&workers[0], SIGKILL);
    worker(1, "w1");
    all_done(8);
    exactly_once();
    assert_true(kiln_test_scheduler_said(&scheduler, "worker_lost") >= 1);
    assert_true(kiln_test_count(stack, "SELECT max(crashes) FROM job") == 1);
}

/* What was sent to a worker that had just died is found by the process that follows it: it does not
 * count as a crash and is not rendered twice. */
static void a_successor_finds_what_was_never_read(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_worker_signal(&workers[0], SIGKILL);
    (void)kiln_test_worker_wait(&workers[0], 10);
    kiln_test_enqueue(stack, "b", "t", QUICK, 0, 4, true);
    /* On a busy machine its lease may be over by now; that counts nothing either. */
    (void)kiln_test_until(stack, "SELECT least(count(*), 1) FROM job WHERE state = 1", 1, 1);
    worker(0, "w0");
    all_done(4);
    exactly_once();
    assert_int_equal(kiln_test_count(stack, "SELECT max(crashes) FROM job"), 0);
}

static void a_paused_worker_does_no_harm(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 4, true);
    assert_true(count_is("SELECT least(count(*), 1) FROM job WHERE state = 1", 1));
    kiln_test_worker_signal(&workers[0], SIGSTOP);
    worker(1, "w1");
    all_done(4);
    kiln_test_worker_signal(&workers[0], SIGCONT);
    kiln_test_enqueue(stack, "b", "t2", QUICK, 4, 20, true);
    all_done(24);
    exactly_once();
}

static void a_poisoned_job_falls_alone(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", QUICK, 0, 6, false);
    kiln_test_enqueue(stack, "b", "t", LINE("@crash"), 6, 1, false);
    kiln_test_enqueue(stack, "b", "t", QUICK, 7, 6, false);
    for (int i = 0; i < 400; i++) { /* who supervises the worker starts it again */
        if (kiln_test_count(stack, "SELECT count(*) FROM job WHERE state IN (2, 3)") == 13)
            break;
        if (kiln_test_worker_wait(&workers[0], 0.1) != -1)
            worker(0, "w0");
    }
    all_done(12);
    exactly_once();
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE state = 3 AND "
                                            "error_code = 18 AND crashes = 3 AND prompt ~ 'crash'"),
                     1);
    /* The neighbours met the crash at most once. */
    assert_true(kiln_test_count(stack, "SELECT max(crashes) FROM job WHERE state = 2") <= 1);
}

/* A second process cannot start under a live id; but one that was paused beyond its lease meets its
 * successor when it wakes up. */
static void of_two_workers_of_one_id_the_older_ends(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 8, true);
    assert_true(count_is("SELECT least(count(*), 1) FROM job WHERE state = 1", 1));
    kiln_test_worker_signal(&workers[0], SIGSTOP);
    worker(1, "w0");
    kiln_test_worker_signal(&workers[0], SIGCONT);
    assert_true(kiln_test_scheduler_hears(&scheduler, "worker_twice", LIMIT_S));
    assert_int_equal(kiln_test_worker_wait(&workers[0], LIMIT_S), 0);
    all_done(8);
    exactly_once();
    assert_int_equal(kiln_test_worker_wait(&workers[1], 0.1), -1);
}

/* Plays a worker that another release started: it has room, and could read nothing. */
static void a_worker_of_another_protocol_gets_nothing(void **state)
{
    (void)state;
    struct kiln_bus *bus = NULL;
    struct kiln_heartbeat beat = {.version = KILN_WIRE_VERSION + 1, .room = 2, .batch_max = 4};
    char key[KILN_NAME_MAX * 2 + 32];
    snprintf(beat.worker, sizeof(beat.worker), "w-foreign");
    snprintf(beat.incarnation, sizeof(beat.incarnation), "f1");
    kiln_wire_key(key, sizeof(key), KILN_TEST_POOL, "beat", beat.worker);
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    kiln_test_enqueue(stack, "b", "t", QUICK, 0, 4, true);
    for (int i = 0; i < 12; i++) {
        beat.sent_ms = i + 1;
        char *text = kiln_heartbeat_encode(&beat);
        kiln_test_ok(kiln_bus_heartbeat(bus, key, text, 3000, &err), err);
        free(text);
        kiln_test_sleep_ms(100);
    }
    kiln_bus_close(bus);
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "worker_foreign"), 1);
    assert_int_equal(kiln_test_count(stack, "SELECT max(attempt) FROM job"), 0);
    worker(0, "w0");
    all_done(4);
    assert_int_equal(kiln_test_count(stack, "SELECT max(attempt) FROM job"), 1);
}

static void drain_ends_a_worker_and_loses_nothing(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 12, true);
    assert_true(count_is("SELECT least(count(*), 1) FROM job WHERE state = 1", 1));
    struct kiln_control control = {.kind = KILN_CONTROL_DRAIN, .id = "w0"};
    kiln_test_control(stack, &control);
    assert_int_equal(kiln_test_worker_wait(&workers[0], LIMIT_S), 0);
    worker(1, "w1");
    all_done(12);
    exactly_once();
    assert_int_equal(kiln_test_count(stack, "SELECT max(crashes) FROM job"), 0);
}

/* A worker returns a job and dies before it can say so: nobody waits for the sweep of a minute. */
static void a_hand_back_that_nobody_told_of_is_found(void **state)
{
    (void)state;
    struct kiln_ledger *ledger;
    struct kiln_return back = {.code = KILN_OK, .reason = "drain"};
    int moved = -1;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", LINE("@step_ms=1000"), 0, 1, true);
    assert_true(kiln_test_worker_draws(&workers[0], LIMIT_S)); /* a heartbeat has named it */
    kiln_test_worker_signal(&workers[0], SIGKILL);
    (void)kiln_test_worker_wait(&workers[0], LIMIT_S);
    back.id = (uint64_t)kiln_test_count(stack, "SELECT id FROM job");
    back.attempt = 1;
    kiln_test_ok(kiln_ledger_open(stack->config, "test", &ledger, &err), err);
    kiln_test_ok(kiln_ledger_return(ledger, &back, 1, &moved, &err), err);
    kiln_ledger_close(ledger);
    assert_int_equal(moved, KILN_JOB_QUEUED);
    worker(1, "w1");
    all_done(1);
    exactly_once();
}

/* --- cancelling ------------------------------------------------------------------------------ */
static void cancelled_jobs_stop(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "long", "t", LINE("@step_ms=5000"), 0, 30, false);
    assert_true(count_is("SELECT least(count(*), 1) FROM job WHERE state = 1", 1));
    struct kiln_control control = {.kind = KILN_CONTROL_CANCEL_BATCH, .id = "long"};
    kiln_test_control(stack, &control);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 4", 30));
    /* The worker is free again long before the steps would have ended. */
    kiln_test_enqueue(stack, "b", "t2", QUICK, 0, 3, true);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 2", 3));
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM image"), 3);
}

/* --- schedulers and servers ------------------------------------------------------------------ */
static void the_standby_takes_over(void **state)
{
    (void)state;
    kiln_test_scheduler_start(&standby, stack, "b");
    assert_int_equal(kiln_test_scheduler_said(&standby, "leading"), 0);
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 10, false);
    assert_true(count_is("SELECT least(count(*), 1) FROM job WHERE state = 1", 1));
    kiln_test_scheduler_kill(&scheduler);
    kiln_test_enqueue(stack, "b", "t2", QUICK, 10, 10, true);
    assert_true(kiln_test_scheduler_hears(&standby, "leading", LIMIT_S));
    assert_int_equal(kiln_test_receipt(stack, "t2").accepted, 10);
    all_done(20);
    exactly_once();
    assert_int_equal(kiln_test_count(stack, "SELECT max(tries) FROM job"), 1);
}

static void a_paused_leader_loses_the_lead(void **state)
{
    (void)state;
    kiln_test_scheduler_start(&standby, stack, "b");
    worker(0, "w0");
    kill(scheduler.process.pid, SIGSTOP);
    kiln_test_enqueue(stack, "b", "t", QUICK, 0, 10, true);
    assert_true(kiln_test_scheduler_hears(&standby, "leading", LIMIT_S));
    all_done(10);
    kill(scheduler.process.pid, SIGCONT);
    kiln_test_enqueue(stack, "b", "t2", QUICK, 10, 10, true);
    all_done(20);
    exactly_once();
    /* It takes part again, as the standby. */
    kiln_test_scheduler_kill(&standby);
    kiln_test_enqueue(stack, "b", "t3", QUICK, 20, 10, true);
    all_done(30);
    exactly_once();
}

static void an_emptied_redis_costs_no_attempt(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 20, true);
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, 20);
    for (int i = 0; i < 3; i++) {
        kiln_test_sleep_ms(300);
        kiln_test_flushall(stack);
    }
    all_done(20);
    exactly_once();
    assert_int_equal(kiln_test_count(stack, "SELECT max(crashes) FROM job"), 0);
    assert_int_equal(kiln_test_count(stack, "SELECT max(tries) FROM job"), 1);
}

static void settings_are_read_again(void **state)
{
    (void)state;
    kill(scheduler.process.pid, SIGHUP);
    assert_true(kiln_test_scheduler_hears(&scheduler, "settings_read", LIMIT_S));
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", QUICK, 0, 3, true);
    all_done(3);
}

static void postgres_killed_in_between(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 12, true);
    assert_true(count_is("SELECT least(count(*), 1) FROM job WHERE state = 2", 1));
    kiln_test_kill(stack, KILN_TEST_POSTGRES);
    assert_true(kiln_test_scheduler_hears(&scheduler, "ledger_away", LIMIT_S));
    kiln_test_restart(stack, KILN_TEST_POSTGRES, NULL);
    all_done(12);
    exactly_once();
}

static void redis_killed_in_between(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 12, true);
    assert_true(count_is("SELECT least(count(*), 1) FROM job WHERE state = 2", 1));
    kiln_test_kill(stack, KILN_TEST_REDIS);
    kiln_test_sleep_ms(2000); /* longer than a lease: nobody could be heard, nobody is lost */
    kiln_test_restart(stack, KILN_TEST_REDIS, NULL);
    all_done(12);
    exactly_once();
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "worker_lost"), 0);
    assert_int_equal(kiln_test_count(stack, "SELECT max(crashes) FROM job"), 0);
}

/* Redis has reached maxmemory: it answers, but takes neither assignments nor heartbeats. */
static void a_full_redis_is_waited_for(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 12, true);
    assert_true(count_is("SELECT least(count(*), 1) FROM job WHERE state = 2", 1));
    kiln_test_redis(stack, "CONFIG SET maxmemory 1");
    assert_true(kiln_test_scheduler_hears(&scheduler, "worker_lost", LIMIT_S));
    kiln_test_redis(stack, "CONFIG SET maxmemory 0");
    all_done(12);
    exactly_once();
    kiln_test_enqueue(stack, "b", "t2", QUICK, 12, 4, true);
    all_done(16);
}

static void a_ledger_that_only_reads_is_waited_for(void **state)
{
    (void)state;
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 12, true);
    assert_true(count_is("SELECT least(count(*), 1) FROM job WHERE state = 2", 1));
    free(kiln_test_sql(stack, "ALTER SYSTEM SET default_transaction_read_only = on"));
    free(kiln_test_sql(stack, "SELECT pg_reload_conf()"));
    kiln_test_enqueue(stack, "b", "t2", QUICK, 12, 4, true); /* stays in the stream */
    assert_true(kiln_test_scheduler_hears(&scheduler, "takes no writes", LIMIT_S));
    free(kiln_test_sql(stack, "SET default_transaction_read_only = off"));
    free(kiln_test_sql(stack, "ALTER SYSTEM RESET default_transaction_read_only"));
    free(kiln_test_sql(stack, "SELECT pg_reload_conf()"));
    all_done(16);
    exactly_once();
    assert_int_equal(kiln_test_count(stack, "SELECT max(crashes) FROM job"), 0);
}

/* Both servers accept connections and answer nothing.  The last test, since its shorter time limit
 * stays in the settings. */
static void servers_that_hang_are_waited_for(void **state)
{
    (void)state;
    FILE *conf = fopen(stack->conf, "ae");
    assert_non_null(conf);
    fputs("statement_timeout_s = 2\n", conf);
    assert_int_equal(fclose(conf), 0);
    kiln_test_scheduler_kill(&scheduler);
    kiln_test_scheduler_start(&scheduler, stack, "a");
    worker(0, "w0");
    kiln_test_enqueue(stack, "b", "t", SLOW, 0, 12, true);
    for (int server = KILN_TEST_REDIS; server <= KILN_TEST_POSTGRES; server++) {
        assert_true(count_is("SELECT least(count(*), 1) FROM job WHERE state = 2", 1));
        kiln_test_freeze(stack, server);
        bool heard = kiln_test_scheduler_hears(
            &scheduler, server == KILN_TEST_REDIS ? "bus_away" : "ledger_away", LIMIT_S);
        kiln_test_thaw(stack, server);
        assert_true(heard);
    }
    all_done(12);
    exactly_once();
    assert_int_equal(kiln_test_count(stack, "SELECT max(crashes) FROM job"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_batch_is_rendered),
        TEST(jobs_wait_for_a_worker),
        TEST(errors_are_tried_again_and_then_given_up),
        TEST(a_lost_workers_jobs_go_to_another),
        TEST(a_successor_finds_what_was_never_read),
        TEST(a_paused_worker_does_no_harm),
        TEST(a_poisoned_job_falls_alone),
        TEST(of_two_workers_of_one_id_the_older_ends),
        TEST(a_worker_of_another_protocol_gets_nothing),
        TEST(drain_ends_a_worker_and_loses_nothing),
        TEST(a_hand_back_that_nobody_told_of_is_found),
        TEST(cancelled_jobs_stop),
        TEST(the_standby_takes_over),
        TEST(a_paused_leader_loses_the_lead),
        TEST(an_emptied_redis_costs_no_attempt),
        TEST(settings_are_read_again),
        TEST(postgres_killed_in_between),
        TEST(redis_killed_in_between),
        TEST(a_full_redis_is_waited_for),
        TEST(a_ledger_that_only_reads_is_waited_for),
        TEST(servers_that_hang_are_waited_for),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
