/* test_intake_hostile.c - what any Redis client may send: each bad entry costs itself, and what was
 * sent behind it comes in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_bad_value_is_refused_with_its_batch),
        TEST(sentences_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
