/* refuse.c - refuses many jobs at once: those beyond a quota. */
#include <stdlib.h>

#include "storage/ledger/queue/insert.h"
#include "storage/ledger/queue/quota.h"

int kiln_ledger_known(struct kiln_ledger *ledger, const char *pool, const struct kiln_new_job *jobs,
                      size_t count, bool *ret_known, struct kiln_error *err)
{
    static const struct kiln_statement known = {
        "known", "SELECT EXISTS (SELECT FROM job j JOIN batch b ON b.id = j.batch_id"
                 "  WHERE b.pool = $1::text AND b.name = $2::text AND j.key = g.key)"
                 " FROM unnest($3::text[]) WITH ORDINALITY AS g (key, n) ORDER BY g.n"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, pool, count ? jobs[0].job.batch : "");
    KILN_BIND_COLUMN(&params, TEXT, count, jobs[i].key);
    int rc = kiln_ledger_run(ledger, &known, &params, &rows, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++)
        ret_known[i] = kiln_row_bool(rows, (int)i, 0);
    PQclear(rows);
    return 0;
}

int kiln_ledger_refuse_jobs(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_new_job *jobs, size_t count, const char *reason,
                            struct kiln_error *err)
{
    static const struct kiln_statement refuse = {
        "refuse_jobs",
        /* A microsecond apart: `at` keeps the order of the stream, page after page. */
        "WITH made AS (INSERT INTO intake_refusal (batch_id, token, key, reason, at)"
        "  SELECT u.batch_id, u.token, u.key, $4::text, now() + u.n * interval '1 microsecond'"
        "  FROM unnest($1::bigint[], $2::text[], $3::text[])"
        "  WITH ORDINALITY AS u (batch_id, token, key, n)"
        "  ON CONFLICT DO NOTHING RETURNING batch_id, token)"
        " INSERT INTO intake_call AS c (batch_id, token, refused)"
        " SELECT batch_id, token, count(*) FROM made GROUP BY 1, 2 ORDER BY 1, 2"
        " ON CONFLICT (batch_id, token) DO UPDATE SET refused = c.refused + excluded.refused"};
    struct kiln_params params = {0};
    uint64_t *ids = calloc(count ? count : 1, sizeof *ids);
    if (!ids)
        return kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory for %zu refusals", count);
    int rc = count ? kiln_batch_ids(ledger, pool, jobs, count, ids, err) : 0;
    if (rc == 0 && count) {
        KILN_BIND_COLUMN(&params, INT8, count, (int64_t)ids[i]);
        KILN_BIND_COLUMN(&params, TEXT, count, jobs[i].token ? jobs[i].token : "");
        KILN_BIND_COLUMN(&params, TEXT, count, jobs[i].key);
        KILN_BIND(&params, reason);
        rc = kiln_ledger_run(ledger, &refuse, &params, NULL, err);
    }
    free(ids);
    return rc;
}
