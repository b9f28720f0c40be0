/* split.c - see split.h. */
#include "schemas/reuse/split.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "schemas/limits.h"
#include "schemas/text/utf8.h"
#include "schemas/words/words.h"

/* Folding can lengthen a character: the longest of NFKC_Casefold makes 33 bytes of 3. */
enum { GROWTH = 12, QUOTE_MAX = 512 };

struct splitter {
    const char *in;
    size_t at, size;
    struct kiln_split *out;
    size_t room;
    uint8_t pending;    /* the break before the next word */
    unsigned no_closer; /* quotation marks of which no closing one is left, as bits */
};

static int32_t code_at(const char *in, size_t at, size_t size, size_t *ret_len)
{
    utf8proc_int32_t code = 0;
    if (at >= size) {
        *ret_len = 0;
        return 0;
    }
    if ((unsigned char)in[at] < 0x80) {
        *ret_len = 1;
        return in[at];
    }
    utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)in + at, (utf8proc_ssize_t)(size - at), &code);
    *ret_len = len < 1 ? 1 : (size_t)len;
    return len < 1 ? 0xfffd : code;
}

static bool ascii_digit(int32_t code)
{
    return code >= '0' && code <= '9';
}

/* Written without spaces between words.  Hangul has spaces. */
static bool spaceless(int32_t code)
{
    return (code >= 0x0e00 && code <= 0x0eff) || (code >= 0x1000 && code <= 0x109f) ||
           (code >= 0x1780 && code <= 0x17ff) || (code >= 0x3005 && code <= 0x3007) ||
           (code >= 0x3040 && code <= 0x31ff) || (code >= 0x3400 && code <= 0x4dbf) ||
           (code >= 0x4e00 && code <= 0x9fff) || (code >= 0xf900 && code <= 0xfaff) ||
           (code >= 0x1aff0 && code <= 0x1b16f) || (code >= 0x20000 && code <= 0x3ffff);
}

static bool letter(int32_t code)
{
    if (code < 0x80)
        return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || ascii_digit(code);
    utf8proc_category_t category = utf8proc_category(code);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO);
}

static bool is_capital(int32_t code)
{
    return code < 0x80 ? code >= 'A' && code <= 'Z'
                       : utf8proc_category(code) == UTF8PROC_CATEGORY_LU;
}

static bool invisible(int32_t code)
{
    return code == 0xad || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff || (code >= 0xfe00 && code <= 0xfe0f);
}

static bool apostrophe(int32_t code)
{
    return code == '\'' || code == 0x2019;
}

/* Appends a word; *folded of len bytes is copied. */
static void give(struct splitter *s, enum kiln_split_kind kind, const char *folded, size_t len)
{
    struct kiln_split *out = s->out;
    bool joined = kind == KILN_SPLIT_HAN && out->count && !s->pending &&
                  out->at[out->count - 1].kind == KILN_SPLIT_HAN;
    if (len == 0)
        return;
    assert(out->len + len + 2 <= s->room);
    if (out->count && !joined)
        out->text[out->len++] = ' ';
    memcpy(out->text + out->len, folded, len);
    out->at[out->count++] = (struct kiln_split_word){.start = (uint32_t)out->len,
                                                     .len = (uint32_t)len,
                                                     .kind = (uint8_t)kind,
                                                     .before = s->pending};
    out->len += len;
    out->text[out->len] = '\0';
    s->pending = KILN_BREAK_NONE;
}

static void pend(struct splitter *s, enum kiln_split_break which)
{
    if (s->pending < which)
        s->pending = (uint8_t)which;
}

