/* test_wire.c - every message of the bus there and back, and what a hostile peer may send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "schemas/wire/wire.h"
#include "tests/support/random.h"

static void keys_share_a_cluster_slot(void **state)
{
    (void)state;
    char key[64];
    assert_true(kiln_wire_key(key, sizeof key, "p", "intake", NULL) == strlen("kiln:{p}:intake"));
    assert_string_equal(key, "kiln:{p}:intake");
    kiln_wire_key(key, sizeof key, "p", "worker", "w0");
    assert_string_equal(key, "kiln:{p}:worker:w0");
}

/* --- assignments --------------------------------------------------------------------------- */

static struct kiln_job make_job(uint64_t id)
{
    struct kiln_job job = {.id = id,
                           .batch_id = 3,
                           .index = 9,
                           .width = 512,
                           .height = 256,
                           .steps = 4,
                           .seed = UINT64_MAX - id,
                           .lora_count = 1,
                           .attempt = 2,
                           .created_ms = 1795249523818};
    job.loras[0] = (struct kiln_lora){"ink", 0.8, ""};
    job.batch = strdup("b-1");
    job.prompt = strdup("a {\"cat\"} \xe7\x8c\xab\n"), job.negative_prompt = strdup("");
    job.tenant = strdup("default");
    job.model = strdup("turbo");
    job.custom_id = strdup("row 7");
    assert_true(kiln_job_draw(&job, "inked, ", id == 42 ? 7 : 0));
    return job;
}

static char *encode_two(void)
{
    struct kiln_job jobs[2] = {make_job(41), make_job(42)};
    struct kiln_assignment a = {.id = "a-1",
                                .model = "turbo",
                                .width = 512,
                                .height = 256,
                                .steps = 4,
                                .lora_count = 1,
                                .jobs = jobs,
                                .job_count = 2};
    a.loras[0] = jobs[0].loras[0];
    char *text = kiln_assignment_encode(&a);
    kiln_job_release(&jobs[0]);
    kiln_job_release(&jobs[1]);
    assert_non_null(text);
    return text;
}

