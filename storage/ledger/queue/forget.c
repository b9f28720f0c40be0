/* forget.c - removes the events of jobs that ended long ago.
 *
 * The job and its picture stay.  Without this the table of events, two or more rows a job, would be
 * the largest.  It is read in order of job ids, a page a call, so no call delays the scheduler and
 * no index by time is needed.
 */
#include "storage/ledger/internal.h"

#define PAGE 2000 /* jobs */

int kiln_ledger_forget(struct kiln_ledger *ledger, const char *pool, uint32_t keep_days,
                       uint64_t *cursor, uint64_t *ret_forgotten, bool *ret_more,
                       struct kiln_error *err)
{
    /* Jobs behind one that was created recently are recent too: the walk ends there. */
    static const struct kiln_statement forget = {
        "forget",
        "WITH page AS (SELECT id, pool, state, created_at, finished_at FROM job"
        "  WHERE id > greatest($2::bigint,"
        "    (SELECT job_id FROM event ORDER BY job_id, id LIMIT 1) - 1)"
        "  ORDER BY id LIMIT $3::integer"
        "), old AS (SELECT id FROM page WHERE pool = $1::text AND state IN " KILN_SQL_ENDED
        "  AND finished_at < now() - $4::integer * interval '1 day'"
        "), gone AS (DELETE FROM event e USING old WHERE e.job_id = old.id RETURNING 1"
        ") SELECT (SELECT count(*) FROM gone), max(id), count(*) = $3"
        "  AND max(created_at) < now() - $4 * interval '1 day' FROM page"};
    struct kiln_params params = {0};
    uint64_t last;
    KILN_BIND(&params, pool, *cursor, PAGE, keep_days);
    int rc = kiln_ledger_ask(ledger, &forget, &params, KILN_FIELDS(*ret_forgotten, last, *ret_more),
                             err);
    if (rc == 0 && *ret_more)
        *cursor = last;
    return rc;
}
