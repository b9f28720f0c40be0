/* test_noun_phrase.c - queries without a noun are put as noun phrases, and no others are changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/embed/captions/noun_phrase.h"

static void expect(const char *text, const char *expected)
{
    char out[KILN_NOUN_PHRASE_MAX + 1];
    const size_t len = kiln_noun_phrase(text, strlen(text), out);
    out[len] = 0;
    assert_string_equal(out, expected);
}

static void test_attributes_stand_before_the_noun(void **state)
{
    (void)state;
    expect("something round and red", "a red round thing");
    expect("something red and round", "a red round thing");
    expect("Something  Round and navy blue at night", "a navy blue Round thing at night");
    expect("a thing that is round and grey in the sky", "a grey round thing in the sky");
    expect("a thing which is yellow", "a yellow thing");
    expect("something that is big, and blue", "a big thing, and blue");
    expect("anything pointed in blue", "a pointed thing in blue");
    expect("a dark scene with something yellow", "a dark scene with a yellow thing");
    expect("something red: a star", "a red thing: a star");
    expect("anything shiny?", "a shiny thing?");
}

static void test_other_texts_stay(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "a crimson disc",
        "a round red apple",
        "something",
        "something at night",
        "something like a red star",
        "something red and a star",
        "something and",
        "a thing",
        "a thing red",
        "a thing that glows",
        "something that is",
        "somethings red",
        "\xe7\xba\xa2\xe8\x89\xb2\xe7\x9a\x84\xe5\x9c\x86",
        "something one two three four five six seven",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect(texts[i], "");
}

static void test_long_texts_stay_and_the_longest_fits(void **state)
{
    (void)state;
    char text[KILN_NOUN_PHRASE_MAX + 100], out[KILN_NOUN_PHRASE_MAX];
    const char begin[] = "something red ";
    memset(text, 'x', sizeof text);
    memcpy(text, begin, sizeof begin - 1);
    for (size_t len = sizeof begin; len < sizeof text; len++) {
        const size_t changed = kiln_noun_phrase(text, len, out);
        assert_true(changed == 0 ? len + 8 > KILN_NOUN_PHRASE_MAX : changed == len - 2);
        assert_true(changed <= KILN_NOUN_PHRASE_MAX);
    }
    for (size_t i = sizeof begin - 1; i < sizeof text; i += 2)
        text[i] = ' ';
    assert_int_equal(kiln_noun_phrase(text, 400, out), 0);               /* too many words */
    assert_int_equal(kiln_noun_phrase("something \0 red", 15, out), 13); /* any bytes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes_stand_before_the_noun),
        cmocka_unit_test(test_other_texts_stay),
        cmocka_unit_test(test_long_texts_stay_and_the_longest_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
