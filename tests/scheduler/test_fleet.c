/* test_fleet.c - what a scheduler and its workers know of each other: costs that are learned and
 * kept, work that is taken back for an idle worker, questions that are answered. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"
#include "tests/support/jobs.h"
#include "tests/support/scheduler_process.h"
#include "tests/support/worker_process.h"

#define LIMIT_S 60
#define LINE(width, height, words)                                                                 \
    "{\"prompt\":\"" words "\",\"width\":" #width ",\"height\":" #height ",\"steps\":2}"

static struct kiln_test_stack *stack;
static struct kiln_test_scheduler scheduler;
static struct kiln_test_worker workers[2];
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
    free(kiln_test_sql(stack, "SET client_min_messages = error; TRUNCATE batch, event CASCADE;"
                              " TRUNCATE cost"));
    memset(workers, 0, sizeof(workers));
    kiln_test_scheduler_start(&scheduler, stack, "a");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        kiln_test_worker_signal(&workers[i], SIGKILL);
        (void)kiln_test_worker_wait(&workers[i], 10);
    }
    if (scheduler.process.pid)
        kiln_test_scheduler_kill(&scheduler);
    return 0;
}

static bool count_is(const char *sql, long long wanted)
{
    return kiln_test_until(stack, sql, wanted, LIMIT_S);
}

static json_t *ask(uint64_t job, const char *token)
{
    struct kiln_control control = {.kind = KILN_CONTROL_ASK, .job = job};
    struct kiln_bus *bus = NULL;
    char key[256], *text = NULL;
    snprintf(control.id, sizeof(control.id), "%s", token);
    kiln_test_control(stack, &control);
    kiln_wire_key(key, sizeof(key), kiln_config_text(stack->config, KILN_KEY_POOL), "answer",
                  token);
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    kiln_test_ok(kiln_bus_pop(bus, key, LIMIT_S * 1000, &text, &err), err);
    kiln_bus_close(bus);
    assert_non_null(text);
    json_t *answer = json_loads(text, 0, NULL);
    free(text);
    assert_true(json_is_object(answer));
    return answer;
}

static long long number(const json_t *object, const char *key)
{
    return (long long)json_number_value(json_object_get(object, key));
}

/* --- costs ----------------------------------------------------------------------------------- */
/* What one scheduler has measured the next one knows before anything has run. */
static void learned_costs_outlive_the_scheduler(void **state)
{
    (void)state;
    kiln_test_worker_start(&workers[0], stack, "w0", NULL, true);
    kiln_test_enqueue(stack, "b", "t", LINE(64, 64, "a car @step_ms=300"), 0, 2, true);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 2", 2));
    assert_true(count_is("SELECT least(count(*), 1) FROM cost WHERE kind = 0 AND device <> ''"
                         " AND mean > 0.2",
                         1));
    assert_int_equal(kiln_test_scheduler_stop(&scheduler), 0);
    kiln_test_worker_signal(&workers[0], SIGKILL);
    (void)kiln_test_worker_wait(&workers[0], 10);
    kiln_test_scheduler_start(&scheduler, stack, "a");
    kiln_test_enqueue(stack, "c", "t2", LINE(64, 64, "one more car"), 0, 10, true);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 0", 10));
    json_t *answer = NULL;
    for (int i = 0; i < 50 && number(answer, "waiting") != 10; i++) {
        char token[16];
        json_decref(answer);
        snprintf(token, sizeof(token), "costs%d", i);
        answer = ask(0, token);
    }
    assert_int_equal(number(answer, "waiting"), 10);
    assert_true(json_number_value(json_object_get(answer, "backlog_s")) > 2);
    json_decref(answer);
}

/* Sends a heartbeat of a worker of this name. */
static void send_beat(struct kiln_bus *bus, struct kiln_heartbeat *beat, const char *name)
{
    char key[KILN_NAME_MAX * 2 + 32];
    snprintf(beat->worker, sizeof beat->worker, "%s", name);
    snprintf(beat->incarnation, sizeof beat->incarnation, "i-%s", name);
    beat->version = KILN_WIRE_VERSION;
    beat->batch_max = 1;
    kiln_wire_key(key, sizeof key, KILN_TEST_POOL, "beat", name);
    char *text = kiln_heartbeat_encode(beat);
    kiln_test_ok(kiln_bus_heartbeat(bus, key, text, 5000, &err), err);
    free(text);
}

