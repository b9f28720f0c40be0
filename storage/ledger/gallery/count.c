/* count.c - how many pictures a query finds, and on which days they were made.
 *
 * A histogram, and a count of more than a thousand, have more rows than can be looked up one by
 * one: they are read from the index alone, which follows the levels in image within seconds.
 */
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "storage/ledger/gallery/windows.h"

/* The query without what concerns pages. */
static struct kiln_gallery_query whole(const struct kiln_gallery_query *query)
{
    struct kiln_gallery_query all = *query;
    all.rows_max = 1;
    all.cursor = NULL;
    all.order = KILN_GALLERY_NEWEST;
    return all;
}

/* --- days --------------------------------------------------------------------------------------
 */

#define SLICE_ROWS 4000
#define WINDOW_HITS 200 /* wanted of one step, so that the budget is kept */
#define INDEX_SHARE                                                                                \
    50 /* one hit in so many rows or fewer: the index of words finds them faster                   \
        */

struct days {
    struct kiln_gallery_day *at; /* by falling day */
    size_t count, size;
    uint64_t pictures;
};

static int by_day(const void *a, const void *b)
{
    int64_t left = ((const struct kiln_gallery_day *)a)->day_ms;
    int64_t right = ((const struct kiln_gallery_day *)b)->day_ms;
    return (left < right) - (left > right);
}

static int add_day(struct days *days, int64_t day_ms, uint64_t pictures, struct kiln_error *err)
{
    days->pictures += pictures;
    for (size_t i = 0; i < days->count; i++) /* slices go by age, so it is near the end */
        if (days->at[days->count - 1 - i].day_ms == day_ms) {
            days->at[days->count - 1 - i].pictures += pictures;
            return 0;
        }
    if (days->count == days->size) {
        size_t size = days->size * 2 + 64;
        struct kiln_gallery_day *at = realloc(days->at, size * sizeof *at);
        if (!at)
            return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for days");
        days->at = at;
        days->size = size;
    }
    days->at[days->count++] = (struct kiln_gallery_day){day_ms, pictures};
    return 0;
}

/* $1 pool, $2 levels, $3 lexemes or NULL, $4 and $5 the span of time, $6 the hash of a prompt. */
#define DAY "(extract(epoch FROM t.day)::bigint * 1000)"
#define COUNTS                                                                                     \
    "t.pool = $1::text AND coalesce(t.level, -1) = ANY ($2::smallint[])"                           \
    " AND ($4::bigint = 0 OR t.day >= to_timestamp($4 / 1000.0)::date)"                            \
    " AND ($5::bigint = 0 OR t.day <= to_timestamp(($5 - 1) / 1000.0)::date)"                      \
    " AND ($6::text IS NULL OR (SELECT i.prompt_hash FROM image i WHERE i.job_id = t.job_id) = "   \
    "$6)"
#define SLICE                                                                                      \
    "SELECT b.reached, d.day, d.pictures FROM (SELECT coalesce((SELECT job_id FROM gallery_text"   \
    "  WHERE job_id < $7::bigint ORDER BY job_id DESC OFFSET $8::integer - 1 LIMIT 1), 0)"         \
    "  AS reached) b LEFT JOIN LATERAL (SELECT " DAY " AS day, count(*) AS pictures"               \
    "  FROM gallery_text t WHERE t.job_id < $7 AND t.job_id >= b.reached AND " COUNTS              \
    "  AND (t.tsv @@ $3::tsquery) IS NOT FALSE GROUP BY 1) d ON true"
/* $9 all lexemes if each row is to be checked, $10 the parts of the window, if it has some. */
#define REST(PARTS)                                                                                \
    "SELECT 0, " DAY ", count(*) FROM gallery_text t WHERE " PARTS "t.tsv @@ $3::tsquery"          \
    " AND ($9::tsquery IS NULL OR (t.tsv @@ $9::tsquery) IS TRUE)"                                 \
    " AND t.job_id + 0 < $7::bigint AND $8::integer > 0 AND " COUNTS " GROUP BY 2"
#define KEPT                                                                                       \
    "SELECT 0, " DAY ", sum(t.pictures)::bigint FROM gallery_day t WHERE t.pool = $1::text"        \
    " AND t.level = ANY ($2::smallint[]) AND t.pictures > 0"                                       \
    " AND ($4::bigint = 0 OR t.day >= to_timestamp($4 / 1000.0)::date)"                            \
    " AND ($5::bigint = 0 OR t.day <= to_timestamp(($5 - 1) / 1000.0)::date)"                      \
    " AND $3::text IS NULL AND $6::text IS NULL AND $7::bigint > 0 AND $8::integer > 0 GROUP BY 2"
