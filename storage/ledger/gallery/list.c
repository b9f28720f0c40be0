/* list.c - a page of pictures, newest first or by relevance; the pictures of a prompt as a stack;
 * what is new since a moment. */
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "storage/ledger/gallery/question.h"
#include "storage/ledger/gallery/relevance.h"

#define STACK_MORE                                                                                 \
    16 /* hits beyond a page that are looked at first: most prompts have one picture */

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

/* --- stacks ------------------------------------------------------------------------------------
 */

/* As kiln_gallery_find, of each prompt the newest picture only. */
static int find_heads(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                      const struct kiln_gallery_place *place, uint32_t most,
                      struct kiln_gallery_hits *ret, struct kiln_error *err)
{
    struct kiln_gallery_want want = {.most = most + STACK_MORE, .enough = most};
    struct kiln_gallery_hits *hits = malloc(sizeof *hits);
    struct kiln_gallery_place at = *place;
    ret->count = 0;
    if (!hits)
        return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a page");
    for (bool end = false; !end;) {
        int rc = kiln_gallery_find(session, question, &at, &want, hits, err);
        if (hits->out_of_time) /* or there were enough; which are of one prompt, perhaps */
            at.job = hits->reached;
        else if (hits->count)
            at.job = hits->jobs[hits->count - 1];
        end = hits->count < want.most && !hits->out_of_time;
        ret->out_of_time = !end && kiln_clock_ms() >= question->deadline;
        ret->reached = at.job;
        rc = rc ? rc : kiln_gallery_heads(session, question, hits->jobs, &hits->count, err);
        if (rc) {
            free(hits);
            return rc;
        }
        for (uint32_t i = 0; i < hits->count && ret->count < most; i++)
            ret->jobs[ret->count++] = hits->jobs[i];
        if (ret->count == most) /* the rest is found by the next page */
            ret->out_of_time = false;
        end = end || ret->out_of_time || ret->count == most;
        want.most = 4 * want.most < KILN_GALLERY_HITS_MAX ? 4 * want.most : KILN_GALLERY_HITS_MAX;
    }
    free(hits);
    return 0;
}

/* --- pages -------------------------------------------------------------------------------------
 */

/* The jobs of a page, and where the list goes on.  hits->count: at most rows_max.  unchecked: as in
 * kiln_gallery_want. */
