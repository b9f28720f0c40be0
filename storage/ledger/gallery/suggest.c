/* suggest.c - "did you mean": the words of a search with typing errors put right.
 *
 * For a word that few pictures have, every text at one typing error from it is looked up in
 * gallery_word: a letter left out, doubled, exchanged with the next, or mistaken for another that
 * the word's script has.  (P. Norvig, "How to Write a Spelling Corrector", 2007.)  A suggestion is
 * made only if it finds a picture that the filter shows.
 */
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "schemas/text/text.h"
#include "schemas/words/query.h"
#include "storage/ledger/gallery/question.h"

#define LETTERS_MIN 3
#define LETTERS_MAX 24
#define ALPHABET_MAX 64
#define FACTOR "20" /* how many times as frequent a better word is */

struct letters {
    utf8proc_int32_t at[LETTERS_MAX];
    size_t count;
};

/* False: the word is too short, too long, or has something beside letters. */
static bool letters_of(const struct kiln_query_term *term, struct letters *ret)
{
    size_t at = 0;
    ret->count = 0;
    while (at < term->len) {
        utf8proc_int32_t code;
        utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)term->text + at,
                                                 (utf8proc_ssize_t)(term->len - at), &code);
        if (size < 1 || ret->count == LETTERS_MAX ||
            utf8proc_category(code) < UTF8PROC_CATEGORY_LU ||
            utf8proc_category(code) > UTF8PROC_CATEGORY_LO)
            return false;
        ret->at[ret->count++] = code;
        at += (size_t)size;
    }
    return ret->count >= LETTERS_MIN;
}

/* The small letters of the scripts that have few. */
static size_t alphabet(const struct letters *word, utf8proc_int32_t out[ALPHABET_MAX])
{
    static const utf8proc_int32_t ranges[][2] = {
        {'a', 'z'},       /* Latin; others of it as far as the word has them */
        {0x3b1, 0x3c9},   /* Greek */
        {0x430, 0x44f},   /* Cyrillic */
        {0x561, 0x586},   /* Armenian */
        {0x5d0, 0x5ea},   /* Hebrew */
        {0x621, 0x64a},   /* Arabic */
        {0x10d0, 0x10f0}, /* Georgian */
    };
    size_t count = 0;
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
        for (size_t i = 0; i < word->count; i++)
            if (word->at[i] >= ranges[r][0] && word->at[i] <= ranges[r][1]) {
                for (utf8proc_int32_t c = ranges[r][0]; c <= ranges[r][1] && count < ALPHABET_MAX;
                     c++)
                    out[count++] = c;
                break;
            }
    return count;
}

static void put_letters(struct kiln_array *array, const struct letters *word)
{
    char text[LETTERS_MAX * 4 + 8];
    size_t len = 0;
    for (size_t i = 0; i < word->count; i++)
        len += (size_t)utf8proc_encode_char(word->at[i], (utf8proc_uint8_t *)text + len);
    text[len] = '\0';
    kiln_array_text(array, text);
}

/* The word with `count` letters from `from` on replaced by those given. */
static void put_changed(struct kiln_array *array, const struct letters *word, size_t from,
                        size_t count, const utf8proc_int32_t *letters, size_t letter_count)
{
    struct letters changed = {.count = word->count - count + letter_count};
    if (changed.count > LETTERS_MAX)
        return;
    memcpy(changed.at, word->at, from * sizeof *word->at);
    memcpy(changed.at + from, letters, letter_count * sizeof *letters);
    memcpy(changed.at + from + letter_count, word->at + from + count,
           (word->count - from - count) * sizeof *word->at);
    put_letters(array, &changed);
}

static void put_neighbours(struct kiln_array *array, const struct letters *word)
{
    utf8proc_int32_t letters[ALPHABET_MAX];
    size_t count = alphabet(word, letters);
    for (size_t at = 0; at <= word->count; at++) {
        for (size_t i = 0; i < count; i++) {
            put_changed(array, word, at, 0, &letters[i], 1);
            if (at < word->count)
                put_changed(array, word, at, 1, &letters[i], 1);
        }
        if (at < word->count)
            put_changed(array, word, at, 1, NULL, 0);
        if (at + 1 < word->count)
            put_changed(array, word, at, 2,
                        (const utf8proc_int32_t[]){word->at[at + 1], word->at[at]}, 2);
    }
}

