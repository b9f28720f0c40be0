/* test_intake_hostile.c - what any Redis client may send: each bad entry costs itself, and what was
 * sent behind it comes in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "schemas/job/line.h"
#include "storage/ledger/queue/insert.h"
#include "tests/scheduler/intake_rig.h"

/* Steps like the scheduler, whatever the steps say, until the stream is empty. */
static uint64_t take_whatever(void)
{
    uint64_t total = 0;
    for (int i = 0; i < 40; i++) {
        uint64_t inserted = 0;
        (void)!kiln_intake_step(intake, 5, &inserted, &err);
        total += inserted;
    }
    return total;
}

/* A line as a client sends it that leaves the index to us. */
static void send_line(const char *line, const char *token)
{
    const char *const fields[] = {"batch", "b", "job", line, "token", token};
    kiln_test_append(stack, fields, 3);
}

static void end_call(const char *token, const char *announced)
{
    const char *const fields[] = {"batch", "b", "token", token, "end", announced};
    kiln_test_append(stack, fields, 3);
}

/* --- lines without an index --------------------------------------------------------------------
 */
static void every_bad_value_is_refused_with_its_batch(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\"steps\":100",
        "\"steps\":\"8\"",
        "\"steps\":1e400",
        "\"steps\":9223372036854775808",
        "\"guidance\":99",
        "\"guidance\":NaN",
        "\"kind\":\"x\"",
        "\"tenant\":\"a b\"",
        "\"tenant\":\"\"",
        "\"tenant\":\"\\ud800\"",
        "\"tenant\":\"市场部门创意设计与品牌推广小组\"",
        "\"tenant\":\"市场部门创意设计与品牌推广小组市场部门创意设计与品牌推广小组\"",
        "\"custom_id\":\"\"",
        "\"custom_id\":\"a\\u0001b\"",
        "\"custom_id\":\"\\u0000\"",
        "\"model\":\"../x\"",
        "\"loras\":[{\"name\":\"ink\"},{\"name\":\"ink\"}]",
        "\"loras\":{}",
        "\"priority\":11",
        "\"max_wait_s\":-1",
        "\"embed_metadata\":1",
        "\"latents\":\"none\",\"kind\":\"latent-cache\"",
        "\"sigmas\":\"many\"",
        "\"negative_prompt\":7",
        "\"size\":\"十六比九十六比九十六比九十六比九\"",
        "\"某某某某某某某某某某某某某某某某某某某某某某某某\":1",
        "\"style\":\"水彩水彩水彩水彩水彩水彩水彩水彩水彩\"",
        "\"width\":257,\"height\":256",
        "\"count\":0",
        "\"seed\":-1",
    };
    size_t count = sizeof bad / sizeof *bad;
    char announced[16];
    for (size_t i = 0; i < count; i++) {
        char line[512];
        snprintf(line, sizeof line, "{\"prompt\":\"a cat\",%s}", bad[i]);
        send_line(line, "t");
    }
    send_line(LINE, "t");
    snprintf(announced, sizeof announced, "%zu", count + 1);
    end_call("t", announced);
    assert_int_equal(take_whatever(), 1);
    struct kiln_receipt receipt = kiln_test_receipt(stack, "t");
    assert_int_equal(receipt.accepted, 1);
    assert_int_equal(receipt.refused, count);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM intake_refusal r JOIN batch b"
                                            " ON b.id = r.batch_id WHERE b.name = 'b'"),
                     count);
    stream_is_empty();
}

