/* test_job.c - states, legal moves, LoRA sets, error codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/error.h"
#include "schemas/job.h"

static void names_of_states_go_both_ways(void **state)
{
    (void)state;
    static const char *const names[] = {"queued", "assigned", "done", "failed", "cancelled"};
    for (int i = 0; i < KILN_JOB_STATE_COUNT; i++) {
        assert_string_equal(kiln_job_state_name((enum kiln_job_state)i), names[i]);
        assert_int_equal(kiln_job_state_by_name(names[i]), i);
    }
    assert_int_equal(kiln_job_state_by_name("lost"), -1);
    assert_string_equal(kiln_job_kind_name(KILN_KIND_LATENT_CACHE), "latent-cache");
    assert_string_equal(kiln_latents_name(KILN_LATENTS_TRAJECTORY), "trajectory");
    assert_string_equal(kiln_teleport_name(KILN_TELEPORT_OFF), "off");
    assert_string_equal(kiln_teleport_name(KILN_TELEPORT_AUTO), "auto");
    assert_string_equal(kiln_teleport_name(KILN_TELEPORT_OLD), "off");
}

static void sql_has_the_numbers_of_the_states(void **state)
{
    (void)state;
#define CHECK(constant, name, number)                                                              \
    assert_string_equal(KILN_SQL_##constant, #number);                                             \
    assert_int_equal(KILN_JOB_##constant, number);
    KILN_JOB_STATES(CHECK)
    assert_string_equal(KILN_SQL_UNFINISHED, "(0, 1)");
    assert_string_equal(KILN_SQL_ENDED, "(2, 3, 4)");
}

static void only_the_drawn_moves_are_legal(void **state)
{
    (void)state;
    static const char *const rows[KILN_JOB_STATE_COUNT] = {/* to: q a d f c */
                                                           ".x..x", "x.xxx", ".....", "x....",
                                                           "x...."};
    for (int from = 0; from < KILN_JOB_STATE_COUNT; from++)
        for (int to = 0; to < KILN_JOB_STATE_COUNT; to++)
            assert_int_equal(kiln_move_legal((enum kiln_job_state)from, (enum kiln_job_state)to),
                             rows[from][to] == 'x');
    assert_false(kiln_move_legal((enum kiln_job_state)9, KILN_JOB_QUEUED));
}

static void equal_lora_sets_have_equal_text(void **state)
{
    (void)state;
    char a[KILN_LORA_SET_MAX], b[KILN_LORA_SET_MAX];
    struct kiln_lora one[] = {{"paper", 1, ""}, {"ink", 0.8, ""}, {"noir", -0.25, ""}};
    struct kiln_lora two[] = {{"noir", -0.25, ""}, {"paper", 1, ""}, {"ink", 0.8, ""}};
    size_t len = kiln_lora_set_text(one, 3, a, sizeof a);
    kiln_lora_set_text(two, 3, b, sizeof b);
    assert_string_equal(a, "ink:0.8+noir:-0.25+paper:1");
    assert_string_equal(a, b);
    assert_int_equal(len, strlen(a));
    assert_int_equal(kiln_lora_set_text(one, 0, a, sizeof a), 0);
    assert_string_equal(a, "");
    len = kiln_lora_set_text(two, 3, b, 10);
    assert_int_equal(len, 9);
    assert_string_equal(b, "ink:0.8+n");
}

static void a_set_of_other_files_has_another_key(void **state)
{
    (void)state;
    char a[KILN_LORA_SET_MAX], b[KILN_LORA_SET_MAX];
    struct kiln_lora one[] = {{"paper", 1, ""}, {"ink", 0.8, ""}};
    kiln_lora_set_key(one, 2, a, sizeof a);
    assert_string_equal(a, "ink:0.8+paper:1");
    snprintf(one[1].sha256, sizeof one[1].sha256, "%064d", 1);
    kiln_lora_set_key(one, 2, a, sizeof a);
    assert_string_equal(a, "ink:0.8@0000000000000000+paper:1");
    snprintf(one[1].sha256, sizeof one[1].sha256, "1%063d", 1);
    kiln_lora_set_key(one, 2, b, sizeof b);
    assert_string_not_equal(a, b);
    kiln_lora_set_text(one, 2, b, sizeof b);
    assert_string_equal(b, "ink:0.8+paper:1");
    assert_true(kiln_lora_set_meant(b, a) && kiln_lora_set_meant(a, a));
    assert_false(kiln_lora_set_meant("ink:0.8", a) || kiln_lora_set_meant(a, b));
    assert_false(kiln_lora_set_meant("ink:0.8+paper:1+x:1", a) || kiln_lora_set_meant("", a));
    one[0] = one[1];
    kiln_lora_set_key(one, 1, a, sizeof a);
    assert_true(kiln_lora_set_meant("ink:0.8", a) && !kiln_lora_set_meant("ink:0.80", a));
}

