/* test_template.c - choices in prompts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/job/template.h"
#include "schemas/limits.h"

static void check(const char *template, const char *const *prompts, size_t count)
{
    uint64_t got;
    struct kiln_error err;
    if (kiln_template_count(template, strlen(template), KILN_EXPAND_MAX, &got, &err) != 0)
        fail_msg("%s: %s", template, err.text);
    assert_int_equal(got, count);
    for (size_t i = 0; i < count; i++) {
        struct kiln_text out = {0};
        kiln_template_render(template, strlen(template), i, &out);
        assert_string_equal(out.at ? out.at : "", prompts[i]);
        kiln_text_release(&out);
    }
}

static void a_text_without_braces_is_itself(void **state)
{
    (void)state;
    check("a cat | a dog \\| \\\\", (const char *[]){"a cat | a dog \\| \\\\"}, 1);
    check("", (const char *[]){""}, 1);
}

static void choices_make_every_combination_in_order(void **state)
{
    (void)state;
    check("a {red|blue} {car|bike}",
          (const char *[]){"a red car", "a red bike", "a blue car", "a blue bike"}, 4);
    check("{|very }good", (const char *[]){"good", "very good"}, 2);
    check("{a|b|c}", (const char *[]){"a", "b", "c"}, 3);
    check("{a|a}", (const char *[]){"a", "a"}, 2);
}

static void choices_nest(void **state)
{
    (void)state;
    check("a {car|{old|new} {boat|ship}}!",
          (const char *[]){"a car!", "a old boat!", "a old ship!", "a new boat!", "a new ship!"},
          5);
    check("{{{x|y}|z}|w}", (const char *[]){"x", "y", "z", "w"}, 4);
}

static void escapes_are_literal(void **state)
{
    (void)state;
    check("\\{a|b\\}", (const char *[]){"{a|b}"}, 1);
    check("{a\\|b|c\\}}", (const char *[]){"a|b", "c}"}, 2);
    check("{a|b} \\\\ \\n", (const char *[]){"a \\ \\n", "b \\ \\n"}, 2);
}

static void braces_without_a_bar_are_text(void **state)
{
    (void)state;
    check("{\"subject\": \"cat\"}", (const char *[]){"{\"subject\": \"cat\"}"}, 1);
    check("{x: {a|b}}", (const char *[]){"{x: a}", "{x: b}"}, 2);
}

static void unmatched_braces_name_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *template, *says;
    } rows[] = {{"a {red|blue", "a '{' without its '}' at byte 3"},
                {"a }b", "a '}' without its '{' at byte 3"},
                {"{a|{b}", "a '{' without its '}' at byte 1"},
                {"{a|b\\}", "at byte 1"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_error err;
        uint64_t count;
        const char *template = rows[i].template;
        assert_int_equal(kiln_template_count(template, strlen(template), 10, &count, &err),
                         KILN_BAD_INPUT);
        if (!strstr(err.text, rows[i].says))
            fail_msg("%s: %s", template, err.text);
    }
}

static void too_many_and_too_deep_are_refused(void **state)
{
    (void)state;
    char many[KILN_PROMPT_MAX + 1], deep[64];
    struct kiln_error err;
    uint64_t count;
    size_t len = 0;
    while (len + 5 <= KILN_PROMPT_MAX) { /* 2^1638 overflows any counter */
        memcpy(many + len, "{a|b}", 5);
        len += 5;
    }
    assert_int_equal(kiln_template_count(many, len, KILN_EXPAND_MAX, &count, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "limit is 1000000"));
    assert_int_equal(kiln_template_count(many, 19 * 5, KILN_EXPAND_MAX, &count, &err), 0);
    assert_int_equal(count, 1 << 19);
    memset(deep, '{', 17);
    memset(deep + 17, '}', 17);
    assert_int_equal(kiln_template_count(deep, 34, 10, &count, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "too deeply"));
    assert_int_equal(kiln_template_count(deep + 1, 32, 10, &count, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_without_braces_is_itself),
        cmocka_unit_test(choices_make_every_combination_in_order),
        cmocka_unit_test(choices_nest),
        cmocka_unit_test(escapes_are_literal),
        cmocka_unit_test(braces_without_a_bar_are_text),
        cmocka_unit_test(unmatched_braces_name_their_place),
        cmocka_unit_test(too_many_and_too_deep_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
