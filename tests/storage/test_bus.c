/* test_bus.c - streams, heartbeats and receipts through a real Redis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "tests/support/jobs.h"
#include "tests/support/stack.h"

static struct kiln_test_stack *stack;
static struct kiln_bus *bus;
static struct kiln_error err;

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

static void append(const char *stream, const char *value)
{
    const char *fields[2] = {"job", value};
    kiln_test_ok(kiln_bus_append(bus, stream, 0, fields, NULL, 1, &err), err);
}

static struct kiln_bus_entries read_new(const char *stream, uint32_t max, uint32_t block_ms)
{
    struct kiln_bus_entries got = {0};
    kiln_test_ok(kiln_bus_read_group(bus, stream, "g", "c", false, max, block_ms, &got, &err), err);
    return got;
}

static uint64_t length(const char *stream)
{
    uint64_t got = 999;
    kiln_test_ok(kiln_bus_length(bus, stream, &got, &err), err);
    return got;
}

static void an_entry_comes_out_as_it_went_in(void **state)
{
    (void)state;
    static const char bytes[] = "zero\0byte\r\n$5\r\n\xff";
    const char *fields[6] = {"batch", "b", "job", bytes, "", ""};
    size_t lengths[6] = {5, 1, 3, sizeof bytes - 1, 0, 0};
    kiln_test_ok(kiln_bus_append(bus, "exact", 0, fields, lengths, 3, &err), err);
    kiln_test_ok(kiln_bus_group(bus, "exact", "g", &err), err);
    kiln_test_ok(kiln_bus_group(bus, "exact", "g", &err), err); /* there already */
    struct kiln_bus_entries got = read_new("exact", 10, 0);
    assert_int_equal(got.count, 1);
    assert_string_equal(got.at->stream, "exact");
    assert_int_equal(got.at->field_count, 3);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(got.at->lengths[i], lengths[i]);
        assert_memory_equal(got.at->fields[i], fields[i], lengths[i]);
    }
}

static void acknowledged_entries_are_gone(void **state)
{
    (void)state;
    struct kiln_bus_entries got;
    kiln_test_ok(kiln_bus_group(bus, "acked", "g", &err), err);
    for (int i = 0; i < 5; i++)
        append("acked", "x");
    got = read_new("acked", 3, 0);
    assert_int_equal(got.count, 3);
    char ids[2][32];
    const char *acked[2] = {ids[0], ids[1]};
    for (int i = 0; i < 2; i++)
        snprintf(ids[i], sizeof ids[i], "%s", got.at[i].id);
    kiln_test_ok(kiln_bus_ack(bus, "acked", "g", acked, 2, &err), err);
    assert_int_equal(length("acked"), 3);
    kiln_test_ok(kiln_bus_read_group(bus, "acked", "g", "c", true, 10, 0, &got, &err), err);
    assert_int_equal(got.count, 1); /* the third, still ours */
    assert_int_equal(read_new("acked", 10, 0).count, 2);
    assert_int_equal(read_new("acked", 10, 0).count, 0);
    kiln_test_ok(kiln_bus_ack(bus, "acked", "g", NULL, 0, &err), err);
}

static void a_read_waits_as_long_as_asked(void **state)
{
    (void)state;
    struct kiln_bus_entries got;
    kiln_test_ok(kiln_bus_group(bus, "empty", "g", &err), err);
    int64_t start_ms = kiln_clock_ms();
    assert_int_equal(read_new("empty", 1, 200).count, 0);
    int64_t took = kiln_clock_ms() - start_ms;
    assert_true(took >= 180 && took < 60000);
    start_ms = kiln_clock_ms();
    assert_int_equal(read_new("empty", 1, 0).count, 0);
    kiln_test_ok(
        kiln_bus_read(bus, &(const char *){"empty"}, &(const char *){"$"}, 1, 5, 0, &got, &err),
        err);
    assert_int_equal(got.count, 0);
    assert_true(kiln_clock_ms() - start_ms < 60000);
}

