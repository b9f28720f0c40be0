/* test_expand.c - one line, many jobs; sizes by name; style files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/job/expand.h"
#include "schemas/job/sizes.h"
#include "schemas/job/styles.h"

static struct kiln_expand *expand;

static int setup(void **state)
{
    (void)state;
    expand = kiln_expand_new();
    return expand ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    kiln_expand_free(expand);
    return 0;
}

static void begin(const char *line, uint64_t count)
{
    struct kiln_error err;
    if (kiln_expand_begin(expand, line, strlen(line), NULL, &err) != 0)
        fail_msg("%s: %s", line, err.text);
    assert_int_equal(kiln_expand_count(expand), count);
}

static void refused(const char *line, const char *says)
{
    struct kiln_error err = {0};
    assert_int_equal(kiln_expand_begin(expand, line, strlen(line), NULL, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_expand_count(expand), 0);
    if (!strstr(err.text, says))
        fail_msg("%s: \"%s\" does not say \"%s\"", line, err.text, says);
}

static struct kiln_job job_at(uint64_t which)
{
    struct kiln_job job;
    struct kiln_error err;
    if (kiln_expand_job(expand, which, &job, &err) != 0)
        fail_msg("job %llu: %s", (unsigned long long)which, err.text);
    return job;
}

static void check_job(uint64_t which, const char *prompt, uint32_t width, uint64_t seed)
{
    struct kiln_job job = job_at(which);
    assert_string_equal(job.prompt, prompt);
    assert_int_equal(job.width, width);
    assert_true(job.seed == seed);
    kiln_job_release(&job);
}

static void seeds_change_fastest(void **state)
{
    (void)state;
    begin("{\"prompt\":\"a {red|blue} car\",\"seed\":\"100-101\",\"size\":[\"1:1\",\"16:9\"]}", 8);
    assert_true(kiln_expand_has_seed(expand));
    check_job(0, "a red car", 1024, 100);
    check_job(1, "a red car", 1024, 101);
    check_job(2, "a blue car", 1024, 100);
    check_job(4, "a red car", 1344, 100);
    check_job(7, "a blue car", 1344, 101);
    struct kiln_job job;
    struct kiln_error err;
    assert_int_equal(kiln_expand_job(expand, 8, &job, &err), KILN_NOT_FOUND);
}

static void styles_change_slowest(void **state)
{
    (void)state;
    begin(
        "{\"prompt\":\"fox\",\"style\":[\"none\",\"watercolor\"],\"size\":[\"64x64\",\"128x64\"]}",
        4);
    check_job(0, "fox", 64, 0);
    check_job(1, "fox", 128, 0);
    check_job(2, "watercolor painting of fox, soft washes, paper texture, bleeding edges", 64, 0);
}

static void count_counts_from_the_seed(void **state)
{
    (void)state;
    begin("{\"prompt\":\"x\",\"count\":3,\"seed\":7}", 3);
    check_job(2, "x", 1024, 9);
    begin("{\"prompt\":\"x\",\"count\":3}", 3);
    assert_false(kiln_expand_has_seed(expand));
    begin("{\"prompt\":\"x\",\"seed\":\"12\"}", 1);
    check_job(0, "x", 1024, 12);
    begin("{\"prompt\":\"x\",\"seed\":\"18446744073709551614-18446744073709551615\"}", 2);
    check_job(1, "x", 1024, UINT64_MAX);
}

static void template_false_keeps_braces(void **state)
{
    (void)state;
    begin("{\"prompt\":\"{a|b\",\"template\":false}", 1);
    check_job(0, "{a|b", 1024, 0);
}

static void expansions_are_bounded(void **state)
{
    (void)state;
    refused("{\"prompt\":\"x\",\"seed\":\"1-2000000\"}", "more than 1000000 seeds");
    refused("{\"prompt\":\"x\",\"seed\":\"5-4\"}", "seed is \"5-4\"");
    refused("{\"prompt\":\"x\",\"seed\":\"5-\"}", "seed is \"5-\"");
    refused("{\"prompt\":\"x\",\"seed\":\"-5\"}", "seed is \"-5\"");
    refused("{\"prompt\":\"x\",\"seed\":\"1-2\",\"count\":2}",
            "count and a range of seeds are both given");
    refused("{\"prompt\":\"x\",\"seed\":18446744073709551615,\"count\":2}", "exceed 64 bits");
    refused("{\"prompt\":\"x\",\"seed\":\"1-99999999999999999999\"}", "seed is");
    refused("{\"prompt\":\"{a|b}{a|b}\",\"count\":10000,\"size\":[\"64x64\",\"64x80\",\"64x96\","
            "\"80x64\","
            "\"80x80\",\"80x96\",\"96x64\",\"96x80\",\"96x96\",\"1:1\",\"16:9\",\"9:16\",\"4:3\","
            "\"3:4\","
            "\"3:2\",\"2:3\",\"21:9\",\"1:1 xl\",\"16:9 xl\",\"9:16 xl\",\"4:3 xl\",\"3:4 "
            "xl\",\"1:1 max\","
            "\"16:9 max\",\"9:16 max\",\"4:3 max\"]}",
            "the line makes 1040000 pictures; the limit is 1000000");
    refused("{\"prompt\":\"x\",\"size\":[]}", "size is a list; it must be");
    refused("{\"prompt\":\"x\",\"style\":[\"anime\",1]}", "style is a list; it must be");
    refused("{\"prompt\":\"a {b\"}", "a '{' without its '}' at byte 3");
}

static void a_million_jobs_need_no_memory(void **state)
{
    (void)state;
    begin("{\"prompt\":\"{a|b}{c|d}\",\"count\":10000,\"size\":[\"1:1\",\"16:9\",\"9:16\",\"4:3\","
          "\"3:4\","
          "\"1:1 xl\",\"16:9 xl\",\"9:16 xl\",\"4:3 xl\",\"3:4 xl\",\"1:1 max\",\"16:9 "
          "max\",\"9:16 max\","
          "\"4:3 max\",\"3:4 "
          "max\",\"3:2\",\"2:3\",\"21:9\",\"64x64\",\"80x80\",\"96x96\",\"112x112\","
          "\"128x128\",\"144x144\",\"160x160\"]}",
          1000000);
    check_job(999999, "bd", 160, 0);
}

static void sizes_have_names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t width, height;
    } rows[] = {{"1344x768", 1344, 768},  {"64X2048", 64, 2048},   {"1:1", 1024, 1024},
                {"16:9", 1344, 768},      {"9:16", 768, 1344},     {"4:3", 1152, 896},
                {"3:4", 896, 1152},       {"9:7", 1152, 896},      {"3:2", 1216, 832},
                {"2:3", 832, 1216},       {"21:9", 1536, 640},     {"1:1 xl", 1536, 1536},
                {"16:9 xl", 1920, 1088},  {"9:16 xl", 1088, 1920}, {"4:3 xl", 1536, 1152},
                {"3:4 xl", 1152, 1536},   {"1:1 max", 2048, 2048}, {"16:9 max", 2048, 1152},
                {"9:16 max", 1152, 2048}, {"4:3 max", 2048, 1536}, {"3:4 max", 1536, 2048},
                {"1920:1080", 1344, 768}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t width, height;
        struct kiln_error err;
        if (kiln_size_parse(rows[i].text, strlen(rows[i].text), 0, &width, &height, &err) != 0)
            fail_msg("%s: %s", rows[i].text, err.text);
        assert_int_equal(width, rows[i].width);
        assert_int_equal(height, rows[i].height);
    }
}

/* Of a model that was made for another size, within what a picture may have. */
static void shapes_scale_with_the_model(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t own, width, height;
    } rows[] = {{"16:9", 512, 672, 384},      {"1:1", 512, 512, 512},
                {"1:1 xl", 512, 768, 768},    {"3:2", 256, 304, 208},
                {"16:9", 2048, 2048, 1168},   {"1:1 max", 1536, 2048, 2048},
                {"1344x768", 512, 1344, 768}, {"21:9", 64, 96, 64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t width, height;
        struct kiln_error err;
        if (kiln_size_parse(rows[i].text, strlen(rows[i].text), rows[i].own, &width, &height, &err))
            fail_msg("%s: %s", rows[i].text, err.text);
        if (width != rows[i].width || height != rows[i].height)
            fail_msg("%s at %u: %ux%u", rows[i].text, rows[i].own, width, height);
    }
}

