/* test_intake.c - the intake against a real Redis and Postgres: good lines, bad lines, repeated
 * delivery, servers that go away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "schemas/job/line.h"
#include "tests/scheduler/intake_rig.h"
#include "tests/support/worker_process.h"

/* --- lines ------------------------------------------------------------------------------------ */
static void good_lines_and_a_receipt(void **state)
{
    (void)state;
    kiln_test_enqueue(stack, "b", "t1", LINE, 0, 5, true);
    assert_int_equal(take_some(), 5);
    struct kiln_receipt receipt = kiln_test_receipt(stack, "t1");
    assert_string_equal(receipt.batch, "b");
    assert_int_equal(receipt.accepted, 5);
    assert_int_equal(receipt.duplicate + receipt.refused, 0);
    stream_is_empty();
    char sql[200];
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM job WHERE seed = %llu AND key = 'k3'",
             (unsigned long long)kiln_seed_derive("b", "k3"));
    assert_int_equal(kiln_test_count(stack, sql), 1);
}

static void the_same_call_again_adds_nothing(void **state)
{
    (void)state;
    kiln_test_enqueue(stack, "b", "t1", LINE, 0, 4, true);
    assert_int_equal(take_some(), 4);
    kiln_test_enqueue(stack, "b", "t2", LINE, 0, 6, true);
    assert_int_equal(take_some(), 2);
    struct kiln_receipt receipt = kiln_test_receipt(stack, "t2");
    assert_int_equal(receipt.accepted, 2);
    assert_int_equal(receipt.duplicate, 4);
}

/* Jobs that their file no longer has are marked, and sent again they are not gone any more. */
static void gone_jobs_stay_and_come_back(void **state)
{
    (void)state;
    const char *const again[] = {"batch", "b", "job", LINE, "key", "k1", "source", "prompts"};
    const char *const gone[] = {"batch", "b", "gone", "k1\nk3\n\nunknown\nk1"};
    const char *const nowhere[] = {"batch", "absent", "gone", "k1"};
    kiln_test_enqueue(stack, "b", "t1", LINE, 0, 4, true);
    kiln_test_append(stack, gone, 2); /* in one page with the jobs */
    assert_int_equal(take_some(), 4);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE gone"), 2);
    kiln_test_append(stack, gone, 2);
    kiln_test_append(stack, nowhere, 2);
    kiln_test_append(stack, again, 4);
    kiln_test_enqueue(stack, "b", "t2", LINE, 0, 1, true);
    assert_int_equal(take_some(), 0);
    assert_int_equal(kiln_test_receipt(stack, "t2").duplicate, 1);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE gone AND key = 'k3'"),
                     1);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE gone"), 1);
    assert_int_equal(
        kiln_test_count(stack, "SELECT count(*) FROM job WHERE source = 'prompts' AND key = 'k1'"),
        1);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM batch"), 1);
    stream_is_empty();
}

static void wrong_sources_and_lists_of_keys_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *fields[6];
        size_t count;
        const char *says;
    } wrong[] = {
        {{"batch", "b", "job", LINE, "source", "a/b"}, 3, "field \"source\""},
        {{"batch", "b", "job", LINE, "source", ""}, 3, "field \"source\""},
        {{"batch", "b", "gone", ""}, 2, "field \"gone\""},
        {{"batch", "b", "gone", "\xff"}, 2, "field \"gone\""},
        {{"batch", "b", "job", LINE, "gone", "k"}, 3, "not both"},
        {{"batch", "b", "end", "0", "on_done", "http://a/\r\nHost: b"}, 3, "field \"on_done\""},
        {{"batch", "b", "job", LINE, "on_done", "http://a/"}, 3, "\"on_done\" needs \"end\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char sql[200];
        kiln_test_append(stack, wrong[i].fields, wrong[i].count);
        assert_int_equal(take_some(), 0);
        snprintf(sql, sizeof sql, "SELECT count(*) FROM intake_refusal WHERE reason LIKE '%%%s%%'",
                 wrong[i].says);
        assert_true(kiln_test_count(stack, sql) >= 1);
        snprintf(sql, sizeof sql, "SELECT count(*) FROM intake_refusal");
        assert_int_equal(kiln_test_count(stack, sql), i + 1);
    }
    stream_is_empty();
}

