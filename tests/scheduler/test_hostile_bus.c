/* test_hostile_bus.c - a running scheduler whose Redis somebody else writes to: messages that
 * nobody could obey, keys of another type under its names, streams at their end, names without
 * number. Each costs itself: the leadership goes on, the streams are emptied and good jobs are
 * rendered. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/bus/bus.h"
#include "tests/support/jobs.h"
#include "tests/support/scheduler_process.h"
#include "tests/support/worker_process.h"

#define LINE "{\"prompt\":\"a red car\",\"width\":64,\"height\":64,\"steps\":2}"
#define SLOW "{\"prompt\":\"a slow car @step_ms=1000\",\"width\":64,\"height\":64,\"steps\":2}"
#define KEY(part) "kiln:{" KILN_TEST_POOL "}:" part
#define LAST_ID "18446744073709551615-18446744073709551615"
#define LIMIT_S 60
#define JUNK_BEATS 100000

static struct kiln_test_stack *stack;
static struct kiln_test_scheduler scheduler;
static struct kiln_test_worker worker;
static struct kiln_bus *bus;
static struct kiln_error err;
static size_t sent;

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    return kiln_bus_open(stack->config, &bus, &err);
}

static int stop(void **state)
{
    (void)state;
    kiln_bus_close(bus);
    kiln_test_stack_stop(stack);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    kiln_test_flushall(stack);
    free(kiln_test_sql(stack, "SET client_min_messages = error; TRUNCATE batch, event CASCADE"));
    memset(&worker, 0, sizeof(worker));
    sent = 0;
    kiln_test_scheduler_start(&scheduler, stack, "a");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kiln_test_worker_signal(&worker, SIGKILL);
    (void)kiln_test_worker_wait(&worker, 10);
    kiln_test_scheduler_kill(&scheduler);
    return 0;
}

static void start_worker(void)
{
    kiln_test_worker_start(&worker, stack, "w0", NULL, true);
}

/* Four more jobs are rendered, by a scheduler that still leads and never took Redis for away. */
static void all_goes_on(void)
{
    kiln_test_enqueue(stack, "good", "t", LINE, sent, 4, false);
    sent += 4;
    if (!kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 2", (long long)sent,
                         LIMIT_S))
        fail_msg("%lld of %zu jobs are done",
                 kiln_test_count(stack, "SELECT count(*) FROM job WHERE state = 2"), sent);
    assert_int_equal(kiln_test_scheduler_said(&scheduler, " leading "), 1);
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "ledger_away"), 0);
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "bus_away"), 0);
    assert_int_equal(kiln_test_count(stack, "SELECT max(attempt) FROM job WHERE state = 2"), 1);
}

static void control_is_empty(void)
{
    uint64_t length = 1;
    for (int i = 0; i < 600 && length > 0; i++) {
        kiln_test_sleep_ms(100);
        kiln_test_ok(kiln_bus_length(bus, KEY("control"), &length, &err), err);
    }
    assert_int_equal(length, 0);
}

static void add(const char *stream, const char *field, const char *value)
{
    const char *fields[2] = {field, value};
    kiln_test_ok(kiln_bus_append(bus, stream, 0, fields, NULL, 1, &err), err);
}

/* Cancels a job that does not exist, and hears that it was obeyed. */
static void control_is_heard(void)
{
    int before = kiln_test_scheduler_said(&scheduler, "kind=wake");
    kiln_test_control(stack, &(struct kiln_control){.kind = KILN_CONTROL_WAKE});
    for (int i = 0; i < 600 && kiln_test_scheduler_said(&scheduler, "kind=wake") == before; i++)
        kiln_test_sleep_ms(100);
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "kind=wake"), before + 1);
}

