/* test_json.c - the strict reader: what it takes, what it refuses and where, and that it agrees
 * with jansson on mutated texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "schemas/text/json.h"
#include "tests/support/random.h"

/* Walks a whole object; 0 or the code. */
static int walk(const char *text, size_t len, struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, value;
    bool more = true;
    int code = kiln_json_open(&reader, text, len, KILN_JSON_OBJECT, err);
    while (!code && more)
        code = kiln_json_next(&reader, &key, &value, &more, err);
    return code;
}

static void values_keep_their_types_and_places(void **state)
{
    (void)state;
    const char *text =
        " { \"a\" : null,\"b\":true, \"c\":false,\"d\":-1.5e3 ,\"e\":\"x\\ny\",\"f\":[1,[2]],"
        "\"g\":{\"h\":0} } ";
    static const enum kiln_json_type types[] = {KILN_JSON_NULL,   KILN_JSON_TRUE,   KILN_JSON_FALSE,
                                                KILN_JSON_NUMBER, KILN_JSON_STRING, KILN_JSON_ARRAY,
                                                KILN_JSON_OBJECT};
    static const char *const texts[] = {"null",  "true",    "false",    "-1.5e3",
                                        "x\\ny", "[1,[2]]", "{\"h\":0}"};
    struct kiln_json_reader reader;
    struct kiln_json_value key, value;
    struct kiln_error err;
    bool more;
    assert_int_equal(kiln_json_open(&reader, text, strlen(text), KILN_JSON_OBJECT, &err), 0);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(kiln_json_next(&reader, &key, &value, &more, &err), 0);
        assert_true(more);
        assert_int_equal(key.text[0], 'a' + (int)i);
        assert_int_equal(value.type, types[i]);
        assert_int_equal(value.len, strlen(texts[i]));
        assert_memory_equal(value.text, texts[i], value.len);
        assert_int_equal(value.escaped, i == 4);
    }
    assert_int_equal(kiln_json_next(&reader, &key, &value, &more, &err), 0);
    assert_false(more);
}

static void faults_name_the_byte(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "ends at byte 0"},
        {"[]", "byte 1: a '{' belongs here"},
        {"{", "ends at byte 1"},
        {"{\"a\" 1}", "byte 6: a ':'"},
        {"{\"a\":}", "byte 6: a value"},
        {"{\"a\":1,}", "byte 8: a key"},
        {"{\"a\":1 \"b\":2}", "byte 8: a ','"},
        {"{\"a\":1}x", "byte 8: nothing may follow"},
        {"{\"a\":NaN}", "NaN and Infinity"},
        {"{\"a\":-Infinity}", "NaN and Infinity"},
        {"{\"a\":01}", "needless 0"},
        {"{\"a\":1.}", "after the decimal point"},
        {"{\"a\":1e}", "exponent"},
        {"{\"a\":tru}", "a value"},
        {"{\"a\":\"\\x\"}", "unknown escape"},
        {"{\"a\":\"\\u12\"}", "hex digits"},
        {"{\"a\":\"\\u0000\"}", "NUL"},
        {"{\"a\":\"\\ud800\"}", "high surrogate"},
        {"{\"a\":\"\\udc00\"}", "low surrogate"},
        {"{\"a\":\"\xff\"}", "not valid UTF-8"},
        {"{\"a\":\"\t\"}", "control character"},
        {"{\"a\":\"x", "ends at byte 7"},
        {"{\"a\":\"x\\", "closing '\"' of a text is missing"},
        {"{'a':1}", "a key in double quotes"},
        {"{\"a\":[1,]}", "byte 9: a value"},
        {"{\"a\":[1}", "a ','"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_error err = {0};
        assert_int_equal(walk(rows[i].text, strlen(rows[i].text), &err), KILN_BAD_INPUT);
        if (!strstr(err.text, rows[i].says))
            fail_msg("%s: \"%s\" does not say \"%s\"", rows[i].text, err.text, rows[i].says);
    }
    struct kiln_error err;
    assert_int_equal(walk("{\"a\":\"x\0y\"}", 11, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "byte 8: a NUL byte"));
}

static void nesting_has_a_limit(void **state)
{
    (void)state;
    char text[256] = "{\"a\":";
    struct kiln_error err;
    size_t deep = KILN_JSON_DEPTH - 1;
    memset(text + 5, '[', deep);
    memset(text + 5 + deep, ']', deep);
    strcpy(text + 5 + 2 * deep, "}");
    assert_int_equal(walk(text, strlen(text), &err), 0);
    memset(text + 5, '[', deep + 1);
    memset(text + 6 + deep, ']', deep + 1);
    strcpy(text + 7 + 2 * deep, "}");
    assert_int_equal(walk(text, strlen(text), &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "nested too deeply"));
}