static void other_sizes_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",           "x",        "1024",  "1024x",   "1024x1000",
                                        "16:9xl",     "16:9 s",   "2:1",   "21:9 xl", "0:1",
                                        "1:0",        "32x64",    "16:9 ", "-1:1",    "1024x1024 ",
                                        "99999999x1", "4096x4096"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint32_t width = 7, height = 7;
        struct kiln_error err;
        int code = kiln_size_parse(texts[i], strlen(texts[i]), 0, &width, &height, &err);
        if (strcmp(texts[i], "16:9 ") == 0) {
            assert_int_equal(code, 0); /* a space at the end is nobody's mistake */
            continue;
        }
        if (code != KILN_BAD_INPUT || width != 7)
            fail_msg("\"%s\" is taken as %ux%u", texts[i], width, height);
    }
}

static void a_style_file_adds_and_replaces(void **state)
{
    (void)state;
    const char *text =
        "{\"ink\":{\"suffix\":\", ink drawing\"},\"anime\":{\"prefix\":\"manga of \"}}";
    struct kiln_styles *styles;
    struct kiln_error err;
    assert_int_equal(kiln_styles_parse(text, strlen(text), "s.json", &styles, &err), 0);
    assert_int_equal(kiln_styles_count(styles), kiln_styles_count(kiln_styles_builtin()) + 1);
    assert_string_equal(kiln_styles_find(styles, "ink", 3)->suffix, ", ink drawing");
    assert_string_equal(kiln_styles_find(styles, "anime", 5)->prefix, "manga of ");
    assert_string_equal(kiln_styles_find(styles, "anime", 5)->suffix, "");
    assert_null(kiln_styles_find(styles, "anim", 4));
    for (size_t i = 1; i < kiln_styles_count(styles); i++)
        assert_true(strcmp(kiln_styles_at(styles, i - 1)->name, kiln_styles_at(styles, i)->name) <
                    0);
    kiln_styles_free(styles);
    kiln_styles_free(NULL);
}

