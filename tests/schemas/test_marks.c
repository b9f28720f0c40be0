/* test_marks.c - what a prompt quotes, denies and writes for other programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/words/marks.h"
#include "schemas/words/words.h"

/* The folded text with what is not asked for replaced: - denied, " quoted, < syntax. */
static void expect(const char *text, const char *wanted)
{
    struct kiln_error err;
    char *folded;
    size_t len;
    assert_int_equal(kiln_words_fold(text, strlen(text), &folded, &len, &err), 0);
    unsigned char *marks = malloc(len + 1);
    assert_non_null(marks);
    kiln_words_marks(folded, len, marks);
    for (size_t i = 0; i < len; i++)
        folded[i] = marks[i] == KILN_MARK_NONE ? folded[i] : ".-\"<"[marks[i]];
    assert_string_equal(folded, wanted);
    free(marks);
    free(folded);
}

static void quoted_text_is_not_asked_for(void **state)
{
    (void)state;
    expect("a sign \"neon glow\" here", "a sign \"\"\"\"\"\"\"\"\"\"\" here");
    expect("a shirt 'pixel art' on a line", "a shirt \"\"\"\"\"\"\"\"\"\"\" on a line");
    expect("grandma's dog's bowl", "grandma's dog's bowl");
    expect("a 12\" record, neon", "a 12\" record, neon");
    expect("\"neon\" is the look, a cat", "\"neon\" is the look, a cat");
    expect("a cat with 'neon' as our style", "a cat with 'neon' as our style");
    expect("\"neon\" as the title", "\"\"\"\"\"\" as the title");
    expect("open \"and never closed", "open \"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"");
}

static void what_a_sign_says_is_quoted_to_the_end_of_its_clause(void **state)
{
    (void)state;
    expect("a sign that says low poly, a dog", "a sign that says \"\"\"\"\"\"\"\", a dog");
    expect("it reads 'neon' in red", "it reads \"\"\"\"\"\" in red");
    expect("says says", "says \"\"\"\"");
    expect("says", "says");
}

static void a_denial_reaches_its_noun_phrase(void **state)
{
    (void)state;
    expect("a cat, not pixel art, red", "a cat, -------------, red");
    expect("no neon in watercolor style", "------- in watercolor style");
    expect("without any clay style but real", "---------------------- but real");
    expect("don't make it a sticker", "do---------------------");
    expect("neither comic nor manga", "------------- ---------");
    expect("a knot, a notebook, snow", "a knot, a notebook, snow");
    expect("not drawn with ink", "------------------");
    expect("not painted but in ink", "----------- but in ink");
    expect("clay rather than modelling it in ink", "clay -------------------------------");
    expect("clay rather than neon", "clay ----------------");
    expect("it isnt neon, dont do neon", "it ---------, ------------");
    expect("more than just neon", "more than just neon");
    expect("nothing other than neon", "nothing other than neon");
    expect("no less than neon", "no less than neon");
    expect("anything other than neon", "anything ---------------");
    expect("replace the neon with clay", "---------------- with clay");
    expect("swap neon for clay", "--------- for clay");
    expect("a neon-free clay cat", "a -----free clay cat");
    expect("a clay cat, neon is not wanted", "a clay cat, ------------------");
    expect("clay and neon is not wanted", "clay and ------------------");
    expect("skip the neon, a cat", "-------------, a cat");
    expect("not only neon", "not only neon");
    expect("nothing but neon", "nothing but neon");
    expect("i am sick of neon, a fox", "i am ------------, a fox");
    expect("i hate clay", "i ---------");
    expect("skip the neon and make it clay", "------------- and make it clay");
    expect("no neon and clay", "----------------");
    expect("stop giving me neon, a fox", "-------------------, a fox");
    expect("a stop motion fox", "a stop motion fox");
    expect("less neon, more clay", "---------, more clay");
    expect("less neon and more clay", "--------- and more clay");
    expect("less neon", "less neon");
}

static void chinese_denies_too(void **state)
{
    (void)state;
    expect("猫,不要水彩,红", "猫,------------,红");
    expect("无人机", "无人机");
    expect("特别的猫", "特别的猫");
}

static void syntax_of_other_programs_is_marked(void **state)
{
    (void)state;
    expect("a <lora:neon:1> cat", "a <<<<<<<<<<<<< cat");
    expect("(neon:1.2) cat", "(neon<<<<) cat");
    expect("see https://x.org/neon now", "see <<<<<<<<<<<<<<<<<< now");
    expect("ratio 3:4 :", "ratio 3:4 :");
}

/* Folding ASCII by hand gives what the library gives for all scripts. */
static void ascii_folds_as_everything_folds(void **state)
{
    (void)state;
    char text[130], *ascii, *other;
    struct kiln_error err;
    size_t ascii_len, other_len;
    for (size_t i = 0; i < 128; i++)
        text[i] = (char)i;
    memcpy(text + 128, "\xc3", 1);
    assert_int_equal(kiln_words_fold(text, 128, &ascii, &ascii_len, &err), 0);
    char wide[131];
    memcpy(wide, text, 128);
    memcpy(wide + 128, "\xc3\xa9", 2);
    assert_int_equal(kiln_words_fold(wide, 130, &other, &other_len, &err), 0);
    assert_int_equal(other_len, 130);
    assert_int_equal(ascii_len, 128);
    assert_memory_equal(ascii, other, 128);
    free(ascii);
    free(other);
}

/* Whatever repeats, the time grows with the length: this would take hours if it squared. */
static void long_texts_take_no_long_time(void **state)
{
    (void)state;
    static const char *const pieces[] = {"no ", "not but ", "'a ",  "says ",
                                         "\"a", "http",     "不要", ":1"};
    static char text[1 << 19];
    static unsigned char marks[sizeof text];
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        const size_t len = strlen(pieces[p]);
        size_t at = 0;
        for (; at + len <= sizeof text; at += len)
            memcpy(text + at, pieces[p], len);
        kiln_words_marks(text, at, marks);
        assert_true(marks[at - 1] <= KILN_MARK_SYNTAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quoted_text_is_not_asked_for),
        cmocka_unit_test(what_a_sign_says_is_quoted_to_the_end_of_its_clause),
        cmocka_unit_test(a_denial_reaches_its_noun_phrase),
        cmocka_unit_test(chinese_denies_too),
        cmocka_unit_test(syntax_of_other_programs_is_marked),
        cmocka_unit_test(ascii_folds_as_everything_folds),
        cmocka_unit_test(long_texts_take_no_long_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
