/* test_words.c - the words of texts in many scripts, and what a query makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/text/text.h"
#include "schemas/words/query.h"
#include "schemas/words/words.h"

static struct kiln_error err;

static void put(void *arg, const struct kiln_word *word)
{
    static const char marks[] = {[KILN_WORD_PLAIN] = '@',
                                 [KILN_WORD_PAIR] = ':',
                                 [KILN_WORD_SINGLE] = '!',
                                 [KILN_WORD_END] = '$'};
    struct kiln_text *text = arg;
    kiln_text_printf(text, "%s%.*s%c%u", text->len ? " " : "", (int)word->len, word->text,
                     marks[word->kind], word->position);
}

static void expect(const char *text, const char *words)
{
    struct kiln_text out = {0};
    char *folded;
    size_t len;
    uint32_t position = 0;
    assert_int_equal(kiln_words_fold(text, strlen(text), &folded, &len, &err), 0);
    kiln_words_each(folded, len, &position, put, &out);
    assert_string_equal(out.at ? out.at : "", words);
    kiln_text_release(&out);
    free(folded);
}

static void words_of_many_scripts(void **state)
{
    (void)state;
    expect("Red star", "red@1 star@2");
    expect("  neon-punk, 1024x768!", "neon@1 punk@2 1024x768@3");
    expect("Don't_stop", "don@1 t@2 stop@3");
    expect("Ｆｕｌｌ　Ｗｉｄｔｈ", "full@1 width@2");
    expect("ﬁne ①", "fine@1 1@2");
    expect("STRASSE Straße", "strasse@1 strasse@2");
    expect("ÉCLAIR e\xcc\x81"
           "clair",
           "éclair@1 éclair@2");
    expect("Красная ЗВЕЗДА", "красная@1 звезда@2");
    expect("ΚΌΣΜΟΣ κόσμος", "κόσμοσ@1 κόσμοσ@2");
    expect("נוף הרים", "נוף@1 הרים@2");
    expect("منظر طبيعي", "منظر@1 طبيعي@2");
    expect("लाल तारा", "लाल@1 तारा@2");
    expect("红色的星", "红色:1 色的:2 的星:3 星$4");
    expect("星", "星!1");
    expect("赤いスター star", "赤い:1 いス:2 スタ:3 ター:4 ー$5 star@6");
    expect("ﾊﾝｶｸ", "ハン:1 ンカ:2 カク:3 ク$4");
    expect("빨간 별", "빨간:1 간$2 별!3");
    expect("ดาว", "ดา:1 าว:2 ว$3");
    expect("4k星空 photo", "4k@1 星空:2 空$3 photo@4");
    expect("so\xc2\xad"
           "ft zero\xe2\x80\x8bwidth",
           "soft@1 zerowidth@2");
    expect("🚀🚀 ★ ---", "");
    expect("", "");
}

static void a_long_word_is_cut_at_a_character(void **state)
{
    (void)state;
    char text[402], *folded;
    size_t len;
    uint32_t position = 0;
    struct kiln_text out = {0};
    for (int i = 0; i < 200; i++)
        memcpy(text + 2 * i, "\xd1\x8f", 3);
    memmove(text + 1, text, 401 - 1);
    text[0] = 'a'; /* so that the limit is inside of a character */
    text[399] = '\0';
    assert_int_equal(kiln_words_fold(text, strlen(text), &folded, &len, &err), 0);
    kiln_words_each(folded, len, &position, put, &out);
    assert_int_equal(position, 1);
    assert_int_equal(strcspn(out.at, "@"), KILN_WORD_MAX - 1);
    kiln_text_release(&out);
    free(folded);
}

static void bad_bytes_are_refused_and_nul_is_a_space(void **state)
{
    (void)state;
    char *folded;
    size_t len;
    assert_int_equal(kiln_words_fold("a\xff", 2, &folded, &len, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_words_fold("\xed\xa0\x80", 3, &folded, &len, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_words_fold("A\0B", 3, &folded, &len, &err), 0);
    assert_string_equal(folded, "a b");
    free(folded);
}

/* --- queries -----------------------------------------------------------------------------------
 */

static void query(const char *text, const char *tsquery)
{
    struct kiln_query parsed;
    char *out = NULL;
    if (kiln_query_parse(text, &parsed, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    assert_int_equal(kiln_query_tsquery(&parsed, &out, &err), 0);
    assert_string_equal(out, tsquery);
    kiln_query_release(&parsed);
    free(out);
}

static void refused(const char *text, const char *words)
{
    struct kiln_query parsed;
    assert_int_equal(kiln_query_parse(text, &parsed, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, words));
}

static void the_language_of_the_search_box(void **state)
{
    (void)state;
    query("red", "('red':*)");
    query("red ", "('red')");
    query("Red STAR", "('red') & ('star':*)");
    query("\"red star\"", "('red' <-> 'star')");
    query("“red star”", "('red' <-> 'star')");
    query("\"red star", "('red' <-> 'star')");
    query("red -blue", "('red') & !('blue')");
    query("-\"blue sky\" red ", "!('blue' <-> 'sky') & ('red')");
    query("red – blue ", "('red') & ('blue')");
    query("gre* sky ", "('gre':*) & ('sky')");
    query("neon-punk ", "('neon' <-> 'punk')");
    query("job_12 ", "('job' <-> '12')");
    query("a", "('a')"); /* too short for a prefix */
    query("红色的", "('红色' <-> '色的')");
    query("星", "('星':*)");
    query("「赤い星」", "('赤い' <-> 'い星')");
    query("4k星空", "('4k' <-> '星空')");
    query("red\"star\"", "('red') & ('star')");
    query("!red|(blue)&'x'':*\\ ", "('red' <-> 'blue' <-> 'x')");
    query("'; DROP TABLE image; --", "('drop') & ('table') & ('image')");
    query("-a", "!('a')");
}

static void quotes_and_a_minus_are_exact(void **state)
{
    (void)state;
    assert_true(kiln_query_is_exact("\"red star\""));
    assert_true(kiln_query_is_exact("star -blue"));
    assert_true(kiln_query_is_exact("\u300c\u661f\u300d"));
    assert_false(kiln_query_is_exact("red star"));
    assert_false(kiln_query_is_exact("neon-punk gre*"));
    assert_false(kiln_query_is_exact(""));
    assert_false(kiln_query_is_exact("-\xff"));
}

static void what_cannot_be_searched_is_refused(void **state)
{
    (void)state;
    char many[KILN_QUERY_BYTES_MAX + 2];
    refused("", "nothing to search for");
    refused("  --- ★ \"\" ", "nothing to search for");
    refused("a b c d e f g h i j k l m n o p q", "at most 16 words");
    refused("\"a b c d e f g h i j k l m n o p q\"", "at most 16 words");
    memset(many, 'a', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    refused(many, "at most 256 bytes, this one has 257");
    refused("a\xff", "not valid UTF-8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_many_scripts),
        cmocka_unit_test(a_long_word_is_cut_at_a_character),
        cmocka_unit_test(bad_bytes_are_refused_and_nul_is_a_space),
        cmocka_unit_test(the_language_of_the_search_box),
        cmocka_unit_test(quotes_and_a_minus_are_exact),
        cmocka_unit_test(what_cannot_be_searched_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
