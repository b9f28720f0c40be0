/* text.c - a growing text.
 *
 * The buffer doubles and always has room for a final NUL.  After the first failed allocation
 * every later add does nothing, so the one check at the end (`failed`, or NULL from
 * kiln_text_take) covers the whole chain, and a message can never be sent with a hole in it.
 */
#include "schemas/text/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/text/utf8.h"

static bool reserve(struct kiln_text *text, size_t more)
{
    if (text->failed)
        return false;
    if (more < text->size - text->len) /* one byte stays for the NUL */
        return true;
    size_t size = text->size ? text->size : 128;
    while (size - text->len <= more)
        size *= 2;
    char *at = realloc(text->at, size);
    if (!at) {
        text->failed = true;
        return false;
    }
    text->at = at;
    text->size = size;
    return true;
}

void kiln_text_add(struct kiln_text *text, const char *bytes, size_t len)
{
    if (!reserve(text, len))
        return;
    if (len > 0)
        memcpy(text->at + text->len, bytes, len);
    text->len += len;
    text->at[text->len] = '\0';
}

void kiln_text_puts(struct kiln_text *text, const char *string)
{
    kiln_text_add(text, string, strlen(string));
}

void kiln_text_printf(struct kiln_text *text, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len >= 0 && reserve(text, (size_t)len)) {
        vsnprintf(text->at + text->len, (size_t)len + 1, fmt, again);
        text->len += (size_t)len;
    }
    va_end(again);
}

static void json_escape(struct kiln_text *text, unsigned byte)
{
    static const char letters[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                   ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
    if (byte < sizeof letters && letters[byte]) {
        char pair[2] = {'\\', letters[byte]};
        kiln_text_add(text, pair, 2);
    } else {
        kiln_text_printf(text, "\\u%04x", byte);
    }
}

static void json_string(struct kiln_text *text, const char *bytes, size_t len, bool least)
{
    if (!reserve(text, len + 2))
        return;
    kiln_text_add(text, "\"", 1);
    size_t plain = 0; /* start of the run not yet copied */
    for (size_t i = 0; (i += kiln_plain_run(bytes + i, len - i)) < len;) {
        unsigned char byte = (unsigned char)bytes[i];
        size_t length = byte < 0x80 ? 1 : kiln_utf8_length(bytes + i, len - i);
        int steers = length ? kiln_utf8_steering(bytes + i, length) : -1;
        if (least && byte >= 0x20)
            steers = -1;
        bool special = steers >= 0 || byte == '"' || byte == '\\';
        if (length == 0 || special) {
            kiln_text_add(text, bytes + plain, i - plain);
            if (special)
                json_escape(text, steers >= 0 ? (unsigned)steers : byte);
            else
                kiln_text_puts(text, "\\ufffd");
            length = length ? length : 1;
            plain = i + length;
        }
        i += length;
    }
    kiln_text_add(text, bytes + plain, len - plain);
    kiln_text_add(text, "\"", 1);
}

void kiln_text_json(struct kiln_text *text, const char *bytes, size_t len)
{
    json_string(text, bytes, len, false);
}

void kiln_text_percent(struct kiln_text *text, const char *string, const char *keep)
{
    for (; *string; string++) {
        const unsigned char c = (unsigned char)*string;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-._~", c) || strchr(keep, c);
        if (plain)
            kiln_text_add(text, string, 1);
        else
            kiln_text_printf(text, "%%%02X", c);
    }
}

void kiln_text_json_least(struct kiln_text *text, const char *bytes, size_t len)
{
    json_string(text, bytes, len, true);
}

void kiln_text_u64(struct kiln_text *text, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    kiln_text_add(text, digits + at, sizeof digits - at);
}

void kiln_text_i64(struct kiln_text *text, int64_t value)
{
    if (value < 0)
        kiln_text_add(text, "-", 1);
    kiln_text_u64(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* Scales and guidance are short decimals: six places without printf.  False: it needs more. */
static bool add_short_decimal(struct kiln_text *text, double value)
{
    char digits[6];
    double millionths = round(fabs(value) * 1e6);
    size_t count = sizeof digits;
    if (!(millionths >= 1 && millionths < 1e12) || millionths / 1e6 != fabs(value))
        return false;
    uint64_t whole = (uint64_t)millionths / 1000000, rest = (uint64_t)millionths % 1000000;
    for (size_t i = sizeof digits; i-- > 0; rest /= 10)
        digits[i] = (char)('0' + rest % 10);
    while (count > 1 && digits[count - 1] == '0')
        count--;
    kiln_text_add(text, "-", value < 0);
    kiln_text_u64(text, whole);
    kiln_text_add(text, ".", 1);
    kiln_text_add(text, digits, count);
    return true;
}

void kiln_text_double(struct kiln_text *text, double value)
{
    if (value == floor(value) && fabs(value) < 1e15 && !(value == 0 && signbit(value))) {
        kiln_text_i64(text, (int64_t)value);
        return;
    }
    if (add_short_decimal(text, value))
        return;
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    for (char *c = digits; *c; c++)
        if (!strchr("+-0123456789.eE", *c))
            *c = '.'; /* the locale's decimal point; JSON knows one */
    kiln_text_puts(text, digits);
}

void kiln_text_clear(struct kiln_text *text)
{
    text->len = 0;
    text->failed = false;
    if (text->at)
        text->at[0] = '\0';
}

char *kiln_text_take(struct kiln_text *text)
{
    kiln_text_add(text, "", 0);
    char *at = text->at;
    if (text->failed) {
        free(at);
        at = NULL;
    }
    *text = (struct kiln_text){0};
    return at;
}

void kiln_text_release(struct kiln_text *text)
{
    free(text->at);
    *text = (struct kiln_text){0};
}
