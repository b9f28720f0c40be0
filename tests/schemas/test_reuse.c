/* test_reuse.c - the guard of the latent cache: what counts as the same prompt, and every rule by
 * which a donor is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/limits.h"
#include "schemas/reuse/canonical.h"
#include "schemas/reuse/guard.h"

static struct kiln_reuse_words *words;

static int set_up(void **state)
{
    (void)state;
    struct kiln_error err = {0};
    int code = kiln_reuse_words_new(NULL, 0, &words, &err);
    if (code)
        print_error("%s\n", err.text);
    return code;
}

static int tear_down(void **state)
{
    (void)state;
    kiln_reuse_words_free(words);
    return 0;
}

static void assert_form(const char *prompt, const char *form)
{
    struct kiln_text text = {0};
    struct kiln_error err = {0};
    assert_int_equal(kiln_canonical_prompt(words, prompt, &text, NULL, &err), 0);
    assert_string_equal(text.at ? text.at : "", form);
    kiln_text_release(&text);
}

static void assert_judged(const char *target, const char *donor, enum kiln_reuse_class class)
{
    enum kiln_reuse_class got;
    char reason[KILN_REUSE_REASON_MAX];
    struct kiln_error err = {0};
    assert_int_equal(kiln_reuse_judge(words, target, donor, &got, reason, &err), 0);
    if (got != class)
        print_error("'%s' from '%s': %s (%s)\n", target, donor, kiln_reuse_class_name(got), reason);
    assert_int_equal(got, class);
}

static void assert_reason(const char *target, const char *donor, const char *text)
{
    enum kiln_reuse_class got;
    char reason[KILN_REUSE_REASON_MAX];
    struct kiln_error err = {0};
    assert_int_equal(kiln_reuse_judge(words, target, donor, &got, reason, &err), 0);
    assert_int_equal(got, KILN_REUSE_NONE);
    assert_string_equal(reason, text);
}

static void typing_does_not_count(void **state)
{
    (void)state;
    assert_form("Masterpiece,  a RED star!", "a red star");
    assert_form("a red star", "a red star");
    assert_form("", "");
    assert_form("blue sky, red star", "blue sky, red star");
    assert_form("red star, blue sky", "blue sky, red star");
}

static void same_facts_in_other_words(void **state)
{
    (void)state;
    assert_judged("a red star", "a star that is red", KILN_REUSE_REWORDED);
    assert_judged("a red star above a blue circle", "a blue circle below a red star",
                  KILN_REUSE_REWORDED);
    assert_judged("a cat on a sofa", "a black cat on a red couch", KILN_REUSE_DONOR_SAYS_MORE);
}

static void a_difference_is_named(void **state)
{
    (void)state;
    assert_reason("a red star", "a blue star", "the colours differ: red, blue");
    assert_reason("a cat", "two cats", "the numbers differ: none, two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typing_does_not_count),
        cmocka_unit_test(same_facts_in_other_words),
        cmocka_unit_test(a_difference_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