static const struct kiln_statement slice = {KILN_PLANNED_ONCE("gallery_days"), SLICE};
static const struct kiln_statement rest[2] = {
    {KILN_PLANNED_ONCE("gallery_days_index"), REST("")},
    {KILN_PLANNED_ONCE("gallery_days_parts"), REST(KILN_PARTS_SQL(10))}};
static const struct kiln_statement kept = {"gallery_days_kept", KEPT};

static void bind_counts(struct kiln_params *params, const struct kiln_gallery_question *question,
                        const char *lexemes, uint64_t at, uint32_t rows)
{
    const struct kiln_gallery_filter *filter = &question->query->filter;
    KILN_BIND(params, filter->pool);
    kiln_gallery_bind_levels(params, filter);
    KILN_BIND(params, lexemes, filter->from_ms, filter->to_ms, filter->prompt_hash, at, rows);
}

/* index: whose windows the statement asks; NULL: of none.  parts: of the window, or NULL. */
static int read_days(struct kiln_ledger *session, const struct kiln_statement *statement,
                     const struct kiln_gallery_question *question,
                     const struct kiln_gallery_index *index, const char *lexemes, const char *parts,
                     uint64_t *at, struct days *days, struct kiln_error *err)
{
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    bind_counts(&params, question, lexemes, *at, SLICE_ROWS);
    if (index)
        KILN_BIND(&params, kiln_gallery_compared(question, index));
    if (parts)
        KILN_BIND(&params, parts);
    int rc = kiln_ledger_run(session, statement, &params, &rows, err);
    for (int row = 0; rc == 0 && row < PQntuples(rows); row++) {
        int64_t day_ms;
        uint64_t pictures;
        KILN_READ(rows, row, 0, *at, day_ms, pictures);
        if (!PQgetisnull(rows, row, 1))
            rc = add_day(days, day_ms, pictures, err);
    }
    PQclear(rows);
    return rc;
}

/* From the index of words, until the budget ends. */
static int count_windows(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                         const struct kiln_gallery_index *index, uint64_t at, struct days *days,
                         int64_t *ret_back_to_ms, struct kiln_error *err)
{
    struct kiln_parts window;
    bool more = kiln_parts_begin(&window, index, false, at, question->lowest, WINDOW_HITS);
    while (more) {
        char *lexemes, *parts;
        const uint64_t before = days->pictures;
        uint64_t behind = window.at;
        int rc = kiln_parts_lexemes(&window, question->lexemes, &lexemes, &parts, err);
        if (rc)
            return rc;
        rc = read_days(session, &rest[parts != NULL], question, index, lexemes, parts, &behind,
                       days, err);
        free(lexemes);
        free(parts);
        if (rc == 0)
            rc = kiln_parts_go_on(&window, session, (uint32_t)(days->pictures - before),
                                  KILN_GALLERY_COUNT_MAX, question->deadline, &more, err);
        if (rc)
            return rc;
        if (more && kiln_clock_ms() >= question->deadline)
            return kiln_gallery_time_of(session, window.at, false, ret_back_to_ms, err);
    }
    return 0;
}

/* The job behind which nothing is counted. */
static uint64_t top(const struct kiln_gallery_question *question)
{
    return question->highest == INT64_MAX ? INT64_MAX : question->highest + 1;
}

static bool is_indexed(const struct kiln_gallery_index *index)
{
    return index->complete && index->words > 0;
}

static bool is_rare(const struct kiln_gallery_index *index)
{
    return is_indexed(index) && index->rarest * INDEX_SHARE < index->pictures;
}

/* Slices from *at on, until more than `most` pictures are counted, nothing is left, or the budget
 * ends; or *ret_rare is true: the index of words counts the rest faster. */
static int walk(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                bool indexed, uint64_t most, uint64_t *at, struct days *days, bool *ret_rare,
                struct kiln_error *err)
{
    int rc = 0;
    *ret_rare = false;
    for (uint64_t read = SLICE_ROWS; rc == 0 && *at > question->lowest; read += SLICE_ROWS) {
        rc = read_days(session, &slice, question, NULL, question->lexemes, NULL, at, days, err);
        *ret_rare = indexed && days->pictures * INDEX_SHARE < read;
        if (*ret_rare || days->pictures > most || kiln_clock_ms() >= question->deadline)
            break;
    }
    return rc;
}

