/* test_levels.c - what a classifier's labels and shares mean as levels of safety. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/gallery/safety/classifier.h"

static const char *const two[] = {"normal", "nsfw"};
static const char *const five[] = {"neutral", "Drawings", "sexy", "PORN", "hentai"};

static void test_labels_of_published_classifiers_have_levels(void **state)
{
    (void)state;
    int level[5];
    struct kiln_error err;
    assert_int_equal(kiln_safety_levels_of(two, 2, "", level, &err), 0);
    assert_int_equal(level[0], KILN_SAFETY_CLEAR);
    assert_int_equal(level[1], KILN_SAFETY_EXPLICIT);
    assert_int_equal(kiln_safety_levels_of(five, 5, "", level, &err), 0);
    assert_int_equal(level[1], KILN_SAFETY_CLEAR);
    assert_int_equal(level[2], KILN_SAFETY_MATURE);
    assert_int_equal(level[3], KILN_SAFETY_EXPLICIT);
}

static void test_a_setting_gives_labels_their_levels(void **state)
{
    (void)state;
    static const char *const own[] = {"LABEL_0", "a=b"};
    int level[2];
    struct kiln_error err;
    assert_int_equal(kiln_safety_levels_of(own, 2, " LABEL_0 = clear,a=b=mature, ", level, &err),
                     0);
    assert_int_equal(level[0], KILN_SAFETY_CLEAR);
    assert_int_equal(level[1], KILN_SAFETY_MATURE);
    assert_int_equal(kiln_safety_levels_of(two, 2, "nsfw=mature", level, &err), 0);
    assert_int_equal(level[1], KILN_SAFETY_MATURE);
}

static void test_what_stands_for_no_level_is_named(void **state)
{
    (void)state;
    static const char *const own[] = {"LABEL_0", "nsfw"};
    static const struct {
        const char *const *label;
        const char *setting, *word;
    } cases[] = {
        {own, "", "\"LABEL_0\""},
        {own, "LABEL_0=fine", "\"fine\" is not a level"},
        {own, "LABEL_1=clear", "no label \"LABEL_1\""},
        {own, "LABEL_0", "\"LABEL_0\" is not LABEL=LEVEL"},
        {two, "nsfw=clear", "all labels of the classifier stand for clear"},
        {two, "normal=unsure", "levels above clear"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int level[2];
        struct kiln_error err = {0};
        assert_int_equal(kiln_safety_levels_of(cases[i].label, 2, cases[i].setting, level, &err),
                         KILN_CONFIG);
        if (!strstr(err.text, cases[i].word))
            fail_msg("%s: %s", cases[i].setting, err.text);
    }
}

static void assert_decides(const double *share, const int *level, int labels, int expected,
                           double score)
{
    const struct kiln_classified said = kiln_safety_decide(share, level, labels, 0.75);
    assert_int_equal(said.level, expected);
    assert_true(said.score > score - 1e-9 && said.score < score + 1e-9);
}

static void test_shares_decide_on_a_level(void **state)
{
    (void)state;
    static const int pair[] = {KILN_SAFETY_CLEAR, KILN_SAFETY_EXPLICIT};
    static const int list[] = {KILN_SAFETY_CLEAR, KILN_SAFETY_CLEAR, KILN_SAFETY_MATURE,
                               KILN_SAFETY_EXPLICIT, KILN_SAFETY_EXPLICIT};
    assert_decides((double[]){0.9, 0.1}, pair, 2, KILN_SAFETY_CLEAR, 0.1);
    assert_decides((double[]){0.75, 0.25}, pair, 2, KILN_SAFETY_CLEAR, 0.25);
    assert_decides((double[]){0.7, 0.3}, pair, 2, KILN_SAFETY_UNSURE, 0.3);
    assert_decides((double[]){0.26, 0.74}, pair, 2, KILN_SAFETY_UNSURE, 0.74);
    assert_decides((double[]){0.2, 0.8}, pair, 2, KILN_SAFETY_EXPLICIT, 0.8);
    /* Two labels of one level count together, and a level with those above it. */
    assert_decides((double[]){0.1, 0.1, 0, 0.4, 0.4}, list, 5, KILN_SAFETY_EXPLICIT, 0.8);
    assert_decides((double[]){0.1, 0, 0.5, 0.2, 0.2}, list, 5, KILN_SAFETY_MATURE, 0.9);
    assert_decides((double[]){0.4, 0.1, 0.2, 0.2, 0.1}, list, 5, KILN_SAFETY_UNSURE, 0.5);
    assert_decides((double[]){0.5, 0.4, 0.1, 0, 0}, list, 5, KILN_SAFETY_CLEAR, 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_of_published_classifiers_have_levels),
        cmocka_unit_test(test_a_setting_gives_labels_their_levels),
        cmocka_unit_test(test_what_stands_for_no_level_is_named),
        cmocka_unit_test(test_shares_decide_on_a_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
