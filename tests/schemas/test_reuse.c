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
#include "schemas/reuse/known.h"

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

static void assert_none(const char *target, const char *donor)
{
    assert_judged(target, donor, KILN_REUSE_NONE);
}

static void assert_facts(const char *prompt, const char *text)
{
    struct kiln_facts *facts = NULL;
    struct kiln_text out = {0};
    struct kiln_error err = {0};
    assert_int_equal(kiln_facts_read(words, prompt, &facts, &err), 0);
    kiln_facts_text(facts, &out);
    assert_string_equal(out.at ? out.at : "", text);
    kiln_text_release(&out);
    kiln_facts_free(facts);
}

/* --- the canonical form ----------------------------------------------------------------------- */

static void typing_does_not_count(void **state)
{
    (void)state;
    assert_form("Masterpiece,  a red star!", "a red star");
    assert_form("a red star", "a red star");
    assert_form("", "");
    assert_form("a ｂｌｕｅ star", "a blue star");
    assert_form("a well-lit star", "a well lit star");
    assert_form("a\xe2\x80\x8b star\n", "a star");
    assert_form("please draw me a star, 8k", "a star");
}

static void capitals_count_but_at_the_beginning_of_a_sentence(void **state)
{
    (void)state;
    assert_form("A red star. The ring is blue", "a red star. the ring is blue");
    assert_form("Masterpiece, please draw a star", "a star");
    assert_form("Masterpiece, A star", "a star");
    assert_form("A RED  Star", "a RED Star");
    assert_form("a star, Blue", "a star, Blue");
    assert_form("a fox, MASTERPIECE, HD", "a fox, MASTERPIECE, HD");
    assert_form("a fox in 3D, 4K", "a fox in 3d");
    assert_form("AT NIGHT a fox", "AT NIGHT a fox"); /* one phrase of the lists */
    assert_form("a ÉTOILE rouge", "a ÉTOILE rouge");
    assert_form("A sign \"OPEN\"", "a sign \"OPEN\"");
    assert_judged("a red star", "A red star", KILN_REUSE_CANONICAL);
    assert_judged("a RED star", "A RED star!", KILN_REUSE_CANONICAL);
    assert_reason("a red star", "A RED STAR", "the words with capitals differ: none, RED STAR");
    assert_reason("A RED STAR", "A Red Star", "the words with capitals differ: RED STAR, Red Star");
    assert_reason("a red star", "a Crimson Star",
                  "the words with capitals differ: none, Crimson Star");
    assert_judged("a big RED star", "a large RED star", KILN_REUSE_REWORDED);
}

static void tags_that_stand_for_themselves_are_sorted(void **state)
{
    (void)state;
    assert_form("red star, blue sky", "blue sky, red star");
    assert_form("blue sky, red star", "blue sky, red star");
    assert_form("watercolour, a cat", "a cat, watercolour");
}

static void tags_that_may_belong_to_others_keep_their_order(void **state)
{
    (void)state;
    assert_form("dog, striped, cat, spotted", "dog, striped, cat, spotted");
    assert_form("woman, beard, man, dress", "woman, beard, man, dress");
    assert_form("sofa, under it, a cat", "sofa, under it, a cat");
    assert_form("left a star, then, a ring", "left a star, then, a ring");
    assert_form("no text, logo", "no text, logo");
    assert_form("red, white shirt", "red, white shirt");
    assert_form("star; circle", "star. circle");
}

static void quoted_text_is_kept_to_the_letter(void **state)
{
    (void)state;
    assert_form("A sign \"OPEN  Late\"", "a sign \"OPEN  Late\"");
    assert_form("A sign “Open”", "a sign \"Open\"");
    assert_form("写着「你好」", "写 着 \"你好\"");
    assert_form("the dog's 5\" bone", "the dog's 5 \" bone");
    assert_form("'a\" b \"c'", "\"a\\\" b \\\"c\"");
}

static void the_hash_is_that_of_the_form(void **state)
{
    (void)state;
    uint8_t one[KILN_SHA256_SIZE], two[KILN_SHA256_SIZE], form[KILN_SHA256_SIZE];
    struct kiln_error err = {0};
    assert_int_equal(kiln_canonical_prompt(words, "A star.", NULL, one, &err), 0);
    assert_int_equal(kiln_canonical_prompt(words, "a  star ", NULL, two, &err), 0);
    kiln_sha256("a star", 6, form);
    assert_memory_equal(one, two, sizeof one);
    assert_memory_equal(one, form, sizeof one);
}