static int count_days(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                      struct days *days, int64_t *ret_back_to_ms, struct kiln_error *err)
{
    uint64_t at = top(question);
    struct kiln_gallery_index index = {0};
    *ret_back_to_ms = 0;
    if (!question->lexemes && !question->query->filter.prompt_hash)
        return read_days(session, &kept, question, NULL, NULL, NULL, &at, days, err);
    int rc = question->lexemes ? kiln_gallery_look(session, question, &index, err) : 0;
    bool rare = is_rare(&index);
    if (rc == 0 && !rare)
        rc = walk(session, question, is_indexed(&index), UINT64_MAX, &at, days, &rare, err);
    if (rc || at <= question->lowest)
        return rc;
    return rare ? count_windows(session, question, &index, at, days, ret_back_to_ms, err)
                : kiln_gallery_time_of(session, at, false, ret_back_to_ms, err);
}

int kiln_gallery_days(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                      kiln_each_day *each, void *arg, int64_t *ret_back_to_ms,
                      struct kiln_error *err)
{
    const struct kiln_gallery_query all = whole(query);
    struct kiln_gallery_question question;
    struct days days = {0};
    int64_t back_to_ms = 0;
    int rc = kiln_gallery_ask(session, &all, &question, err);
    if (rc)
        return rc;
    rc = count_days(session, &question, &days, &back_to_ms, err);
    kiln_gallery_question_release(&question);
    if (days.count)
        qsort(days.at, days.count, sizeof *days.at, by_day);
    for (size_t i = 0; i < days.count && rc == 0; i++)
        rc = each(arg, &days.at[i], err);
    free(days.at);
    if (rc == 0)
        *ret_back_to_ms = back_to_ms;
    return rc;
}

/* --- counts ------------------------------------------------------------------------------------
 */

/* As COUNTS, and $7 behind this job, $9 as for REST, $10 the most hits, $11 the parts. */
#define HITS(PARTS)                                                                                \
    "SELECT t.job_id FROM gallery_text t WHERE " PARTS "t.tsv @@ $3::tsquery"                      \
    " AND t.job_id + 0 < $7::bigint"                                                               \
    " AND ($9::tsquery IS NULL OR (t.tsv @@ $9::tsquery) IS TRUE)"                                 \
    " AND $8::integer > 0 AND " COUNTS " LIMIT $10::integer"
static const struct kiln_statement hits_index[2] = {
    {KILN_PLANNED_ONCE("gallery_count"), HITS("")},
    {KILN_PLANNED_ONCE("gallery_count_parts"), HITS(KILN_PARTS_SQL(11))}};

static int add_hits(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                    const struct kiln_gallery_index *index, const char *lexemes, const char *parts,
                    uint64_t at, struct kiln_gallery_hits *hits, struct kiln_error *err)
{
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    bind_counts(&params, question, lexemes, at, 1);
    KILN_BIND(&params, kiln_gallery_compared(question, index));
    KILN_BIND(&params, KILN_GALLERY_HITS_MAX - hits->count);
    if (parts)
        KILN_BIND(&params, parts);
    int rc = kiln_ledger_run(session, &hits_index[parts != NULL], &params, &rows, err);
    for (int row = 0; rc == 0 && row < PQntuples(rows); row++)
        if (hits->count < KILN_GALLERY_HITS_MAX)
            hits->jobs[hits->count++] = kiln_row_u64(rows, row, 0);
    PQclear(rows);
    return rc;
}

/* From the index alone, the newest first but in any order within a window. */
static int find_any(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                    const struct kiln_gallery_index *index, struct kiln_gallery_hits *hits,
                    struct kiln_error *err)
{
    struct kiln_parts window;
    hits->count = 0;
    hits->out_of_time = false;
    bool more =
        kiln_parts_begin(&window, index, false, top(question), question->lowest, WINDOW_HITS);
    kiln_parts_allow_whole(&window, index); /* KILN_GALLERY_HITS_MAX ends it */
    while (more) {
        char *lexemes, *parts;
        const uint32_t before = hits->count;
        int rc = kiln_parts_lexemes(&window, question->lexemes, &lexemes, &parts, err);
        if (rc)
            return rc;
        rc = add_hits(session, question, index, lexemes, parts, window.at, hits, err);
        free(lexemes);
        free(parts);
        if (rc || hits->count == KILN_GALLERY_HITS_MAX)
            return rc;
        rc = kiln_parts_go_on(&window, session, hits->count - before, 2 * WINDOW_HITS,
                              question->deadline, &more, err);
        if (rc)
            return rc;
        hits->out_of_time = more && kiln_clock_ms() >= question->deadline;
        more = more && !hits->out_of_time;
    }
    return 0;
}

