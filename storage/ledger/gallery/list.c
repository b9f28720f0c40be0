/* list.c - a page of pictures, newest first or by relevance, and the jump to a moment. */
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/gallery/question.h"
#include "storage/ledger/gallery/relevance.h"

static void put_place(const struct kiln_gallery_question *question, bool newer, uint64_t job,
                      char out[KILN_GALLERY_CURSOR_MAX])
{
    kiln_gallery_place_text(question, &(struct kiln_gallery_place){.newer = newer, .job = job},
                            out);
}

static void reverse(uint64_t *jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count / 2; i++) {
        uint64_t kept = jobs[i];
        jobs[i] = jobs[count - 1 - i];
        jobs[count - 1 - i] = kept;
    }
}

/* The jobs of a page, and where the list goes on.  hits->count: at most rows_max. */
static int find_newest(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                       const struct kiln_gallery_place *place, struct kiln_gallery_hits *hits,
                       struct kiln_gallery_page *page, struct kiln_error *err)
{
    const uint32_t rows_max = question->query->rows_max;
    const struct kiln_gallery_want want = {.most = rows_max + 1, .enough = rows_max + 1};
    int rc = kiln_gallery_find(session, question, place, &want, hits, err);
    if (rc)
        return rc;
    bool more = hits->count > rows_max;
    uint32_t count = hits->count = more ? rows_max : hits->count;
    if (place->newer)
        reverse(hits->jobs, count);
    /* A walk that ran out of time goes on where it ended, not behind its last hit. */
    uint64_t oldest = count ? hits->jobs[count - 1] : place->job;
    uint64_t newest = count ? hits->jobs[0] : place->job;
    page->out_of_time = hits->out_of_time;
    if (hits->out_of_time)
        *(place->newer ? &newest : &oldest) = hits->reached;
    if (more || hits->out_of_time || place->newer)
        put_place(question, false, place->newer && !count ? newest + 1 : oldest, page->older);
    if (count || hits->out_of_time || question->query->cursor)
        put_place(question, true, newest, page->newer);
    return hits->out_of_time ? kiln_gallery_time_of(session, hits->reached, place->newer,
                                                    &page->searched_back_to_ms, err)
                             : 0;
}

static int list_newest(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                       const struct kiln_gallery_place *place, kiln_each_tile *each, void *arg,
                       struct kiln_gallery_page *page, struct kiln_error *err)
{
    struct kiln_gallery_hits *hits = malloc(sizeof *hits);
    if (!hits)
        return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a page");
    int rc = find_newest(session, question, place, hits, page, err);
    if (rc == 0)
        rc = kiln_gallery_read_tiles(session, &question->query->filter, question->batch_id,
                                     hits->jobs, NULL, hits->count, each, arg, &page->rows, err);
    free(hits);
    return rc;
}

/* Asked only where it matters: with words, at the end of what was found. */
static int find_indexing(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                         struct kiln_gallery_page *page, struct kiln_error *err)
{
    bool complete = true;
    int rc = 0;
    if (query->words && page->rows < query->rows_max)
        rc = kiln_gallery_complete(session, &complete, err);
    page->indexing = !complete;
    return rc;
}

int kiln_gallery_list(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                      kiln_each_tile *each, void *arg, struct kiln_gallery_page *ret,
                      struct kiln_error *err)
{
    struct kiln_gallery_question question;
    struct kiln_gallery_place place;
    struct kiln_gallery_page page = {0};
    int rc = kiln_gallery_ask(session, query, &question, err);
    if (rc)
        return rc;
    rc = kiln_gallery_place_read(&question, &place, err);
    if (rc == 0)
        rc = query->order == KILN_GALLERY_RELEVANCE
                 ? kiln_gallery_list_relevant(session, &question, &place, each, arg, &page, err)
                 : list_newest(session, &question, &place, each, arg, &page, err);
    kiln_gallery_question_release(&question);
    if (rc == 0)
        rc = find_indexing(session, query, &page, err);
    if (rc == 0)
        *ret = page;
    return rc;
}

int kiln_gallery_jobs(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                      uint64_t *ret_jobs, struct kiln_gallery_page *ret, struct kiln_error *err)
{
    struct kiln_gallery_query newest = *query;
    struct kiln_gallery_question question;
    struct kiln_gallery_place place;
    struct kiln_gallery_page page = {0};
    struct kiln_gallery_hits *hits = malloc(sizeof *hits);
    if (!hits)
        return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a page");
    newest.order = KILN_GALLERY_NEWEST;
    int rc = kiln_gallery_ask(session, &newest, &question, err);
    if (rc == 0) {
        rc = kiln_gallery_place_read(&question, &place, err);
        rc = rc ? rc : find_newest(session, &question, &place, hits, &page, err);
        kiln_gallery_question_release(&question);
    }
    if (rc == 0) {
        page.rows = hits->count;
        memcpy(ret_jobs, hits->jobs, hits->count * sizeof *ret_jobs);
        rc = find_indexing(session, &newest, &page, err);
    }
    free(hits);
    if (rc == 0)
        *ret = page;
    return rc;
}

/* --- the jump ----------------------------------------------------------------------------------
 */

int kiln_gallery_jump(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                      int64_t at_ms, char ret_cursor[KILN_GALLERY_CURSOR_MAX],
                      struct kiln_error *err)
{
    /* By the days of the index, if it has all pictures: the days before that of the moment, and the
     * pictures of its own day one by one.  Else by the time of every picture. */
    static const struct kiln_statement last = {
        "gallery_jump",
        "SELECT CASE WHEN (SELECT bool_and(rebuilt IS NULL) FROM gallery_state) THEN greatest("
        "  (SELECT max(last_job) FROM gallery_day WHERE pool = $1::text"
        "   AND day < to_timestamp($2 / 1000.0)::date),"
        "  (SELECT max(job_id) FROM (SELECT job_id FROM image WHERE pool = $1"
        "   AND created_at >= to_timestamp($2 / 1000.0)::date"
        "   AND created_at < to_timestamp($2 / 1000.0) OFFSET 0) today))"
        " ELSE (SELECT job_id FROM image WHERE pool = $1"
        "  AND created_at < to_timestamp($2::bigint / 1000.0) ORDER BY job_id DESC LIMIT 1) END"};
    struct kiln_gallery_question question;
    struct kiln_params params = {0};
    uint64_t job;
    int rc = kiln_gallery_ask(session, query, &question, err);
    if (rc)
        return rc;
    KILN_BIND(&params, query->filter.pool, at_ms);
    rc = kiln_ledger_ask(session, &last, &params, KILN_FIELDS(job), err);
    if (rc == 0)
        put_place(&question, false, job + 1, ret_cursor);
    kiln_gallery_question_release(&question);
    return rc;
}