static void bad_lines_do_not_hold_up_good_ones(void **state)
{
    (void)state;
    static char long_line[70 * 1024];
    memset(long_line, 'x', sizeof(long_line) - 1);
    memcpy(long_line, "{\"prompt\":\"", 11);
    static const char *const bad[] = {"{\"prompt\":",
                                      "{\"prompt\":\"a\",\"widht\":256}",
                                      "{\"prompt\":\"a\",\"width\":257}",
                                      "{\"prompt\":7}",
                                      "[]",
                                      "\xff\xfe",
                                      "{\"prompt\":\"a\",\"steps\":0}",
                                      long_line};
    size_t count = sizeof(bad) / sizeof(bad[0]);
    for (size_t i = 0; i < count; i++) {
        kiln_test_enqueue(stack, "b", "t", bad[i], i * 2, 1, false);
        kiln_test_enqueue(stack, "b", "t", LINE, i * 2 + 1, 1, false);
    }
    const char *const last[] = {"batch", "b", "token", "t", "end", "16"};
    kiln_test_append(stack, last, 3);
    assert_int_equal(take_some(), count);
    struct kiln_receipt receipt = kiln_test_receipt(stack, "t");
    assert_int_equal(receipt.accepted, count);
    assert_int_equal(receipt.refused, count);
    assert_true(strlen(receipt.first_refusal) > 0);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM intake_refusal"
                                            " WHERE reason ~ 'width|prompt|JSON|steps|bytes long'"),
                     kiln_test_count(stack, "SELECT count(*) FROM intake_refusal"));
    stream_is_empty();
}

static void settings_of_webhooks(const char *hosts, const char *secret)
{
    kiln_intake_close(intake);
    kiln_test_ok(kiln_config_set(stack->config, "webhook_hosts", hosts, "test", &err), err);
    kiln_test_ok(kiln_config_set(stack->config, "webhook_secret_file", secret, "test", &err), err);
    intake = NULL;
    kiln_test_ok(kiln_intake_open(stack->config, routes, &intake, &err), err);
}

/* A call of one job with a URL; its receipt. */
static struct kiln_receipt call_with_url(const char *batch, const char *token, const char *url)
{
    kiln_test_enqueue(stack, batch, token, LINE, 0, 1, false);
    const char *const last[] = {"batch", batch, "token", token, "end", "1", "on_done", url};
    kiln_test_append(stack, last, 4);
    (void)take_all();
    stream_is_empty();
    return kiln_test_receipt(stack, token);
}

/* What is refused is the message alone: the job of the call comes in. */
static void a_url_is_kept_if_its_host_is_allowed(void **state)
{
    (void)state;
    static const char waiting[] = "SELECT count(*) FROM webhook WHERE outcome IS NULL";
    struct kiln_receipt receipt = call_with_url("b", "t1", "http://127.0.0.1:9/x");
    assert_int_equal(receipt.accepted, 1);
    assert_int_equal(receipt.refused, 1);
    assert_non_null(strstr(receipt.first_refusal, "webhook_hosts"));
    settings_of_webhooks("hooks.example.org, 127.0.0.1:9", "");
    receipt = call_with_url("b", "t2", "http://127.0.0.1:9/x");
    assert_non_null(strstr(receipt.first_refusal, "webhook_secret_file"));
    settings_of_webhooks("hooks.example.org, 127.0.0.1:9", "secret");
    receipt = call_with_url("b", "t3", "http://127.0.0.1:8/x");
    assert_non_null(strstr(receipt.first_refusal, "127.0.0.1 at port 8"));
    assert_int_equal(kiln_test_count(stack, waiting), 0);
    receipt = call_with_url("b", "t4", "http://127.0.0.1:9/x");
    assert_int_equal(receipt.duplicate, 1);
    assert_int_equal(receipt.refused, 0);
    assert_int_equal(kiln_test_count(stack, waiting), 1);
    settings_of_webhooks("", "");
}