/* Folds in[from..to) and gives it; no memory shows as a failure of the whole. */
static int give_folded(struct splitter *s, enum kiln_split_kind kind, size_t from, size_t to,
                       struct kiln_error *err)
{
    char quick[64], *folded;
    size_t len = to - from;
    bool ascii = len <= sizeof quick;
    for (size_t i = 0; ascii && i < len; i++) {
        char c = s->in[from + i];
        ascii = (unsigned char)c < 0x80;
        quick[i] = c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
    }
    if (ascii) {
        give(s, kind, quick, len);
        return 0;
    }
    int code = kiln_words_fold(s->in + from, len, &folded, &len, err);
    if (code)
        return code;
    size_t kept = 0; /* a curly apostrophe is an apostrophe */
    for (size_t i = 0; i < len; i++)
        if (len - i >= 3 && memcmp(folded + i, "\xe2\x80\x99", 3) == 0) {
            folded[kept++] = '\'';
            i += 2;
        } else {
            folded[kept++] = folded[i] == ' ' ? '_' : folded[i];
        }
    give(s, kind, folded, kept);
    free(folded);
    return 0;
}

/* A run of letters, digits and marks; an apostrophe between letters is part of it, so are a point,
 * comma or colon between digits. */
static int split_word(struct splitter *s, struct kiln_error *err)
{
    size_t from = s->at, len, next;
    int32_t code = code_at(s->in, s->at, s->size, &len);
    bool capital = is_capital(code), capitals = false, number = true;
    const uint32_t words = s->out->count;
    if (spaceless(code)) {
        s->at += len;
        return give_folded(s, KILN_SPLIT_HAN, from, s->at, err);
    }
    for (;;) {
        number = number && (ascii_digit(code) || code == '.' || code == ',' || code == ':');
        s->at += len;
        code = code_at(s->in, s->at, s->size, &len);
        capitals = capitals || (len && !number && is_capital(code)); /* but "4K", "3D" */
        if (len && letter(code) && !spaceless(code))
            continue;
        int32_t after = code_at(s->in, s->at + len, s->size, &next);
        if (len && apostrophe(code) && next && letter(after) && !number)
            continue;
        if (len && number && (code == '.' || code == ',' || code == ':') && ascii_digit(after))
            continue;
        break;
    }
    int rc = give_folded(s, number ? KILN_SPLIT_NUMBER : KILN_SPLIT_WORD, from, s->at, err);
    if (rc == 0 && s->out->count > words) {
        struct kiln_split_word *word = &s->out->at[words];
        word->capital = capital;
        word->capitals = capitals;
        word->from = (uint32_t)from;
        word->size = (uint32_t)(s->at - from);
    }
    return rc;
}

/* Pairs of quotation marks.  A single one opens only before a letter and closes only after one. */
static const struct {
    int32_t open, close, close2;
} quotes[] = {
    {'"', '"', 0x201d},       {0x201c, 0x201d, '"'},    {0x201e, 0x201c, 0x201d},
    {0xab, 0xbb, 0xbb},       {0x300c, 0x300d, 0x300d}, {0x300e, 0x300f, 0x300f},
    {0x300a, 0x300b, 0x300b}, {'\'', '\'', 0x2019},     {0x2018, 0x2019, '\''},
};

/* At an opening quotation mark: gives the quoted span and passes its end.  A mark that nothing
 * closes is a symbol. */
static bool split_quote(struct splitter *s, int32_t code, size_t len, bool after_letter)
{
    for (unsigned q = 0; q < sizeof quotes / sizeof *quotes; q++) {
        bool single = apostrophe(quotes[q].close);
        if (quotes[q].open != code || (s->no_closer & 1u << q) || (single && after_letter))
            continue;
        size_t from = s->at + len, at = from, step, next;
        while (at < s->size) {
            int32_t now = code_at(s->in, at, s->size, &step);
            int32_t after = code_at(s->in, at + step, s->size, &next);
            if ((now == quotes[q].close || now == quotes[q].close2) &&
                !(single && next && letter(after)))
                break;
            at += step;
        }
        if (at >= s->size) {
            s->no_closer |= 1u << q;
            continue;
        }
        code_at(s->in, at, s->size, &step);
        if (at - from > QUOTE_MAX)
            continue;
        give(s, KILN_SPLIT_QUOTE, s->in + from, at - from);
        s->at = at + step;
        return true;
    }
    return false;
}

