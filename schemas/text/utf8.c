/* utf8.c - strict UTF-8, after the table of well-formed byte sequences in the Unicode standard.
 *
 * Strict because prompts end in a tokenizer, a database and file names, and each of them has
 * its own idea of what to do with an overlong slash or half a surrogate.
 */
#include "schemas/text/utf8.h"

#include <stdint.h>
#include <string.h>

static bool continues(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

size_t kiln_utf8_length(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    if (len == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    /* The second byte's range is what keeps out overlong forms, surrogates and > U+10FFFF. */
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        return len >= 2 && continues(s[1]) ? 2 : 0;
    if (s[0] >= 0xe0 && s[0] <= 0xef) {
        if (len < 3 || !continues(s[1]) || !continues(s[2]))
            return 0;
        bool overlong = s[0] == 0xe0 && s[1] < 0xa0;
        bool surrogate = s[0] == 0xed && s[1] > 0x9f;
        return overlong || surrogate ? 0 : 3;
    }
    if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        if (len < 4 || !continues(s[1]) || !continues(s[2]) || !continues(s[3]))
            return 0;
        bool overlong = s[0] == 0xf0 && s[1] < 0x90;
        bool beyond = s[0] == 0xf4 && s[1] > 0x8f;
        return overlong || beyond ? 0 : 4;
    }
    return 0;
}

bool kiln_utf8_valid(const char *text, size_t len, size_t *ret_at)
{
    for (size_t at = 0; at < len;) {
        if ((unsigned char)text[at] < 0x80) {
            at++;
            continue;
        }
        size_t length = kiln_utf8_length(text + at, len - at);
        if (length == 0) {
            if (ret_at)
                *ret_at = at;
            return false;
        }
        at += length;
    }
    return true;
}

int kiln_utf8_steering(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    if (len == 1)
        return s[0] < 0x20 || s[0] == 0x7f ? s[0] : -1;
    if (len == 2)
        return s[0] == 0xc2 && s[1] < 0xa0 ? s[1] : -1;
    int code = len == 3 ? (s[0] & 0x0f) << 12 | (s[1] & 0x3f) << 6 | (s[2] & 0x3f) : 0;
    return (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ? code : -1;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The top bit of some byte is set if any byte is below 0x20, above 0x7e, a quote or a backslash. */
static uint64_t not_plain(uint64_t bytes)
{
    uint64_t quote = bytes ^ EACH('"'), backslash = bytes ^ EACH('\\');
    uint64_t below = (bytes - EACH(0x20)) & ~bytes;
    uint64_t zero = ((quote - EACH(1)) & ~quote) | ((backslash - EACH(1)) & ~backslash);
    return (bytes | (bytes + EACH(1)) | below | zero) & EACH(0x80);
}

bool kiln_utf8_ascii(const char *text, size_t len)
{
    size_t at = 0;
    uint64_t bytes, all = 0;
    for (; at + sizeof bytes <= len; at += sizeof bytes) {
        memcpy(&bytes, text + at, sizeof bytes);
        all |= bytes;
    }
    for (; at < len; at++)
        all |= (unsigned char)text[at];
    return !(all & EACH(0x80));
}

size_t kiln_plain_run(const char *text, size_t len)
{
    size_t at = 0;
    uint64_t bytes;
    for (; at + sizeof bytes <= len; at += sizeof bytes) {
        memcpy(&bytes, text + at, sizeof bytes);
        if (not_plain(bytes))
            break;
    }
    for (; at < len; at++) {
        unsigned char c = (unsigned char)text[at];
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            break;
    }
    return at;
}

/* How long the character will be that begins with this byte; 1 for what begins none. */
static size_t promised(unsigned char byte)
{
    return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
}

size_t kiln_utf8_whole(const char *text, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char byte = (unsigned char)text[len - back];
        if (continues(byte))
            continue;
        return promised(byte) > back ? len - back : len;
    }
    return len;
}

void kiln_utf8_copy(char *out, size_t size, const char *text)
{
    size_t len = strnlen(text, size);
    if (len == size)
        len = kiln_utf8_whole(text, size - 1);
    memcpy(out, text, len);
    out[len] = '\0';
}

void kiln_utf8_clean(char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t length = text[at] ? kiln_utf8_length(text + at, len - at) : 0;
        if (length == 0)
            text[at] = '?';
        at += length ? length : 1;
    }
}

size_t kiln_utf8_encode(unsigned code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}
