/* review.c - see review.h. */
#include "storage/ledger/safety/review.h"

#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/internal.h"

/* The words of the index image_review. */
#define WAITS "i.pool = $1::text AND i.safety_flag >= 1 AND i.safety_source NOT LIKE 'person:%'"
#define ROW "i.job_id, coalesce(i.safety_flag, -1), i.safety_score, i.safety_source"

static int read_row(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_review_row review;
    KILN_READ(rows, row, 1, review.job, review.level, review.score, review.source);
    return ((kiln_each_review *)caller->each)(caller->arg, &review, err);
}

int kiln_ledger_review(struct kiln_ledger *session, const char *pool, enum kiln_review_list list,
                       struct kiln_page *page, kiln_each_review *each, void *arg,
                       struct kiln_error *err)
{
    static const struct kiln_statement waiting = {
        "review_waiting", "SELECT i.job_id, " ROW " FROM image i WHERE " WAITS
                          " AND i.job_id < $2::bigint ORDER BY i.job_id DESC LIMIT $3"};
    static const struct kiln_statement decided = {
        "review_decided",
        "SELECT v.id, " ROW " FROM safety_verdict v JOIN image i ON i.job_id = v.job_id"
        " WHERE v.rank = 2 AND v.level IS NOT NULL AND i.pool = $1::text AND v.id < $2::bigint"
        " AND NOT EXISTS (SELECT FROM safety_verdict n WHERE n.job_id = v.job_id AND n.rank = 2"
        "  AND n.id > v.id) ORDER BY v.id DESC LIMIT $3"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_page(session, list == KILN_REVIEW_WAITING ? &waiting : &decided, &params,
                            page, read_row, KILN_CALLER(each, arg), err);
}

int kiln_ledger_review_count(struct kiln_ledger *session, const char *pool, uint32_t max,
                             uint32_t *ret, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "review_count",
        "SELECT count(*) FROM (SELECT FROM image i WHERE " WAITS " LIMIT $2::integer) w"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, max);
    return kiln_ledger_ask(session, &statement, &params, KILN_FIELDS(*ret), err);
}