/* --- messages -------------------------------------------------------------------------------- */
static void a_message_that_cannot_be_obeyed_costs_itself(void **state)
{
    (void)state;
    static const char *const events[] = {
        "{\"v\":1,\"kind\":\"returned\",\"worker\":\"w0\"}",
        "{\"v\":1,\"kind\":\"returned\",\"job\":0}",
        "{\"v\":1,\"kind\":\"returned\",\"job\":9223372036854775808}",
        "{\"v\":1,\"kind\":\"returned\",\"job\":18446744073709551615}",
        "{\"v\":1,\"kind\":\"returned\",\"job\":9223372036854775807}",
        "{\"v\":1,\"kind\":\"finished\",\"worker\":\"w0\",\"assignment\":\"a\",\"compute_ms\":"
        "1e300}",
        "{\"v\":1}",
        "\xff",
    };
    static const char *const orders[] = {
        "{\"v\":1,\"kind\":\"cancel_job\",\"job\":9223372036854775808}",
        "{\"v\":1,\"kind\":\"cancel_job\",\"job\":18446744073709551615}",
        "{\"v\":1,\"kind\":\"cancel_job\",\"job\":9223372036854775807}",
        "{\"v\":1,\"kind\":\"cancel_job\",\"job\":0}",
        "{\"v\":1,\"kind\":\"cancel_batch\",\"id\":\"nobody-knows-it\"}",
        "{\"v\":1,\"kind\":\"ask\",\"id\":\"q\",\"job\":18446744073709551615}",
        "{\"v\":1,\"kind\":\"drain\",\"id\":\"nobody\"}",
        "not json",
    };
    start_worker();
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        add(KEY("events"), "event", events[i]);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        add(KEY("control"), "order", orders[i]);
    add(KEY("control"), "nothing", "");
    control_is_empty();
    all_goes_on();
}

/* Somebody else tells the end of an assignment that was sent a moment ago. */
static void times_that_cannot_be_are_not_learned(void **state)
{
    (void)state;
    char event[300];
    start_worker();
    all_goes_on();
    kiln_test_enqueue(stack, "slow", "t", SLOW, 0, 1, false);
    assert_true(kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 1", 1, LIMIT_S));
    char *assignment = kiln_test_sql(stack, "SELECT assignment FROM job WHERE state = 1");
    assert_non_null(assignment);
    kiln_test_sleep_ms(300);
    snprintf(event, sizeof event,
             "{\"v\":1,\"kind\":\"finished\",\"worker\":\"w0\",\"assignment\":\"%s\","
             "\"compute_ms\":2000000000,\"switch_ms\":2000000000}",
             assignment);
    free(assignment);
    add(KEY("events"), "event", event);
    assert_true(kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 2", 5, LIMIT_S));
    kiln_test_sleep_ms(6000); /* costs are kept every five seconds */
    assert_true(kiln_test_until(stack, "SELECT least(count(*), 1) FROM cost", 1, LIMIT_S));
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM cost WHERE mean > 1000"), 0);
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "times_unbelievable"), 1);
}

/* Waiting jobs, with nobody to draw them. */
static uint64_t wait_for_jobs(long long count)
{
    kiln_test_enqueue(stack, "wait", "t", LINE, 1000, (size_t)count, false);
    assert_true(kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 0", count, LIMIT_S));
    return (uint64_t)kiln_test_count(stack, "SELECT min(id) FROM job");
}

static char *cancel_text(uint64_t job)
{
    const struct kiln_control control = {.kind = KILN_CONTROL_CANCEL_JOB, .job = job};
    return kiln_control_encode(&control);
}

static void every_order_of_many_entries_is_obeyed(void **state)
{
    (void)state;
    uint64_t first = wait_for_jobs(200);
    for (uint64_t i = 0; i < 200; i++)
        kiln_test_control(
            stack, &(struct kiln_control){.kind = KILN_CONTROL_CANCEL_JOB, .job = first + i});
    assert_true(kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 4", 200, LIMIT_S));
    control_is_empty();
}

/* One control message an entry: an entry with several is refused as a whole, and that is logged. */
static void an_entry_with_several_orders_is_refused_whole(void **state)
{
    (void)state;
    enum { ORDERS = 70 };
    const char *fields[2 * ORDERS];
    char *texts[ORDERS];
    uint64_t first = wait_for_jobs(ORDERS + 1);
    for (size_t i = 0; i < ORDERS; i++) {
        fields[2 * i] = "order";
        fields[2 * i + 1] = texts[i] = cancel_text(first + i);
    }
    kiln_test_ok(kiln_bus_append(bus, KEY("control"), 0, fields, NULL, ORDERS, &err), err);
    kiln_test_control(
        stack, &(struct kiln_control){.kind = KILN_CONTROL_CANCEL_JOB, .job = first + ORDERS});
    assert_true(kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 4", 1, LIMIT_S));
    control_is_empty();
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE state = 0"), ORDERS);
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "order_refused"), 1);
    for (size_t i = 0; i < ORDERS; i++)
        free(texts[i]);
}

/* It is of a worker's stream. */
static void an_order_to_drop_in_control_is_refused(void **state)
{
    (void)state;
    kiln_test_control(stack, &(struct kiln_control){.kind = KILN_CONTROL_DROP, .id = "a-1"});
    control_is_heard();
    control_is_empty();
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "order_refused"), 1);
}