/* Another job of batch "done", which is done and has a latent of 256x256. */
static uint64_t make_done_job(const char *sigma)
{
    static uint32_t made;
    char sql[900];
    kiln_test_enqueue(stack, "done", "t0", LINE, made++, 1, true);
    assert_int_equal(take_some(), 1);
    uint64_t id = (uint64_t)kiln_test_count(stack, "SELECT max(id) FROM job");
    snprintf(sql, sizeof(sql),
             "UPDATE job SET state = 1 WHERE id = %llu; UPDATE job SET state = 2 WHERE id = %llu;"
             "INSERT INTO object (job_id, role, key, sha256, bytes, width, height, content_type)"
             " VALUES (%llu, 'latent', 'latents/m/%llu', 'x', 1, 32, 32, 'application/zstd');"
             "INSERT INTO latent (job_id, sigma, seed, guidance, width, height, steps, states,"
             " shape, key, encoding, model, model_hash, lora_set, prompt_hash) VALUES (%llu, %s, 1,"
             " 0, 256, 256, 8, 1, '{16,32,32}', 'latents/m/%llu', 'e', '', 'h', '', 'p')",
             (unsigned long long)id, (unsigned long long)id, (unsigned long long)id,
             (unsigned long long)id, (unsigned long long)id, sigma, (unsigned long long)id);
    free(kiln_test_sql(stack, sql));
    return id;
}

static const char *start_model = ""; /* of start_from's jobs */

static void start_from(uint64_t job, const char *size, const char *says)
{
    static int turn;
    char line[240], token[24], model[64] = "";
    snprintf(token, sizeof(token), "s%d", ++turn);
    if (start_model[0])
        snprintf(model, sizeof(model), ",\"model\":\"%s\"", start_model);
    snprintf(line, sizeof(line),
             "{\"prompt\":\"x\",\"size\":\"%s\",\"init_job\":%llu,\"custom_id\":\"%s\""
             "%s}",
             size, (unsigned long long)job, token, model);
    kiln_test_enqueue(stack, "starts", token, line, (uint32_t)turn, 1, true);
    take_all();
    struct kiln_receipt receipt = kiln_test_receipt(stack, token);
    if (says && !strstr(receipt.first_refusal, says))
        fail_msg("\"%s\" does not say \"%s\"", receipt.first_refusal, says);
    assert_int_equal(receipt.refused, says != NULL);
    assert_int_equal(receipt.accepted, says == NULL);
}

static void a_start_must_be_there(void **state)
{
    (void)state;
    uint64_t id = make_done_job("0");
    start_from(id, "256x256", NULL);
    start_from(id, "512x512", NULL); /* enlarged */
    start_from(id, "128x128", "its latent is of 256x256, and this job of 128x128");
    start_from(id, "1040x1040", "enlarged up to 4 times");
    start_from(id, "512x256", "its latent is of 256x256, and this job of 512x256");
    start_from(id + 1000, "256x256", "there is no such job");
    uint64_t waiting = (uint64_t)kiln_test_count(stack, "SELECT max(id) FROM job");
    start_from(waiting, "256x256", "no latent of it is stored: it is not done");
    start_from(make_done_job("0.3"), "256x256", "its stored latent ends at sigma 0.3, unfinished");
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE mode = 'start=3' AND"
                                            " init_job > 0 AND parent = init_job"),
                     2);
    stream_is_empty();
}

/* The newest picture of the model was rendered with these weights. */
static void render_now(const char *model, const char *hash)
{
    char sql[300];
    static int seconds;
    snprintf(sql, sizeof(sql),
             "UPDATE latent SET model = '%s', model_hash = '%s', created_at = now() + interval"
             " '%d s' WHERE job_id = %llu",
             model, hash, ++seconds, (unsigned long long)make_done_job("0"));
    free(kiln_test_sql(stack, sql));
}

static void start_by(const char *model, uint64_t job, const char *says)
{
    start_model = model;
    start_from(job, "256x256", says);
    start_model = "";
}

