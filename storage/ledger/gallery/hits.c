/* hits.c - which pictures a query finds, by age: a walk along the jobs, or the index of words.
 *
 * The planner is given no choice, because the statistics of words are not good enough for it:
 *
 *   1. Walk: a slice of the next rows by primary key, each compared with the query.  IS TRUE hides
 *      the operator from GIN, so it is always a walk.  Frequent words end here, in a millisecond.
 *   2. Windows: if the frequency of the rarest word, or the share of hits in the rows read, says
 *      that the walk would need more than WALK_ROWS_MAX, the index of words is asked, for the
 *      newest part of the jobs first (windows.h).  A phrase or several words that are rarely
 *      together need many windows.
 *   3. Both end with the budget, and the caller says how far back they came.
 *
 * Without words the walk is along image itself, so a picture is listed the moment it is committed.
 * A hit counts if image still says that it is shown.  For a caller that reads the tiles of the
 * hits, which says the same, the level in the index is enough; but it has no time of the day.
 * Source: measured, one million prompts; scripts/bench/RESULTS.md.
 */
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "storage/ledger/gallery/windows.h"

#define AGAIN_MS 1000      /* for a range that was walked before, whatever else the server does */
#define FIRST_ROWS 1000    /* of the first slice, and of any at least */
#define SLICE_ROWS 4000    /* of those after it, unless their time is too short for that */
#define WALK_ROWS_MAX 2000 /* a window costs as much or more */
/* A word that more pictures have may be in all of the newest ones, as a batch's prompts are alike:
 * a slice is walked first, since a window would find thousands at once. */
#define RARE_MAX 2000

/* Whether a hit t counts.  $22: as the index says.  A CASE is not turned into a join, so image is
 * read for the hits wanted alone. */
#define IS_HIT                                                                                     \
    "CASE WHEN $22::boolean THEN coalesce(t.level, -1) = ANY ($16::smallint[])"                    \
    " ELSE EXISTS (SELECT FROM image i WHERE i.job_id = t.job_id AND " KILN_GALLERY_SHOWN ") END"
/* $17 lexemes, $18 behind this job, $19 rows of the slice, $20 hits wanted, $21 the farthest job.
 * One row at least; if there are fewer hits than wanted, with the job at the end of the slice: 0,
 * or the largest, if no row follows.  The slice is a LIMIT with one bound, for which the planner
 * reads rows in order, and so as few as are wanted, even without statistics. */
#define WALK(TABLE, CMP, DIR, END, HITS)                                                           \
    "WITH h AS MATERIALIZED (" HITS " LIMIT $20::integer)"                                         \
    " SELECT CASE WHEN (SELECT count(*) FROM h) < $20 THEN coalesce((SELECT job_id FROM " TABLE    \
    "  WHERE job_id " CMP " $18::bigint ORDER BY job_id " DIR                                      \
    "   OFFSET $19::integer - 1 LIMIT 1), " END ") END, h.job_id FROM (SELECT) one"                \
    " LEFT JOIN h ON true"
#define WALK_IMAGE(CMP, CMP_END, DIR, END)                                                         \
    WALK("image", CMP, DIR, END,                                                                   \
         "SELECT i.job_id FROM (SELECT * FROM image WHERE job_id " CMP " $18"                      \
         "  ORDER BY job_id " DIR " LIMIT $19) i WHERE i.job_id " CMP_END " $21::bigint"           \
         " AND $17::text IS NULL AND NOT $22::boolean AND " KILN_GALLERY_SHOWN                     \
         " ORDER BY i.job_id " DIR)
#define WALK_TEXT(CMP, CMP_END, DIR, END)                                                          \
    WALK("gallery_text", CMP, DIR, END,                                                            \
         "SELECT t.job_id FROM (SELECT job_id, level FROM (SELECT job_id, level, pool, tsv"        \
         "   FROM gallery_text WHERE job_id " CMP " $18 ORDER BY job_id " DIR " LIMIT $19) s"      \
         "  WHERE job_id " CMP_END " $21::bigint AND pool = $1 AND (tsv @@ $17::tsquery) IS TRUE"  \
         "  ORDER BY job_id " DIR " OFFSET 0) t WHERE " IS_HIT " ORDER BY t.job_id " DIR)
