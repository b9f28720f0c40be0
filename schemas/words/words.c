/* words.c - see words.h. */
#include "schemas/words/words.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

/* The code of the three bytes at text if they are Han or its punctuation, a quotation mark, or a
 * full-width form of ASCII; else 0. */
static unsigned plain_at(const unsigned char *text, size_t len)
{
    if (len < 3 || (text[0] & 0xf0) != 0xe0 || (text[1] & 0xc0) != 0x80 || (text[2] & 0xc0) != 0x80)
        return 0;
    const unsigned code = (text[0] & 15u) << 12 | (text[1] & 63u) << 6 | (text[2] & 63u);
    const bool plain = (code >= 0x4e00 && code <= 0x9fa5) || (code >= 0xff01 && code <= 0xff5e) ||
                       code == 0x3001 || code == 0x3002 || (code >= 0x3008 && code <= 0x3011) ||
                       code == 0x2013 || code == 0x2014 || (code >= 0x2018 && code <= 0x201d);
    return plain ? code : 0;
}

/* Of ASCII and Chinese, which most prompts are: each character has one form, whatever stands beside
 * it.  False, with nothing said of out, at another character. */
static bool fold_plain(const char *text, size_t len, char *out, size_t *ret_len)
{
    size_t to = 0;
    for (size_t at = 0; at < len; at++) {
        unsigned code = (unsigned char)text[at];
        if (code >= 0x80) {
            if (!(code = plain_at((const unsigned char *)text + at, len - at)))
                return false;
            if (code < 0xff01) {
                memcpy(out + to, text + at, 3);
                to += 3;
            }
            at += 2;
            code -= 0xfee0;
        }
        if (code < 0x80)
            out[to++] = (char)(code ? code | (code - 'A' < 26) << 5 : ' ');
    }
    out[to] = '\0';
    *ret_len = to;
    return true;
}

int kiln_words_fold(const char *text, size_t len, char **ret, size_t *ret_len,
                    struct kiln_error *err)
{
    utf8proc_uint8_t *folded = NULL;
    char *copy = malloc(len + 1);
    size_t copied;
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the words of a text");
    if (fold_plain(text, len, copy, &copied)) {
        *ret = copy;
        if (ret_len)
            *ret_len = copied;
        return 0;
    }
    for (size_t i = 0; i < len; i++)
        copy[i] = text[i] ? text[i] : ' ';
    utf8proc_ssize_t size = utf8proc_map(
        (const utf8proc_uint8_t *)copy, (utf8proc_ssize_t)len, &folded,
        UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE);
    free(copy);
    if (size == UTF8PROC_ERROR_NOMEM)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the words of a text");
    if (size < 0)
        return kiln_fail(err, KILN_BAD_INPUT, "the text is not valid UTF-8");
    *ret = (char *)folded;
    if (ret_len)
        *ret_len = (size_t)size;
    return 0;
}

/* Scripts that are written without spaces; Hangul has spaces, but particles hang on its words. */
static bool spaceless(int32_t code)
{
    static const int32_t ranges[][2] = {
        {0x0e00, 0x0eff},   /* Thai, Lao */
        {0x1000, 0x109f},   /* Burmese */
        {0x1100, 0x11ff},   /* Hangul Jamo */
        {0x1780, 0x17ff},   /* Khmer */
        {0x3005, 0x3007},   /* marks of Han */
        {0x3040, 0x30ff},   /* Hiragana, Katakana */
        {0x3100, 0x318f},   /* Bopomofo, Hangul compatibility */
        {0x31a0, 0x31ff},   /* Bopomofo, Katakana extensions */
        {0x3400, 0x4dbf},   /* Han, extension A */
        {0x4e00, 0x9fff},   /* Han */
        {0xa960, 0xa97f},   /* Hangul Jamo */
        {0xac00, 0xd7ff},   /* Hangul */
        {0xf900, 0xfaff},   /* Han, compatibility */
        {0x1aff0, 0x1b16f}, /* Kana extensions */
        {0x20000, 0x3ffff}, /* Han, further extensions */
    };
    if (code < ranges[0][0])
        return false;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

enum kind { SPACE, LETTER, SPACELESS };

static inline enum kind kind_of_ascii(unsigned char c)
{
    return (unsigned)((c | 0x20) - 'a') < 26 || (unsigned)(c - '0') < 10 ? LETTER : SPACE;
}

/* Of a character of several bytes. */
static enum kind kind_of(int32_t code)
{
    if (code >= 0x4e00 && code <= 0x9fa5)
        return SPACELESS;
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return spaceless(code) ? SPACELESS : LETTER;
    default:
        return SPACE;
    }
}

struct splitter {
    kiln_each_word *each;
    void *arg;
    uint32_t *position, run;
};

static void give(struct splitter *splitter, const char *text, size_t len, enum kiln_word_kind kind)
{
    struct kiln_word word = {text, len, kind, ++*splitter->position, splitter->run};
    splitter->each(splitter->arg, &word);
}

static void give_plain(struct splitter *splitter, const char *text, size_t len)
{
    while (len > KILN_WORD_MAX) /* to a whole character */
        do
            len--;
        while ((text[len] & 0xc0) == 0x80);
    give(splitter, text, len, KILN_WORD_PLAIN);
}

static size_t first_length(const char *text, size_t len)
{
    size_t at = 1;
    while (at < len && (text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

static void give_pairs(struct splitter *splitter, const char *text, size_t len)
{
    size_t first = first_length(text, len);
    if (first == len) {
        give(splitter, text, len, KILN_WORD_SINGLE);
        return;
    }
    while (first < len) {
        size_t second = first_length(text + first, len - first);
        give(splitter, text, first + second, KILN_WORD_PAIR);
        text += first;
        len -= first;
        first = second;
    }
    give(splitter, text, len, KILN_WORD_END);
}

void kiln_words_each(const char *folded, size_t len, uint32_t *position, kiln_each_word *each,
                     void *arg)
{
    struct splitter splitter = {each, arg, position, 0};
    enum kind last = SPACE;
    size_t start = 0, at = 0;
    while (at <= len) {
        while (last == LETTER && at < len && (unsigned)(folded[at] - 'a') < 26) /* of most words */
            at++;
        size_t size = 1;
        enum kind now = SPACE; /* at the end, too */
        if (at < len && !(folded[at] & 0x80)) {
            now = kind_of_ascii((unsigned char)folded[at]);
        } else if (at < len) {
            utf8proc_int32_t code;
            const utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)folded + at,
                                                            (utf8proc_ssize_t)(len - at), &code);
            if (bytes > 0) { /* else it is not of kiln_words_fold */
                size = (size_t)bytes;
                now = kind_of(code);
            }
        }
        if (now != last) {
            splitter.run += last != SPACE;
            if (last == LETTER)
                give_plain(&splitter, folded + start, at - start);
            else if (last == SPACELESS)
                give_pairs(&splitter, folded + start, at - start);
            start = at;
        }
        last = now;
        at += size;
    }
}
