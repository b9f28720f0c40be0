/* test_route.c - what loras "auto" chose, in a job line and in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/route.h"
#include "tests/support/line.h"

static struct kiln_job parse(const char *line, bool *ret_has_seed)
{
    const struct kiln_job_context nothing = {0};
    struct kiln_job job;
    struct kiln_error err;
    if (kiln_job_line_parse(line, strlen(line), &nothing, &job, ret_has_seed, &err) != 0)
        fail_msg("%s: %s", line, err.text);
    return job;
}

/* A line that was routed is never routed again, and draws the same. */
static void what_auto_chose_stays_in_the_line(void **state)
{
    (void)state;
    bool has_seed;
    struct kiln_job job = parse("{\"prompt\":\"a fox\",\"loras\":\"auto\"}", &has_seed);
    assert_true(job.lora_auto && job.lora_count == 0 && !job.drawn && !job.route);
    char *line = test_line(&job);
    assert_non_null(strstr(line, "\"loras\":\"auto\""));
    free(line);
    job.loras[job.lora_count++] = (struct kiln_lora){"ink", 0.8, ""};
    job.route = strdup("{\"v\":41,\"r\":1,\"p\":[[\"ink\",0.97,\"trigger ink \\\"glow\\\"\"],"
                       "[\"noir\",0.41,\"style taken\"]]}");
    assert_true(kiln_job_draw(&job, "ink, ", 5));
    assert_string_equal(job.drawn, "ink, a fox");
    line = test_line(&job);
    struct kiln_job back = parse(line, &has_seed);
    assert_false(back.lora_auto);
    assert_string_equal(back.prompt, "a fox");
    assert_string_equal(back.drawn, "ink, a fox");
    assert_string_equal(back.loras[0].name, "ink");
    char *again = test_line(&back);
    assert_string_equal(line, again);
    struct kiln_text words = {0};
    kiln_route_words(&job, &words);
    assert_string_equal(words.at, "auto chose from registry version 41: ink at 0.8 (97 %, trigger "
                                  "ink \"glow\"); not noir (41 %, style taken)");
    kiln_text_clear(&words);
    kiln_route_words(&back, &words);
    assert_int_equal(words.len, 0);
    free(job.route);
    job.route = strdup("{\"v\":41,\"r\":2,\"e\":\"3f2a9c01\",\"p\":[[\"ink\",0.6,\"meaning\"]]}");
    kiln_text_clear(&words);
    kiln_route_words(&job, &words);
    assert_string_equal(words.at, "auto chose from registry version 41, embedder 3f2a9c01: ink at "
                                  "0.8 (60 %, meaning)");
    static const char *const damaged[] = {"",
                                          "{}",
                                          "[1]",
                                          "{\"v\":1,\"r\":1,\"p\":[[\"a\"]]}",
                                          "{\"v\":\"1\",\"r\":1,\"p\":[]}",
                                          "{\"v\":1,\"r\":1,"};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        struct kiln_route_reason reason;
        free(job.route);
        job.route = strdup(damaged[i]);
        assert_false(kiln_route_read(&job, &reason));
    }
    kiln_text_release(&words);
    free(line);
    free(again);
    kiln_job_release(&back);
    kiln_job_release(&job);
}

/* Overrides that name other LoRAs take the words of the ones before away. */
static void other_loras_come_without_words(void **state)
{
    (void)state;
    bool has_seed;
    struct kiln_error err;
    struct kiln_job job;
    const char *line = "{\"prompt\":\"a fox\",\"loras\":\"ink\",\"routed\":\"ink, \"}";
    const struct kiln_job_context nothing = {0};
    struct kiln_job_context context = {.overrides = "{\"loras\":\"ink\"}"};
    assert_int_equal(kiln_job_line_parse(line, strlen(line), &context, &job, &has_seed, &err), 0);
    assert_null(job.drawn);
    kiln_job_release(&job);
    char *long_line = malloc(KILN_PROMPT_MAX + 100);
    int at = sprintf(long_line, "{\"loras\":\"ink\",\"routed\":\"ink, \",\"prompt\":\"");
    memset(long_line + at, 'x', KILN_PROMPT_MAX);
    strcpy(long_line + at + KILN_PROMPT_MAX, "\"}");
    assert_int_equal(
        kiln_job_line_parse(long_line, strlen(long_line), &nothing, &job, &has_seed, &err),
        KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "prompt is 8197 bytes with the words of routed; the limit"));
    free(long_line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_auto_chose_stays_in_the_line),
        cmocka_unit_test(other_loras_come_without_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