static enum kiln_split_break break_of(const struct splitter *s, int32_t code, size_t len, bool word)
{
    size_t next;
    int32_t after = code_at(s->in, s->at + len, s->size, &next);
    bool apart = (s->at == 0 || s->in[s->at - 1] == ' ') && (!next || after == ' ');
    switch (code) {
    case ',':
    case 0x3001: /* the commas of Chinese */
    case 0xff0c:
    case 0x2014: /* long dashes */
    case 0x2026:
        return KILN_BREAK_COMMA;
    case '-':
    case 0x2013:
    case '/':
    case '|':
        return apart ? KILN_BREAK_COMMA : KILN_BREAK_NONE;
    case ':':
    case 0xff1a:
        return KILN_BREAK_COLON;
    case '.':
        return word || apart || !next || after == ' ' || after == '.' ? KILN_BREAK_STOP
                                                                      : KILN_BREAK_NONE;
    case '!':
    case '?':
    case ';':
    case '\n':
    case 0x3002:
    case 0xff01:
    case 0xff1b:
    case 0xff1f:
    case 0x2028:
    case 0x2029:
        return KILN_BREAK_STOP;
    default:
        return KILN_BREAK_NONE;
    }
}

static bool space(int32_t code)
{
    if (code <= ' ')
        return true;
    utf8proc_category_t category = code < 0x80 ? UTF8PROC_CATEGORY_PO : utf8proc_category(code);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_CC || invisible(code);
}

static int split_one(struct splitter *s, struct kiln_error *err)
{
    size_t len, next;
    int32_t code = code_at(s->in, s->at, s->size, &len);
    struct kiln_split *out = s->out;
    bool touching = s->at > 0 && !space((unsigned char)s->in[s->at - 1]) && out->count &&
                    out->at[out->count - 1].kind <= KILN_SPLIT_NUMBER && !s->pending;
    if (letter(code) && !invisible(code))
        return split_word(s, err);
    enum kiln_split_break which = break_of(s, code, len, touching);
    int32_t after = code_at(s->in, s->at + len, s->size, &next);
    if (which != KILN_BREAK_NONE) {
        pend(s, which);
    } else if (space(code)) {
        ;
    } else if (split_quote(s, code, len, touching)) {
        return 0;
    } else if (code == '-' && touching && next && letter(after) && !ascii_digit(after)) {
        ; /* "high-quality" is two words */
    } else {
        size_t from = s->at;
        s->at += len;
        return give_folded(s, KILN_SPLIT_SYMBOL, from, s->at, err);
    }
    s->at += len;
    return 0;
}

int kiln_split_prompt(const char *prompt, size_t len, struct kiln_split *ret,
                      struct kiln_error *err)
{
    struct kiln_split out = {0};
    struct splitter s = {.in = prompt, .size = len, .out = &out};
    size_t bad;
    if (len > KILN_PROMPT_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "the prompt has %zu bytes (limit %d)", len,
                         KILN_PROMPT_MAX);
    if (!kiln_utf8_valid(prompt, len, &bad))
        return kiln_fail(err, KILN_BAD_INPUT, "the prompt is not UTF-8 at byte %zu", bad);
    s.room = GROWTH * len + len + 2;
    out.at = malloc((len + 1) * sizeof *out.at);
    out.text = malloc(s.room);
    int code = out.at && out.text ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a prompt");
    if (code == 0)
        out.text[0] = '\0';
    while (code == 0 && s.at < s.size)
        code = split_one(&s, err);
    if (code) {
        kiln_split_release(&out);
        return code;
    }
    *ret = out;
    return 0;
}

void kiln_split_release(struct kiln_split *split)
{
    free(split->at);
    free(split->text);
    *split = (struct kiln_split){0};
}