/* A cut in mid-character must not travel: the limit of what is shown meets every byte of one. */
static void sentences_are_cut_between_characters(void **state)
{
    (void)state;
    static const char *const keys[] = {"tenant", "size", "style", "custom_id", "model", "kind"};
    size_t sent = 0;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (int before = 0; before < 4; before++, sent += 2) {
            char line[1024], text[400] = "";
            for (int i = 0; i < 30; i++)
                strcat(text, "\xf0\x9f\x90\x99");
            snprintf(line, sizeof line, "{\"prompt\":\"a\",\"%s\":[\"%.*s%s\"]}", keys[k], before,
                     "abc", text);
            send_line(line, "t");
            snprintf(line, sizeof line, "{\"prompt\":\"a\",\"%.*s%s\":1}", before, "abc", text);
            send_line(line, "t");
        }
    send_line(LINE, "t");
    assert_int_equal(take_whatever(), 1);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM intake_refusal"), sent);
    stream_is_empty();
}

/* --- what the ledger itself refuses ------------------------------------------------------------
 */
/* The value of a field of the newest entry set aside, "" without one; free it. */
static char *aside(const char *name)
{
    struct kiln_bus *bus = NULL;
    struct kiln_bus_entries entries = {0};
    const char *stream = "kiln:{default}:refused", *after = "0";
    char *value = strdup("");
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    kiln_test_ok(kiln_bus_read(bus, &stream, &after, 1, 1000, 0, &entries, &err), err);
    for (size_t i = 0; entries.count && i < entries.at[entries.count - 1].field_count; i++) {
        const char *const *fields = entries.at[entries.count - 1].fields;
        if (strcmp(fields[2 * i], name) == 0) {
            free(value);
            value = strdup(fields[2 * i + 1]);
        }
    }
    kiln_bus_close(bus);
    return value;
}

static void aside_is(const char *name, const char *wanted)
{
    char *value = aside(name);
    if (!strstr(value, wanted))
        fail_msg("%s is \"%s\" and not \"%s\"", name, value, wanted);
    free(value);
}

/* Rows that a database of somebody else's making does not take, each for a reason of its own. */
static void forbid(void)
{
    free(kiln_test_sql(stack, "CREATE OR REPLACE FUNCTION forbid() RETURNS trigger LANGUAGE plpgsql"
                              " AS $$ BEGIN"
                              " IF NEW.prompt = 'raise' THEN RAISE EXCEPTION 'not here'; END IF;"
                              " IF NEW.prompt = 'divide' THEN NEW.steps := 1 / 0; END IF;"
                              " RETURN NEW; END $$;"
                              "CREATE TRIGGER forbid BEFORE INSERT ON job FOR EACH ROW"
                              " EXECUTE FUNCTION forbid()"));
}

static void allow(void)
{
    free(kiln_test_sql(stack, "DROP TRIGGER forbid ON job"));
}

static void a_page_is_halved_until_the_bad_ones_are_alone(void **state)
{
    (void)state;
    static const char *const bad[] = {"{\"prompt\":\"raise\"}", "{\"prompt\":\"divide\"}"};
    forbid();
    for (int i = 0; i < 2; i++) {
        kiln_test_enqueue(stack, "b", "t", LINE, (size_t)i * 100, 50, false);
        send_line(bad[i], "t");
        kiln_test_enqueue(stack, "b", "t", LINE, (size_t)i * 100 + 50, 50, false);
    }
    end_call("t", "202");
    assert_int_equal(take_whatever(), 200);
    struct kiln_receipt receipt = kiln_test_receipt(stack, "t");
    assert_int_equal(receipt.accepted, 200);
    assert_int_equal(receipt.refused, 2);
    assert_int_equal(counts().set_aside, 2);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM intake_refusal"
                                            " WHERE reason ~ 'not here|division by zero'"),
                     2);
    stream_is_empty();
    aside_is("job", bad[1]);
    aside_is("batch", "b");
    aside_is("token", "t");
    aside_is("reason", "division by zero");
    allow();
}

