/* json_scan.c - checks and decodes strings and numbers of JSON.
 *
 * A string is checked in place: escapes, UTF-8, no control characters.  It is decoded only on
 * request.  Decoded text is never longer than its source, which bounds the buffers here.
 */
#include "schemas/text/json_scan.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/text/json.h"
#include "schemas/text/utf8.h"

static bool is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

/* Value of four hex digits at at[0..4), or -1. */
static int hex4(const char *at, const char *end)
{
    if (end - at < 4)
        return -1;
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static bool is_high(int code)
{
    return code >= 0xd800 && code <= 0xdbff;
}
static bool is_low(int code)
{
    return code >= 0xdc00 && code <= 0xdfff;
}

/* at: the 'u' of a \u escape; returns its length from there, 0 on a fault. */
static size_t unicode_escape(const char *at, const char *end, unsigned *ret_code,
                             const char **ret_fault)
{
    int code = hex4(at + 1, end);
    *ret_fault = code < 0        ? "four hex digits belong after \\u"
                 : code == 0     ? "the character NUL (\\u0000) is not allowed"
                 : is_low(code)  ? "a low surrogate without a high one"
                 : is_high(code) ? "a high surrogate without a low one"
                                 : NULL;
    if (code > 0 && is_high(code) && end - at >= 11 && at[5] == '\\' && at[6] == 'u') {
        int low = hex4(at + 7, end);
        if (is_low(low)) {
            *ret_fault = NULL;
            *ret_code = 0x10000u + ((unsigned)(code - 0xd800) << 10) + (unsigned)(low - 0xdc00);
            return 11;
        }
    }
    *ret_code = (unsigned)code;
    return *ret_fault ? 0 : 5;
}

/* at: the backslash; returns the position behind the escape. */
static const char *scan_escape(const char *at, const char *end, const char **ret_fault)
{
    unsigned code;
    if (at + 1 >= end) {
        *ret_fault = "the closing '\"' of a text is missing";
        return end;
    }
    if (at[1] == 'u') {
        size_t len = unicode_escape(at + 1, end, &code, ret_fault);
        return at + 1 + len;
    }
    if (!strchr("\"\\/bfnrt", at[1]) || at[1] == '\0')
        *ret_fault = "an unknown escape; a backslash itself is written \\\\";
    return at + 2;
}

const char *kiln_json_scan_string(const char *at, const char *end, bool *ret_escaped,
                                  const char **ret_fault)
{
    while ((at += kiln_plain_run(at, (size_t)(end - at))) < end) {
        unsigned char c = (unsigned char)*at;
        if (c == '"')
            return at;
        if (c == '\\') {
            const char *next = scan_escape(at, end, ret_fault);
            if (*ret_fault)
                return at;
            *ret_escaped = true;
            at = next;
        } else if (c < 0x20) {
            *ret_fault =
                c == 0 ? "a NUL byte"
                       : "a control character inside a text (write it as \\n, \\t or \\u00..)";
            return at;
        } else {
            size_t len = kiln_utf8_length(at, (size_t)(end - at));
            if (len == 0) {
                *ret_fault = "not valid UTF-8";
                return at;
            }
            at += len;
        }
    }
    *ret_fault = "the closing '\"' of a text is missing";
    return end;
}

const char *kiln_json_scan_number(const char *at, const char *end, const char **ret_fault)
{
    if (*at == '-')
        at++;
    if (!is_digit(at, end)) {
        *ret_fault = "a digit belongs after '-' (NaN and Infinity are not numbers in JSON)";
        return at;
    }
    if (*at == '0' && is_digit(at + 1, end)) {
        *ret_fault = "a number does not begin with a needless 0";
        return at;
    }
    while (is_digit(at, end))
        at++;
    if (at < end && *at == '.') {
        at++;
        if (!is_digit(at, end))
            *ret_fault = "a digit belongs after the decimal point";
        while (is_digit(at, end))
            at++;
    }
    if (!*ret_fault && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        if (!is_digit(at, end))
            *ret_fault = "a digit belongs in the exponent";
        while (is_digit(at, end))
            at++;
    }
    return at;
}

/* Decodes a checked string; out has room for its length and a NUL. */
static size_t decode(const struct kiln_json_value *value, char *out)
{
    const char *at = value->text, *end = value->text + value->len;
    size_t len = 0;
    while (at < end) {
        if (*at != '\\') {
            out[len++] = *at++;
            continue;
        }
        at++;
        if (*at == 'u') {
            const char *no_fault;
            unsigned code;
            at += unicode_escape(at, end, &code, &no_fault);
            len += kiln_utf8_encode(code, out + len);
            continue;
        }
        static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
        const char *letter = strchr(from, *at);
        out[len++] = letter ? to[letter - from] : *at;
        at++;
    }
    out[len] = '\0';
    return len;
}

char *kiln_json_string_copy(const struct kiln_json_value *value, size_t *ret_len)
{
    char *out = malloc(value->len + 1);
    if (!out)
        return NULL;
    size_t len = value->len;
    if (value->escaped) {
        len = decode(value, out);
    } else {
        memcpy(out, value->text, len);
        out[len] = '\0';
    }
    if (ret_len)
        *ret_len = len;
    return out;
}

bool kiln_json_string(const struct kiln_json_value *value, char *out, size_t size, size_t *ret_len)
{
    size_t len = value->len;
    if (!value->escaped) {
        if (len >= size)
            return false;
        memcpy(out, value->text, len);
        out[len] = '\0';
    } else {
        char *copy = kiln_json_string_copy(value, &len);
        bool fits = copy && len < size;
        if (fits)
            memcpy(out, copy, len + 1);
        free(copy);
        if (!fits)
            return false;
    }
    if (ret_len)
        *ret_len = len;
    return true;
}

bool kiln_json_equals(const struct kiln_json_value *value, const char *string)
{
    size_t len = strlen(string);
    if (value->type != KILN_JSON_STRING)
        return false;
    if (!value->escaped)
        return value->len == len && memcmp(value->text, string, len) == 0;
    char *copy = kiln_json_string_copy(value, NULL);
    bool equal = copy && strcmp(copy, string) == 0;
    free(copy);
    return equal;
}

/* strtod on a copy, with the decimal point of the locale: a program with a user interface may
 * have set one. */
static double parse_slowly(const char *text, size_t len)
{
    char *copy = malloc(len + 1);
    if (!copy)
        return NAN;
    memcpy(copy, text, len);
    copy[len] = '\0';
    char *point = strchr(copy, '.');
    if (point)
        *point = *localeconv()->decimal_point;
    double value = strtod(copy, NULL);
    free(copy);
    return value;
}

bool kiln_json_double(const struct kiln_json_value *value, double *ret)
{
    /* Up to 15 digits and powers of ten up to 22 are exact in a double, and so is one
     * division of them: the common case needs no strtod. */
    static const double powers[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *at = value->text, *end = value->text + value->len;
    bool negative = *at == '-';
    at += negative;
    int64_t digits = 0;
    size_t count = 0, decimals = 0;
    bool point = false;
    for (; at < end && count <= 15; at++) {
        if (*at == '.') {
            point = true;
        } else if (*at >= '0' && *at <= '9') {
            digits = digits * 10 + (*at - '0');
            count++;
            decimals += point;
        } else {
            break;
        }
    }
    if (at == end && count <= 15) {
        double magnitude = (double)digits / powers[decimals];
        *ret = negative ? -magnitude : magnitude;
        return true;
    }
    *ret = parse_slowly(value->text, value->len);
    return isfinite(*ret);
}

/* Digits alone, all 64 bits; false if there is anything else or too much. */
static bool parse_digits(const char *at, const char *end, uint64_t *ret)
{
    uint64_t value = 0;
    if (at == end)
        return false;
    for (; at < end; at++) {
        if (!is_digit(at, end) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    }
    *ret = value;
    return true;
}

bool kiln_json_u64(const struct kiln_json_value *value, uint64_t *ret)
{
    double number;
    if (parse_digits(value->text, value->text + value->len, ret))
        return true;
    /* Digits alone that did not fit must not come back rounded. */
    bool plain = !memchr(value->text, '.', value->len) && !memchr(value->text, 'e', value->len) &&
                 !memchr(value->text, 'E', value->len);
    if ((plain && value->text[0] != '-') || !kiln_json_double(value, &number) || number < 0 ||
        number > 0x1p53 || number != floor(number))
        return false;
    *ret = (uint64_t)number;
    return true;
}

bool kiln_json_i64(const struct kiln_json_value *value, int64_t *ret)
{
    struct kiln_json_value magnitude = *value;
    uint64_t number;
    bool negative = value->text[0] == '-';
    magnitude.text += negative;
    magnitude.len -= negative;
    if (!kiln_json_u64(&magnitude, &number) || number > (uint64_t)INT64_MAX)
        return false;
    *ret = negative ? -(int64_t)number : (int64_t)number;
    return true;
}