/* The weights that count are those of the newest picture of the job's model. */
static void a_start_must_be_of_the_same_weights(void **state)
{
    (void)state;
    const uint64_t id = make_done_job("0");
    start_by("unknown", id, NULL); /* the worker decides */
    render_now("same", "h");
    render_now("other", "k");
    start_by("", id, NULL);
    start_by("same", id, NULL);
    start_by("other", id,
             "of a model with other weights (h) than the pool renders other with now (k)");
    render_now("", "k"); /* the pool's model was exchanged */
    start_by("", id, "other weights (h) than the pool renders its own model with now (k)");
    start_by("same", id, NULL);
    render_now("", "h"); /* and put back */
    start_by("", id, NULL);
    stream_is_empty();
}

/* A job may name a parent without starting from it, or another one than its start. */
static void a_parent_must_exist(void **state)
{
    (void)state;
    const uint64_t id = make_done_job("0");
    const struct {
        uint64_t start, parent;
        const char *says; /* NULL: it is taken in */
    } rows[] = {{0, id, NULL},
                {0, id + 1000, "there is no such job"},
                {id, id, NULL},
                {id, id + 1000, "parent is"},
                {id + 1000, id, "init_job is"},
                {id + 1000, id + 1001, "init_job is"},
                {0, INT64_MAX, "parent is 9223372036854775807; there is no such job"}};
    const uint32_t count = sizeof(rows) / sizeof(*rows);
    for (uint32_t all = 0; all < 2; all++) { /* one by one, then in one page */
        for (uint32_t i = 0; i < count; i++) {
            char line[200], token[8], start[48] = "";
            snprintf(token, sizeof(token), "%s%u", all ? "all" : "p", all ? 0 : i);
            if (rows[i].start)
                snprintf(start, sizeof(start), ",\"init_job\":%llu",
                         (unsigned long long)rows[i].start);
            snprintf(line, sizeof(line),
                     "{\"prompt\":\"x\",\"size\":\"256x256\",\"parent\":%llu%s}",
                     (unsigned long long)rows[i].parent, start);
            kiln_test_enqueue(stack, all ? "page" : "single", token, line, i, 1,
                              !all || i == count - 1);
            if (all)
                continue;
            take_all();
            struct kiln_receipt receipt = kiln_test_receipt(stack, token);
            if (rows[i].says && !strstr(receipt.first_refusal, rows[i].says))
                fail_msg("row %u: \"%s\"", i, receipt.first_refusal);
            assert_int_equal(receipt.accepted, rows[i].says == NULL);
        }
    }
    take_all();
    assert_int_equal(kiln_test_receipt(stack, "all0").refused, 5);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE parent > 0"), 4);
    assert_int_equal(
        kiln_test_count(stack, "SELECT count(*) FROM job WHERE parent > 0 AND init_job = 0"), 2);
    stream_is_empty();
}

/* Of the bus nobody can name a file of this machine. */
static void a_picture_is_named_by_its_key(void **state)
{
    (void)state;
    static const char *const bad[] = {"/etc/passwd", "../inputs/x.png", "inputs/x.png",
                                      "file:///etc/passwd"};
    char line[200];
    for (uint32_t i = 0; i < 4; i++) {
        snprintf(line, sizeof(line), "{\"prompt\":\"x\",\"init_image\":\"%s\"}", bad[i]);
        kiln_test_enqueue(stack, "b", "t", line, i, 1, i == 3);
    }
    take_all();
    struct kiln_receipt receipt = kiln_test_receipt(stack, "t");
    assert_int_equal(receipt.refused, 4);
    assert_non_null(strstr(receipt.first_refusal, "init_image is \"/etc/passwd\"; it must be"));
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job"), 0);
}

