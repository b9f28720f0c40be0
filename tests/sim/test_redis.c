/* test_redis.c - the Redis in memory against a real one: the same random commands through
 * storage/bus/bus.h and on redis.c, every answer compared.
 *
 * Ids of entries are made by the server, so entries are compared by what they carry; an id that one
 * side gave is used on that side alone.  Nothing here waits for an expiry: that is a comparison of
 * two numbers, which one test of its own makes with a heartbeat that lives for a moment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "storage/bus/bus.h"
#include "tests/sim/redis.h"
#include "tests/support/random.h"
#include "tests/support/stack.h"
#include "tests/support/worker_process.h"

#define COMMANDS 3000
#define KNOWN 64 /* entries whose ids are remembered */
#define STREAM "kiln:{p}:intake"
#define LIST "kiln:{p}:receipt:t"
#define BEAT "kiln:{p}:beat:w0"

static struct kiln_test_stack *stack;
static struct kiln_bus *bus;
static struct kiln_error err;
static struct test_random rng;
static struct sim_redis mine;

static struct {
    char real[48];
    struct sim_id mine;
} known[KNOWN];
static uint32_t known_count;

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS);
    return kiln_bus_open(stack->config, &bus, &err);
}

static int stop(void **state)
{
    (void)state;
    kiln_bus_close(bus);
    kiln_test_stack_stop(stack);
    return 0;
}

static void ok(int rc)
{
    if (rc != 0)
        fail_msg("%s: %s", kiln_code_name(rc), err.text);
}

static uint32_t below(uint32_t bound)
{
    return test_random_below(&rng, bound);
}

/* Any growing number will do for the model: ids are not compared. */
static int64_t tick(void)
{
    static int64_t now_ms = 1000;
    return now_ms += below(3);
}

static const char *consumer(void)
{
    return below(3) ? "leader" : "other";
}

/* The same entries with the same fields in the same order; their ids are remembered. */
static void compare(const struct kiln_bus_entries *real, struct sim_entry *const *entries,
                    size_t count)
{
    assert_int_equal(real->count, count);
    for (size_t i = 0; i < count; i++) {
        size_t fields = entries[i]->deleted ? 0 : entries[i]->field_count;
        assert_int_equal(real->at[i].field_count, fields);
        for (size_t f = 0; f < 2 * fields; f++)
            assert_string_equal(real->at[i].fields[f], entries[i]->texts[f]);
        uint32_t at = known_count++ % KNOWN;
        snprintf(known[at].real, sizeof known[at].real, "%s", real->at[i].id);
        known[at].mine = entries[i]->id;
    }
}

/* --- commands -------------------------------------------------------------------------------- */
static void append(void)
{
    static unsigned number;
    char value[32];
    snprintf(value, sizeof value, "v%u", number++);
    const char *fields[4] = {"a", value, "b", "x"};
    const size_t lengths[4] = {1, strlen(value), 1, 1};
    size_t count = 1 + below(2);
    ok(kiln_bus_append(bus, STREAM, 0, fields, lengths, count, &err));
    sim_redis_add(&mine, STREAM, 0, fields, lengths, count, tick());
}

static void read_plain(void)
{
    struct kiln_bus_entries real = {0};
    struct sim_entry *entries[8];
    const char *stream = STREAM, *after = "0";
    struct sim_id from = {0, 0};
    uint32_t which = below(KNOWN);
    if (known_count > KNOWN && below(2)) {
        after = known[which].real;
        from = known[which].mine;
    }
    ok(kiln_bus_read(bus, &stream, &after, 1, 8, 0, &real, &err));
    compare(&real, entries, sim_redis_read(&mine, STREAM, from, 8, entries));
}

static void read_group(void)
{
    struct kiln_bus_entries real = {0};
    struct sim_entry *entries[5];
    const char *who = consumer();
    bool pending = below(2);
    ok(kiln_bus_read_group(bus, STREAM, "scheduler", who, pending, 5, 0, &real, &err));
    int64_t count = sim_redis_read_group(&mine, STREAM, who, pending, 5, tick(), entries);
    if (count < 0) { /* the bus makes the group and asks again */
        sim_redis_group(&mine, STREAM);
        count = sim_redis_read_group(&mine, STREAM, who, pending, 5, tick(), entries);
    }
    compare(&real, entries, (size_t)count);
}

