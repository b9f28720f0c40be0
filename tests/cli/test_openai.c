/* test_openai.c - requests of OpenAI batch files as job lines, and what is refused of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/cli/jobs/enqueue/openai.h"
#include "schemas/job/expand.h"

#define REQUEST(body)                                                                              \
    "{\"custom_id\":\"a1\",\"method\":\"POST\",\"url\":\"/v1/images/generations\",\"body\":" body  \
    "}"

static void becomes(const char *request, const char *line)
{
    struct kiln_text out = {0};
    struct kiln_error err = {0};
    struct kiln_openai_passed passed;
    assert_true(kiln_openai_is(request, strlen(request)));
    if (kiln_openai_line(request, strlen(request), &out, &passed, &err))
        fail_msg("%s: %s", request, err.text);
    assert_string_equal(out.at, line);
    struct kiln_expand *expand = kiln_expand_new();
    const struct kiln_job_context context = {.init_files = false};
    if (kiln_expand_begin(expand, out.at, out.len, &context, &err))
        fail_msg("%s is no job line: %s", out.at, err.text);
    kiln_expand_free(expand);
    kiln_text_release(&out);
}

static void is_refused(const char *request, const char *why)
{
    struct kiln_openai_passed passed;
    struct kiln_text out = {0};
    struct kiln_error err = {0};
    assert_int_equal(kiln_openai_line(request, strlen(request), &out, &passed, &err),
                     KILN_BAD_INPUT);
    if (!strstr(err.text, why))
        fail_msg("%s: %s", request, err.text);
    kiln_text_release(&out);
}

static void a_request_is_a_job_line(void **state)
{
    (void)state;
    becomes(REQUEST("{\"prompt\":\"a star\"}"), "{\"custom_id\":\"a1\",\"prompt\":\"a star\"}");
    becomes(
        REQUEST("{\"model\":\"turbo\",\"prompt\":\"a \\\"star\\\"\",\"n\":3,\"size\":\"512x512\"}"),
        "{\"custom_id\":\"a1\",\"model\":\"turbo\",\"prompt\":\"a \\\"star\\\"\",\"count\":3,"
        "\"size\":\"512x512\"}");
    /* all keys of a job line, with all 64 bits of a seed */
    becomes(REQUEST("{\"prompt\":\"x\",\"seed\":18446744073709551615,\"steps\":4,"
                    "\"loras\":[{\"name\":\"ink\",\"scale\":0.5}]}"),
            "{\"custom_id\":\"a1\",\"prompt\":\"x\",\"seed\":18446744073709551615,\"steps\":4,"
            "\"loras\":[{\"name\":\"ink\",\"scale\":0.5}]}");
    /* what says nothing about the picture, and what asks for what Kiln does anyway */
    becomes(REQUEST("{\"user\":\"u\",\"response_format\":\"b64_json\",\"quality\":\"standard\","
                    "\"background\":\"auto\",\"output_format\":\"webp\",\"moderation\":\"auto\","
                    "\"prompt\":\"x\",\"size\":\"auto\"}"),
            "{\"custom_id\":\"a1\",\"prompt\":\"x\"}");
}

/* A file as OpenAI's clients write it: no worker has their models, and the caller says so. */
static void a_model_of_theirs_is_passed_over(void **state)
{
    (void)state;
    static const char *const theirs[] = {"gpt-image-1", "gpt-image-1-mini", "chatgpt-image-latest",
                                         "dall-e-2", "dall-e-3"};
    static const char *const others[] = {"dall-e-mini", "gpt-image-", "turbo"};
    char request[256];
    struct kiln_openai_passed passed;
    struct kiln_error err;
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        struct kiln_text out = {0};
        snprintf(request, sizeof request, REQUEST("{\"model\":\"%s\",\"prompt\":\"x\"}"),
                 theirs[i]);
        becomes(request, "{\"custom_id\":\"a1\",\"prompt\":\"x\"}");
        assert_int_equal(kiln_openai_line(request, strlen(request), &out, &passed, &err), 0);
        assert_string_equal(passed.model, theirs[i]);
        kiln_text_release(&out);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct kiln_text out = {0};
        snprintf(request, sizeof request, REQUEST("{\"model\":\"%s\",\"prompt\":\"x\"}"),
                 others[i]);
        assert_int_equal(kiln_openai_line(request, strlen(request), &out, &passed, &err), 0);
        assert_non_null(strstr(out.at, others[i]));
        assert_string_equal(passed.model, "");
        kiln_text_release(&out);
    }
}