static void a_refusal_that_the_ledger_refuses_is_set_aside(void **state)
{
    (void)state;
    free(kiln_test_sql(stack, "ALTER TABLE intake_refusal ADD CONSTRAINT short"
                              " CHECK (length(reason) < 10)"));
    send_line("{\"prompt\":7}", "t");
    send_line(LINE, "t");
    end_call("t", "2");
    assert_int_equal(take_whatever(), 1);
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, 1);
    stream_is_empty();
    aside_is("reason", "prompt is 7");
    free(kiln_test_sql(stack, "ALTER TABLE intake_refusal DROP CONSTRAINT short"));
}

static void what_names_no_batch_is_set_aside(void **state)
{
    (void)state;
    const char *const fields[] = {"job", "{\"prompt\":\"lost\"}", "batch", "a b"};
    kiln_test_append(stack, fields, 2);
    send_line(LINE, "t");
    assert_int_equal(take_whatever(), 1);
    assert_int_equal(counts().set_aside, 1);
    aside_is("job", "lost");
    aside_is("reason", "field \"batch\"");
    stream_is_empty();
}

/* --- keys of another type ----------------------------------------------------------------------
 */
static void a_receipt_that_cannot_be_delivered_is_dropped(void **state)
{
    (void)state;
    kiln_test_redis(stack, "XADD kiln:{default}:receipt:t1 * a b");
    kiln_test_redis(stack, "SET kiln:{default}:receipt:t2 x");
    for (int i = 1; i <= 3; i++) {
        char token[8];
        snprintf(token, sizeof token, "t%d", i);
        send_line(LINE, token);
        end_call(token, "1");
    }
    assert_int_equal(take_whatever(), 3);
    assert_int_equal(kiln_test_receipt(stack, "t3").accepted, 1);
    stream_is_empty();
}

static void nor_does_the_stream_of_refused_entries_hold_anything_up(void **state)
{
    (void)state;
    const char *const fields[] = {"hello", "world"};
    kiln_test_redis(stack, "SET kiln:{default}:refused x");
    kiln_test_append(stack, fields, 1);
    send_line(LINE, "t");
    assert_int_equal(take_whatever(), 1);
    stream_is_empty();
}

/* At the end of its ids as well; the entry that comes then is the first of the new stream. */
static void a_damaged_stream_of_refused_entries_is_made_anew(void **state)
{
    (void)state;
    static const char *const damaged[] = {
        "SET kiln:{default}:refused x",
        "XADD kiln:{default}:refused 18446744073709551615-18446744073709551615 a b"};
    const char *const fields[] = {"hello", "world"};
    struct kiln_bus *bus = NULL;
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        uint64_t length = 0;
        (void)take_whatever();
        kiln_test_redis(stack, "DEL kiln:{default}:refused");
        kiln_test_redis(stack, damaged[i]);
        kiln_test_append(stack, fields, 1);
        (void)take_whatever();
        kiln_test_ok(kiln_bus_length(bus, "kiln:{default}:refused", &length, &err), err);
        assert_int_equal(length, 1);
        stream_is_empty();
    }
    kiln_bus_close(bus);
}

/* --- a Redis without room ----------------------------------------------------------------------
 */
/* Fills Redis by the intake stream alone; how many jobs it took. */
static size_t fill_redis(void)
{
    struct kiln_bus *bus = NULL;
    char line[2048], text[1800];
    size_t count = 0;
    memset(text, 'x', sizeof(text));
    snprintf(line, sizeof line, "{\"prompt\":\"%.1700s\"}", text);
    const char *const job[] = {"batch", "b", "job", line, "token", "t"};
    const char *const end[] = {"batch", "b", "token", "t", "end", "1"};
    const char *const lost[] = {"job", line};
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    kiln_test_ok(kiln_bus_append(bus, "kiln:{default}:intake", 0, lost, NULL, 1, &err), err);
    kiln_test_ok(kiln_bus_append(bus, "kiln:{default}:intake", 0, end, NULL, 3, &err), err);
    while (kiln_bus_append(bus, "kiln:{default}:intake", 0, job, NULL, 3, &err) == 0)
        count++;
    assert_int_equal(err.code, KILN_FULL);
    kiln_bus_close(bus);
    return count;
}

