/* steps.c - runs the steps that steps_read.c has read. */
#include "pipeline/embed/tokens/steps.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/tokens/characters.h"
#include "pipeline/embed/tokens/steps_list.h"
#include "schemas/text/utf8.h"

/* --- normalisers ------------------------------------------------------------------------------ */

static void put(struct kiln_text *out, uint32_t code)
{
    char bytes[4];
    kiln_text_add(out, bytes, kiln_utf8_encode(code, bytes));
}

static void put_lower(struct kiln_text *out, uint32_t code)
{
    uint32_t lower[2];
    const size_t n = kiln_char_lower(code, lower);
    for (size_t i = 0; i < n; i++)
        put(out, lower[i]);
}

/* BERT's normaliser in one pass.  Its order: drop and blank, spaces around ideographs, decompose
 * and drop marks, lower case.  Marks are not put into canonical order before they are dropped:
 * the few combining characters that stay (U+302E, U+1D165, ...) keep the order of the text. */
static void bert(const struct kiln_normaliser *step, const char *text, size_t len,
                 struct kiln_text *out)
{
    for (size_t at = 0; at < len;) {
        uint32_t code, parts[KILN_DECOMPOSED_MAX];
        at += kiln_char_next(text + at, &code);
        if (step->clean && kiln_char_dropped(code))
            continue;
        if (step->clean && kiln_char_space(code))
            code = ' ';
        const bool apart = step->ideographs && kiln_char_ideograph(code);
        if (apart)
            put(out, ' ');
        parts[0] = code;
        const size_t n = step->strip_accents ? kiln_char_decompose(code, parts) : 1;
        for (size_t i = 0; i < n; i++) {
            if (step->strip_accents && kiln_char_mark(parts[i]))
                continue;
            (step->lowercase ? put_lower : put)(out, parts[i]);
        }
        if (apart)
            put(out, ' ');
    }
}

static void lowercase(const char *text, size_t len, struct kiln_text *out)
{
    uint32_t code;
    for (size_t at = 0; at < len;) {
        at += kiln_char_next(text + at, &code);
        put_lower(out, code);
    }
}

static void replace(const struct kiln_normaliser *step, const char *text, size_t len,
                    struct kiln_text *out)
{
    const char *end = text + len;
    for (const char *found; text < end; text = found + step->pattern_len) {
        found = memmem(text, (size_t)(end - text), step->pattern, step->pattern_len);
        if (!found)
            break;
        kiln_text_add(out, text, (size_t)(found - text));
        kiln_text_add(out, step->content, step->content_len);
    }
    kiln_text_add(out, text, (size_t)(end - text));
}

/* Runs of at least `least` spaces by the step's content; any white space, or U+0020 alone. */
static void replace_spaces(const struct kiln_normaliser *step, const char *text, size_t len,
                           bool any, size_t least, struct kiln_text *out)
{
    for (size_t at = 0; at < len;) {
        size_t end = at, count = 0;
        while (end < len) {
            uint32_t code;
            const size_t n = kiln_char_next(text + end, &code);
            if (any ? !kiln_char_space(code) : code != ' ')
                break;
            end += n;
            count++;
        }
        uint32_t code;
        if (count >= least) {
            kiln_text_add(out, step->content, step->content_len);
        } else {
            end = end > at ? end : at + kiln_char_next(text + at, &code);
            kiln_text_add(out, text + at, end - at);
        }
        at = end;
    }
}

static void strip(const struct kiln_normaliser *step, const char *text, size_t len,
                  struct kiln_text *out)
{
    size_t begin = len, end = 0;
    for (size_t at = 0; at < len;) {
        uint32_t code;
        const size_t n = kiln_char_next(text + at, &code);
        if (!kiln_char_space(code)) {
            begin = at < begin ? at : begin;
            end = at + n;
        }
        at += n;
    }
    begin = step->left ? begin : 0;
    end = step->right ? end : len;
    if (begin < end)
        kiln_text_add(out, text + begin, end - begin);
}

static void normalise(const struct kiln_normaliser *step, const char *text, size_t len,
                      struct kiln_text *out)
{
    switch (step->type) {
    case KILN_NORMALISER_BERT:
        bert(step, text, len, out);
        break;
    case KILN_NORMALISER_CHARSMAP:
        kiln_charsmap_apply(step->map, text, len, out);
        break;
    case KILN_NORMALISER_LOWERCASE:
        lowercase(text, len, out);
        break;
    case KILN_NORMALISER_REPLACE:
        replace(step, text, len, out);
        break;
    case KILN_NORMALISER_SPACES:
        replace_spaces(step, text, len, true, 1, out);
        break;
    case KILN_NORMALISER_TWO_SPACES:
        replace_spaces(step, text, len, false, 2, out);
        break;
    case KILN_NORMALISER_STRIP:
        strip(step, text, len, out);
        break;
    }
}