/* The best of the neighbours, or "" if the word itself is frequent enough. */
static int find_better(struct kiln_ledger *session, const struct kiln_query_term *term,
                       const struct letters *word, char *out, size_t size, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_better",
        "SELECT word FROM gallery_word WHERE word = ANY ($2::text[]) AND pictures > " FACTOR
        " * coalesce((SELECT pictures FROM gallery_word WHERE word = $1::text), 0)"
        " ORDER BY pictures DESC, word LIMIT 1"};
    struct kiln_params params = {0};
    struct kiln_array array;
    PGresult *rows = NULL;
    char own[LETTERS_MAX * 4 + 1];
    snprintf(own, sizeof own, "%.*s", (int)term->len, term->text);
    kiln_array_start(&array, KILN_ARRAY_TEXT);
    put_neighbours(&array, word);
    KILN_BIND(&params, (const char *)own);
    kiln_bind_array(&params, &array);
    int rc = kiln_ledger_run(session, &statement, &params, &rows, err);
    if (rc)
        return rc;
    snprintf(out, size, "%s", PQntuples(rows) ? PQgetvalue(rows, 0, 0) : "");
    PQclear(rows);
    return 0;
}

/* Whether the text finds a picture that is shown. */
static int finds(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                 const char *text, bool *ret, struct kiln_error *err)
{
    struct kiln_gallery_query better = *query;
    uint32_t count;
    bool more;
    better.words = text;
    int rc = kiln_gallery_count(session, &better, &count, &more, err);
    if (rc == 0)
        *ret = count > 0;
    return rc;
}

static int suggest(struct kiln_ledger *session, const struct kiln_query *words,
                   struct kiln_text *text, bool *ret_changed, struct kiln_error *err)
{
    char better[LETTERS_MAX * 4 + 1];
    struct letters letters;
    for (size_t i = 0; i < words->count; i++) {
        const struct kiln_query_term *term = &words->terms[i];
        int rc = 0;
        better[0] = '\0';
        if (!term->quoted && !term->minus && letters_of(term, &letters))
            rc = find_better(session, term, &letters, better, sizeof better, err);
        if (rc)
            return rc;
        kiln_text_printf(text, "%s%s%s", i ? " " : "", term->minus ? "-" : "",
                         term->quoted ? "\"" : "");
        if (better[0])
            kiln_text_puts(text, better);
        else
            kiln_text_add(text, term->text, term->len);
        kiln_text_puts(text, term->quoted ? "\"" : "");
        *ret_changed |= better[0] != '\0';
    }
    return text->failed ? kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a suggestion") : 0;
}

int kiln_gallery_suggest(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                         char *out, size_t size, struct kiln_error *err)
{
    struct kiln_query words;
    struct kiln_text text = {0};
    bool changed = false, found = false;
    int rc = kiln_query_parse(query->words ? query->words : "", &words, err);
    if (rc)
        return rc;
    rc = suggest(session, &words, &text, &changed, err);
    if (rc == 0 && changed && text.len < size && text.len <= KILN_QUERY_BYTES_MAX)
        rc = finds(session, query, text.at, &found, err);
    if (rc == 0)
        snprintf(out, size, "%s", found ? text.at : "");
    kiln_text_release(&text);
    kiln_query_release(&words);
    return rc;
}

/* --- words by frequency ------------------------------------------------------------------------
 */

static int read_frequent(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    return ((kiln_each_frequent *)caller->each)(caller->arg, kiln_row_text(rows, row, 0),
                                                kiln_row_u64(rows, row, 1), err);
}

int kiln_gallery_frequent(struct kiln_ledger *session, double low, double high, uint32_t max,
                          kiln_each_frequent *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_frequent",
        "SELECT w.word, w.pictures FROM gallery_word w, (SELECT sum(pictures) AS n FROM "
        "gallery_day)"
        " d WHERE length(w.word) > 2 AND w.word !~ ':' AND w.pictures >= d.n * $1::float8 AND "
        "w.pictures < d.n * $2::float8"
        " ORDER BY md5(w.word) LIMIT $3::integer"};
    struct kiln_params params = {0};
    KILN_BIND(&params, low, high, max);
    return kiln_ledger_run_each(session, &statement, &params, read_frequent, KILN_CALLER(each, arg),
                                err);
}