/* The heartbeat that names an assignment no more may be read before the event of its end.  These
 * heartbeats have only what bus.md requires: no time tells them apart. */
static void an_end_that_the_heartbeat_told_first_is_learned(void **state)
{
    (void)state;
    struct kiln_heartbeat beat = {.held_count = 0};
    struct kiln_bus *bus = NULL;
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    kiln_test_enqueue(stack, "b", "t", LINE(64, 64, "a car"), 0, 1, true);
    for (int i = 0; i < 10 * LIMIT_S &&
                    kiln_test_count(stack, "SELECT count(*) FROM job WHERE state = 1") == 0;
         i++) {
        beat.room = i >= 15;
        send_beat(bus, &beat, "w0");
        kiln_test_sleep_ms(100);
    }
    char *assignment = kiln_test_sql(stack, "SELECT assignment FROM job WHERE state = 1");
    assert_non_null(assignment);
    beat = (struct kiln_heartbeat){.held_count = 1};
    snprintf(beat.held[0], sizeof beat.held[0], "%s", assignment);
    for (int i = 0; i < 40; i++) {
        beat.held_count = i < 33;
        send_beat(bus, &beat, "w0");
        kiln_test_sleep_ms(100);
    }
    struct kiln_event event = {.kind = KILN_EVENT_FINISHED, .compute_ms = 3500};
    snprintf(event.worker, sizeof event.worker, "w0");
    snprintf(event.assignment, sizeof event.assignment, "%s", assignment);
    free(assignment);
    char key[KILN_NAME_MAX * 2 + 32], *text = kiln_event_encode(&event);
    kiln_wire_key(key, sizeof key, KILN_TEST_POOL, "events", NULL);
    kiln_test_ok(kiln_bus_append(bus, key, 0, (const char *const[]){"event", text}, NULL, 1, &err),
                 err);
    free(text);
    assert_true(count_is("SELECT count(*) FROM cost WHERE kind = 0 AND mean > 3", 1));
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "times_unbelievable"), 0);
    kiln_bus_close(bus);
}

/* --- taking back ----------------------------------------------------------------------------- */
/* Two jobs of two sizes: the one behind the other at the only worker moves to the second worker as
 * soon as there is one, and is rendered once. */
static void work_ahead_moves_to_an_idle_worker(void **state)
{
    (void)state;
    static const char *const lines[2] = {LINE(64, 96, "a slow car @step_ms=1500"),
                                         LINE(96, 64, "a slow bus @step_ms=1500")};
    kiln_test_worker_start(&workers[0], stack, "w0", NULL, true);
    kiln_test_enqueue(stack, "teach", "t0", lines[0], 0, 1, false);
    kiln_test_enqueue(stack, "teach", "t0", lines[1], 1, 1, true);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 2", 2));
    kiln_test_enqueue(stack, "b", "t1", lines[0], 0, 1, false);
    kiln_test_enqueue(stack, "b", "t1", lines[1], 1, 1, true);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 1", 2));
    kiln_test_worker_start(&workers[1], stack, "w1", NULL, true);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 2", 4));
    assert_int_equal(kiln_test_scheduler_said(&scheduler, "taken_back"), 1);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM image"), 4);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM image WHERE worker = 'w1'"), 1);
    assert_int_equal(kiln_test_count(stack, "SELECT max(tries) FROM job"), 1);
    assert_int_equal(kiln_test_count(stack, "SELECT max(crashes) FROM job"), 0);
}

/* --- short assignments ----------------------------------------------------------------------- */
/* Batches of 50 ms: several lie ahead, so that the device need not wait for messages.  What a
 * worker gives back when it ends, unused, the next one draws. */
static void short_assignments_lie_ahead(void **state)
{
    (void)state;
    const char *line = LINE(64, 64, "a quick car @step_ms=25");
    kiln_test_worker_start(&workers[0], stack, "w0", NULL, true);
    kiln_test_enqueue(stack, "b", "t", line, 0, 200, true);
    assert_true(
        count_is("SELECT least(count(DISTINCT assignment), 6) FROM job WHERE state = 1", 6));
    assert_int_equal(kiln_test_worker_stop(&workers[0]), 0);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 1", 0));
    assert_in_range(kiln_test_count(stack, "SELECT count(*) FROM job WHERE state = 0"), 1, 199);
    kiln_test_worker_start(&workers[1], stack, "w1", NULL, true);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 2", 200));
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM image"), 200);
    assert_int_equal(kiln_test_count(stack, "SELECT max(tries) FROM job"), 1);
    assert_int_equal(kiln_test_count(stack, "SELECT max(crashes) FROM job"), 0);
}