static void claim(void)
{
    struct kiln_bus_entries real = {0};
    struct sim_entry *entries[5];
    const char *who = consumer();
    ok(kiln_bus_claim(bus, STREAM, "scheduler", who, 0, 5, &real, &err));
    int64_t count = sim_redis_claim(&mine, STREAM, who, 0, 5, tick(), entries);
    if (count < 0) {
        sim_redis_group(&mine, STREAM);
        count = 0;
    }
    compare(&real, entries, (size_t)count);
}

static void acknowledge(void)
{
    uint32_t which = below(KNOWN);
    const char *id = known[which].real;
    if (known_count <= KNOWN)
        return;
    ok(kiln_bus_ack(bus, STREAM, "scheduler", &id, 1, &err));
    sim_redis_delete_entry(&mine, STREAM, known[which].mine);
    sim_redis_ack(&mine, STREAM, known[which].mine);
}

static void delete_entry(void)
{
    uint32_t which = below(KNOWN);
    if (known_count <= KNOWN)
        return;
    ok(kiln_bus_delete_entry(bus, STREAM, known[which].real, &err));
    sim_redis_delete_entry(&mine, STREAM, known[which].mine);
}

static void measure(void)
{
    struct sim_entry *entries[4096];
    uint64_t length = 0;
    ok(kiln_bus_length(bus, STREAM, &length, &err));
    assert_int_equal(length, sim_redis_read(&mine, STREAM, (struct sim_id){0, 0}, 4096, entries));
}

static void push_and_pop(void)
{
    char value[16], *real = NULL;
    snprintf(value, sizeof value, "r%u", below(1000));
    if (below(2)) {
        ok(kiln_bus_push(bus, LIST, value, 300, &err));
        sim_redis_push(&mine, LIST, value, INT64_MAX);
    } else {
        ok(kiln_bus_pop(bus, LIST, 0, &real, &err));
        char *text = sim_redis_pop(&mine, LIST, tick());
        assert_int_equal(real == NULL, text == NULL);
        if (text)
            assert_string_equal(real, text);
        free(real);
        free(text);
    }
}

/* Everything, or the stream alone: it and its group are gone. */
static void empty(void)
{
    if (below(20) > 0)
        return;
    if (below(2)) {
        kiln_test_flushall(stack);
        sim_redis_flush(&mine);
    } else {
        ok(kiln_bus_delete(bus, STREAM, &err));
        sim_redis_delete(&mine, STREAM);
    }
    known_count = 0; /* ids of another stream; a real one may give them again */
}

static void the_model_answers_as_redis_does(void **state)
{
    (void)state;
    static void (*const commands[])(void) = {
        append,      append,      append,       read_plain, read_group,   read_group, claim,
        acknowledge, acknowledge, delete_entry, measure,    push_and_pop, empty};
    rng.state = 7;
    for (int i = 0; i < COMMANDS; i++)
        commands[below(sizeof commands / sizeof *commands)]();
    sim_redis_flush(&mine);
}

static int count_beat(void *arg, const char *worker, const char *beat, size_t len)
{
    assert_string_equal(worker, "w0");
    assert_int_equal(len, strlen(beat));
    (*(int *)arg)++;
    return 0;
}

static int beats(void)
{
    int count = 0;
    ok(kiln_bus_heartbeats(bus, "p", NULL, count_beat, &count, &err));
    return count;
}

static void a_beat_ends_with_its_time(void **state)
{
    (void)state;
    ok(kiln_bus_heartbeat(bus, BEAT, "{}", 300, &err));
    sim_redis_set(&mine, BEAT, "{}", 1300);
    assert_int_equal(beats(), 1);
    assert_string_equal(sim_redis_get(&mine, BEAT, 1299), "{}");
    for (int64_t until = kiln_clock_ms() + 60000; beats() > 0 && kiln_clock_ms() < until;)
        kiln_test_sleep_ms(50);
    assert_int_equal(beats(), 0);
    assert_null(sim_redis_get(&mine, BEAT, 1300));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_answers_as_redis_does),
        cmocka_unit_test(a_beat_ends_with_its_time),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