int kiln_steps_normalise(const struct kiln_steps *s, const char *text, size_t len,
                         struct kiln_text *out, struct kiln_error *err)
{
    struct kiln_text now = {0}, next = {0};
    bool failed = false;
    int rc = 0;
    for (size_t i = 0; i < s->normaliser_count && !rc && !failed; i++) {
        kiln_text_clear(&next);
        normalise(&s->normalisers[i], text, len, &next);
        const struct kiln_text swap = now;
        now = next;
        next = swap;
        text = now.at ? now.at : "";
        len = now.len;
        failed = now.failed;
        if (len > KILN_EMBED_NORMAL_MAX)
            rc = kiln_fail(err, KILN_BAD_INPUT, "a text grows beyond %d bytes when normalised",
                           KILN_EMBED_NORMAL_MAX);
    }
    if (!rc && !failed)
        kiln_text_add(out, text, len);
    kiln_text_release(&now);
    kiln_text_release(&next);
    return rc || !(failed || out->failed)
               ? rc
               : kiln_fail(err, KILN_NO_MEMORY, "no memory to normalise a text");
}

int kiln_steps_lowercase(const struct kiln_steps *s)
{
    for (size_t i = 0; i < s->normaliser_count; i++)
        if (s->normalisers[i].type == KILN_NORMALISER_BERT)
            return s->normalisers[i].lowercase;
    return -1;
}

/* --- pre-tokenizers --------------------------------------------------------------------------- */

/* Words that go through the splitters from `from` on, then to word. */
struct splitting {
    const struct kiln_steps *steps;
    kiln_word_fn *word;
    void *arg;
};

static int split(const struct splitting *s, size_t from, const char *text, size_t len,
                 struct kiln_error *err);

/* Cuts at white space, which is dropped, and around punctuation if that is meant. */
static int split_spaces(const struct splitting *s, size_t from, bool punctuation, const char *text,
                        size_t len, struct kiln_error *err)
{
    size_t begin = 0;
    int rc = 0;
    for (size_t at = 0; at < len && !rc;) {
        uint32_t code;
        const size_t n = kiln_char_next(text + at, &code);
        const bool space = kiln_char_space(code);
        if (space || (punctuation && kiln_char_punctuation(code))) {
            rc = split(s, from, text + begin, at - begin, err);
            if (!rc && !space)
                rc = split(s, from, text + at, n, err);
            begin = at + n;
        }
        at += n;
    }
    return rc ? rc : split(s, from, text + begin, len - begin, err);
}

/* Spaces become the mark U+2581, one stands in front, and each begins a word. */
static int split_metaspace(const struct splitting *s, size_t from, const struct kiln_splitter *step,
                           const char *text, size_t len, struct kiln_error *err)
{
    static const char mark[] = "\xe2\x96\x81";
    const size_t mark_len = sizeof mark - 1;
    struct kiln_text marked = {0};
    size_t begin = 0;
    int rc = 0;
    if (step->prepend && text[0] != ' ' && (len < mark_len || memcmp(text, mark, mark_len) != 0))
        kiln_text_add(&marked, mark, mark_len);
    for (size_t at = 0; at < len; at++)
        if (text[at] == ' ')
            kiln_text_add(&marked, mark, mark_len);
        else
            kiln_text_add(&marked, text + at, 1);
    if (marked.failed)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to split a text");
    for (size_t at = 1; step->split && !rc && at + mark_len <= marked.len; at++) {
        if (memcmp(marked.at + at, mark, mark_len) != 0)
            continue;
        rc = split(s, from, marked.at + begin, at - begin, err);
        begin = at;
        at += mark_len - 1;
    }
    if (!rc)
        rc = split(s, from, marked.at + begin, marked.len - begin, err);
    kiln_text_release(&marked);
    return rc;
}

static int split(const struct splitting *s, size_t from, const char *text, size_t len,
                 struct kiln_error *err)
{
    if (len == 0)
        return 0;
    if (from == s->steps->splitter_count)
        return s->word(s->arg, text, len, err);
    const struct kiln_splitter *step = &s->steps->splitters[from];
    if (step->type == KILN_SPLITTER_METASPACE)
        return split_metaspace(s, from + 1, step, text, len, err);
    return split_spaces(s, from + 1, step->type == KILN_SPLITTER_BERT, text, len, err);
}

int kiln_steps_split(const struct kiln_steps *s, const char *text, size_t len, kiln_word_fn *word,
                     void *arg, struct kiln_error *err)
{
    const struct splitting splitting = {s, word, arg};
    return split(&splitting, 0, text, len, err);
}