static int find_newest(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                       const struct kiln_gallery_place *place, bool unchecked,
                       struct kiln_gallery_hits *hits, struct kiln_gallery_page *page,
                       struct kiln_error *err)
{
    const uint32_t rows_max = question->query->rows_max;
    const struct kiln_gallery_want want = {
        .most = rows_max + 1, .enough = rows_max + 1, .unchecked = unchecked};
    int rc = question->query->filter.stacked
                 ? find_heads(session, question, place, want.most, hits, err)
                 : kiln_gallery_find(session, question, place, &want, hits, err);
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
    int rc = find_newest(session, question, place, false, hits, page, err);
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
        rc = rc ? rc : find_newest(session, &question, &place, true, hits, &page, err);
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

/* --- what is new ------------------------------------------------------------------------------ */

#define CHANGED_LIMIT "2001" /* rows that are looked at */
#define MOMENT_LONG "900"    /* characters of a snapshot; with the cluster below MOMENT_MAX */

/* Digits of at most 18 places; moves *text behind them. */
static bool take_number(const char **text, uint64_t *ret)
{
    const size_t digits = strspn(*text, "0123456789");
    *ret = digits > 0 && digits <= 18 ? strtoull(*text, NULL, 10) : 0;
    *text += digits;
    return *ret > 0;
}

/* As Postgres writes a snapshot, XMIN:XMAX:XID,XID..., and would read it without an error. */
static bool is_snapshot(const char *text)
{
    uint64_t low, high, xid, last;
    if (!take_number(&text, &low) || *text++ != ':' || !take_number(&text, &high) ||
        *text++ != ':' || high < low)
        return false;
    for (last = low; *text; last = xid) {
        if (!take_number(&text, &xid) || xid < last || xid >= high)
            return false;
        if (*text == ',' && text[1])
            text++;
        else if (*text)
            return false;
    }
    return true;
}

bool kiln_gallery_moment_valid(const char *text)
{
    const size_t cluster = strspn(text, "0123456789");
    return cluster > 0 && cluster <= 20 && text[cluster] == '/' &&
           strlen(text) < KILN_GALLERY_MOMENT_MAX && is_snapshot(text + cluster + 1);
}

struct fresh {
    uint64_t jobs[KILN_GALLERY_FRESH_MAX];
    uint32_t count;
    bool lost;
};

static int take_row(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct fresh *fresh = arg;
    uint64_t job;
    bool lost;
    (void)err;
    KILN_READ(rows, row, 0, job, lost);
    fresh->lost = fresh->lost || lost;
    if (job && fresh->count < KILN_GALLERY_FRESH_MAX)
        fresh->jobs[fresh->count++] = job;
    return 0;
}

/* Of the cluster, or with words of the index.  With very many transactions under way the moment is
 * that of the oldest of them: some pictures are said twice. */
static int read_moment(struct kiln_ledger *session, bool words, char ret[KILN_GALLERY_MOMENT_MAX],
                       struct kiln_error *err)
{
    static const struct kiln_statement moment = {
        "gallery_moment",
        "SELECT c.system_identifier || '/' || CASE WHEN length(n.t) < " MOMENT_LONG " THEN n.t"
        "  ELSE split_part(n.t, ':', 1) || ':' || split_part(n.t, ':', 1) || ':' END"
        " FROM pg_control_system() c, LATERAL (SELECT coalesce((SELECT s.snapshot"
        "   FROM gallery_state s WHERE s.cluster = c.system_identifier AND $1::boolean),"
        "  pg_current_snapshot())::text AS t) n"};
    struct kiln_params params = {0};
    char all[KILN_GALLERY_MOMENT_MAX];
    KILN_BIND(&params, words);
    int rc = kiln_ledger_ask(session, &moment, &params, KILN_FIELDS(all), err);
    if (rc == 0)
        memcpy(ret, all, sizeof all);
    return rc;
}

/* Rows whose transaction the last moment ($17) had not seen and the new one ($18) has. */
static_assert(KILN_GALLERY_SHOWN_PARAMS == 16, "the statement's own parameters begin at $17");
static int find(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                const char *since, const char *now, struct fresh *ret, struct kiln_error *err)
{
    static const struct kiln_statement changed = {
        "gallery_fresh",
        "WITH c AS MATERIALIZED ("
        "  (SELECT job_id FROM image WHERE changed >= pg_snapshot_xmax($17::text::pg_snapshot)"
        "   ORDER BY changed, job_id LIMIT " CHANGED_LIMIT ")"
        "  UNION (SELECT job_id FROM image WHERE changed = ANY (ARRAY("
        "   SELECT pg_snapshot_xip($17::text::pg_snapshot))) LIMIT " CHANGED_LIMIT "))"
        " SELECT 0::bigint, (SELECT count(*) >= " CHANGED_LIMIT " FROM c)"
        "  OR pg_snapshot_xmax($17::text::pg_snapshot) > pg_snapshot_xmax($18::text::pg_snapshot)"
        " UNION ALL SELECT * FROM (SELECT i.job_id, false FROM c JOIN image i USING (job_id)"
        "  WHERE pg_visible_in_snapshot(i.changed, $18::text::pg_snapshot)"
        "  AND ($19::text IS NULL OR EXISTS (SELECT FROM gallery_text t"
        "   WHERE t.job_id = i.job_id AND (t.tsv @@ $19::tsquery) IS TRUE))"
        "  AND " KILN_GALLERY_SHOWN " ORDER BY i.job_id LIMIT 201) f"};
    struct kiln_params params = {0};
    kiln_gallery_bind(&params, &question->query->filter, question->batch_id);
    KILN_BIND(&params, since, now, question->words);
    return kiln_ledger_each(session, &changed, &params, take_row, ret, err);
}

static int find_fresh(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                      const char *moment, const char *now, struct fresh *fresh,
                      struct kiln_error *err)
{
    const char *since = strchr(moment, '/');
    const size_t cluster = since ? (size_t)(since - moment) + 1 : 0;
    if (!since || strncmp(moment, now, cluster) != 0) {
        fresh->lost = since != NULL;
        return 0;
    }
    return find(session, question, since + 1, now + cluster, fresh, err);
}

int kiln_gallery_fresh(struct kiln_ledger *session, const struct kiln_gallery_query *query,
                       char moment[KILN_GALLERY_MOMENT_MAX], kiln_each_tile *each, void *arg,
                       bool *ret_lost, struct kiln_error *err)
{
    struct kiln_gallery_question question;
    struct fresh fresh = {.count = 0};
    char now[KILN_GALLERY_MOMENT_MAX];
    uint32_t rows;
    int rc = kiln_gallery_ask(session, query, &question, err);
    if (rc)
        return rc;
    rc = read_moment(session, question.words != NULL, now, err);
    rc = rc ? rc : find_fresh(session, &question, moment, now, &fresh, err);
    fresh.lost = fresh.lost || fresh.count == KILN_GALLERY_FRESH_MAX;
    if (rc == 0 && fresh.count > 0 && !fresh.lost)
        rc = kiln_gallery_read_tiles(session, &query->filter, question.batch_id, fresh.jobs, NULL,
                                     fresh.count, each, arg, &rows, err);
    kiln_gallery_question_release(&question);
    if (rc)
        return rc;
    *ret_lost = fresh.lost;
    memcpy(moment, now, sizeof now);
    return 0;
}
