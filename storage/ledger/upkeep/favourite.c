/* favourite.c - see favourite.h. */
#include "storage/ledger/upkeep/favourite.h"

#include "storage/ledger/internal.h"
#include "storage/ledger/ledger.h"

/* $1 pool, $2 job ids, $3 batch id or 0: the pictures that are meant. */
#define MEANT                                                                                      \
    "WITH meant AS (SELECT i.job_id FROM image i WHERE i.pool = $1::text"                          \
    "  AND i.job_id = ANY ($2::bigint[])"                                                          \
    "  UNION SELECT i.job_id FROM image i WHERE i.batch_id = $3::bigint)"

int kiln_ledger_mark(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                     size_t count, const char *batch, bool favourite, uint64_t *ret_changed,
                     uint64_t *ret_pictures, struct kiln_error *err)
{
    static const struct kiln_statement mark = {
        "favourite", MEANT ", done AS (INSERT INTO favourite (job_id) SELECT job_id FROM meant"
                           "  ORDER BY job_id ON CONFLICT DO NOTHING RETURNING 1)"
                           " SELECT (SELECT count(*) FROM done), (SELECT count(*) FROM meant)"};
    static const struct kiln_statement unmark = {
        "unfavourite", MEANT ", done AS (DELETE FROM favourite f USING meant m"
                             "  WHERE f.job_id = m.job_id RETURNING 1)"
                             " SELECT (SELECT count(*) FROM done), (SELECT count(*) FROM meant)"};
    struct kiln_params params = {0};
    PGresult *rows;
    uint64_t batch_id = 0;
    int rc = batch ? kiln_ledger_batch_id(ledger, pool, batch, &batch_id, err) : 0;
    if (rc)
        return rc;
    KILN_BIND(&params, pool);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)ids[i]);
    KILN_BIND(&params, batch_id);
    rc = kiln_ledger_run_agreed(ledger, favourite ? &mark : &unmark, &params, &rows, err);
    if (rc)
        return rc;
    KILN_READ(rows, 0, 0, *ret_changed, *ret_pictures);
    PQclear(rows);
    return 0;
}

static int read_favourite(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_favourite_row favourite;
    KILN_READ(rows, row, 0, favourite.job, favourite.batch, favourite.key, favourite.at_ms);
    return ((kiln_each_favourite *)caller->each)(caller->arg, &favourite, err);
}

int kiln_ledger_favourites(struct kiln_ledger *ledger, const char *pool, const char *batch,
                           kiln_each_favourite *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement list = {
        "favourites",
        "SELECT f.job_id, b.name, o.key, (extract(epoch FROM f.at) * 1000)::bigint"
        " FROM favourite f JOIN image i ON i.job_id = f.job_id JOIN batch b ON b.id = i.batch_id"
        " LEFT JOIN object o ON o.job_id = f.job_id AND o.role = 'full'"
        " WHERE b.pool = $1::text AND b.id = coalesce(nullif($2::bigint, 0), b.id)"
        " ORDER BY f.job_id"};
    struct kiln_params params = {0};
    uint64_t batch_id = 0;
    int rc = batch ? kiln_ledger_batch_id(ledger, pool, batch, &batch_id, err) : 0;
    if (rc)
        return rc;
    KILN_BIND(&params, pool, batch_id);
    return kiln_ledger_each(ledger, &list, &params, read_favourite, KILN_CALLER(each, arg), err);
}
