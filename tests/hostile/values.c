/* values.c - see values.h. */
#include "tests/hostile/values.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *const numbers[] = {
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "1.5",
    "-1e-9",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "1e18",
    "1e308",
    "1e400",
    "-1e400",
    "1e-400",
    "NaN",
    "-Infinity",
    "0x10",
    "007",
    "+1",
    "1_000",
    "99999999999999999999999999999999999999999999999999",
};

#define S(text)                                                                                    \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
/* As between the quotes of a JSON string; just as well as the whole value of an entry's field. */
static const struct {
    const char *at;
    size_t len;
} texts[] = {
    S(""),
    S(" "),
    S("x"),
    S("."),
    S("../../../etc/passwd"),
    S("a/b"),
    S("a b"),
    S("\\u0000"),
    S("a\\u0000b"),
    S("a\0b"),
    S("\0"),
    S("\\ud800"),
    S("\\udc00\\ud800"),
    S("\\ud83d"),
    S("\\u12"),
    S("\xff\xfe"),
    S("\xe5\xb8"),
    S("\xe5\xb8\x82\xe5\x9c\xba\xe9\x83"),
    S("\xc0\xaf"),
    S("\xed\xa0\x80"),
    S("\xf4\x90\x80\x80"),
    S("\xf0\x9f\x98\x80"),
    S("\\u202egnp.exe"),
    S("\xe2\x80\xae"),
    S("\xe2\x81\xa6\xe2\x80\xa8\xe2\x80\xa9"),
    S("\\u009b31m"),
    S("\xc2\x9b"
      "31m"),
    S("\x1b]0;owned\x07"),
    S("\\u001b[2J"),
    S("a\nb"),
    S("a\\r\\nb: c"),
    S("\x7f"),
    S("%s%n%1000000d"),
    S("'; DROP TABLE job; --"),
    S("$1"),
    S("\\\\"),
    S("\""),
    S("<script>alert(1)</script>"),
    S("{a|b|c}"),
    S("{{{{|}"),
    S("{"),
    S("latent-cache"),
    S("backfill-x"),
    S("0-18446744073709551615"),
    S("18446744073709551615-0"),
    S("5-1"),
    S("1344x768x"),
    S("99999x99999"),
    S("auto"),
    S("ink:0.8+ink:0.8"),
    S("ink:NaN+paper:1e400"),
    S("market\xe5\xb8\x82\xe5\x9c\xba\xe9\x83\xa8\xe9\x97\xa8\xe5\x88\x9b\xe6\x84\x8f\xe8\xae\xbe"
      "\xe8\xae\xa1\xe4\xb8\x8e\xe5\x93\x81\xe7\x89\x8c\xe6\x8e\xa8\xe5\xb9\xbf\xe5\xb0\x8f"),
};

static const char *const literals[] = {
    "null",        "true",      "false",     "[]",
    "{}",          "[null]",    "{\"a\":1}", "",
    "True",        "undefined", "[1,",       "'x'",
    "{\"\":\"\"}", "[[],[]]",   "/**/",      "\"open",
    "{\"v\":{}}",  "}",         "\x01",      "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]",
};

const char *hostile_number(struct test_random *random)
{
    return numbers[test_random_below(random, COUNT(numbers))];
}

static struct hostile_bytes repeated(const char *piece, size_t bytes)
{
    size_t len = strlen(piece), count = bytes / len + 1;
    char *all = malloc(count * len + 1);
    if (!all)
        abort();
    for (size_t i = 0; i < count; i++)
        memcpy(all + i * len, piece, len + 1);
    return (struct hostile_bytes){all, count * len};
}

/* Just beyond a limit, far beyond it, and, seldom, a megabyte; cut in mid-character where it may
 * be. */
static struct hostile_bytes long_text(struct test_random *random)
{
    static const char *const pieces[] = {"a", "\xe5\xb8\x82", "\xf0\x9f\x98\x80", "\xcc\x81", "9"};
    static const size_t sizes[] = {64, 65, 128, 129, 255, 256, 257, 272, 273, 1024, 8192, 8193};
    const char *piece = pieces[test_random_below(random, COUNT(pieces))];
    size_t size = sizes[test_random_below(random, COUNT(sizes))];
    if (test_random_below(random, 12) == 0)
        size = test_random_below(random, 8) == 0 ? 1 << 20 : 65536 + test_random_below(random, 2);
    return repeated(piece, size - 1);
}

static struct hostile_bytes nested(struct test_random *random)
{
    static const size_t depths[] = {3, 100, 600, 2049, 30000};
    size_t depth = depths[test_random_below(random, COUNT(depths))];
    return repeated(test_random_below(random, 2) ? "[" : "{\"a\":", depth);
}

static struct hostile_bytes some_text(struct test_random *random)
{
    size_t which = test_random_below(random, COUNT(texts));
    return test_random_below(random, 6) == 0 ? long_text(random)
                                             : hostile_copy(texts[which].at, texts[which].len);
}

struct hostile_bytes hostile_word(struct test_random *random)
{
    return test_random_below(random, 3) == 0 ? hostile_text(hostile_number(random))
                                             : some_text(random);
}

struct hostile_bytes hostile_value(struct test_random *random)
{
    uint32_t kind = test_random_below(random, 100);
    if (kind < 35)
        return hostile_text(hostile_number(random));
    if (kind < 55)
        return hostile_text(literals[test_random_below(random, COUNT(literals))]);
    if (kind < 60)
        return nested(random);
    struct hostile_bytes text = some_text(random), quoted = hostile_text("\"");
    hostile_append(&quoted, text.at, text.len);
    hostile_append_text(&quoted, "\"");
    hostile_release(&text);
    return quoted;
}
