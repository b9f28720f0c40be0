/* test_names.c - names, nearest names, UTF-8, growing text, digests. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "schemas/digest.h"
#include "schemas/names.h"
#include "schemas/text/text.h"
#include "schemas/text/utf8.h"
#include "tests/support/random.h"

static void names_have_safe_characters_only(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "w0", "ink-v1.2_b", "9", "A.B"};
    static const char *const bad[] = {"",    ".a",  "-a",       "_a",  "a/b",
                                      "a b", "a:b", "\xc3\xa4", "a{b}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(kiln_name_valid(good[i], strlen(good[i]), 64));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(kiln_name_valid(bad[i], strlen(bad[i]), 64));
    assert_true(kiln_name_valid("abcd", 4, 4));
    assert_false(kiln_name_valid("abcd", 4, 3));
}

static void names_of_our_own_are_reserved(void **state)
{
    (void)state;
    assert_true(kiln_name_reserved("latent-cache"));
    assert_true(kiln_name_reserved("backfill-"));
    assert_true(kiln_name_reserved("backfill-x"));
    assert_false(kiln_name_reserved("latent-cache-2"));
    assert_false(kiln_name_reserved("backfill"));
    assert_false(kiln_name_reserved("my-backfill-x"));
    assert_false(kiln_name_reserved(""));
}

static void distance_counts_edits(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        size_t distance;
    } rows[] = {
        {"", "", 0},           {"abc", "abc", 0},    {"abc", "ABC", 0},  {"abc", "abd", 1},
        {"abc", "acb", 1},     {"abc", "ab", 1},     {"abc", "abcd", 1}, {"kitten", "sitting", 3},
        {"wdith", "width", 1}, {"step", "steps", 1}, {"", "abc", 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t a = strlen(rows[i].a), b = strlen(rows[i].b);
        assert_int_equal(kiln_edit_distance(rows[i].a, a, rows[i].b, b, 9), rows[i].distance);
        assert_int_equal(kiln_edit_distance(rows[i].b, b, rows[i].a, a, 9), rows[i].distance);
    }
    assert_true(kiln_edit_distance("abcdefgh", 8, "x", 1, 2) > 2);
}

static void nearest_is_what_was_meant(void **state)
{
    (void)state;
    static const char *const names[] = {"steps", "seed", "style", "size"};
    assert_string_equal(kiln_nearest("step", 4, names, 4), "steps");
    assert_string_equal(kiln_nearest("sede", 4, names, 4), "seed");
    assert_string_equal(kiln_nearest("STYLE", 5, names, 4), "style");
    assert_null(kiln_nearest("altitude", 8, names, 4));
    assert_null(kiln_nearest("x", 1, names, 4));
    assert_null(kiln_nearest("", 0, names, 4));
}

static void utf8_is_strict(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "abc",
                                       "\xc3\xa4",
                                       "\xe4\xb8\xad",
                                       "\xf0\x9f\x8e\xa8",
                                       "\xf4\x8f\xbf\xbf",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80"};
    static const struct {
        const char *text;
        size_t at;
    } bad[] = {
        {"a\x80", 1},        {"\xc0\xaf", 0},         {"\xc1\xbf", 0}, {"\xe0\x80\xaf", 0},
        {"\xed\xa0\x80", 0}, {"\xf0\x80\x80\xaf", 0}, {"\xff", 0},     {"ok\xf5\x80\x80\x80", 2},
        {"\xe4\xb8", 0},     {"\xf4\x90\x80\x80", 0}, {"ab\xc3", 2}};
    size_t at;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(kiln_utf8_valid(good[i], strlen(good[i]), NULL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(kiln_utf8_valid(bad[i].text, strlen(bad[i].text), &at));
        assert_int_equal(at, bad[i].at);
    }
}

static void plain_runs_end_at_the_first_special_byte(void **state)
{
    (void)state;
    char text[40];
    for (int special = 1; special < 256; special++) {
        bool plain = special >= 0x20 && special < 0x7f && special != '"' && special != '\\';
        for (size_t at = 0; at < sizeof text; at++) {
            memset(text, 'x', sizeof text);
            text[at] = (char)special;
            assert_int_equal(kiln_plain_run(text, sizeof text), plain ? sizeof text : at);
        }
    }
    assert_int_equal(kiln_plain_run(text, 0), 0);
}

static void every_code_point_encodes_and_is_valid(void **state)
{
    (void)state;
    for (unsigned code = 1; code <= 0x10ffff; code++) {
        char bytes[4];
        size_t len = kiln_utf8_encode(code, bytes);
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        if (kiln_utf8_valid(bytes, len, NULL) == surrogate)
            fail_msg("U+%04X: valid is %d", code, !surrogate);
    }
}

static void cut_texts_are_cleaned(void **state)
{
    (void)state;
    char text[] = "caf\xc3";
    kiln_utf8_clean(text, strlen(text));
    assert_string_equal(text, "caf?");
    char nul[] = "a\0b";
    kiln_utf8_clean(nul, 3);
    assert_string_equal(nul, "a?b");
}

static void texts_are_cut_between_characters(void **state)
{
    (void)state;
    static const char text[] = "a\xc3\xa9\xe5\xb8\x82\xf0\x9f\x90\x99z"; /* 1, 2, 3, 4, 1 bytes */
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t len = 0; len < sizeof whole / sizeof *whole; len++) {
        assert_int_equal(kiln_utf8_whole(text, len), whole[len]);
        char out[16];
        kiln_utf8_copy(out, len + 1, text);
        assert_int_equal(strlen(out), whole[len]);
        assert_memory_equal(out, text, whole[len]);
    }
    assert_int_equal(kiln_utf8_whole("\xa9\xa9\xa9\xa9", 4), 4); /* no character was begun */
}