/* How many of the hits image itself shows. */
static int check_hits(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                      struct kiln_gallery_hits *hits, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        KILN_PLANNED_ONCE("gallery_count_shown"),
        "SELECT count(*) FROM unnest($17::bigint[]) AS g (id), LATERAL"
        " (SELECT FROM image i WHERE i.job_id = g.id AND " KILN_GALLERY_SHOWN " OFFSET 0) i"};
    struct kiln_params params = {0};
    kiln_gallery_bind(&params, &question->query->filter, question->batch_id);
    KILN_BIND_COLUMN(&params, INT8, hits->count, (int64_t)hits->jobs[i]);
    return kiln_ledger_ask(session, &statement, &params, KILN_FIELDS(hits->count), err);
}

/* Words that most slices have, by a walk: for each window GIN reads the whole list of a word, which
 * takes longer than the budget if a third of a million pictures have it.  False: there are few, or
 * they are rarely together. */
static int count_frequent(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                          const struct kiln_gallery_index *index, struct kiln_gallery_hits *hits,
                          bool *ret_counted, struct kiln_error *err)
{
    struct days days = {0};
    uint64_t at = top(question);
    bool rare;
    *ret_counted = false;
    if (is_rare(index))
        return 0;
    int rc = walk(session, question, true, KILN_GALLERY_COUNT_MAX, &at, &days, &rare, err);
    free(days.at);
    const bool over = days.pictures > KILN_GALLERY_COUNT_MAX;
    *ret_counted = over || (!rare && at > question->lowest);
    hits->count = over ? KILN_GALLERY_HITS_MAX : (uint32_t)days.pictures;
    hits->out_of_time = true;
    return rc;
}

/* More than are counted: the index says so, and whether one of them has just been hidden does not
 * matter.  Fewer: each is looked up.  An index that is being made lacks pictures, and words that
 * must only be missing have no list in it: those go the way of a list. */
static int count(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                 struct kiln_gallery_hits *hits, struct kiln_error *err)
{
    const struct kiln_gallery_want want = {.most = KILN_GALLERY_HITS_MAX,
                                           .enough = KILN_GALLERY_HITS_MAX};
    struct kiln_gallery_index index = {0};
    struct days days = {0};
    struct kiln_gallery_place place;
    uint64_t at = top(question);
    bool counted;
    const bool of_prompt = question->query->filter.prompt_hash != NULL;
    int rc = 0;
    if (question->lexemes && !of_prompt)
        rc = kiln_gallery_look(session, question, &index, err);
    else if (!of_prompt)
        rc = kiln_gallery_complete(session, &index.complete, err);
    if (rc == 0 && is_indexed(&index)) {
        rc = count_frequent(session, question, &index, hits, &counted, err);
        if (rc || counted)
            return rc;
        rc = find_any(session, question, &index, hits, err);
        return rc || hits->count > KILN_GALLERY_COUNT_MAX
                   ? rc
                   : check_hits(session, question, hits, err);
    }
    if (rc == 0 && index.complete && !question->lexemes) {
        rc = read_days(session, &kept, question, NULL, NULL, NULL, &at, &days, err);
        free(days.at);
        hits->count = KILN_GALLERY_HITS_MAX;
        hits->out_of_time = false;
        if (rc || days.pictures > KILN_GALLERY_COUNT_MAX)
            return rc;
    }
    if (rc == 0)
        rc = kiln_gallery_place_read(question, &place, err);
    return rc ? rc : kiln_gallery_find(session, question, &place, &want, hits, err);
}

int kiln_gallery_count(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                       uint32_t *ret_count, bool *ret_more, struct kiln_error *err)
{
    const struct kiln_gallery_query all = whole(query);
    struct kiln_gallery_question question;
    struct kiln_gallery_hits *hits = malloc(sizeof *hits);
    if (!hits)
        return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory to count");
    int rc = kiln_gallery_ask(session, &all, &question, err);
    if (rc == 0) {
        rc = count(session, &question, hits, err);
        kiln_gallery_question_release(&question);
    }
    if (rc == 0) {
        bool over = hits->count > KILN_GALLERY_COUNT_MAX;
        *ret_count = over ? KILN_GALLERY_COUNT_MAX : hits->count;
        *ret_more = over || hits->out_of_time;
    }
    free(hits);
    return rc;
}