static void set_maxmemory(size_t bytes)
{
    char command[64];
    kiln_test_redis(stack, "CONFIG SET maxmemory-policy noeviction");
    snprintf(command, sizeof command, "CONFIG SET maxmemory %zu", bytes);
    kiln_test_redis(stack, command);
}

/* Nobody else makes room in it.  first: no group was ever made, and none can be made now. */
static void drains(bool first)
{
    enum { ROOM = 8 * 1024 * 1024 };
    uint64_t inserted = 0, total = 0;
    if (!first)
        kiln_test_ok(kiln_intake_step(intake, 1, &inserted, &err), err);
    set_maxmemory(ROOM);
    size_t count = fill_redis();
    assert_true(count > 500);
    set_maxmemory(ROOM / 2); /* no receipt and no dead letter fits, until half of it is taken in */
    for (int i = 0; i < 200 && total < count; i++) {
        kiln_test_ok(kiln_intake_step(intake, 5, &inserted, &err), err);
        total += inserted;
    }
    set_maxmemory(0);
    assert_int_equal(total, count);
    assert_int_equal(take_whatever(), 0);
    stream_is_empty();
}

static void a_redis_that_the_intake_filled_drains(void **state)
{
    (void)state;
    drains(false);
}

static void so_does_one_that_was_full_before_a_scheduler_came(void **state)
{
    (void)state;
    drains(true);
}

/* --- the index ---------------------------------------------------------------------------------
 */
static void send_with_index(const char *key, const char *index)
{
    const char *const fields[] = {"batch", "b", "job", LINE, "key", key, "index", index};
    kiln_test_append(stack, fields, index ? 4 : 3);
}

static void no_two_jobs_have_one_index(void **state)
{
    (void)state;
    send_with_index("k0", "0");
    send_with_index("k1", NULL);
    send_with_index("k2", "1");
    assert_int_equal(take_whatever(), 3); /* one page */
    assert_int_equal(kiln_test_count(stack, "SELECT index FROM job WHERE key = 'k2'"), 1);
    send_with_index("k3", "1"); /* k2 has it */
    send_with_index("k4", "9");
    send_with_index("k5", "9");
    send_with_index("k6", NULL);
    send_with_index("k4", "9"); /* delivered twice */
    assert_int_equal(take_whatever(), 4);
    assert_int_equal(kiln_test_count(stack, "SELECT index FROM job WHERE key = 'k4'"), 9);
    assert_int_equal(kiln_test_count(stack, "SELECT count(DISTINCT index) FROM job"), 7);
    assert_int_equal(kiln_test_count(stack, "SELECT count(DISTINCT seed) FROM job"), 7);
}

/* The entries of another batch between them change nothing: one page, one numbering. */
static void batches_may_alternate_in_a_page(void **state)
{
    (void)state;
    const char *const other[] = {"batch", "other", "job", LINE};
    send_with_index("k0", "3");
    kiln_test_append(stack, other, 2);
    send_with_index("k1", "3");
    kiln_test_append(stack, other, 2);
    send_with_index("k2", NULL);
    assert_int_equal(take_whatever(), 5);
    assert_int_equal(kiln_test_count(stack, "SELECT count(DISTINCT (batch_id, index)) FROM job"),
                     5);
    assert_int_equal(kiln_test_count(stack, "SELECT index FROM job WHERE key = 'k0'"), 3);
}

/* The seed of a line without one follows from its key, whatever index its job gets. */
static void the_seed_follows_the_key(void **state)
{
    (void)state;
    send_with_index("k0", "5");
    send_with_index("k1", "5");
    assert_int_equal(take_whatever(), 2);
    char sql[200];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job WHERE key = 'k1' AND index = 0 AND seed = %llu",
             (unsigned long long)kiln_seed_derive("b", "k1"));
    assert_int_equal(kiln_test_count(stack, sql), 1);
}