/* Whatever goes into a sentence and wherever it is cut. */
static void sentences_are_utf8(void **state)
{
    (void)state;
    char text[3 * KILN_ERROR_TEXT_MAX] = "";
    struct kiln_error err;
    for (size_t i = 0; i < KILN_ERROR_TEXT_MAX / 2; i++)
        strcat(text, "\xe5\xb8\x82");
    for (int before = 0; before < 4; before++) {
        kiln_fail(&err, KILN_INTERNAL, "%.*s%s", before, "abc", text);
        assert_true(kiln_utf8_valid(err.text, strlen(err.text), NULL));
        assert_true(strlen(err.text) > KILN_ERROR_TEXT_MAX - 4);
        kiln_fail_in(&err, "%.*s%s", before, "abc", text);
        assert_true(kiln_utf8_valid(err.text, strlen(err.text), NULL));
    }
    kiln_fail(&err, KILN_INTERNAL, "a %.1s b \xff c", text);
    assert_string_equal(err.text, "a ? b ? c");
}

/* What kiln_text_json writes, jansson reads back as the same bytes. */
static void strings_survive_json(void **state)
{
    (void)state;
    struct test_random random = {11};
    for (int round = 0; round < 2000; round++) {
        char bytes[64];
        size_t len = 0;
        while (len < 40)
            len += kiln_utf8_encode(1 + test_random_below(&random, round % 2 ? 0x7f : 0xd7fe),
                                    bytes + len);
        struct kiln_text text = {0};
        kiln_text_json(&text, bytes, len);
        json_t *value = json_loads(text.at, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        assert_int_equal(json_string_length(value), len);
        assert_memory_equal(json_string_value(value), bytes, len);
        json_decref(value);
        kiln_text_release(&text);
    }
}

static void broken_utf8_becomes_a_replacement_character(void **state)
{
    (void)state;
    struct kiln_text text = {0};
    kiln_text_json(&text, "a\xff\"", 3);
    assert_string_equal(text.at, "\"a\\ufffd\\\"\"");
    kiln_text_release(&text);
}

static void numbers_read_back_the_same(void **state)
{
    (void)state;
    struct test_random random = {5};
    static const double special[] = {
        0, 1, -1, 0.1, 0.8, 1e300, 5e-324, 1.0 / 3, 123456789012345680.0};
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = test_random_u64(&random);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (i % 4 == 1) /* short decimals have a path of their own */
            value = (double)(int64_t)(bits >> 44) / (i % 8 == 1 ? 1e6 : -1e3);
        if ((size_t)i < sizeof special / sizeof *special)
            value = special[i];
        if (!isfinite(value))
            continue;
        struct kiln_text text = {0};
        kiln_text_double(&text, value);
        assert_true(strtod(text.at, NULL) == value);
        kiln_text_release(&text);
    }
    struct kiln_text text = {0};
    kiln_text_double(&text, 0.8);
    kiln_text_puts(&text, " ");
    kiln_text_i64(&text, INT64_MIN);
    kiln_text_puts(&text, " ");
    kiln_text_u64(&text, UINT64_MAX);
    assert_string_equal(text.at, "0.8 -9223372036854775808 18446744073709551615");
    kiln_text_release(&text);
}

static void sha256_is_the_published_one(void **state)
{
    (void)state;
    uint8_t digest[KILN_SHA256_SIZE]; /* FIPS 180-2, appendix B.1 */
    char hex[65];
    kiln_sha256("abc", 3, digest);
    kiln_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void hex_reads_back_the_same(void **state)
{
    (void)state;
    uint8_t bytes[256], back[256];
    char hex[2 * sizeof bytes + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    kiln_hex(bytes, sizeof bytes, hex);
    assert_true(kiln_unhex(hex, sizeof back, back));
    assert_memory_equal(back, bytes, sizeof bytes);
    assert_false(kiln_unhex(hex, sizeof back - 1, back)); /* longer */
    hex[2 * sizeof bytes - 1] = '\0';                     /* shorter */
    assert_false(kiln_unhex(hex, sizeof back, back));
    static const char *const wrong[] = {"0g",
                                        "g0",
                                        "0A",
                                        " 0",
                                        "0",
                                        "",
                                        "/0",
                                        ":0",
                                        "`0",
                                        "\xff"
                                        "0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(kiln_unhex(wrong[i], 1, back));
    assert_true(kiln_unhex("", 0, back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_safe_characters_only),
        cmocka_unit_test(names_of_our_own_are_reserved),
        cmocka_unit_test(distance_counts_edits),
        cmocka_unit_test(nearest_is_what_was_meant),
        cmocka_unit_test(utf8_is_strict),
        cmocka_unit_test(plain_runs_end_at_the_first_special_byte),
        cmocka_unit_test(every_code_point_encodes_and_is_valid),
        cmocka_unit_test(cut_texts_are_cleaned),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(sentences_are_utf8),
        cmocka_unit_test(strings_survive_json),
        cmocka_unit_test(broken_utf8_becomes_a_replacement_character),
        cmocka_unit_test(numbers_read_back_the_same),
        cmocka_unit_test(sha256_is_the_published_one),
        cmocka_unit_test(hex_reads_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
