/* question.c - see question.h. */
#include "storage/ledger/gallery/question.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/words/query.h"
#include "storage/ledger/gallery/document.h"

#define BUDGET_MS 20 /* of a walk, unless the query says another */

static int check(const struct kiln_gallery_query *query, struct kiln_error *err)
{
    const struct kiln_gallery_filter *filter = &query->filter;
    if (!filter->pool)
        return kiln_fail(err, KILN_INTERNAL, "a query of the gallery names no pool");
    if (!filter->width != !filter->height)
        return kiln_fail(err, KILN_BAD_INPUT, "a size needs both width and height");
    if ((int)filter->aspect < 0 || filter->aspect >= KILN_GALLERY_ASPECTS ||
        (int)filter->mode < 0 || filter->mode >= KILN_GALLERY_MODES)
        return kiln_fail(err, KILN_BAD_INPUT, "unknown aspect or mode");
    if (query->rows_max < 1 || query->rows_max > KILN_GALLERY_ROWS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a page has 1 to %d pictures", KILN_GALLERY_ROWS_MAX);
    if (query->order == KILN_GALLERY_RELEVANCE && !query->words)
        return kiln_fail(err, KILN_BAD_INPUT, "only words can be ordered by relevance");
    return 0;
}

/* --- filters as SQL ----------------------------------------------------------------------------
 */

void kiln_gallery_bind_levels(struct kiln_params *params, const struct kiln_gallery_filter *filter)
{
    int levels[KILN_SAFETY_LEVELS + 1], count = 0;
    if (filter->show_unchecked)
        levels[count++] = KILN_SAFETY_UNCHECKED;
    for (int level = 0; level <= filter->level_max && level < KILN_SAFETY_LEVELS; level++)
        levels[count++] = level;
    KILN_BIND_COLUMN(params, INT2, (size_t)count, levels[i]);
}

void kiln_gallery_bind(struct kiln_params *params, const struct kiln_gallery_filter *filter,
                       uint64_t batch_id)
{
    KILN_BIND(params, filter->pool, batch_id, filter->tenant, filter->model, filter->lora,
              filter->style, filter->prompt_hash, filter->width, filter->height,
              (int)filter->aspect, (int)filter->mode, filter->starred, filter->from_ms,
              filter->to_ms);
    KILN_BIND(params, filter->vote);
    kiln_gallery_bind_levels(params, filter);
}

/* --- filters as lexemes ------------------------------------------------------------------------
 */

/* " & " and the lexeme, if there is a value. */
static void put_lexeme(struct kiln_text *text, char kind, const char *value)
{
    if (!value)
        return;
    if (text->len)
        kiln_text_puts(text, " & ");
    kiln_lexeme_put(text, kind, value);
}

static void put_number(struct kiln_text *text, char kind, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    if (value)
        put_lexeme(text, kind, digits);
}

/* Without the pool, which nearly all pictures share: a column tells it. */
static void put_filters(struct kiln_text *text, const struct kiln_gallery_question *question)
{
    const struct kiln_gallery_filter *filter = &question->query->filter;
    char size[32];
    put_number(text, KILN_LEXEME_BATCH, question->batch_id);
    put_lexeme(text, KILN_LEXEME_TENANT, filter->tenant);
    put_lexeme(text, KILN_LEXEME_MODEL, filter->model);
    put_lexeme(text, KILN_LEXEME_LORA, filter->lora);
    put_lexeme(text, KILN_LEXEME_STYLE, filter->style);
    snprintf(size, sizeof size, "%ux%u", filter->width, filter->height);
    put_lexeme(text, KILN_LEXEME_SIZE, filter->width ? size : NULL);
    put_number(text, KILN_LEXEME_ASPECT, filter->aspect);
    put_number(text, KILN_LEXEME_MODE, filter->mode);
    put_number(text, KILN_LEXEME_STAR, filter->starred);
    put_lexeme(text, KILN_LEXEME_VOTE, kiln_vote_text(filter->vote));
}

/* --- what a cursor is bound to -----------------------------------------------------------------
 */

/* A text with its length before it, so that two of them cannot pass for others. */
static void put_part(struct kiln_text *text, const char *part)
{
    if (part)
        kiln_text_printf(text, "%zu:%s", strlen(part), part);
    kiln_text_puts(text, ";");
}

static uint64_t first_bytes(const void *bytes, size_t len)
{
    uint8_t digest[KILN_SHA256_SIZE];
    uint64_t value = 0;
    kiln_sha256(bytes, len, digest);
    for (int i = 0; i < 8; i++)
        value = value << 8 | digest[i];
    return value;
}

void kiln_gallery_filter_put(struct kiln_text *text, const struct kiln_gallery_filter *filter)
{
    const char *const parts[] = {filter->pool, filter->batch, filter->tenant,     filter->model,
                                 filter->lora, filter->style, filter->prompt_hash};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        put_part(text, parts[i]);
    kiln_text_printf(text, "%u %u %d %d %d %d %" PRId64 " %" PRId64 " %d %d %d;", filter->width,
                     filter->height, (int)filter->aspect, (int)filter->mode, filter->starred,
                     filter->vote, filter->from_ms, filter->to_ms, filter->level_max,
                     filter->show_unchecked, filter->stacked);
}

static int hash_query(struct kiln_gallery_question *question, struct kiln_error *err)
{
    struct kiln_text text = {0};
    kiln_gallery_filter_put(&text, &question->query->filter);
    put_part(&text, question->words);
    kiln_text_printf(&text, "%d", (int)question->query->order);
    if (text.failed) {
        kiln_text_release(&text);
        return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a query");
    }
    question->hash = first_bytes(text.at, text.len);
    kiln_text_release(&text);
    return 0;
}

/* --- the span of time --------------------------------------------------------------------------
 */

/* Bounds of the jobs whose pictures were made in the span; only a complete index knows them, and
 * today's may still grow. */
static int find_span(struct kiln_ledger *session, struct kiln_gallery_question *question,
                     struct kiln_error *err)
{
    static const struct kiln_statement span = {
        "gallery_span",
        "SELECT coalesce(min(first_job) FILTER (WHERE day >= to_timestamp($2 / 1000.0)::date), 0),"
        " coalesce(CASE WHEN to_timestamp($3 / 1000.0) > now() THEN 0 ELSE"
        "  max(last_job) FILTER (WHERE day <= to_timestamp($3 / 1000.0)::date) END, 0)"
        " FROM gallery_day WHERE pool = $1::text AND $2::bigint IS NOT NULL AND"
        " $3::bigint IS NOT NULL AND (SELECT bool_and(rebuilt IS NULL) FROM gallery_state)"};
    const struct kiln_gallery_filter *filter = &question->query->filter;
    struct kiln_params params = {0};
    uint64_t lowest, highest;
    question->highest = INT64_MAX;
    if (!filter->from_ms && !filter->to_ms)
        return 0;
    KILN_BIND(&params, filter->pool, filter->from_ms,
              filter->to_ms ? filter->to_ms : kiln_wall_ms() + 86400000);
    int rc = kiln_ledger_ask(session, &span, &params, KILN_FIELDS(lowest, highest), err);
    if (rc)
        return rc;
    question->lowest = filter->from_ms ? lowest : 0;
    if (filter->to_ms && highest)
        question->highest = highest;
    return 0;
}

/* --- words -------------------------------------------------------------------------------------
 */

static int read_words(struct kiln_gallery_question *question, struct kiln_error *err)
{
    struct kiln_query words;
    int rc = kiln_query_parse(question->query->words, &words, err);
    if (rc)
        return rc;
    rc = kiln_query_tsquery(&words, &question->words, err);
    kiln_query_release(&words);
    return rc;
}

/* --- all of it ---------------------------------------------------------------------------------
 */

static int ask(struct kiln_ledger *session, struct kiln_gallery_question *question,
               struct kiln_error *err)
{
    const struct kiln_gallery_query *query = question->query;
    struct kiln_text lexemes = {0};
    int rc = check(query, err);
    if (rc == 0 && query->filter.batch)
        rc = kiln_ledger_batch_id(session, query->filter.pool, query->filter.batch,
                                  &question->batch_id, err);
    if (rc == 0 && query->words)
        rc = read_words(question, err);
    if (rc == 0)
        rc = find_span(session, question, err);
    if (rc)
        return rc;
    if (question->words)
        kiln_text_puts(&lexemes, question->words);
    put_filters(&lexemes, question);
    if (lexemes.len) {
        question->lexemes = kiln_text_take(&lexemes);
        if (!question->lexemes)
            return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a query");
    }
    return hash_query(question, err);
}

int kiln_gallery_ask(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                     struct kiln_gallery_question *ret, struct kiln_error *err)
{
    *ret = (struct kiln_gallery_question){
        .query = query, .budget_ms = query->budget_ms > 0 ? query->budget_ms : BUDGET_MS};
    ret->deadline = kiln_clock_ms() + ret->budget_ms;
    int rc = ask(session, ret, err);
    if (rc)
        kiln_gallery_question_release(ret);
    return rc;
}

void kiln_gallery_question_release(struct kiln_gallery_question *question)
{
    free(question->words);
    free(question->lexemes);
    question->words = question->lexemes = NULL;
}

/* --- cursors -----------------------------------------------------------------------------------
 */

static uint64_t seal(const struct kiln_gallery_question *question,
                     const struct kiln_gallery_place *place)
{
    const uint64_t all[] = {question->hash, place->newer, place->job,
                            place->top,     place->end,   (uint64_t)place->score};
    return first_bytes(all, sizeof all);
}

void kiln_gallery_place_text(const struct kiln_gallery_question *question,
                             const struct kiln_gallery_place *place,
                             char out[KILN_GALLERY_CURSOR_MAX])
{
    snprintf(out, KILN_GALLERY_CURSOR_MAX,
             "%c%" PRIu64 "-%" PRIu64 "-%" PRIu64 "-%" PRId64 "-%016" PRIx64,
             place->newer ? 'n' : 'o', place->job, place->top, place->end, place->score,
             seal(question, place));
}

int kiln_gallery_place_read(const struct kiln_gallery_question *question,
                            struct kiln_gallery_place *ret, struct kiln_error *err)
{
    const char *text = question->query->cursor;
    struct kiln_gallery_place place = {.job = question->highest};
    char again[KILN_GALLERY_CURSOR_MAX];
    if (!text || !*text) {
        place.job += place.job < INT64_MAX;
        *ret = place;
        return 0;
    }
    char *end;
    place.newer = *text == 'n';
    place.job = strtoull(text + 1, &end, 10);
    place.top = strtoull(end + (*end != '\0'), &end, 10);
    place.end = strtoull(end + (*end != '\0'), &end, 10);
    place.score = strtoll(end + (*end != '\0'), &end, 10);
    kiln_gallery_place_text(question, &place, again); /* only what we would write ourselves */
    if (strcmp(text, again) != 0 || place.job > INT64_MAX || place.top > INT64_MAX ||
        place.end > INT64_MAX)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "the cursor does not belong to this search: it was changed, or made for "
                         "other words, filters or safety levels");
    *ret = place;
    return 0;
}