/* Neither those before it in its page, nor those behind it, then and later. */
static void one_wish_fills_no_batch(void **state)
{
    (void)state;
    send_line(LINE, "t");
    send_with_index("k0", "4294967295");
    send_with_index("k1", "4294967295");
    send_line(LINE, "t");
    end_call("t", "2");
    assert_int_equal(take_whatever(), 4);
    send_with_index("k0", "4294967295"); /* delivered twice */
    send_with_index("k2", "4294967295");
    send_with_index("k3", NULL);
    assert_int_equal(take_whatever(), 2);
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, 2);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM intake_refusal"), 0);
    assert_int_equal(kiln_test_count(stack, "SELECT count(DISTINCT index) FROM job"), 6);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE index < 5"), 5);
    stream_is_empty();
}

/* Jobs of the batch b, with each index that the query gives. */
static void occupy(const char *indexes)
{
    char sql[1000];
    snprintf(sql, sizeof sql,
             "INSERT INTO job (batch_id, seed, guidance, index, width, height, steps, max_wait_s,"
             " priority, kind, latents, teleport, embed_metadata, lora_auto, pool, key, token,"
             " prompt, negative_prompt, tenant, model, loras, lora_set)"
             " SELECT (SELECT id FROM batch WHERE name = 'b'), 0, 0, i, 256, 256, 8, 0, 0, 0, 0, 0,"
             " false, false, 'default', 'i' || i, '', '', '', 'x', '', '[]', '' FROM (%s) AS t (i)"
             " ON CONFLICT DO NOTHING",
             indexes);
    free(kiln_test_sql(stack, sql));
}

static void a_long_block_is_passed_at_once(void **state)
{
    (void)state;
    send_with_index("k0", "0");
    assert_int_equal(take_whatever(), 1);
    occupy("SELECT generate_series(1, 150000)");
    send_with_index("k1", NULL);
    send_with_index("k2", "7");
    assert_int_equal(take_whatever(), 2);
    assert_int_equal(kiln_test_count(stack, "SELECT index FROM job WHERE key = 'k1'"), 150001);
    assert_int_equal(kiln_test_count(stack, "SELECT index FROM job WHERE key = 'k2'"), 150002);
}

/* A block as long as a walk, and behind it each place where the search then looks: those lines are
 * refused, and none of their neighbours and successors. */
static void a_full_batch_says_so(void **state)
{
    (void)state;
    char block[100], places[100];
    send_with_index("k0", "0");
    assert_int_equal(take_whatever(), 1);
    snprintf(block, sizeof block, "SELECT generate_series(1, %d)", KILN_NUMBER_WALK + 1);
    snprintf(places, sizeof places, "SELECT %d + (1::bigint << generate_series(0, 31))",
             KILN_NUMBER_WALK + 1);
    occupy(block);
    occupy(places);
    send_with_index("k1", NULL);
    send_line(LINE, "t");
    send_with_index("k2", "20000");
    end_call("t", "1");
    assert_int_equal(take_whatever(), 1);
    assert_int_equal(kiln_test_receipt(stack, "t").refused, 1);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM intake_refusal"
                                            " WHERE reason ~ 'the batch b is full'"),
                     2);
    assert_int_equal(kiln_test_count(stack, "SELECT index FROM job WHERE key = 'k2'"), 20000);
    send_with_index("k3", NULL);
    assert_int_equal(take_whatever(), 1);
    stream_is_empty();
}

/* --- a stream without ids ----------------------------------------------------------------------
 */
/* Whether Redis takes an entry from anybody. */
static bool takes_entries(void)
{
    struct kiln_bus *bus = NULL;
    const char *const fields[] = {"batch", "b", "job", LINE};
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    int rc = kiln_bus_append(bus, "kiln:{default}:intake", 0, fields, NULL, 2, &err);
    kiln_bus_close(bus);
    return rc == 0;
}