/* What only OpenAI does is passed over and told; a style of Kiln's stays one, as n and size do. */
static void what_only_openai_does_is_told(void **state)
{
    (void)state;
    static const char request[] = REQUEST(
        "{\"quality\":\"hd\",\"style\":\"vivid\",\"output_format\":\"png\",\"moderation\":\"low\","
        "\"output_compression\":80,\"response_format\":\"url\",\"background\":\"transparent\","
        "\"prompt\":\"x\",\"n\":2}");
    static const char silent[] = REQUEST("{\"quality\":null,\"style\":\"neon\"}");
    char words[KILN_OPENAI_OTHERS_TEXT_MAX];
    struct kiln_openai_passed passed;
    struct kiln_text out = {0};
    struct kiln_error err;
    becomes(request, "{\"custom_id\":\"a1\",\"prompt\":\"x\",\"count\":2}");
    assert_int_equal(kiln_openai_line(request, strlen(request), &out, &passed, &err), 0);
    kiln_openai_others(passed.others, words);
    assert_string_equal(words,
                        "quality hd, style vivid, background transparent, output_format png, "
                        "output_compression, moderation low, response_format url");
    kiln_text_clear(&out);
    assert_int_equal(kiln_openai_line(silent, strlen(silent), &out, &passed, &err), 0);
    assert_string_equal(out.at, "{\"custom_id\":\"a1\",\"style\":\"neon\"}");
    assert_int_equal(passed.others, 0);
    kiln_openai_others(UINT32_MAX, words); /* there is room for all of them */
    assert_non_null(strstr(words, "response_format url"));
    kiln_text_release(&out);
}

static void what_it_cannot_do_is_refused_by_name(void **state)
{
    (void)state;
    is_refused(REQUEST("{\"prompt\":\"x\",\"quality\":\"hdr\"}"),
               "\"quality\" must be one of auto, standard, low, medium, high, hd, or missing");
    is_refused(REQUEST("{\"prompt\":\"x\",\"background\":true}"), "\"background\"");
    is_refused(REQUEST("{\"prompt\":\"x\",\"output_format\":7}"), "\"output_format\"");
    is_refused(REQUEST("{\"prompt\":\"x\",\"custom_id\":\"b\"}"), "beside the body");
    is_refused(REQUEST("[1]"), "\"body\" must be an object");
    is_refused(
        "{\"custom_id\":\"a\",\"method\":\"GET\",\"url\":\"/v1/images/generations\",\"body\":{}}",
        "\"method\" is \"GET\"");
    is_refused("{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/embeddings\",\"body\":{}}",
               "\"url\" is \"/v1/embeddings\"");
    is_refused("{\"method\":\"POST\",\"url\":\"/v1/images/generations\",\"body\":{}}",
               "\"custom_id\" of the request is missing");
    static const char bodyless[] =
        "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/images/generations\"}";
    assert_true(kiln_openai_is(bodyless, strlen(bodyless)));
    is_refused(bodyless, "\"body\" of the request is missing");
    is_refused("{\"custom_id\":7,\"method\":\"POST\",\"url\":\"/v1/images/generations\"}",
               "\"custom_id\" must be text");
    is_refused("{\"custom_id\":\"a\",\"url\":\"/v1/images/generations\",\"body\":{}}",
               "\"method\"");
    is_refused(
        "{\"custom_id\":\"a\",\"method\":\"POST\",\"method\":\"POST\",\"url\":\"\",\"body\":{}}",
        "given twice");
    is_refused("{\"id\":\"a\",\"url\":\"\",\"body\":{}}", "unknown key \"id\"");
}

/* A job line is not taken for one, whatever its texts are. */
static void job_lines_stay_job_lines(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"prompt\":\"a star\"}",
        "{\"prompt\":\"\\\"body\\\" and \\\"url\\\"\"}",
        "{\"prompt\":\"body\",\"style\":\"url\"}",
        "{\"prompt\":\"x\",\"body\":1}",
        "{\"body\":1,\"url\":",
        "",
        "\"body\"\"url\"",
        "[[[[[[[[[[[[[[[[[[[[\"body\",\"url\"",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (kiln_openai_is(lines[i], strlen(lines[i])))
            fail_msg("%s", lines[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_a_job_line),
        cmocka_unit_test(a_model_of_theirs_is_passed_over),
        cmocka_unit_test(what_only_openai_does_is_told),
        cmocka_unit_test(what_it_cannot_do_is_refused_by_name),
        cmocka_unit_test(job_lines_stay_job_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