/* --- crashes --------------------------------------------------------------------------------- */
enum { PLAYED = 12 };

/* Plays a worker that accepts nothing more and reports its progress. */
static void play(struct kiln_bus *bus, struct kiln_heartbeat *beat, const char *name)
{
    beat->sent_ms++;
    beat->held_count = PLAYED;
    for (int i = 0; i < PLAYED; i++)
        snprintf(beat->held[i], sizeof beat->held[i], "%s-%d", name, i);
    send_beat(bus, beat, name);
}

/* Its assignments in the ledger; the worker has read its stream. */
static void give(struct kiln_bus *bus, const char *name)
{
    char key[KILN_NAME_MAX * 2 + 32], assignment[KILN_NAME_MAX + 16];
    const struct kiln_job job = kiln_test_job("given");
    uint64_t ids[PLAYED];
    kiln_test_queue_jobs(stack, name, &job, PLAYED, ids);
    for (int i = 0; i < PLAYED; i++) {
        snprintf(assignment, sizeof assignment, "%s-%d", name, i);
        kiln_test_assign(stack, name, assignment, &ids[i], 1);
    }
    kiln_wire_key(key, sizeof key, KILN_TEST_POOL, "worker", name);
    kiln_test_ok(kiln_bus_delete(bus, key, &err), err);
}

/* The first `count` jobs of the batch were blamed, the others came back as if nothing had been. */
static void assert_blamed(const char *batch, int count)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT string_agg(crashes || '' || tries, ' ' ORDER BY j.id) FROM job j JOIN batch b"
             " ON b.id = j.batch_id WHERE b.name = '%s' AND state = 0",
             batch);
    char *got = kiln_test_sql(stack, sql), want[PLAYED * 3 + 1] = "";
    for (int i = 0; i < PLAYED; i++)
        snprintf(want + strlen(want), sizeof want - strlen(want), "%s%s", i ? " " : "",
                 i < count ? "11" : "00");
    assert_string_equal(got, want);
    free(got);
}

/* Of twelve assignments in flight at a worker that is lost only those are suspects that were
 * in its engine, on their way from there or next; all of an older worker's, which does not tell. */
static void a_crash_blames_what_was_near_the_engine(void **state)
{
    (void)state;
    static const char *const names[] = {"running", "between", "older"};
    struct kiln_heartbeat beats[] = {{.drawn = 2, .running = "running-3"},
                                     {.drawn = 2},
                                     {.running = "older-3", .places = KILN_HEARTBEAT_UNTOLD}};
    struct kiln_bus *bus = NULL;
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    for (int round = 0; round < 8; round++) {
        for (size_t i = 0; i < 3; i++)
            play(bus, &beats[i], names[i]);
        for (size_t i = 0; i < 3 && round == 2; i++)
            give(bus, names[i]);
        kiln_test_sleep_ms(150);
    }
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE state = 1"),
                     3 * PLAYED);
    assert_true(count_is("SELECT count(*) FROM job WHERE state = 0", 3 * PLAYED));
    assert_blamed("running", 4 + 3);
    assert_blamed("between", 3 + 3);
    assert_blamed("older", PLAYED);
    kiln_bus_close(bus);
}

/* --- a store that refuses -------------------------------------------------------------------- */
/* Both send heartbeats for a while. */
static void play_both(struct kiln_bus *bus, struct kiln_heartbeat *keeper,
                      struct kiln_heartbeat *other, const char *batch, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        play(bus, keeper, batch);
        play(bus, other, "other");
        kiln_test_sleep_ms(100);
    }
}

static int queued_of(const char *batch)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = '%s'"
             " AND state = 0 AND tries = 0 AND crashes = 0 AND not_before < now()",
             batch);
    return (int)kiln_test_count(stack, sql);
}

/* How many assignments the worker was told to drop. */
static size_t drops_for(struct kiln_bus *bus, const char *worker)
{
    struct kiln_bus_entries entries;
    char key[KILN_NAME_MAX * 2 + 32];
    const char *stream = key, *after = "0";
    size_t drops = 0;
    kiln_wire_key(key, sizeof key, KILN_TEST_POOL, "worker", worker);
    kiln_test_ok(kiln_bus_read(bus, &stream, &after, 1, 4 * PLAYED, 0, &entries, &err), err);
    for (size_t i = 0; i < entries.count; i++)
        drops += strstr(entries.at[i].fields[1], "\"drop\"") != NULL;
    return drops;
}