static void a_stream_that_used_up_its_ids_is_made_anew(void **state)
{
    (void)state;
    send_line(LINE, "t");
    kiln_test_redis(stack, "XADD kiln:{default}:intake 18446744073709551615-18446744073709551615"
                           " batch b job {\"prompt\":\"last\"}");
    assert_false(takes_entries());
    uint64_t total = 0, inserted = 0;
    for (int64_t until = kiln_clock_ms() + 60000; kiln_clock_ms() < until && total < 3;) {
        kiln_test_ok(kiln_intake_step(intake, 20, &inserted, &err), err);
        total += inserted;
        if (total == 2)
            (void)takes_entries();
    }
    assert_true(total >= 3);
    (void)take_whatever();
    stream_is_empty();
}

/* --- what is seen of it from outside ------------------------------------------------------------
 */
/* A full disk, as Postgres tells of it. */
static void a_page_waits_and_is_told(const char *damage)
{
    uint64_t inserted = 0, length = 0;
    struct kiln_bus *bus = NULL;
    free(kiln_test_sql(stack, "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$"
                              " BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full';"
                              " END $$; CREATE TRIGGER full_disk BEFORE INSERT ON job"
                              " EXECUTE FUNCTION full_disk()"));
    send_line(LINE, "t");
    if (damage)
        kiln_test_redis(stack, damage);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kiln_intake_step(intake, 20, &inserted, &err), KILN_FULL);
    assert_non_null(strstr(err.text, "no room"));
    assert_int_equal(strncmp(err.text, "entry ", 6), 0);
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    kiln_test_ok(kiln_bus_length(bus, "kiln:{default}:blocked", &length, &err), err);
    assert_int_equal(length, 1);
    free(kiln_test_sql(stack, "DROP TRIGGER full_disk ON job; DROP FUNCTION full_disk()"));
    assert_int_equal(take_whatever(), 1);
    kiln_test_ok(kiln_bus_length(bus, "kiln:{default}:blocked", &length, &err), err);
    assert_int_equal(length, 0);
    kiln_bus_close(bus);
    stream_is_empty();
}

static void a_page_that_waits_is_told(void **state)
{
    (void)state;
    a_page_waits_and_is_told(NULL);
}

static void and_under_a_name_that_another_program_has_used(void **state)
{
    (void)state;
    a_page_waits_and_is_told("SET kiln:{default}:blocked x");
}

static void and_in_a_stream_at_the_end_of_its_ids(void **state)
{
    (void)state;
    a_page_waits_and_is_told(
        "XADD kiln:{default}:blocked 18446744073709551615-18446744073709551615 a b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_bad_value_is_refused_with_its_batch),
        TEST(sentences_are_cut_between_characters),
        TEST(a_page_is_halved_until_the_bad_ones_are_alone),
        TEST(a_refusal_that_the_ledger_refuses_is_set_aside),
        TEST(what_names_no_batch_is_set_aside),
        TEST(a_receipt_that_cannot_be_delivered_is_dropped),
        TEST(nor_does_the_stream_of_refused_entries_hold_anything_up),
        TEST(a_damaged_stream_of_refused_entries_is_made_anew),
        TEST(a_redis_that_the_intake_filled_drains),
        TEST(so_does_one_that_was_full_before_a_scheduler_came),
        TEST(no_two_jobs_have_one_index),
        TEST(batches_may_alternate_in_a_page),
        TEST(the_seed_follows_the_key),
        TEST(one_wish_fills_no_batch),
        TEST(a_long_block_is_passed_at_once),
        TEST(a_full_batch_says_so),
        TEST(a_stream_that_used_up_its_ids_is_made_anew),
        TEST(a_page_that_waits_is_told),
        TEST(and_under_a_name_that_another_program_has_used),
        TEST(and_in_a_stream_at_the_end_of_its_ids),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
