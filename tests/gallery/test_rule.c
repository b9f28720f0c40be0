/* test_rule.c - the rule about prompts: whole words in one form, lists, and what is wrong with one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/gallery/safety/rule.h"

static struct kiln_error err;

static struct kiln_rule *parse(const char *text)
{
    struct kiln_rule *rule = NULL;
    if (kiln_rule_parse("list", text, strlen(text), &rule, &err) != 0)
        fail_msg("%s", err.text);
    return rule;
}

static void words_are_whole_and_in_one_form(void **state)
{
    (void)state;
    struct kiln_rule *rule = parse("cock\nkill # a comment\n[de]\n  NÜCHTERN  \n\n");
    assert_int_equal(kiln_rule_entries(rule), 3);
    static const char *const has[] = {"a cock",
                                      "Cock!",
                                      "(cock:1.2)",
                                      "kill, bill",
                                      "ＣＯＣＫ",
                                      "nu\xcc\x88"
                                      "chtern",
                                      "one-cock-two",
                                      "cock\n"};
    static const char *const not [] = {"a peacock on a wall", "skill",   "killer",  "cocks", "",
                                       "\xff\xfe cock",       "c o c k", "comment", "de"};
    for (size_t i = 0; i < sizeof has / sizeof *has; i++)
        if (!kiln_rule_matches(rule, has[i]))
            fail_msg("not found: %s", has[i]);
    for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
        if (kiln_rule_matches(rule, not [i]))
            fail_msg("found: %s", not [i]);
    kiln_rule_free(rule);
}

static void words_that_follow_each_other_are_one_entry(void **state)
{
    (void)state;
    struct kiln_rule *rule = parse("red star\nstar\x20ship captain\none two three four five six "
                                   "seven eight\n");
    assert_true(kiln_rule_matches(rule, "a RED, star"));
    assert_true(kiln_rule_matches(rule, "the star ship captain"));
    assert_true(kiln_rule_matches(rule, "red red star"));
    assert_true(kiln_rule_matches(rule, "zero one two three four five six seven eight nine"));
    assert_false(kiln_rule_matches(rule, "star red"));
    assert_false(kiln_rule_matches(rule, "red giant star"));
    assert_false(kiln_rule_matches(rule, "star ship"));
    assert_false(kiln_rule_matches(rule, "ship captain"));
    assert_false(kiln_rule_matches(rule, "two three four five six seven eight"));
    kiln_rule_free(rule);
}

static void runs_without_spaces_are_looked_through(void **state)
{
    (void)state;
    struct kiln_rule *rule = parse("赤い星\n裸\n누드\n");
    assert_true(kiln_rule_matches(rule, "夜の赤い星です"));
    assert_true(kiln_rule_matches(rule, "裸, 星"));      /* one character: alone only */
    assert_false(kiln_rule_matches(rule, "裸足の少年")); /* a boy with bare feet */
    assert_false(kiln_rule_matches(rule, "赤い月と星"));
    assert_true(kiln_rule_matches(rule, "여성누드화"));
    kiln_rule_free(rule);
}

static void the_source_names_the_list(void **state)
{
    (void)state;
    struct kiln_rule *one = parse("a1\n"), *same = parse("a1\n"), *other = parse("a2\n");
    struct kiln_rule *none = parse("# nothing\n"), *builtin, *off;
    assert_string_equal(kiln_rule_source(one), kiln_rule_source(same));
    assert_string_not_equal(kiln_rule_source(one), kiln_rule_source(other));
    assert_int_equal(strlen(kiln_rule_source(one)), 13);
    assert_string_equal(kiln_rule_source(none), "rule:none");
    assert_false(kiln_rule_matches(none, "nothing"));
    assert_int_equal(kiln_rule_open("builtin", &builtin, &err), 0);
    assert_string_equal(kiln_rule_source(builtin), "rule:1");
    assert_in_range(kiln_rule_entries(builtin), 50, 500);
    assert_int_equal(kiln_rule_open("none", &off, &err), 0);
    assert_string_equal(kiln_rule_source(off), "rule:none");
    kiln_rule_free(one), kiln_rule_free(same), kiln_rule_free(other);
    kiln_rule_free(none), kiln_rule_free(builtin), kiln_rule_free(off);
    kiln_rule_free(NULL);
}

static void the_list_that_is_built_in_knows_what_is_harmless(void **state)
{
    (void)state;
    static const char *const not [] = {
        "a peacock, skill, Essex, cocktail, grape, therapist, assassin, Middlesex",
        "a naga queen, coiled, temple",
        "a breast of chicken with herbs",
        "蓝色情调的房间",   /* a room in a blue mood */
        "小丑ピエロのお面", /* the mask of a clown */
        "爱情色彩的油画",   /* an oil painting in the colours of love */
        "Schwanz eines Pfaus"};
    struct kiln_rule *rule;
    assert_int_equal(kiln_rule_open("builtin", &rule, &err), 0);
    for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
        if (kiln_rule_matches(rule, not [i]))
            fail_msg("found: %s", not [i]);
    assert_true(kiln_rule_matches(rule, "a Nude, oil on canvas"));
    assert_true(kiln_rule_matches(rule, "eine nackte Frau"));
    assert_true(kiln_rule_matches(rule, "обнажённая в кресле"));
    assert_true(kiln_rule_matches(rule, "全裸の人物"));
    kiln_rule_free(rule);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    struct kiln_rule *rule = NULL;
    static const char *const wrong[] = {"good\n---\n", "good\na b c d e f g h i\n", "good\n\xff\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(kiln_rule_parse("list", wrong[i], strlen(wrong[i]), &rule, &err),
                         KILN_CONFIG);
        assert_non_null(strstr(err.text, "list, line 2: "));
    }
    assert_int_equal(kiln_rule_open("/nowhere/words", &rule, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "gallery_rule: "));
    assert_non_null(strstr(err.text, "/nowhere/words"));
    assert_null(rule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_whole_and_in_one_form),
        cmocka_unit_test(words_that_follow_each_other_are_one_entry),
        cmocka_unit_test(runs_without_spaces_are_looked_through),
        cmocka_unit_test(the_source_names_the_list),
        cmocka_unit_test(the_list_that_is_built_in_knows_what_is_harmless),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