/* $17 lexemes, $19 the most rows of the index, $23 all lexemes if each row is to be checked, $24
 * the parts of the window, if it has some.  One row at least, with the number of those rows.  The
 * sum hides the primary key from the planner, IS TRUE the check from GIN. */
#define FROM_INDEX(PARTS, CMP, CMP_END, DIR)                                                       \
    "WITH h AS MATERIALIZED (SELECT job_id, level FROM gallery_text WHERE " PARTS                  \
    "  tsv @@ $17::tsquery"                                                                        \
    "  AND job_id + 0 " CMP " $18::bigint AND job_id + 0 " CMP_END " $21::bigint AND pool = $1"    \
    "  AND ($23::tsquery IS NULL OR (tsv @@ $23::tsquery) IS TRUE) LIMIT $19::integer)"            \
    " SELECT c.rows, s.job_id FROM (SELECT count(*) AS rows FROM h) c LEFT JOIN LATERAL"           \
    " (SELECT t.job_id FROM (SELECT * FROM h ORDER BY job_id " DIR " OFFSET 0) t WHERE " IS_HIT    \
    "  ORDER BY t.job_id " DIR " LIMIT $20::integer) s ON true"
/* The pictures of one prompt are few, and have an index. */
#define OF_PROMPT(CMP, CMP_END, DIR)                                                               \
    "SELECT 0, i.job_id FROM image i WHERE i.prompt_hash = $7::text AND i.job_id + 0 " CMP         \
    " $18::bigint AND i.job_id + 0 " CMP_END                                                       \
    " $21::bigint AND $19::integer > 0 AND ($17::text IS NULL OR EXISTS (SELECT FROM"              \
    "  gallery_text t WHERE t.job_id = i.job_id AND (t.tsv @@ $17::tsquery) IS TRUE))"             \
    " AND NOT $22::boolean AND " KILN_GALLERY_SHOWN " ORDER BY i.job_id + 0 " DIR                  \
    " LIMIT $20::integer"

#define OLDEST "0"
#define NEWEST "9223372036854775807"
static const struct kiln_statement walk_image[2] = {
    {KILN_PLANNED_ONCE("gallery_walk_image"), WALK_IMAGE("<", ">=", "DESC", OLDEST)},
    {KILN_PLANNED_ONCE("gallery_walk_image_up"), WALK_IMAGE(">", "<=", "ASC", NEWEST)}};
static const struct kiln_statement walk_text[2] = {
    {KILN_PLANNED_ONCE("gallery_walk_text"), WALK_TEXT("<", ">=", "DESC", OLDEST)},
    {KILN_PLANNED_ONCE("gallery_walk_text_up"), WALK_TEXT(">", "<=", "ASC", NEWEST)}};
static const struct kiln_statement from_parts[2] = {
    {KILN_PLANNED_ONCE("gallery_parts"), FROM_INDEX(KILN_PARTS_SQL(24), "<", ">=", "DESC")},
    {KILN_PLANNED_ONCE("gallery_parts_up"), FROM_INDEX(KILN_PARTS_SQL(24), ">", "<=", "ASC")}};
static const struct kiln_statement from_index[2] = {
    {KILN_PLANNED_ONCE("gallery_index"), FROM_INDEX("", "<", ">=", "DESC")},
    {KILN_PLANNED_ONCE("gallery_index_up"), FROM_INDEX("", ">", "<=", "ASC")}};
static const struct kiln_statement of_prompt[2] = {
    {KILN_PLANNED_ONCE("gallery_prompt"), OF_PROMPT("<", ">=", "DESC")},
    {KILN_PLANNED_ONCE("gallery_prompt_up"), OF_PROMPT(">", "<=", "ASC")}};