static void entries_of_the_dead_are_claimed(void **state)
{
    (void)state;
    struct kiln_bus_entries got;
    kiln_test_ok(kiln_bus_group(bus, "claimed", "g", &err), err);
    for (int i = 0; i < 30; i++)
        append("claimed", "x");
    kiln_test_ok(kiln_bus_read_group(bus, "claimed", "g", "dead", false, 30, 0, &got, &err), err);
    assert_int_equal(got.count, 30);
    kiln_test_ok(kiln_bus_claim(bus, "claimed", "g", "c", 60000, 10, &got, &err), err);
    assert_int_equal(got.count, 0); /* not idle for long enough */
    size_t claimed = 0;
    do {
        kiln_test_ok(kiln_bus_claim(bus, "claimed", "g", "c", 0, 10, &got, &err), err);
        assert_string_equal(got.at->stream, "claimed");
        const char *ids[10];
        char copies[10][32];
        for (size_t i = 0; i < got.count; i++) {
            snprintf(copies[i], sizeof copies[i], "%s", got.at[i].id);
            ids[i] = copies[i];
        }
        claimed += got.count;
        kiln_test_ok(kiln_bus_ack(bus, "claimed", "g", ids, got.count, &err), err);
    } while (claimed < 30);
    kiln_test_ok(kiln_bus_claim(bus, "claimed", "g", "c", 0, 10, &got, &err), err);
    assert_int_equal(got.count, 0);
    kiln_test_ok(kiln_bus_claim(bus, "no such stream", "g", "c", 0, 10, &got, &err), err);
    assert_int_equal(got.count, 0);
}

static void a_deleted_pending_entry_has_no_fields(void **state)
{
    (void)state;
    struct kiln_bus_entries got;
    char id[32];
    kiln_test_ok(kiln_bus_group(bus, "hollow", "g", &err), err);
    append("hollow", "x");
    snprintf(id, sizeof id, "%s", read_new("hollow", 1, 0).at->id);
    kiln_test_ok(kiln_bus_delete_entry(bus, "hollow", id, &err), err);
    kiln_test_ok(kiln_bus_read_group(bus, "hollow", "g", "c", true, 10, 0, &got, &err), err);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.at->field_count, 0);
    assert_string_equal(got.at->id, id);
}

static void an_emptied_redis_gets_its_group_back(void **state)
{
    (void)state;
    kiln_test_ok(kiln_bus_group(bus, "flushed", "g", &err), err);
    append("flushed", "lost");
    kiln_test_flushall(stack);
    assert_int_equal(read_new("flushed", 1, 0).count, 0);
    kiln_test_flushall(stack);
    append("flushed", "not lost"); /* before anybody made the group again */
    struct kiln_bus_entries got = read_new("flushed", 1, 0);
    assert_int_equal(got.count, 1);
    assert_string_equal(got.at->fields[1], "not lost");
}

static void several_streams_are_read_after_their_ids(void **state)
{
    (void)state;
    struct kiln_bus_entries got;
    append("north", "n1");
    append("south", "s1");
    append("south", "s2");
    kiln_test_ok(kiln_bus_read(bus, (const char *const[]){"north", "south"},
                               (const char *const[]){"0", "0"}, 2, 10, 0, &got, &err),
                 err);
    assert_int_equal(got.count, 3);
    assert_string_equal(got.at[0].stream, "north");
    assert_string_equal(got.at[2].fields[1], "s2");
    char last[32];
    snprintf(last, sizeof last, "%s", got.at[1].id);
    kiln_test_ok(kiln_bus_read(bus, (const char *const[]){"south"}, (const char *const[]){last}, 1,
                               10, 100, &got, &err),
                 err);
    assert_int_equal(got.count, 1);
    assert_string_equal(got.at[0].fields[1], "s2");
}

static void a_capped_stream_stays_short(void **state)
{
    (void)state;
    const char *fields[2] = {"event", "x"};
    for (int i = 0; i < 1000; i++)
        kiln_test_ok(kiln_bus_append(bus, "capped", 100, fields, NULL, 1, &err), err);
    assert_true(length("capped") >= 100 && length("capped") <= 300);
}