/* The setting `coarse` is "auto"; it reaches lines that do not say, where it fits. */
static void the_setting_applies_to_lines_that_do_not_say(void **state)
{
    (void)state;
    kiln_test_enqueue(stack, "b", "t", LINE, 0, 1, false);
    kiln_test_enqueue(stack, "b", "t", "{\"prompt\":\"x\",\"coarse\":\"off\"}", 1, 1, false);
    kiln_test_enqueue(stack, "b", "t", "{\"prompt\":\"x\",\"size\":\"64x64\"}", 2, 1, false);
    kiln_test_enqueue(stack, "b", "t", "{\"prompt\":\"x\",\"coarse\":\"4+2\"}", 3, 1, true);
    take_all();
    char *modes = kiln_test_sql(stack, "SELECT string_agg(mode, ',' ORDER BY index) FROM job");
    assert_string_equal(modes, "coarse=auto,,,coarse=4+2");
    free(modes);
}

static void entries_that_break_the_protocol(void **state)
{
    (void)state;
    const char *const nothing[] = {"hello", "world"};
    const char *const no_batch[] = {"job", LINE};
    const char *const bad_batch[] = {"batch", "../etc", "job", LINE};
    const char *const bad_index[] = {"batch", "b", "job", LINE, "index", "many"};
    const char *const bad_end[] = {"batch", "b", "token", "t", "end", "-1"};
    kiln_test_append(stack, nothing, 1);
    kiln_test_append(stack, no_batch, 1);
    kiln_test_append(stack, bad_batch, 2);
    kiln_test_append(stack, bad_index, 3);
    kiln_test_append(stack, bad_end, 3);
    kiln_test_enqueue(stack, "b", "t", LINE, 0, 1, false);
    assert_int_equal(take_some(), 1);
    assert_int_equal(counts().unreadable, 3);
    assert_int_equal(counts().refused, 2);
    stream_is_empty();
}

/* Neither the batches nor their accounts are touched, and who waits for a receipt is told. */
static void names_of_our_own_are_refused(void **state)
{
    (void)state;
    const char *const malformed[] = {"batch", "latent-cache", "job", LINE, "index", "many"};
    kiln_test_append(stack, malformed, 3);
    kiln_test_enqueue(stack, "backfill-cars", "t1", LINE, 0, 3, true);
    kiln_test_enqueue(stack, "b", "t2", LINE, 0, 1, true);
    assert_int_equal(take_some(), 1);
    struct kiln_receipt receipt = kiln_test_receipt(stack, "t1");
    assert_int_equal(receipt.refused, 3);
    assert_int_equal(receipt.accepted + receipt.duplicate, 0);
    assert_non_null(strstr(receipt.first_refusal, "batch \"backfill-cars\": Kiln's own names"));
    assert_int_equal(kiln_test_receipt(stack, "t2").accepted, 1);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM batch WHERE name <> 'b'"), 0);
    stream_is_empty();
}

static void a_raw_client_may_leave_the_rest_to_us(void **state)
{
    (void)state;
    const char *const plain[] = {"batch", "raw", "job", LINE};
    const char *const many[] = {
        "batch", "raw", "job", "{\"prompt\":\"a {red|blue} car\",\"count\":3,\"custom_id\":\"c\"}"};
    kiln_test_append(stack, plain, 2);
    kiln_test_append(stack, plain, 2); /* another entry: another job */
    kiln_test_append(stack, many, 2);
    assert_int_equal(take_all(), 8);
    assert_int_equal(kiln_test_count(stack, "SELECT count(DISTINCT index) FROM job"), 8);
    assert_int_equal(kiln_test_count(stack, "SELECT max(index) FROM job"), 7);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE prompt ~ '[{|]'"), 0);
    assert_int_equal(kiln_test_count(stack, "SELECT count(DISTINCT seed) FROM job"), 8);
    kiln_test_append(stack, many, 2); /* the custom_id is their identity */
    assert_int_equal(take_all(), 0);
}

/* A client sends its lines again, and goes on under the next scheduler.  Numbers were once the
 * count of jobs: a repeated line used some up, and the successor gave out the same again. */