struct search {
    struct kiln_ledger *session;
    const struct kiln_gallery_question *question;
    bool newer;
    uint64_t at, farthest; /* behind this job; not beyond that */
    const struct kiln_gallery_want *want;
    bool unchecked;                         /* hits, in image */
    int64_t begun, deadline;                /* kiln_clock_ms */
    const struct kiln_gallery_index *index; /* that is asked; NULL: not yet */
};

/* Adds what the statement finds; *ret_reached: the end of its slice, unless there were enough hits
 * in it, or the rows of the index.  parts: of the window, or NULL. */
static int run(const struct search *search, const struct kiln_statement *statement,
               const char *lexemes, const char *parts, uint32_t rows_max,
               struct kiln_gallery_hits *hits, uint64_t *ret_reached, struct kiln_error *err)
{
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    kiln_gallery_bind(&params, &search->question->query->filter, search->question->batch_id);
    KILN_BIND(&params, lexemes, search->at, rows_max, search->want->most - hits->count,
              search->farthest, search->unchecked);
    if (search->index)
        KILN_BIND(&params, kiln_gallery_compared(search->question, search->index));
    if (parts)
        KILN_BIND(&params, parts);
    int rc = kiln_ledger_run(search->session, statement, &params, &rows, err);
    if (rc)
        return rc;
    for (int row = 0; row < PQntuples(rows) && hits->count < search->want->most; row++) {
        KILN_READ(rows, row, 0, *ret_reached);
        if (!PQgetisnull(rows, row, 1))
            hits->jobs[hits->count++] = kiln_row_u64(rows, row, 1);
    }
    PQclear(rows);
    return 0;
}

/* Whether a walk to so many hits is long where these rows have so many.  One more is counted, so
 * that a few rows without any say enough and a few with one do not.  A window has about a part and
 * a half, and each of its hits costs about as much as two rows of a walk, so it costs three times
 * the hits of a part. */
static bool is_long(uint64_t rows, uint64_t hits, uint32_t needed)
{
    const uint64_t walk = rows * needed / (hits + 1);
    return walk > WALK_ROWS_MAX && walk > 3 * (((hits + 1) << KILN_PART_BITS) / rows);
}

/* The rows of the next slice: as many as can likely be read in the time left. */
static uint32_t next_slice(const struct search *search, uint64_t read)
{
    const int64_t now = kiln_clock_ms(), took = now - search->begun + 1;
    const int64_t left = search->deadline > now ? search->deadline - now : 0;
    const uint64_t rows = read * (uint64_t)left / (uint64_t)took;
    if (rows >= SLICE_ROWS)
        return SLICE_ROWS;
    return rows > FIRST_ROWS ? (uint32_t)rows : FIRST_ROWS;
}

/* From the index of words, until there are enough hits. */
static int from_windows(struct search *search, const struct kiln_gallery_index *index,
                        struct kiln_gallery_hits *hits, struct kiln_error *err)
{
    const uint32_t enough = search->want->enough;
    struct kiln_parts window;
    uint64_t rows;
    uint32_t wanted = enough > hits->count ? enough - hits->count : 1;
    search->index = index;
    bool more =
        kiln_parts_begin(&window, index, search->newer, search->at, search->farthest, wanted);
    kiln_parts_allow_whole(&window, index);
    while (more) {
        char *lexemes, *parts;
        const uint32_t before = hits->count;
        const uint32_t rows_max = window.whole ? KILN_PARTS_WHOLE_HITS : INT32_MAX;
        search->at = window.at;
        int rc = kiln_parts_lexemes(&window, search->question->lexemes, &lexemes, &parts, err);
        if (rc)
            return rc;
        rc = run(search, &(parts ? from_parts : from_index)[search->newer], lexemes, parts,
                 rows_max, hits, &rows, err);
        free(lexemes);
        free(parts);
        if (rc == 0 && rows == rows_max) { /* any of them, not the next ones */
            hits->count = before;
            kiln_parts_narrow(&window);
            continue;
        }
        if (rc || hits->count == search->want->most)
            return rc;
        rc = kiln_parts_go_on(&window, search->session, hits->count - before, wanted,
                              search->deadline, &more, err);
        if (rc)
            return rc;
        wanted = enough > hits->count ? enough - hits->count : 0;
        if (more && (wanted == 0 || kiln_clock_ms() >= search->deadline)) {
            hits->reached = window.at;
            hits->out_of_time = true;
            return 0;
        }
    }
    return 0;
}