/* Only a stream that can take nothing more and holds nothing any more is removed. */
static void an_exhausted_stream_is_removed_once_it_is_empty(void **state)
{
    (void)state;
    bool repaired = true;
    kiln_test_ok(kiln_bus_look(bus, "ends", &err), err);
    append("ends", "first");
    kiln_test_ok(kiln_bus_probe(bus, "ends", &err), err);
    kiln_test_redis(stack, "XADD ends 18446744073709551615-18446744073709551615 a b");
    assert_int_equal(kiln_bus_look(bus, "ends", &err), KILN_PROTOCOL);
    assert_int_equal(kiln_bus_refusal(bus), KILN_BUS_EXHAUSTED);
    kiln_test_ok(kiln_bus_repair(bus, "ends", true, &repaired, &err), err);
    assert_false(repaired); /* two entries are in it */
    assert_int_equal(length("ends"), 2);
    kiln_test_redis(stack, "XTRIM ends MAXLEN 0");
    assert_int_equal(kiln_bus_probe(bus, "ends", &err), KILN_PROTOCOL);
    kiln_test_ok(kiln_bus_repair(bus, "ends", true, &repaired, &err), err);
    assert_true(repaired);
    append("ends", "again");
    struct kiln_bus_entries entries;
    kiln_test_ok(kiln_bus_read_group(bus, "ends", "g", "c", false, 10, 10, &entries, &err), err);
    assert_int_equal(entries.count, 1);
    /* The connection watches nothing any longer: a transaction of it goes through. */
    append("ends", "more");
    kiln_test_ok(kiln_bus_push(bus, "ends-list", "x", 10, &err), err);
}

/* Somebody else has removed the key by then, and a client has appended to the new one. */
static void a_stream_that_is_good_again_is_not_removed(void **state)
{
    (void)state;
    static const char *const damaged[] = {
        "SET race x", "XADD race 18446744073709551615-18446744073709551615 a b"};
    for (size_t i = 0; i < 2; i++) {
        bool repaired = true;
        kiln_test_redis(stack, damaged[i]);
        assert_int_equal(kiln_bus_probe(bus, "race", &err), KILN_PROTOCOL);
        kiln_test_redis(stack, "DEL race");
        kiln_test_redis(stack, "XADD race * batch b");
        kiln_test_ok(kiln_bus_repair(bus, "race", true, &repaired, &err), err);
        assert_false(repaired);
        assert_int_equal(length("race"), 1);
        kiln_test_redis(stack, "DEL race");
    }
}

static void appends_in_flight_all_arrive_in_order(void **state)
{
    (void)state;
    char text[512];
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 20000; i++) {
        const char *fields[2] = {"job", text};
        size_t lengths[2] = {3, sizeof text};
        snprintf(text, 16, "%d", i);
        kiln_test_ok(kiln_bus_append_async(bus, "many", fields, lengths, 1, &err), err);
    }
    kiln_test_ok(kiln_bus_flush(bus, &err), err);
    assert_int_equal(length("many"), 20000);
    const char *after = "0";
    char last[32];
    for (int i = 0; i < 20000;) {
        struct kiln_bus_entries got;
        kiln_test_ok(
            kiln_bus_read(bus, (const char *const[]){"many"}, &after, 1, 5000, 0, &got, &err), err);
        assert_int_equal(got.count, 5000);
        for (size_t j = 0; j < got.count; j++)
            assert_int_equal(atoi(got.at[j].fields[1]), i++);
        snprintf(last, sizeof last, "%s", got.at[got.count - 1].id);
        after = last;
    }
}

/* Several appends unanswered when another call is made on the same bus. */
static void other_calls_fit_between_appends(void **state)
{
    (void)state;
    const char *fields[2] = {"job", "x"};
    for (int i = 0; i < 10; i++) {
        kiln_test_ok(kiln_bus_append_async(bus, "between", fields, NULL, 1, &err), err);
        kiln_test_ok(kiln_bus_append_async(bus, "between", fields, NULL, 1, &err), err);
        assert_int_equal(length("between"), 2 * (i + 1));
    }
    kiln_test_ok(kiln_bus_flush(bus, &err), err);
    kiln_test_ok(kiln_bus_flush(bus, &err), err); /* nothing in flight */
}

/* --- heartbeats and receipts ----------------------------------------------------------------- */

struct seen {
    int count;
    char last[64], beat[64];
};

static int see(void *arg, const char *worker, const char *beat, size_t len)
{
    struct seen *seen = arg;
    seen->count++;
    snprintf(seen->last, sizeof seen->last, "%s", worker);
    snprintf(seen->beat, sizeof seen->beat, "%.*s", (int)len, beat);
    return 0;
}