static void numbers_stay_apart_after_repetition(void **state)
{
    (void)state;
    const char *const lines[] = {"{\"prompt\":\"x\",\"count\":3,\"custom_id\":\"a\"}",
                                 "{\"prompt\":\"x\",\"count\":3,\"custom_id\":\"a\"}",
                                 "{\"prompt\":\"y\",\"count\":3,\"custom_id\":\"b\"}",
                                 "{\"prompt\":\"z\",\"count\":3,\"custom_id\":\"c\"}"};
    for (int i = 0; i < 4; i++) {
        const char *const fields[] = {"batch", "again", "job", lines[i]};
        kiln_test_append(stack, fields, 2);
        if (i == 3) {
            kiln_intake_close(intake);
            kiln_test_ok(kiln_intake_open(stack->config, routes, &intake, &err), err);
        }
        (void)take_all();
    }
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job"), 9);
    assert_int_equal(kiln_test_count(stack, "SELECT count(DISTINCT index) FROM job"), 9);
    assert_int_equal(kiln_test_count(stack, "SELECT count(DISTINCT seed) FROM job"), 9);
}

static void a_line_of_many_pictures_goes_in_pages(void **state)
{
    (void)state;
    const char *const fields[] = {"batch", "wide", "job", "{\"prompt\":\"x\",\"count\":9500}"};
    kiln_test_append(stack, fields, 2);
    assert_int_equal(take_all(), 9500);
    assert_int_equal(kiln_test_count(stack, "SELECT count(DISTINCT index) FROM job"), 9500);
}

static void entries_of_any_size(void **state)
{
    (void)state;
    enum { HUGE = 10 * 1024 * 1024 };
    char *huge = malloc(HUGE + 1);
    assert_non_null(huge);
    memset(huge, 'x', HUGE);
    huge[HUGE] = '\0';
    const char *const big_job[] = {"batch", "b", "job", huge, "token", "t"};
    const char *const big_name[] = {huge, "b", "batch", "b", "job", LINE};
    const char *const big_batch[] = {"batch", huge, "job", LINE};
    for (int i = 0; i < 3; i++) {
        kiln_test_append(stack, big_job, 3);
        kiln_test_append(stack, big_name, 3);
        kiln_test_append(stack, big_batch, 2);
    }
    free(huge);
    kiln_test_enqueue(stack, "b", "t", LINE, 0, 3, false);
    /* A field that nobody knows, however large, is passed over: its jobs are good. */
    assert_int_equal(take_all(), 6);
    assert_int_equal(counts().unreadable, 3);
    assert_int_equal(counts().refused, 3);
    assert_true(kiln_test_count(stack, "SELECT max(length(reason)) FROM intake_refusal") < 1100);
    stream_is_empty();
}

/* The name is the scheduler's: what another program has put there is deleted. */
static void a_key_of_another_type_is_deleted(void **state)
{
    (void)state;
    static const char *const damaged[] = {"SET kiln:{default}:intake nonsense",
                                          "RPUSH kiln:{default}:intake nonsense"};
    for (size_t i = 0; i < 2; i++) {
        uint64_t inserted = 0;
        kiln_test_redis(stack, "DEL kiln:{default}:intake");
        kiln_test_redis(stack, damaged[i]);
        kiln_test_ok(kiln_intake_step(intake, 20, &inserted, &err), err);
        kiln_test_enqueue(stack, "b", "t", LINE, i * 3, 3, true);
        assert_int_equal(take_some(), 3);
        kiln_test_ok(kiln_intake_step(intake, 20, &inserted, &err), err); /* the call's end */
    }
    stream_is_empty();
}

/* --- trouble --------------------------------------------------------------------------------- */
static void an_unacknowledged_entry_is_taken_by_the_next_leader(void **state)
{
    (void)state;
    struct kiln_bus *bus = NULL;
    struct kiln_bus_entries entries;
    kiln_test_enqueue(stack, "b", "t", LINE, 0, 3, true);
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    kiln_test_ok(kiln_bus_group(bus, "kiln:{default}:intake", "scheduler", &err), err);
    /* As a leader that read and died. */
    kiln_test_ok(kiln_bus_read_group(bus, "kiln:{default}:intake", "scheduler", "leader", false, 10,
                                     10, &entries, &err),
                 err);
    assert_int_equal(entries.count, 4);
    kiln_bus_close(bus);
    assert_int_equal(take_some(), 3);
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, 3);
    stream_is_empty();
}