/* --- keys of another type -------------------------------------------------------------------- */
static void its_streams_of_another_type_are_made_anew(void **state)
{
    (void)state;
    static const char *const damaged[] = {"SET " KEY("control") " x", "SET " KEY("events") " x"};
    start_worker();
    all_goes_on();
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        kiln_test_redis(stack, damaged[i]);
        kiln_test_sleep_ms(300);
        control_is_heard();
        all_goes_on();
    }
    assert_true(kiln_test_scheduler_said(&scheduler, "key_deleted") >= 1);
}

static void a_stream_at_its_end_is_made_anew(void **state)
{
    (void)state;
    start_worker();
    kiln_test_redis(stack, "XADD " KEY("control") " " LAST_ID " a b");
    kiln_test_redis(stack, "XADD " KEY("events") " " LAST_ID " a b");
    bool free_again = false;
    for (int i = 0; i < 600 && !free_again; i++) {
        kiln_test_sleep_ms(100);
        free_again = kiln_bus_probe(bus, KEY("control"), &err) == 0 &&
                     kiln_bus_probe(bus, KEY("events"), &err) == 0;
    }
    assert_true(free_again);
    control_is_heard();
    all_goes_on();
    /* Nobody saw the entry: it was removed before a scheduler began. */
    kiln_test_scheduler_kill(&scheduler);
    kiln_test_redis(stack, "DEL " KEY("control"));
    kiln_test_redis(stack, "XADD " KEY("control") " " LAST_ID " a b");
    kiln_test_redis(stack, "XDEL " KEY("control") " " LAST_ID);
    kiln_test_scheduler_start(&scheduler, stack, "b");
    for (int i = 0; i < 600 && kiln_bus_probe(bus, KEY("control"), &err) != 0; i++)
        kiln_test_sleep_ms(100);
    control_is_heard();
    all_goes_on();
}

static void ask(const char *token)
{
    struct kiln_control control = {.kind = KILN_CONTROL_ASK};
    snprintf(control.id, sizeof control.id, "%s", token);
    kiln_test_control(stack, &control);
}

static void an_answer_that_cannot_be_delivered_is_dropped(void **state)
{
    (void)state;
    char *answer = NULL;
    start_worker();
    kiln_test_redis(stack, "XADD " KEY("answer:q1") " * a b");
    kiln_test_redis(stack, "SET " KEY("answer:q2") " x");
    ask("q1");
    ask("q2");
    ask("q3");
    kiln_test_ok(kiln_bus_pop(bus, KEY("answer:q3"), 60000, &answer, &err), err);
    assert_non_null(answer);
    assert_non_null(strstr(answer, "\"groups\""));
    free(answer);
    control_is_empty();
    all_goes_on();
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "question_unanswered"), 1); /* of two */
}