static int stop_at_once(void *arg, const char *worker, const char *beat, size_t len)
{
    (void)worker;
    (void)beat;
    (void)len;
    ++*(int *)arg;
    return KILN_FULL;
}

static void beats_are_seen_until_they_expire(void **state)
{
    (void)state;
    struct seen seen = {0};
    char key[128];
    for (int i = 0; i < 50; i++) {
        char worker[16];
        snprintf(worker, sizeof worker, "w%d", i);
        kiln_wire_key(key, sizeof key, "pool", "beat", worker);
        kiln_test_ok(kiln_bus_heartbeat(bus, key, "old", 60000, &err), err);
        kiln_test_ok(kiln_bus_heartbeat(bus, key, "{\"room\":1}", i < 49 ? 60000 : 1, &err), err);
    }
    kiln_wire_key(key, sizeof key, "other", "beat", "w99");
    kiln_test_ok(kiln_bus_heartbeat(bus, key, "x", 60000, &err), err);
    kiln_wire_key(key, sizeof key, "pool", "beat", "odd");
    char command[160];
    snprintf(command, sizeof command, "SET %s string", key); /* nobody's beat */
    kiln_test_redis(stack, command);
    int64_t until = kiln_clock_ms() + 20;
    while (kiln_clock_ms() < until)
        ;
    kiln_test_ok(kiln_bus_heartbeats(bus, "pool", NULL, see, &seen, &err), err);
    assert_int_equal(seen.count, 49);
    assert_string_equal(seen.beat, "{\"room\":1}");
    assert_true(seen.last[0] == 'w');
    int calls = 0;
    assert_int_equal(kiln_bus_heartbeats(bus, "pool", NULL, stop_at_once, &calls, &err), KILN_FULL);
    assert_int_equal(calls, 1);
    kiln_test_ok(kiln_bus_ping(bus, &err), err); /* the connection is still in step */
    kiln_wire_key(key, sizeof key, "pool", "beat", "w0");
    kiln_test_ok(kiln_bus_delete(bus, key, &err), err);
    seen.count = 0;
    kiln_test_ok(kiln_bus_heartbeats(bus, "pool", NULL, see, &seen, &err), err);
    assert_int_equal(seen.count, 48);
    seen.count = 0;
    kiln_test_ok(kiln_bus_heartbeats(bus, "nobody", NULL, see, &seen, &err), err);
    assert_int_equal(seen.count, 0);
}

static void a_receipt_is_taken_once(void **state)
{
    (void)state;
    char *value = NULL;
    kiln_test_ok(kiln_bus_push(bus, "receipt", "{\"accepted\":3}", 60, &err), err);
    kiln_test_ok(kiln_bus_pop(bus, "receipt", 1000, &value, &err), err);
    assert_string_equal(value, "{\"accepted\":3}");
    free(value);
    int64_t start_ms = kiln_clock_ms();
    kiln_test_ok(kiln_bus_pop(bus, "receipt", 120, &value, &err), err);
    assert_null(value);
    assert_true(kiln_clock_ms() - start_ms >= 100);
    kiln_test_ok(kiln_bus_pop(bus, "receipt", 0, &value, &err), err);
    assert_null(value);
    kiln_test_ok(kiln_bus_push(bus, "receipt", "y", 60, &err), err);
    kiln_test_ok(kiln_bus_pop(bus, "receipt", 0, &value, &err), err);
    assert_string_equal(value, "y");
    free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_comes_out_as_it_went_in),
        cmocka_unit_test(acknowledged_entries_are_gone),
        cmocka_unit_test(a_read_waits_as_long_as_asked),
        cmocka_unit_test(entries_of_the_dead_are_claimed),
        cmocka_unit_test(a_deleted_pending_entry_has_no_fields),
        cmocka_unit_test(an_emptied_redis_gets_its_group_back),
        cmocka_unit_test(several_streams_are_read_after_their_ids),
        cmocka_unit_test(a_capped_stream_stays_short),
        cmocka_unit_test(an_exhausted_stream_is_removed_once_it_is_empty),
        cmocka_unit_test(a_stream_that_is_good_again_is_not_removed),
        cmocka_unit_test(appends_in_flight_all_arrive_in_order),
        cmocka_unit_test(other_calls_fit_between_appends),
        cmocka_unit_test(beats_are_seen_until_they_expire),
        cmocka_unit_test(a_receipt_is_taken_once),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