static void strings_decode(void **state)
{
    (void)state;
    const char *raw = "\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\u4e2d\\ud83c\\udfa8 end";
    struct kiln_json_value value = {KILN_JSON_STRING, true, raw, strlen(raw)};
    const char *meant = "\"\\/\b\f\n\r\t\xc3\xa4\xe4\xb8\xad\xf0\x9f\x8e\xa8 end";
    size_t len;
    char *copy = kiln_json_string_copy(&value, &len);
    assert_string_equal(copy, meant);
    assert_int_equal(len, strlen(meant));
    assert_true(kiln_json_equals(&value, meant));
    assert_false(kiln_json_equals(&value, "other"));
    free(copy);
    char small[8];
    assert_false(kiln_json_string(&value, small, sizeof small, NULL));
}

static struct kiln_json_value number(const char *text)
{
    return (struct kiln_json_value){KILN_JSON_NUMBER, false, text, strlen(text)};
}

static void whole_numbers_keep_64_bits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
    } rows[] = {{"0", true, 0},
                {"18446744073709551615", true, UINT64_MAX},
                {"18446744073709551616", false, 0},
                {"99999999999999999999999", false, 0},
                {"9223372036854775808", true, (uint64_t)INT64_MAX + 1},
                {"8.0", true, 8},
                {"1e3", true, 1000},
                {"1.5", false, 0},
                {"-1", false, 0},
                {"-0", true, 0},
                {"1e19", false, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_json_value value = number(rows[i].text);
        uint64_t got = 0;
        if (kiln_json_u64(&value, &got) != rows[i].good || (rows[i].good && got != rows[i].value))
            fail_msg("%s: %llu", rows[i].text, (unsigned long long)got);
    }
    int64_t got;
    struct kiln_json_value value = number("-9223372036854775807");
    assert_true(kiln_json_i64(&value, &got));
    assert_true(got == -INT64_MAX);
    value = number("9223372036854775808");
    assert_false(kiln_json_i64(&value, &got));
}

static void doubles_equal_strtod(void **state)
{
    (void)state;
    struct test_random random = {3};
    for (int i = 0; i < 20000; i++) {
        char text[64];
        double got;
        uint32_t digits = 1 + test_random_below(&random, 18);
        size_t len = (size_t)snprintf(text, sizeof text, "%s%u", i % 3 ? "" : "-",
                                      1 + test_random_below(&random, 9));
        if (i % 2)
            text[len++] = '.';
        for (uint32_t d = 0; d < digits; d++)
            text[len++] = (char)('0' + test_random_below(&random, 10));
        text[len] = '\0';
        if (i % 5 == 0)
            snprintf(text + len, sizeof text - len, "e%d",
                     (int)test_random_below(&random, 60) - 30);
        struct kiln_json_value value = number(text);
        assert_true(kiln_json_double(&value, &got));
        if (got != strtod(text, NULL))
            fail_msg("%s: %.17g and %.17g", text, got, strtod(text, NULL));
    }
    double got;
    struct kiln_json_value value = number("1e999");
    assert_false(kiln_json_double(&value, &got));
}

/* Both readers judge randomly damaged texts; they may differ in nothing but integers beyond 64 bits
 * and doubles beyond range (jansson refuses to hold them) and depth (none is that deep here). */
static void agrees_with_jansson(void **state)
{
    (void)state;
    const char *seeds[] = {
        "{\"prompt\":\"a \\\"b\\\" \\u00e4 "
        "\xe4\xb8\xad\",\"n\":-12.5e+3,\"l\":[1,2,{\"k\":null}],\"t\":true}",
        "{\"a\":{\"b\":[[],{}]},\"c\":\"\\ud83c\\udfa8\",\"d\":0,\"e\":false }",
    };
    static const char alphabet[] = "{}[]\",:\\u0123456789abcdefntr.eE+- \n\x01\x80\xc3\xff/";
    struct test_random random = {2026};
    int taken = 0;
    for (int round = 0; round < 60000; round++) {
        char text[256];
        size_t len = strlen(seeds[round % 2]);
        memcpy(text, seeds[round % 2], len);
        for (uint32_t edits = test_random_below(&random, 4); edits > 0; edits--) {
            size_t at = test_random_below(&random, (uint32_t)len);
            text[at] = alphabet[test_random_below(&random, sizeof alphabet - 1)];
            if (test_random_below(&random, 8) == 0)
                len = at + 1;
        }
        struct kiln_error err;
        json_error_t problem;
        bool ours = walk(text, len, &err) == 0;
        json_t *theirs = json_loadb(text, len, 0, &problem);
        bool range =
            !theirs && (strstr(problem.text, "too big") || strstr(problem.text, "overflow"));
        if (ours != (theirs != NULL) && !range)
            fail_msg("%.*s: ours %s, jansson %s", (int)len, text, ours ? "takes it" : err.text,
                     theirs ? "takes it" : problem.text);
        taken += ours;
        json_decref(theirs);
    }
    assert_in_range(taken, 15000, 50000); /* both verdicts are well represented */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_keep_their_types_and_places),
        cmocka_unit_test(faults_name_the_byte),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(strings_decode),
        cmocka_unit_test(whole_numbers_keep_64_bits),
        cmocka_unit_test(doubles_equal_strtod),
        cmocka_unit_test(agrees_with_jansson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