/* --- workers --------------------------------------------------------------------------------- */
/* A worker that sends heartbeats and never reads: free for four jobs, always. */
static void beat_as(const char *name)
{
    static int64_t turn;
    char key[KILN_NAME_MAX * 2 + 32];
    struct kiln_heartbeat beat = {.version = KILN_WIRE_VERSION, .room = 2, .batch_max = 4};
    snprintf(beat.worker, sizeof(beat.worker), "%s", name);
    snprintf(beat.incarnation, sizeof(beat.incarnation), "f1");
    beat.sent_ms = ++turn;
    kiln_wire_key(key, sizeof(key), KILN_TEST_POOL, "beat", name);
    char *text = kiln_heartbeat_encode(&beat);
    kiln_test_ok(kiln_bus_heartbeat(bus, key, text, 3000, &err), err);
    free(text);
}

static void a_workers_stream_of_another_type_is_made_anew(void **state)
{
    (void)state;
    start_worker();
    all_goes_on();
    kiln_test_redis(stack, "SET " KEY("worker:w0") " x");
    all_goes_on();
    kiln_test_redis(stack, "DEL " KEY("worker:w0"));
    kiln_test_redis(stack, "XADD " KEY("worker:w0") " " LAST_ID " a b");
    all_goes_on();
}

/* The scheduler may not repair it: then nothing is assigned to that worker any more, attempts do
 * not climb, and others draw. */
static void a_worker_that_cannot_be_reached_costs_itself(void **state)
{
    (void)state;
    kiln_test_redis(stack, "ACL SETUSER default -del");
    kiln_test_redis(stack, "SET " KEY("worker:w-shut") " x");
    beat_as("w-shut");
    kiln_test_enqueue(stack, "b", "t", LINE, 0, 4, false);
    for (int i = 0; i < 50; i++) { /* five leases */
        beat_as("w-shut");
        kiln_test_sleep_ms(100);
    }
    long long attempts = kiln_test_count(stack, "SELECT max(attempt) FROM job");
    int away = kiln_test_scheduler_said(&scheduler, "bus_away");
    kiln_test_redis(stack, "ACL SETUSER default +del");
    printf("attempts in five leases: %lld\n", attempts);
    assert_in_range(attempts, 1, 2);
    assert_int_equal(away, 0);
    kiln_test_redis(stack, "DEL " KEY("beat:w-shut"));
    start_worker();
    assert_true(kiln_test_until(stack, "SELECT count(*) FROM job WHERE state = 2", 4, LIMIT_S));
    assert_int_equal(kiln_test_scheduler_said(&scheduler, " leading "), 1);
}

/* Beats under names that nobody stands behind, of the right type and of another. */
static void made_up_names_do_not_stop_the_leader(void **state)
{
    (void)state;
    char script[300];
    start_worker();
    all_goes_on();
    snprintf(script, sizeof script,
             "EVAL for\ni=1,%d\ndo\nredis.call('HSET','" KEY(
                 "beat:") "j'..i,'beat','x')\nend\nredis.call('SET','" KEY("beat:zz") "','x') 0",
             JUNK_BEATS);
    kiln_test_redis(stack, script);
    kiln_test_sleep_ms(1000);
    for (int i = 0; i < 3; i++)
        all_goes_on();
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "worker_lost"), 0);
    /* A name after all of them is found among them. */
    double since = kiln_test_now_s();
    while (!kiln_test_scheduler_said(&scheduler, "worker_joined worker=zebra") &&
           kiln_test_now_s() - since < 200) {
        beat_as("zebra");
        kiln_test_sleep_ms(200);
    }
    printf("found after %.1f s\n", kiln_test_now_s() - since);
    assert_true(kiln_test_scheduler_said(&scheduler, "worker_joined worker=zebra"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_message_that_cannot_be_obeyed_costs_itself),
        TEST(times_that_cannot_be_are_not_learned),
        TEST(every_order_of_many_entries_is_obeyed),
        TEST(an_entry_with_several_orders_is_refused_whole),
        TEST(an_order_to_drop_in_control_is_refused),
        TEST(its_streams_of_another_type_are_made_anew),
        TEST(a_stream_at_its_end_is_made_anew),
        TEST(an_answer_that_cannot_be_delivered_is_dropped),
        TEST(a_workers_stream_of_another_type_is_made_anew),
        TEST(a_worker_that_cannot_be_reached_costs_itself),
        TEST(made_up_names_do_not_stop_the_leader),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