static void the_built_in_styles_are_those_of_the_issue(void **state)
{
    (void)state;
    static const char *const names[] = {"none",        "photorealistic", "cinematic",  "anime",
                                        "digital-art", "oil-painting",   "watercolor", "3d-render",
                                        "fantasy",     "sci-fi"};
    const struct kiln_styles *styles = kiln_styles_builtin();
    assert_int_equal(kiln_styles_count(styles), 10);
    for (size_t i = 0; i < 10; i++)
        assert_non_null(kiln_styles_find(styles, names[i], strlen(names[i])));
}

static void wrong_style_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {{"", "s.json:1:"},
                {"[]", "must be one object"},
                {"{\"a\":1}", "style \"a\" must be an object"},
                {"{\"a\":{\"prefx\":\"\"}}", "unknown key \"prefx\""},
                {"{\"a\":{\"prefix\":1}}", "prefix must be a text"},
                {"{\"a b\":{}}", "\"a b\" is not the name of a style"},
                {"{\"a\":{},\"a\":{}}", "s.json:1: duplicate object key"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_styles *styles;
        struct kiln_error err = {0};
        const char *text = rows[i].text;
        assert_int_equal(kiln_styles_parse(text, strlen(text), "s.json", &styles, &err),
                         KILN_BAD_INPUT);
        if (!strstr(err.text, rows[i].says))
            fail_msg("%s: %s", text, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_change_fastest),
        cmocka_unit_test(styles_change_slowest),
        cmocka_unit_test(count_counts_from_the_seed),
        cmocka_unit_test(template_false_keeps_braces),
        cmocka_unit_test(expansions_are_bounded),
        cmocka_unit_test(a_million_jobs_need_no_memory),
        cmocka_unit_test(sizes_have_names),
        cmocka_unit_test(other_sizes_are_refused),
        cmocka_unit_test(shapes_scale_with_the_model),
        cmocka_unit_test(a_style_file_adds_and_replaces),
        cmocka_unit_test(the_built_in_styles_are_those_of_the_issue),
        cmocka_unit_test(wrong_style_files_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