static void the_longest_lora_set_fits(void **state)
{
    (void)state;
    char text[KILN_LORA_SET_MAX];
    struct kiln_lora loras[KILN_LORAS_MAX];
    for (int i = 0; i < KILN_LORAS_MAX; i++) {
        memset(loras[i].name, 'a' + i, KILN_NAME_MAX);
        loras[i].name[KILN_NAME_MAX] = '\0';
        loras[i].scale = -3.3333333e-5;
        snprintf(loras[i].sha256, sizeof loras[i].sha256, "%064d", i);
    }
    size_t len = kiln_lora_set_text(loras, KILN_LORAS_MAX, text, sizeof text);
    assert_int_equal(len, strlen(text));
    assert_int_equal(len, KILN_LORAS_MAX * (KILN_NAME_MAX + strlen(":-3.333e-05") + 1) - 1);
    len = kiln_lora_set_key(loras, KILN_LORAS_MAX, text, sizeof text);
    assert_int_equal(len, strlen(text));
    assert_int_equal(
        len,
        KILN_LORAS_MAX * (KILN_NAME_MAX + strlen(":-3.333e-05") + 2 + KILN_LORA_KEY_DIGITS) - 1);
}

static void release_takes_a_zeroed_record(void **state)
{
    (void)state;
    struct kiln_job job = {0};
    kiln_job_release(&job);
    job.prompt = strdup("x");
    job.batch = strdup("b");
    kiln_job_release(&job);
    assert_null(job.prompt);
}

static void every_code_has_a_name_and_a_sentence(void **state)
{
    (void)state;
    for (int code = 0; code < KILN_CODE_COUNT; code++) {
        assert_int_equal(kiln_code_by_name(kiln_code_name(code)), code);
        assert_true(strlen(kiln_code_sentence(code)) > 10);
        assert_int_equal(kiln_code_exit(code) == 0, code == KILN_OK);
    }
    assert_string_equal(kiln_code_name(999), "unknown");
    assert_int_equal(kiln_code_by_name("nonsense"), -1);
    assert_true(kiln_code_retryable(KILN_UNAVAILABLE));
    assert_false(kiln_code_retryable(KILN_BAD_INPUT));
    assert_string_equal(kiln_code_name(19), "not_finite"); /* as it is in ledgers */
    assert_true(kiln_code_retryable(KILN_NOT_FINITE));
    assert_int_equal(kiln_code_retry(KILN_UNAVAILABLE), KILN_RETRY_LATER);
    assert_int_equal(kiln_code_retry(KILN_DEVICE), KILN_RETRY_ELSEWHERE);
    assert_int_equal(kiln_code_retry(KILN_DENIED), KILN_RETRY_REPAIRED);
    assert_int_equal(kiln_code_retry(KILN_CORRUPT), KILN_RETRY_NEVER);
    assert_int_equal(kiln_code_retry(999), KILN_RETRY_NEVER);
}

static void errors_nest_and_are_bounded(void **state)
{
    (void)state;
    struct kiln_error err;
    assert_int_equal(kiln_fail(&err, KILN_IO, "open %s", "x"), KILN_IO);
    assert_int_equal(kiln_fail_in(&err, "job %d", 7), KILN_IO);
    assert_string_equal(err.text, "job 7: open x");
    for (int i = 0; i < 300; i++)
        kiln_fail_in(&err, "deeper and deeper");
    assert_int_equal(strlen(err.text), KILN_ERROR_TEXT_MAX - 1);
    assert_int_equal(kiln_fail(NULL, KILN_IO, "nobody listens"), KILN_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_states_go_both_ways),
        cmocka_unit_test(sql_has_the_numbers_of_the_states),
        cmocka_unit_test(only_the_drawn_moves_are_legal),
        cmocka_unit_test(equal_lora_sets_have_equal_text),
        cmocka_unit_test(a_set_of_other_files_has_another_key),
        cmocka_unit_test(the_longest_lora_set_fits),
        cmocka_unit_test(release_takes_a_zeroed_record),
        cmocka_unit_test(every_code_has_a_name_and_a_sentence),
        cmocka_unit_test(errors_nest_and_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
