/* relevance.c - see relevance.h.
 *
 * ts_rank over all hits of a frequent word takes most of a second at a million pictures; over a
 * block of 480 a few milliseconds.  Scores are whole numbers, so that a cursor holds one exactly.
 */
#include "storage/ledger/gallery/relevance.h"

#include <stdlib.h>
#include <string.h>

#define SCORE_ONE 1000000 /* of a rank of 1 */
#define ALL 1             /* the end of the last block: no job is older */

struct ranked {
    uint64_t jobs[KILN_GALLERY_BLOCK];
    double scores[KILN_GALLERY_BLOCK];
    uint32_t count;
};

/* The hits by falling score and age, those behind the place. */
static int rank(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                const uint64_t *jobs, uint32_t count, const struct kiln_gallery_place *place,
                struct ranked *ret, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        KILN_PLANNED_ONCE("gallery_rank"),
        "SELECT job_id, score FROM (SELECT job_id, (ts_rank(tsv, $2::tsquery, 1) * $3::bigint)"
        "::bigint AS score FROM gallery_text WHERE job_id = ANY ($1::bigint[]) OFFSET 0) r"
        " WHERE $4::bigint = 0 OR (score, job_id) < ($5::bigint, $4)"
        " ORDER BY score DESC, job_id DESC LIMIT $6::integer"};
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i]);
    KILN_BIND(&params, question->words, (int64_t)SCORE_ONE, place->top ? place->job : 0,
              place->score, question->query->rows_max + 1);
    int rc = kiln_ledger_run(session, &statement, &params, &rows, err);
    if (rc)
        return rc;
    ret->count = (uint32_t)PQntuples(rows);
    for (uint32_t i = 0; i < ret->count; i++)
        KILN_READ(rows, (int)i, 0, ret->jobs[i], ret->scores[i]);
    PQclear(rows);
    return 0;
}

/* The oldest job of the block, since a later page of it must find the same hits; ALL if nothing is
 * left behind it. */
static uint64_t end_of_block(const struct kiln_gallery_hits *hits)
{
    if (hits->count > KILN_GALLERY_BLOCK)
        return hits->jobs[KILN_GALLERY_BLOCK - 1];
    return hits->out_of_time ? hits->reached : ALL;
}

/* Where the list goes on: behind the last row in this block, or with the next one. */
static void put_cursor(const struct kiln_gallery_question *question,
                       const struct kiln_gallery_place *place, const struct kiln_gallery_hits *hits,
                       const struct ranked *ranked, struct kiln_gallery_page *page)
{
    const uint32_t rows_max = question->query->rows_max;
    const uint64_t end = place->end ? place->end : end_of_block(hits);
    struct kiln_gallery_place next = {.job = end};
    if (ranked->count > rows_max) {
        next.job = ranked->jobs[rows_max - 1];
        next.score = (int64_t)ranked->scores[rows_max - 1];
        next.top = hits->jobs[0];
        next.end = end;
    } else if (end == ALL) {
        return;
    }
    kiln_gallery_place_text(question, &next, page->older);
}

int kiln_gallery_list_relevant(struct kiln_ledger *session,
                               const struct kiln_gallery_question *question,
                               const struct kiln_gallery_place *place, kiln_each_tile *each,
                               void *arg, struct kiln_gallery_page *page, struct kiln_error *err)
{
    struct room {
        struct kiln_gallery_hits hits;
        struct ranked ranked;
        uint64_t jobs[KILN_GALLERY_BLOCK]; /* of the block, those that are ranked */
    } *room = malloc(sizeof *room);
    /* The newest hit of the block is in the block. */
    struct kiln_gallery_place from = {.job = place->top ? place->top + 1 : place->job,
                                      .end = place->end};
    const struct kiln_gallery_want want = {.most = KILN_GALLERY_BLOCK + 1,
                                           .enough = KILN_GALLERY_BLOCK};
    if (!room)
        return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a page");
    int rc = kiln_gallery_find(session, question, &from, &want, &room->hits, err);
    uint32_t block = 0;
    if (rc == 0) {
        block = room->hits.count < KILN_GALLERY_BLOCK ? room->hits.count : KILN_GALLERY_BLOCK;
        uint32_t count = block;
        memcpy(room->jobs, room->hits.jobs, block * sizeof *room->jobs);
        if (question->query->filter.stacked)
            rc = kiln_gallery_heads(session, question, room->jobs, &count, err);
        if (rc == 0)
            rc = rank(session, question, room->jobs, count, place, &room->ranked, err);
    }
    if (rc == 0) {
        put_cursor(question, place, &room->hits, &room->ranked, page);
        page->out_of_time = room->hits.out_of_time && block < question->query->rows_max;
        if (page->out_of_time)
            rc = kiln_gallery_time_of(session, room->hits.reached, false,
                                      &page->searched_back_to_ms, err);
    }
    if (rc == 0) {
        const uint32_t rows_max = question->query->rows_max;
        const uint32_t count = room->ranked.count < rows_max ? room->ranked.count : rows_max;
        rc = kiln_gallery_read_tiles(session, &question->query->filter, question->batch_id,
                                     room->ranked.jobs, room->ranked.scores, count, each, arg,
                                     &page->rows, err);
    }
    free(room);
    return rc;
}