static int find(struct search *search, struct kiln_gallery_hits *hits, struct kiln_error *err)
{
    const struct kiln_gallery_question *question = search->question;
    const bool words = question->words != NULL, newer = search->newer;
    const uint32_t enough = search->want->enough;
    const struct kiln_statement *walk = words ? &walk_text[newer] : &walk_image[newer];
    struct kiln_gallery_index index = {0};
    uint64_t reached = search->at, read = 0;
    uint32_t slice = FIRST_ROWS;
    if (question->query->filter.prompt_hash)
        return run(search, &of_prompt[newer], question->words, NULL, 1, hits, &reached, err);
    int rc = question->lexemes ? kiln_gallery_look(search->session, question, &index, err) : 0;
    const bool indexed = index.complete && index.words > 0;
    if (rc == 0 && words && indexed && index.rarest <= RARE_MAX &&
        is_long(index.pictures, index.rarest, enough))
        return from_windows(search, &index, hits, err);
    while (rc == 0) {
        rc = run(search, walk, words ? question->lexemes : NULL, NULL, slice, hits, &reached, err);
        bool end = newer ? reached >= search->farthest : reached <= search->farthest;
        if (rc || hits->count == search->want->most || end)
            return rc;
        read += slice;
        hits->reached = search->at = reached;
        slice = next_slice(search, read);
        if (indexed && hits->count < enough && is_long(read, hits->count, enough - hits->count))
            return from_windows(search, &index, hits, err);
        if (kiln_clock_ms() >= search->deadline) {
            hits->out_of_time = true;
            return 0;
        }
    }
    return rc;
}

int kiln_gallery_find(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                      const struct kiln_gallery_place *place, const struct kiln_gallery_want *want,
                      struct kiln_gallery_hits *ret, struct kiln_error *err)
{
    const struct kiln_gallery_filter *filter = &question->query->filter;
    struct search search = {.session = session,
                            .question = question,
                            .newer = place->newer,
                            .at = place->job,
                            .farthest = place->newer ? question->highest : question->lowest,
                            .want = want,
                            .unchecked = want->unchecked && question->words &&
                                         !filter->prompt_hash && !filter->from_ms && !filter->to_ms,
                            .begun = kiln_clock_ms(),
                            .deadline = question->deadline};
    if (place->end) { /* a range that was walked within its budget before, if the cursor is ours */
        search.farthest = place->end;
        search.deadline += AGAIN_MS;
    }
    ret->count = 0;
    ret->out_of_time = false;
    ret->reached = place->job;
    return find(&search, ret, err);
}

int kiln_gallery_time_of(struct kiln_ledger *session, uint64_t job, bool newer, int64_t *ret_ms,
                         struct kiln_error *err)
{
    static const struct kiln_statement at[2] = {
        {KILN_PLANNED_ONCE("gallery_time"),
         "SELECT " MS("created_at") " FROM image WHERE job_id >= $1::bigint"
                                    " ORDER BY job_id LIMIT 1"},
        {KILN_PLANNED_ONCE("gallery_time_up"),
         "SELECT " MS("created_at") " FROM image WHERE job_id <= $1::bigint"
                                    " ORDER BY job_id DESC LIMIT 1"}};
    struct kiln_params params = {0};
    KILN_BIND(&params, job);
    return kiln_ledger_ask(session, &at[newer], &params, KILN_FIELDS(*ret_ms), err);
}

int kiln_gallery_complete(struct kiln_ledger *session, bool *ret, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        KILN_PLANNED_ONCE("gallery_complete"),
        "SELECT coalesce(bool_and(rebuilt IS NULL), false) FROM gallery_state"};
    struct kiln_params params = {0};
    return kiln_ledger_ask(session, &statement, &params, KILN_FIELDS(*ret), err);
}