static void assignments_come_back_whole(void **state)
{
    (void)state;
    char *text = encode_two();
    struct kiln_assignment a;
    struct kiln_error err;
    if (kiln_assignment_decode(text, strlen(text), &a, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    assert_string_equal(a.id, "a-1");
    assert_int_equal(a.job_count, 2);
    assert_string_equal(a.loras[0].name, "ink");
    struct kiln_job expected = make_job(42);
    struct kiln_job *job = &a.jobs[1];
    assert_true(job->id == 42 && job->batch_id == 3 && job->seed == expected.seed);
    assert_int_equal(job->attempt, 2);
    assert_int_equal(job->index, 9);
    assert_true(job->created_ms == expected.created_ms);
    assert_int_equal(job->state, KILN_JOB_ASSIGNED);
    assert_string_equal(job->batch, "b-1");
    assert_string_equal(job->prompt, expected.prompt);
    assert_string_equal(job->drawn, "inked, a {\"cat\"} \xe7\x8c\xab\n");
    assert_string_equal(job->custom_id, "row 7");
    kiln_job_release(&expected);
    kiln_assignment_release(&a);
    kiln_assignment_release(&a);
    free(text);
}

static void damaged_assignments_are_refused_or_whole(void **state)
{
    (void)state;
    char *text = encode_two();
    size_t len = strlen(text);
    struct test_random random = {9};
    for (size_t cut = 0; cut < len; cut++) {
        struct kiln_assignment a;
        struct kiln_error err;
        assert_int_equal(kiln_assignment_decode(text, cut, &a, &err), KILN_PROTOCOL);
    }
    for (int i = 0; i < 20000; i++) {
        struct kiln_assignment a;
        struct kiln_error err;
        char *copy = strdup(text);
        for (uint32_t edits = 1 + test_random_below(&random, 2); edits > 0; edits--)
            copy[test_random_below(&random, (uint32_t)len)] =
                "0\"{}[],:x9"[test_random_below(&random, 10)];
        int code = kiln_assignment_decode(copy, len, &a, &err);
        if (code == 0)
            kiln_assignment_release(&a);
        else
            assert_int_equal(code, KILN_PROTOCOL);
        free(copy);
    }
    free(text);
}

static void a_job_of_another_group_is_refused(void **state)
{
    (void)state;
    struct kiln_job job = make_job(41);
    struct kiln_assignment a = {.id = "a-1",
                                .model = "turbo",
                                .width = 512,
                                .height = 512,
                                .steps = 4,
                                .lora_count = 1,
                                .jobs = &job,
                                .job_count = 1},
                           back;
    struct kiln_error err;
    a.loras[0] = job.loras[0];
    char *text = kiln_assignment_encode(&a);
    assert_int_equal(kiln_assignment_decode(text, strlen(text), &back, &err), KILN_PROTOCOL);
    assert_non_null(strstr(err.text, "job 41 differs"));
    kiln_job_release(&job);
    free(text);
}

/* --- the small messages -------------------------------------------------------------------- */

static void orders_come_back(void **state)
{
    (void)state;
    static const struct kiln_control orders[] = {
        {KILN_CONTROL_CANCEL_JOB, 77, "", true, false},
        {KILN_CONTROL_CANCEL_BATCH, 0, "b-1", false, false},
        {KILN_CONTROL_DROP, 0, "a-1", false, false},
        {KILN_CONTROL_DRAIN, 0, "", false, false},
        {KILN_CONTROL_WAKE, 0, "", false, false},
        {KILN_CONTROL_ASK, 0, "q", false, true}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct kiln_control back;
        struct kiln_error err;
        char *text = kiln_control_encode(&orders[i]);
        assert_int_equal(kiln_control_decode(text, strlen(text), &back, &err), 0);
        assert_true(back.kind == orders[i].kind && back.job == orders[i].job);
        assert_true(back.recorded == orders[i].recorded && back.donors == orders[i].donors);
        assert_string_equal(back.id, orders[i].id);
        free(text);
    }
}

static void events_and_receipts_come_back(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_event event = {KILN_EVENT_FAILED, "w0", "a-1", 7, 3, KILN_POISONED, 12.5, 0, 2.5},
                      event_back;
    char *text = kiln_event_encode(&event);
    assert_int_equal(kiln_event_decode(text, strlen(text), &event_back, &err), 0);
    assert_int_equal(event_back.kind, event.kind);
    assert_int_equal(event_back.code, KILN_POISONED);
    assert_true(event_back.compute_ms == 12.5 && event_back.fetch_ms == 2.5);
    assert_string_equal(event_back.worker, "w0");
    free(text);
    struct kiln_receipt receipt = {"b-1", 5, 2, 1, "line: bad \"x\"", "c:\"q\"#0", "h:12#1"};
    struct kiln_receipt receipt_back;
    text = kiln_receipt_encode(&receipt);
    assert_int_equal(kiln_receipt_decode(text, strlen(text), &receipt_back, &err), 0);
    assert_true(receipt_back.accepted == 5 && receipt_back.duplicate == 2 &&
                receipt_back.refused == 1);
    assert_string_equal(receipt_back.first_refusal, receipt.first_refusal);
    assert_string_equal(receipt_back.first_key, receipt.first_key);
    assert_string_equal(receipt_back.last_key, receipt.last_key);
    free(text);
}

static void heartbeats_come_back(void **state)
{
    (void)state;
    struct kiln_heartbeat beat = {.worker = "w0",
                                  .incarnation = "i-1",
                                  .host = "h",
                                  .device = "cuda:0",
                                  .device_class = "nvidia-h200",
                                  .engine = "pipeline",
                                  .model = "turbo",
                                  .lora_set = "ink:0.8",
                                  .pid = 7,
                                  .version = 1,
                                  .width = 512,
                                  .height = 512,
                                  .held = {"a-1", "a-2"},
                                  .held_count = 2,
                                  .running = "a-1",
                                  .drawn = 1,
                                  .room = 1,
                                  .places = 14,
                                  .batch_max = 4,
                                  .step = 3,
                                  .steps = 8,
                                  .draining = true,
                                  .deaf_ms = 40,
                                  .minor = 7,
                                  .release = "0.1-5-gabc",
                                  .ready_ms = 5000000000,
                                  .wanted_ms = 4000000,
                                  .computed_ms = 3999,
                                  .done = 9,
                                  .failed = 1,
                                  .started_ms = -1,
                                  .sent_ms = 1795249523818},
                          back;
    struct kiln_error err;
    char *text = kiln_heartbeat_encode(&beat);
    if (kiln_heartbeat_decode(text, strlen(text), &back, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    assert_memory_equal(&beat, &back, sizeof beat);
    free(text);
}

/* Peers of before are told of four, in the list that they know; they pass over the other. */
static void a_long_hand_is_told_in_two_lists(void **state)
{
    (void)state;
    for (uint32_t count = 0; count <= KILN_HEARTBEAT_HELD_MAX; count++) {
        struct kiln_heartbeat beat = {.worker = "w", .incarnation = "i", .version = 1}, back;
        struct kiln_error err;
        for (beat.held_count = 0; beat.held_count < count; beat.held_count++)
            snprintf(beat.held[beat.held_count], sizeof beat.held[0], "a-%u", beat.held_count);
        char *text = kiln_heartbeat_encode(&beat);
        assert_int_equal(kiln_heartbeat_decode(text, strlen(text), &back, &err), 0);
        assert_memory_equal(&beat, &back, sizeof beat);
        json_t *object = json_loads(text, 0, NULL);
        assert_int_equal(json_array_size(json_object_get(object, "held")), count < 4 ? count : 4);
        assert_int_equal(json_array_size(json_object_get(object, "held_more")),
                         count < 4 ? 0 : count - 4);
        json_decref(object);
        free(text);
    }
}

#define TOO_LONG "a1234567890123456789012345678901234567890123456789012345678901234"

#define FINISHED "\"kind\":\"finished\",\"worker\":\"w\",\"assignment\":\"a\","

static void wrong_messages_name_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "order: not valid JSON"},
        {"{\"v\":1}", "order: field \"kind\" is missing"},
        {"{\"kind\":\"wake\"}", "order: field \"v\" is missing"},
        {"{\"v\":2,\"kind\":\"wake\"}", "protocol version 2, this program speaks 1"},
        {"{\"v\":\"1\",\"kind\":\"wake\"}", "\"v\" must be a whole number"},
        {"{\"v\":1,\"kind\":\"dance\"}", "field \"kind\" must be one of the names in bus.md"},
        {"{\"v\":1,\"kind\":\"cancel_job\"}", "cancel_job needs \"job\""},
        {"{\"v\":1,\"kind\":\"drop\"}", "drop needs \"id\""},
        {"{\"v\":1,\"kind\":\"wake\",\"job\":-1}", "field \"job\" must be a whole number"},
        {"{\"v\":1,\"kind\":\"wake\",\"id\":\"a/b\"}", "field \"id\" must be made of"},
        {"{\"v\":1,\"kind\":\"wake\",\"id\":7}", "field \"id\" must be a text"},
        {"{\"v\":1,\"kind\":\"wake\",\"kind\":\"wake\"}", "field \"kind\" must be given once"},
        {"{\"v\":1,\"v\":1,\"kind\":\"wake\"}", "field \"v\" must be given once"},
        {"{\"v\":1,\"kind\":\"cancel_job\",\"job\":0}", "cancel_job needs \"job\""},
        {"{\"v\":1,\"kind\":\"cancel_job\",\"job\":9223372036854775808}",
         "field \"job\" must be a whole number in range"},
        {"{\"v\":1,\"kind\":\"cancel_job\",\"job\":1e3}",
         "field \"job\" must be a whole number in range"},
        {"{\"v\":1,\"kind\":\"cancel_job\",\"job\":8.0}",
         "field \"job\" must be a whole number in range"},
        {"{\"v\":1e0,\"kind\":\"wake\"}", "\"v\" must be a whole number"},
        {"{\"v\":1,\"kind\":\"ask\",\"id\":\"q\",\"job\":18446744073709551615}",
         "field \"job\" must be a whole number in range"},
        {"{\"v\":1,\"kind\":\"ask\",\"id\":\"" TOO_LONG "\"}", "more than 64 characters"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_control order;
        struct kiln_error err = {0};
        assert_int_equal(kiln_control_decode(rows[i].text, strlen(rows[i].text), &order, &err),
                         KILN_PROTOCOL);
        if (!strstr(err.text, rows[i].says))
            fail_msg("%s: %s", rows[i].text, err.text);
    }
}

/* What the ledger cannot store, and what the cost model would never forget. */
static void events_say_what_they_are_about(void **state)
{
    (void)state;
    static const struct {
        const char *members, *says;
    } rows[] = {
        {"\"kind\":\"returned\"", "returned needs \"job\""},
        {"\"kind\":\"done\",\"job\":0,\"worker\":\"w\"", "done needs \"job\""},
        {"\"kind\":\"failed\",\"worker\":\"w\"", "failed needs \"job\""},
        {"\"kind\":\"cancelled\",\"assignment\":\"a\"", "cancelled needs \"job\""},
        {"\"kind\":\"returned\",\"job\":9223372036854775808", "field \"job\""},
        {"\"kind\":\"returned\",\"job\":-1", "field \"job\""},
        {"\"kind\":\"returned\",\"job\":1,\"attempt\":2147483648", "field \"attempt\""},
        {"\"kind\":\"hello\"", "hello needs \"worker\""},
        {"\"kind\":\"bye\",\"worker\":\"\"", "bye needs \"worker\""},
        {"\"kind\":\"finished\",\"worker\":\"w\"", "finished needs \"assignment\""},
        {"\"kind\":\"finished\",\"assignment\":\"a\"", "finished needs \"worker\""},
        {FINISHED "\"compute_ms\":-1", "field \"compute_ms\""},
        {FINISHED "\"compute_ms\":1e400", "field \"compute_ms\""},
        {FINISHED "\"compute_ms\":NaN", "event: "},
        {FINISHED "\"compute_ms\":Infinity", "event: "},
        {FINISHED "\"switch_ms\":2592000001", "field \"switch_ms\""},
        {FINISHED "\"switch_ms\":\"1\"", "field \"switch_ms\""},
        {FINISHED "\"code\":\"ok\",\"code\":\"ok\"", "field \"code\" must be given once"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        struct kiln_event event;
        struct kiln_error err = {0};
        snprintf(text, sizeof text, "{\"v\":1,%s}", rows[i].members);
        if (kiln_event_decode(text, strlen(text), &event, &err) != KILN_PROTOCOL ||
            !strstr(err.text, rows[i].says))
            fail_msg("%s: %s", text, err.text);
    }
    struct kiln_event event;
    struct kiln_error err;
    const char *least = "{\"v\":1,\"kind\":\"returned\",\"job\":9223372036854775807}";
    assert_int_equal(kiln_event_decode(least, strlen(least), &event, &err), 0);
    assert_true(event.job == INT64_MAX && event.code == KILN_OK);
}

/* A scheduler of a release before took "auto" in a line, which meant nothing, and passes it on. */
static void a_line_of_the_release_before_is_drawn(void **state)
{
    (void)state;
    static const char *const said[] = {"\"loras\":\"auto\"", "\"teleport\":\"auto\"",
                                       "\"loras\":\"auto\",\"teleport\":\"auto\"",
                                       "\"teleport\":\"off\""};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char text[600];
        struct kiln_assignment a;
        struct kiln_error err = {0};
        snprintf(text, sizeof text,
                 "{\"v\":1,\"id\":\"a\",\"model\":\"\",\"width\":64,\"height\":64,\"steps\":2,"
                 "\"loras\":[],\"jobs\":[{\"id\":1,\"attempt\":1,\"batch_id\":1,\"index\":0,"
                 "\"batch\":\"b\",\"line\":{\"prompt\":\"x\",\"width\":64,\"height\":64,"
                 "\"steps\":2,\"seed\":5,%s}}]}",
                 said[i]);
        if (kiln_assignment_decode(text, strlen(text), &a, &err) != 0)
            fail_msg("%s: %s", said[i], err.text);
        assert_int_equal(a.jobs[0].lora_count, 0);
        assert_false(a.jobs[0].lora_auto);
        assert_int_equal(a.jobs[0].teleport, i % 3 ? KILN_TELEPORT_AUTO : KILN_TELEPORT_OFF);
        kiln_assignment_release(&a);
    }
}

/* One job from a start, in an assignment of this "mode" (with its comma, or nothing). */
static int decode_mode(const char *mode, const char *line, struct kiln_assignment *ret,
                       struct kiln_error *err)
{
    char text[800];
    snprintf(text, sizeof text,
             "{\"v\":1,\"id\":\"a\",\"model\":\"\",\"width\":512,\"height\":512,\"steps\":8,"
             "%s\"loras\":[],\"jobs\":[{\"id\":1,\"attempt\":1,\"batch_id\":1,\"index\":0,"
             "\"batch\":\"b\",\"line\":{\"prompt\":\"x\",\"width\":512,\"height\":512,"
             "\"steps\":8,\"seed\":5%s}}]}",
             mode, line);
    return kiln_assignment_decode(text, strlen(text), ret, err);
}

static void assignments_say_their_mode(void **state)
{
    (void)state;
    struct kiln_job job = make_job(41);
    job.mode = (struct kiln_mode){.kind = KILN_MODE_START_STEP, .step = 1, .masked = true};
    job.init_job = job.parent = 40;
    job.init_mask =
        strdup("inputs/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.png");
    struct kiln_assignment a = {.id = "a",
                                .model = "turbo",
                                .width = job.width,
                                .height = job.height,
                                .steps = job.steps,
                                .mode = job.mode,
                                .lora_count = 1,
                                .jobs = &job,
                                .job_count = 1},
                           back;
    a.loras[0] = job.loras[0];
    struct kiln_error err;
    char *text = kiln_assignment_encode(&a);
    assert_non_null(strstr(text, "\"mode\":\"inpaint=1\","));
    if (kiln_assignment_decode(text, strlen(text), &back, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    assert_true(kiln_mode_same(&back.mode, &job.mode));
    assert_true(kiln_mode_same(&back.jobs[0].mode, &job.mode));
    assert_true(back.jobs[0].init_job == 40 && back.jobs[0].parent == 40);
    assert_string_equal(back.jobs[0].init_mask, job.init_mask);
    kiln_assignment_release(&back);
    kiln_job_release(&job);
    free(text);
    static const struct {
        const char *mode, *line, *says;
    } bad[] = {
        {"", ",\"init_job\":4", "differs in model, size, steps, LoRA set or mode"},
        {"\"mode\":\"start=3\",", "", "or mode"},
        {"\"mode\":\"start=4\",", ",\"init_job\":4", "or mode"},
        {"\"mode\":\"inpaint=3\",", ",\"init_job\":4", "or mode"},
        {"\"mode\":\"coarse=auto\",", ",\"coarse\":\"4+3\"", "or mode"},
        {"\"mode\":\"coarse\",", "", "field \"mode\" must be one mode"},
        {"\"mode\":3,", "", "field \"mode\" must be one mode"},
        {"\"mode\":\"start=3\",\"mode\":\"\",", ",\"init_job\":4", "must be one mode"},
        {"\"mode\":\"start=3\",", ",\"init_image\":\"/etc/passwd\"", "must be the key of a stored"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(decode_mode(bad[i].mode, bad[i].line, &back, &err), KILN_PROTOCOL);
        if (!strstr(err.text, bad[i].says))
            fail_msg("%s: \"%s\"", bad[i].mode, err.text);
    }
    assert_int_equal(decode_mode("\"mode\":\"\",", ",\"coarse\":\"off\"", &back, &err), 0);
    kiln_assignment_release(&back);
}

static void ids_of_an_assignment_are_ids(void **state)
{
    (void)state;
    static const struct {
        const char *old, *fresh;
    } edits[] = {
        {"\"id\":41", "\"id\":0"},
        {"\"id\":41", "\"id\":9223372036854775808"},
        {"\"batch_id\":3", "\"batch_id\":0"},
        {"\"attempt\":2", "\"attempt\":0"},
        {"\"attempt\":2", "\"attempt\":2147483648"},
        {"\"id\":\"a-1\"", "\"id\":\"\""},
        {"\"created_ms\":", "\"created_ms\":-"},
        {"\"created_ms\":", "\"created_ms\":99999"},
    };
    char *text = encode_two();
    struct kiln_assignment a;
    struct kiln_error err;
    assert_int_equal(kiln_assignment_decode(text, strlen(text), &a, &err), 0);
    kiln_assignment_release(&a);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const char *at = strstr(text, edits[i].old);
        char *edited = NULL;
        assert_non_null(at);
        assert_true(asprintf(&edited, "%.*s%s%s", (int)(at - text), text, edits[i].fresh,
                             at + strlen(edits[i].old)) > 0);
        if (kiln_assignment_decode(edited, strlen(edited), &a, &err) != KILN_PROTOCOL)
            fail_msg("taken: %s", edits[i].fresh);
        free(edited);
    }
    free(text);
}

static void newer_peers_may_add_fields(void **state)
{
    (void)state;
    const char *order = "{\"v\":1,\"kind\":\"wake\",\"why\":{\"deep\":[1,2]}}";
    const char *event = "{\"v\":1,\"kind\":\"failed\",\"job\":1,\"code\":\"melted\"}";
    const char *beat =
        "{\"v\":7,\"worker\":\"w\",\"incarnation\":\"i\",\"version\":7,\"room\":1,\"batch_max\":1}";
    struct kiln_control order_back;
    struct kiln_event event_back;
    struct kiln_heartbeat beat_back;
    struct kiln_error err;
    assert_int_equal(kiln_control_decode(order, strlen(order), &order_back, &err), 0);
    assert_int_equal(kiln_event_decode(event, strlen(event), &event_back, &err), 0);
    assert_int_equal(event_back.code, KILN_INTERNAL);
    assert_int_equal(kiln_heartbeat_decode(beat, strlen(beat), &beat_back, &err), 0);
    assert_int_equal(beat_back.version, 7);
    assert_int_equal(beat_back.places, KILN_HEARTBEAT_UNTOLD); /* an older one's: not "none left" */
}

static void held_lists_are_bounded(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "7",
        "[\"1\"],\"held\":[\"2\"]",
        "[7]",
        "[\"a/b\"]",
        "[\"\"]",
        "[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\","
        "\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"]",
        "[\"1\",\"2\",\"3\",\"4\"],\"held_more\":[\"5\",\"6\",\"7\",\"8\","
        "\"9\",\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"]"};
    _Static_assert(KILN_HEARTBEAT_HELD_MAX == 16, "the last two of them have one more");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[256];
        struct kiln_heartbeat beat;
        struct kiln_error err;
        snprintf(text, sizeof text,
                 "{\"v\":1,\"worker\":\"w\",\"incarnation\":\"i\",\"version\":1,\"room\":1,\"batch_"
                 "max\":1,"
                 "\"held\":%s}",
                 wrong[i]);
        assert_int_equal(kiln_heartbeat_decode(text, strlen(text), &beat, &err), KILN_PROTOCOL);
        assert_non_null(strstr(err.text, "held"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_share_a_cluster_slot),
        cmocka_unit_test(assignments_come_back_whole),
        cmocka_unit_test(damaged_assignments_are_refused_or_whole),
        cmocka_unit_test(a_job_of_another_group_is_refused),
        cmocka_unit_test(orders_come_back),
        cmocka_unit_test(events_and_receipts_come_back),
        cmocka_unit_test(heartbeats_come_back),
        cmocka_unit_test(wrong_messages_name_the_field),
        cmocka_unit_test(events_say_what_they_are_about),
        cmocka_unit_test(a_line_of_the_release_before_is_drawn),
        cmocka_unit_test(assignments_say_their_mode),
        cmocka_unit_test(ids_of_an_assignment_are_ids),
        cmocka_unit_test(newer_peers_may_add_fields),
        cmocka_unit_test(a_long_hand_is_told_in_two_lists),
        cmocka_unit_test(held_lists_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