static void what_is_no_prompt_is_refused(void **state)
{
    (void)state;
    static char long_one[KILN_PROMPT_MAX + 2];
    struct kiln_error err = {0};
    enum kiln_reuse_class got;
    char reason[KILN_REUSE_REASON_MAX];
    assert_int_equal(kiln_canonical_prompt(words, "a \xff", NULL, NULL, &err), KILN_BAD_INPUT);
    assert_string_equal(err.text, "the prompt is not UTF-8 at byte 2");
    memset(long_one, 'a', KILN_PROMPT_MAX + 1);
    assert_int_equal(kiln_canonical_prompt(words, long_one, NULL, NULL, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_reuse_judge(words, "a star", "a \xff", &got, reason, &err), 0);
    assert_int_equal(got, KILN_REUSE_NONE);
    assert_string_equal(reason, "the prompt is not UTF-8 at byte 2");
    assert_judged("a \xff", "a \xff", KILN_REUSE_SAME_PROMPT);
}

/* --- what a prompt states --------------------------------------------------------------------- */

static void things_relations_and_backgrounds_are_read(void **state)
{
    (void)state;
    assert_facts("two small red stars", "2 small red star+");
    assert_facts("a ring below a blue star on a white background",
                 "ring; blue star; 2 above 1; background background white");
    assert_facts("a star with a ring on its left", "star; ring; 2 left of 1");
    assert_facts("from left to right: a cat, a dog", "cat; dog; 1 left of 2");
    assert_facts("a star at the top and a ring", "star at top; ring");
    assert_facts("a cat on the beach, watercolour",
                 "cat; background on the beach; style watercolour");
    assert_facts("两只红色的狗", "2 red dog");
}

static void what_has_two_readings_stays_a_sequence(void **state)
{
    (void)state;
    assert_facts("a dog chasing a cat", "words: dog chases cat");
    assert_facts("a star and a ring at the top", "words: star / a ring top");
    assert_facts("a star left of a ring and a heart", "words: star left of ring / a heart");
    assert_facts("man, beard, woman", "words: man / beard / woman");
    assert_facts("a boy in the snow and a girl", "words: boy in the snow / a girl");
    assert_facts("no stars", "words: no star+");
}

/* --- the classes ------------------------------------------------------------------------------ */

static void equal_prompts_and_forms(void **state)
{
    (void)state;
    assert_judged("a star", "a star", KILN_REUSE_SAME_PROMPT);
    assert_judged("a star", "A star, masterpiece", KILN_REUSE_CANONICAL);
    assert_string_equal(kiln_reuse_class_name(KILN_REUSE_DONOR_SAYS_MORE), "donor_says_more");
    assert_string_equal(kiln_reuse_class_name(KILN_REUSE_CLASS_COUNT), "unknown");
}

static void same_facts_in_other_words(void **state)
{
    (void)state;
    assert_judged("a red star", "a star that is red", KILN_REUSE_REWORDED);
    assert_judged("a red star above a blue circle", "a blue circle below a red star",
                  KILN_REUSE_REWORDED);
    assert_judged("a cat and a dog", "a dog and a cat", KILN_REUSE_REWORDED);
    assert_judged("a couch", "one sofa", KILN_REUSE_REWORDED);
    assert_judged("an oil painting of a ship", "a ship, oil on canvas", KILN_REUSE_REWORDED);
    assert_judged("黑猫", "一只黑色的猫", KILN_REUSE_REWORDED);
}

static void the_donor_may_say_more_of_what_the_target_has(void **state)
{
    (void)state;
    assert_judged("a cat on a sofa", "a black cat on a red couch", KILN_REUSE_DONOR_SAYS_MORE);
    assert_judged("a rose", "a crimson rose", KILN_REUSE_DONOR_SAYS_MORE);
    assert_judged("a red rose", "a crimson rose", KILN_REUSE_DONOR_SAYS_MORE);
    assert_judged("a balloon", "a balloon at the top left", KILN_REUSE_DONOR_SAYS_MORE);
    assert_none("a crimson rose", "a red rose");
    assert_none("a black cat on a sofa", "a cat on a sofa");
    assert_none("a cat", "a cat and a dog");
    assert_none("a white cat", "a red white cat");
    assert_none("a small cat", "a small large cat");
    assert_none("a cat", "a cat on the beach");
    assert_none("a lion", "a stone lion");
    assert_none("an aardvark",
                "a red aardvark"); /* what "red" does to an unknown noun is unknown */
}

/* --- the rules -------------------------------------------------------------------------------- */

static void numbers_must_agree(void **state)
{
    (void)state;
    assert_reason("a cat", "two cats", "the numbers differ: none, two");
    assert_judged("2 cats", "a pair of cats", KILN_REUSE_REWORDED);
    assert_none("3.5 cats", "3.6 cats");
    assert_none("a cat with one ear", "a cat with an ear");
    assert_none("a red and white cat", "a red and a white cat");
    assert_none("两只猫", "三只猫");
}

static void colours_must_agree_and_stay_with_their_things(void **state)
{
    (void)state;
    assert_reason("a red star", "a blue star", "the colours differ: red, blue");
    assert_reason("a red star and a blue ring", "a blue star and a red ring",
                  "the same words are put together differently");
    assert_none("红色的猫和蓝色的狗", "蓝色的猫和红色的狗");
}

static void places_and_backgrounds_must_agree(void **state)
{
    (void)state;
    assert_reason("a star at the top", "a star at the bottom",
                  "the places differ: at the top, at the bottom");
    assert_reason("a cat in the kitchen", "a cat in the garden",
                  "the backgrounds differ: in the kitchen, in the garden");
    assert_none("a house with a garden", "a house in a garden");
}

static void negations_must_agree_with_their_scope(void **state)
{
    (void)state;
    assert_reason("a street without cars", "a street", "the negations differ: without, none");
    assert_none("a woman with no hat", "a woman with no red hat");
    assert_none("no cats, dogs", "dogs, no cats");
    assert_none("no cats, dogs", "no cats. dogs");
    assert_none("he doesn't smile", "he does smile");
    assert_none("没有人的街道", "有人的街道");
}

static void quoted_texts_must_agree(void **state)
{
    (void)state;
    assert_reason("a sign \"OPEN\"", "a sign \"CLOSED\"", "the quoted texts differ: OPEN, CLOSED");
    assert_none("a sign \"OPEN\"", "a sign \"Open\"");
    assert_none("a sign \"red cat\"", "a sign, red cat");
}

static void names_must_agree(void **state)
{
    (void)state;
    assert_reason("a portrait of Einstein", "a portrait of Newton",
                  "the names differ: einstein, newton");
    assert_none("a river", "the Yellow River");
    assert_none("a dog", "a hot dog");
    assert_none("长城", "城");
}

static void relations_keep_their_order(void **state)
{
    (void)state;
    assert_none("a star above a ring", "a ring above a star");
    assert_none("a dog chasing a cat", "a cat chasing a dog");
    assert_none("first a cup, then a bowl", "first a bowl, then a cup");
    assert_none("from left to right: a cat, a dog", "from right to left: a cat, a dog");
    assert_none("狗在猫的左边", "狗在猫的右边");
}

static void a_word_is_idle_only_in_its_place(void **state)
{
    (void)state;
    assert_judged("a horse", "please draw a horse", KILN_REUSE_CANONICAL);
    assert_none("a horse", "a horse show");
    assert_none("a bridge", "a draw bridge");
    assert_none("a woman holding a cat", "a woman holding a picture of a cat");
    assert_judged("a star at the top", "a star at the top of the picture", KILN_REUSE_CANONICAL);
    assert_none("a man frame", "a man in the picture frame");
    assert_none("a size model", "a plus size model");
    assert_none("a painting", "a painting, a masterpiece of a painting");
}

static void an_article_is_idle_unless_it_begins_another_thing(void **state)
{
    (void)state;
    assert_judged("a single cat", "the cat", KILN_REUSE_REWORDED);
    assert_none("a teacher and a mother", "a teacher and mother");
    assert_none("Area 1 house", "an area house");
    assert_none("a one armed man", "an armed man");
}

static void a_colour_behind_a_being_may_be_its_clothes(void **state)
{
    (void)state;
    assert_none("a man in black", "a black man");
    assert_judged("a car in black", "a black car", KILN_REUSE_REWORDED);
}

static void a_background_belongs_to_all_things(void **state)
{
    (void)state;
    assert_judged("a cat and a dog on the beach", "on the beach, a dog and a cat",
                  KILN_REUSE_REWORDED);
    assert_none("a boy in the snow and a girl", "a girl in the snow and a boy");
    assert_none("a man painting the beach", "a man painting on the beach");
    assert_none("a bird over the sea", "a bird in the sea");
}

static void styles_must_agree_in_any_order(void **state)
{
    (void)state;
    assert_reason("a cat, watercolour", "a cat", "the styles differ: watercolour, none");
    assert_judged("a cat on a chair, anime, soft light", "soft lighting, anime, a cat on a chair",
                  KILN_REUSE_REWORDED);
}

/* --- the lists -------------------------------------------------------------------------------- */

static void a_card_names_empty_words(void **state)
{
    (void)state;
    static const char *const empty[] = {"flat design", "nice"}, *const stating[] = {"red"};
    struct kiln_reuse_words *own = NULL, *general = words;
    struct kiln_error err = {0};
    assert_int_equal(kiln_reuse_words_new(empty, 2, &own, &err), 0);
    words = own;
    assert_judged("a star", "a nice star, flat design", KILN_REUSE_CANONICAL);
    words = general;
    assert_none("a star", "a star, flat design");
    kiln_reuse_words_free(own);
    assert_int_equal(kiln_reuse_words_new(stating, 1, &own, &err), KILN_BAD_INPUT);
    assert_string_equal(err.text, "'red' of the card's empty words states something (colour)");
}

static void a_model_brings_its_own_meanings(void **state)
{
    (void)state;
    struct kiln_reuse_words *own = NULL, *general = words;
    struct kiln_error err = {0};
    assert_int_equal(kiln_reuse_words_new(NULL, 0, &own, &err), 0);
    assert_int_equal(
        kiln_reuse_words_add(own, "[colour]\nred: crimson\n[thing]\nring: hoop\n", &err), 0);
    words = own;
    assert_judged("a crimson ring", "a red hoop", KILN_REUSE_REWORDED);
    words = general;
    assert_none("a crimson ring", "a red hoop");
    static const struct {
        const char *text;
        bool own;
    } texts[] = {{"something crimson at night", true},
                 {"two hoops", true},
                 {"A Hoop", true},
                 {"a bright red", true},
                 {"xylophone", false},
                 {"", false},
                 {"blue elephants", false},
                 {"please draw", false}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bool has = !texts[i].own;
        assert_int_equal(kiln_reuse_has_own(own, texts[i].text, &has, &err), 0);
        assert_int_equal(has, texts[i].own);
    }
    assert_int_equal(kiln_reuse_words_add(own, "\n[color]\n", &err), KILN_BAD_INPUT);
    assert_string_equal(err.text, "word lists, line 2: unknown section [color]");
    kiln_reuse_words_free(own);
}

static void faults_of_a_list_name_their_line(void **state)
{
    (void)state;
    static const char *const faults[][2] = {
        {"red", "word lists, line 1: a word before the first section"},
        {"[colour]\nred\nred",
         "word lists, line 3: 'red' is in the lists already, as colour 'red'"},
        {"[colour]\nrose < red", "word lists, line 2: 'red' is not in this section"},
        {"[thing]\n, ", "word lists, line 2: ',' has no words"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct kiln_reuse_words *own = NULL;
        struct kiln_error err = {0};
        assert_int_equal(kiln_reuse_words_parse(faults[i][0], NULL, 0, &own, &err), KILN_BAD_INPUT);
        assert_string_equal(err.text, faults[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typing_does_not_count),
        cmocka_unit_test(capitals_count_but_at_the_beginning_of_a_sentence),
        cmocka_unit_test(tags_that_stand_for_themselves_are_sorted),
        cmocka_unit_test(tags_that_may_belong_to_others_keep_their_order),
        cmocka_unit_test(quoted_text_is_kept_to_the_letter),
        cmocka_unit_test(the_hash_is_that_of_the_form),
        cmocka_unit_test(what_is_no_prompt_is_refused),
        cmocka_unit_test(things_relations_and_backgrounds_are_read),
        cmocka_unit_test(what_has_two_readings_stays_a_sequence),
        cmocka_unit_test(equal_prompts_and_forms),
        cmocka_unit_test(same_facts_in_other_words),
        cmocka_unit_test(the_donor_may_say_more_of_what_the_target_has),
        cmocka_unit_test(numbers_must_agree),
        cmocka_unit_test(colours_must_agree_and_stay_with_their_things),
        cmocka_unit_test(places_and_backgrounds_must_agree),
        cmocka_unit_test(negations_must_agree_with_their_scope),
        cmocka_unit_test(quoted_texts_must_agree),
        cmocka_unit_test(names_must_agree),
        cmocka_unit_test(relations_keep_their_order),
        cmocka_unit_test(a_word_is_idle_only_in_its_place),
        cmocka_unit_test(an_article_is_idle_unless_it_begins_another_thing),
        cmocka_unit_test(a_colour_behind_a_being_may_be_its_clothes),
        cmocka_unit_test(a_background_belongs_to_all_things),
        cmocka_unit_test(styles_must_agree_in_any_order),
        cmocka_unit_test(a_card_names_empty_words),
        cmocka_unit_test(a_model_brings_its_own_meanings),
        cmocka_unit_test(faults_of_a_list_name_their_line),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
