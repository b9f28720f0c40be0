/* query.c - see query.h. */
#include "schemas/words/query.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "schemas/text/text.h"
#include "schemas/words/words.h"

/* The code point at text, and its length; a space at the end. */
static size_t code_at(const char *text, size_t len, int32_t *ret)
{
    *ret = ' ';
    if (len == 0)
        return 0;
    utf8proc_ssize_t size =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, ret);
    return size > 0 ? (size_t)size : 1;
}

static bool is_quote(int32_t code)
{
    return code == '"' || code == 0xab || code == 0xbb || (code >= 0x201c && code <= 0x201f) ||
           (code >= 0x300c && code <= 0x300f); /* guillemets, curly quotes, corner brackets */
}

static bool is_minus(int32_t code)
{
    return code == '-' || code == 0x2010 || code == 0x2012 || code == 0x2013 || code == 0x2212;
}

static bool is_blank(int32_t code)
{
    return code <= ' ' || code == 0x85 || utf8proc_category(code) == UTF8PROC_CATEGORY_ZS ||
           utf8proc_category(code) == UTF8PROC_CATEGORY_ZL ||
           utf8proc_category(code) == UTF8PROC_CATEGORY_ZP;
}

/* --- parsing -----------------------------------------------------------------------------------
 */

static void count_run(void *arg, const struct kiln_word *word)
{
    size_t *runs = arg;
    *runs = word->run; /* the last one is how many there are */
}

static size_t runs_in(const char *text, size_t len)
{
    size_t runs = 0;
    uint32_t position = 0;
    kiln_words_each(text, len, &position, count_run, &runs);
    return runs;
}

/* The end of the term at text: its closing quote, or the blank or quote behind it. */
static size_t term_length(const char *text, size_t len, bool quoted)
{
    int32_t code;
    size_t at = 0, size;
    for (; (size = code_at(text + at, len - at, &code)) > 0; at += size)
        if (is_quote(code) || (!quoted && is_blank(code)))
            break;
    return at;
}

/* Parses the term at text and what precedes it; returns the bytes used. */
static size_t next_term(const char *text, size_t len, struct kiln_query_term *ret)
{
    int32_t code;
    size_t at = 0, size;
    *ret = (struct kiln_query_term){0};
    while ((size = code_at(text + at, len - at, &code)) > 0 && is_blank(code))
        at += size;
    if (size > 0 && is_minus(code)) {
        ret->minus = true;
        at += size;
        size = code_at(text + at, len - at, &code);
    }
    ret->quoted = size > 0 && is_quote(code);
    at += ret->quoted ? size : 0;
    ret->text = text + at;
    ret->len = term_length(text + at, len - at, ret->quoted);
    at += ret->len;
    if (ret->quoted) /* a missing quote is at the end */
        at += code_at(text + at, len - at, &code);
    else
        ret->prefix =
            (ret->len > 0 && ret->text[ret->len - 1] == '*') || (at == len && !ret->minus);
    return at;
}

static int parse(struct kiln_query *query, size_t len, struct kiln_error *err)
{
    size_t words = 0;
    for (size_t at = 0; at < len;) {
        struct kiln_query_term term;
        at += next_term(query->folded + at, len - at, &term);
        size_t runs = runs_in(term.text, term.len);
        words += runs;
        if (words > KILN_QUERY_WORDS_MAX)
            return kiln_fail(err, KILN_BAD_INPUT, "a search has at most %d words",
                             KILN_QUERY_WORDS_MAX);
        if (runs > 0)
            query->terms[query->count++] = term;
    }
    if (query->count == 0)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "nothing to search for: type a word with letters or digits");
    return 0;
}

int kiln_query_parse(const char *text, struct kiln_query *ret, struct kiln_error *err)
{
    struct kiln_query query = {0};
    size_t len = strlen(text), folded_len;
    if (len > KILN_QUERY_BYTES_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a search has at most %d bytes, this one has %zu",
                         KILN_QUERY_BYTES_MAX, len);
    int rc = kiln_words_fold(text, len, &query.folded, &folded_len, err);
    if (rc == 0)
        rc = parse(&query, folded_len, err);
    if (rc) {
        kiln_query_release(&query);
        return rc;
    }
    *ret = query;
    return 0;
}

void kiln_query_release(struct kiln_query *query)
{
    free(query->folded);
    query->folded = NULL;
}

bool kiln_query_is_exact(const char *text)
{
    struct kiln_query query;
    struct kiln_error err;
    bool exact = false;
    if (kiln_query_parse(text, &query, &err) != 0)
        return false;
    for (size_t i = 0; i < query.count; i++)
        exact |= query.terms[i].minus || query.terms[i].quoted;
    kiln_query_release(&query);
    return exact;
}

/* --- the tsquery -------------------------------------------------------------------------------
 */

struct phrase {
    struct kiln_text *text;
    size_t words; /* so far */
    struct kiln_word last;
};

static void put_word(void *arg, const struct kiln_word *word)
{
    struct phrase *phrase = arg;
    if (word->kind == KILN_WORD_END) /* its pair says the same */
        return;
    if (phrase->words++)
        kiln_text_puts(phrase->text, " <-> ");
    /* Words hold letters, digits and marks alone: no quote and no backslash. */
    kiln_text_puts(phrase->text, "'");
    kiln_text_add(phrase->text, word->text, word->len);
    kiln_text_puts(phrase->text, word->kind == KILN_WORD_SINGLE ? "':*" : "'");
    phrase->last = *word;
}

static void put_term(struct kiln_text *text, const struct kiln_query_term *term)
{
    struct phrase phrase = {.text = text};
    uint32_t position = 0;
    kiln_text_puts(text, term->minus ? "!(" : "(");
    kiln_words_each(term->text, term->len, &position, put_word, &phrase);
    if (term->prefix && phrase.last.kind == KILN_WORD_PLAIN && phrase.last.len >= KILN_PREFIX_MIN)
        kiln_text_puts(text, ":*");
    kiln_text_puts(text, ")");
}

int kiln_query_tsquery(const struct kiln_query *query, char **ret, struct kiln_error *err)
{
    struct kiln_text text = {0};
    for (size_t i = 0; i < query->count; i++) {
        if (i > 0)
            kiln_text_puts(&text, " & ");
        put_term(&text, &query->terms[i]);
    }
    char *all = kiln_text_take(&text);
    if (!all)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a search");
    *ret = all;
    return 0;
}
