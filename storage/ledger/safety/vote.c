/* vote.c - see vote.h. */
#include "storage/ledger/safety/vote.h"

#include <inttypes.h>

#include "storage/ledger/internal.h"

#define MEANT                                                                                      \
    "WITH meant AS (SELECT job_id FROM image WHERE job_id = $2::bigint AND pool = $1::text)"

int kiln_ledger_vote(struct kiln_ledger *ledger, const char *pool, uint64_t job, int value,
                     struct kiln_error *err)
{
    static const struct kiln_statement give = {
        "vote", MEANT ", done AS (INSERT INTO vote AS v (job_id, value) SELECT job_id, $3::smallint"
                      "  FROM meant ON CONFLICT (job_id) DO UPDATE SET value = excluded.value,"
                      "  at = now() WHERE v.value <> excluded.value)"
                      " SELECT count(*) FROM meant"};
    static const struct kiln_statement take = {
        "unvote", MEANT ", done AS (DELETE FROM vote v USING meant m WHERE v.job_id = m.job_id"
                        "  AND $3::smallint = 0) SELECT count(*) FROM meant"};
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    if (value < -1 || value > 1)
        return kiln_fail(err, KILN_BAD_INPUT, "a vote is 1, 0 or -1, not %d", value);
    KILN_BIND(&params, pool, job, value);
    int rc = kiln_ledger_run_agreed(ledger, value ? &give : &take, &params, &rows, err);
    uint64_t pictures = rc ? 0 : kiln_row_u64(rows, 0, 0);
    PQclear(rows);
    if (rc == 0 && pictures == 0)
        rc = kiln_fail(err, KILN_NOT_FOUND, "there is no picture of job %" PRIu64 " in pool %s",
                       job, pool);
    return rc;
}