/* What a worker's store refuses goes to another worker, if one is able, and as no try: at once if
 * somebody has to repair the store, after ten seconds if it may be back by itself. */
static void what_a_store_refuses_goes_to_an_able_worker(void **state)
{
    (void)state;
    static const struct {
        const char *name, *code;
        uint32_t trouble_ms;
        const char *other_trouble, *other_model;
        int queued;
    } rows[] = {
        {"full", "full", 900, "", "m", PLAYED},
        {"denied", "denied", 900, "", "m", PLAYED},
        {"away", "unavailable", KILN_STORE_AWAY_MS, "", "m", PLAYED},
        {"silent", "timeout", KILN_STORE_AWAY_MS - 1, "", "m", 0},
        {"all", "full", 90000, "store", "m", 0},
        {"ledgerless", "full", 90000, "ledger", "m", 0},
        {"strange", "full", 90000, "", "another", 0},
    };
    struct kiln_bus *bus = NULL;
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *name = rows[i].name;
        struct kiln_heartbeat keeper = {.model = "m", .running = ""}, other = {.model = "m"};
        snprintf(other.model, sizeof other.model, "%s", rows[i].other_model);
        snprintf(other.trouble, sizeof other.trouble, "%s", rows[i].other_trouble);
        other.sent_ms = (int64_t)(i + 1) * 1000;
        play_both(bus, &keeper, &other, name, 3);
        give(bus, name);
        play_both(bus, &keeper, &other, name, 3);
        assert_int_equal(queued_of(name), 0);
        snprintf(keeper.trouble, sizeof keeper.trouble, "store");
        snprintf(keeper.trouble_code, sizeof keeper.trouble_code, "%s", rows[i].code);
        keeper.trouble_ms = rows[i].trouble_ms;
        for (int k = 0; k < 30 && queued_of(name) < rows[i].queued; k++)
            play_both(bus, &keeper, &other, name, 1);
        play_both(bus, &keeper, &other, name, rows[i].queued ? 0 : 15);
        assert_int_equal(queued_of(name), rows[i].queued);
        assert_true(drops_for(bus, name) >= (size_t)rows[i].queued);
        print_message("%s: %d jobs queued again\n", name, rows[i].queued);
    }
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM event WHERE reason ="
                                            " 'the store refuses the pictures of worker full'"),
                     PLAYED);
    kiln_bus_close(bus);
}

/* --- questions ------------------------------------------------------------------------------- */
static void questions_are_answered(void **state)
{
    (void)state;
    kiln_test_enqueue(stack, "b", "t", LINE(64, 64, "a car"), 0, 3, true);
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, 3);
    uint64_t first = (uint64_t)kiln_test_count(stack, "SELECT min(id) FROM job");
    json_t *answer = ask(first, "early");
    while (!json_is_true(json_object_get(answer, "waits"))) { /* the leader loads it in a moment */
        json_decref(answer);
        answer = ask(first, "again");
    }
    assert_string_equal(json_string_value(json_object_get(answer, "hold")), "no_worker");
    assert_true(json_is_null(json_object_get(answer, "start_s")));
    json_decref(answer);
    answer = ask(999999, "absent");
    assert_true(json_is_false(json_object_get(answer, "waits")));
    json_decref(answer);
    answer = ask(0, "groups");
    assert_int_equal(number(answer, "waiting"), 3);
    assert_int_equal(number(answer, "groups_total"), 1);
    const json_t *group = json_array_get(json_object_get(answer, "groups"), 0);
    assert_int_equal(number(group, "queued"), 3);
    assert_int_equal(number(group, "width"), 64);
    assert_true(json_number_value(json_object_get(group, "backlog_s")) > 0);
    json_decref(answer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(learned_costs_outlive_the_scheduler),
        TEST(work_ahead_moves_to_an_idle_worker),
        TEST(short_assignments_lie_ahead),
        TEST(an_end_that_the_heartbeat_told_first_is_learned),
        TEST(a_crash_blames_what_was_near_the_engine),
        TEST(what_a_store_refuses_goes_to_an_able_worker),
        TEST(questions_are_answered),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