static void postgres_away_keeps_everything_in_the_stream(void **state)
{
    (void)state;
    kiln_test_enqueue(stack, "b", "t", LINE, 0, 50, true);
    kiln_test_kill(stack, KILN_TEST_POSTGRES);
    uint64_t inserted = 0;
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(kiln_intake_step(intake, 20, &inserted, &err), 0);
    kiln_test_restart(stack, KILN_TEST_POSTGRES, NULL);
    int64_t until = kiln_clock_ms() + 60000;
    while (inserted == 0 && kiln_clock_ms() < until)
        (void)!kiln_intake_step(intake, 20, &inserted, &err);
    assert_int_equal(inserted, 50);
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, 50);
    stream_is_empty();
}

static void redis_restart_loses_nothing(void **state)
{
    (void)state;
    kiln_test_enqueue(stack, "b", "t", LINE, 0, 50, true);
    kiln_test_sleep_ms(1200); /* everysec */
    kiln_test_kill(stack, KILN_TEST_REDIS);
    uint64_t inserted = 0;
    assert_int_not_equal(kiln_intake_step(intake, 20, &inserted, &err), 0);
    kiln_test_restart(stack, KILN_TEST_REDIS, NULL);
    int64_t until = kiln_clock_ms() + 60000;
    while (inserted == 0 && kiln_clock_ms() < until)
        (void)!kiln_intake_step(intake, 20, &inserted, &err);
    assert_int_equal(inserted, 50);
}

static void an_emptied_redis_is_no_failure(void **state)
{
    (void)state;
    kiln_test_enqueue(stack, "b", "t", LINE, 0, 5, true);
    assert_int_equal(take_some(), 5);
    kiln_test_flushall(stack);
    kiln_test_enqueue(stack, "b", "t2", LINE, 5, 5, true);
    assert_int_equal(take_some(), 5);
    assert_int_equal(kiln_test_receipt(stack, "t2").accepted, 5);
}

static void many_jobs_a_second(void **state)
{
    (void)state;
    enum { JOBS = 20000 };
    kiln_test_enqueue(stack, "big", "t", LINE, 0, JOBS, true);
    int64_t begin = kiln_clock_ms();
    uint64_t total = 0;
    while (total < JOBS && kiln_clock_ms() - begin < 60000)
        total += take_some();
    double seconds = (double)(kiln_clock_ms() - begin) / 1000;
    printf("%llu jobs taken in: %.0f jobs/s\n", (unsigned long long)total, (double)total / seconds);
    assert_int_equal(total, JOBS);
    assert_int_equal(take_all(), 0); /* the end of the call may be in a page of its own */
    assert_int_equal(kiln_test_receipt(stack, "t").accepted, JOBS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(good_lines_and_a_receipt),
        TEST(the_same_call_again_adds_nothing),
        TEST(gone_jobs_stay_and_come_back),
        TEST(wrong_sources_and_lists_of_keys_are_refused),
        TEST(bad_lines_do_not_hold_up_good_ones),
        TEST(a_url_is_kept_if_its_host_is_allowed),
        TEST(a_start_must_be_there),
        TEST(a_start_must_be_of_the_same_weights),
        TEST(a_parent_must_exist),
        TEST(a_picture_is_named_by_its_key),
        TEST(the_setting_applies_to_lines_that_do_not_say),
        TEST(entries_that_break_the_protocol),
        TEST(names_of_our_own_are_refused),
        TEST(a_raw_client_may_leave_the_rest_to_us),
        TEST(numbers_stay_apart_after_repetition),
        TEST(a_line_of_many_pictures_goes_in_pages),
        TEST(entries_of_any_size),
        TEST(a_key_of_another_type_is_deleted),
        TEST(an_unacknowledged_entry_is_taken_by_the_next_leader),
        TEST(postgres_away_keeps_everything_in_the_stream),
        TEST(redis_restart_loses_nothing),
        TEST(an_emptied_redis_is_no_failure),
        TEST(many_jobs_a_second),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
