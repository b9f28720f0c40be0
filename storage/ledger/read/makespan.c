/* makespan.c - sums over the pictures of a batch's latest run, in the order of their assignments.
 */
#include "storage/ledger/read/makespan.h"

#include "storage/ledger/internal.h"
#include "storage/ledger/ledger.h"

#define FIRST_AND_LAST MS("min(assigned_at)") ", " MS("max(finished_at)")
#define NEWEST MS("max(created_at)")
#define SECONDS "(i.text_ms + i.denoise_ms + i.decode_ms) / 1000"

#define PAUSE "interval '10 s'" /* more than lines of one call ever wait for each other */
/* Pictures of jobs that came in at $2, a rounded millisecond, or later. */
#define FROM_LATEST                                                                                \
    " FROM image i JOIN job j ON j.id = i.job_id"                                                  \
    " WHERE i.batch_id = $1::bigint AND j.created_at >= to_timestamp(($2::bigint - 1) / 1000.0)"

/* When the jobs of the batch's latest run came in: the last ones that came in when all earlier ones
 * had ended for a while.  A file that is edited and sent again adds to its batch. */
static int read_latest(struct kiln_ledger *ledger, uint64_t batch_id, int64_t *ret_ms,
                       struct kiln_error *err)
{
    static const struct kiln_statement latest = {
        "effort_latest",
        "SELECT coalesce(" NEWEST ", 0) FROM (SELECT j.created_at,"
        "  max(j.finished_at) OVER (ORDER BY j.created_at"
        "    RANGE BETWEEN UNBOUNDED PRECEDING AND " PAUSE " PRECEDING) AS ended,"
        "  max(j.created_at) OVER (ORDER BY j.created_at"
        "    RANGE BETWEEN UNBOUNDED PRECEDING AND '1 microsecond' PRECEDING) AS before"
        "  FROM image i JOIN job j ON j.id = i.job_id"
        "  WHERE i.batch_id = $1::bigint) x"
        " WHERE before IS NULL"
        "  OR (before < created_at - " PAUSE " AND ended < created_at - " PAUSE ")"};
    struct kiln_params params = {0};
    KILN_BIND(&params, batch_id);
    return kiln_ledger_ask(ledger, &latest, &params, KILN_FIELDS(*ret_ms), err);
}

static int read_sums(struct kiln_ledger *ledger, uint64_t batch_id, int64_t latest_ms,
                     struct kiln_makespan *ret, struct kiln_error *err)
{
    static const struct kiln_statement sums = {
        "effort_sums",
        "SELECT " FIRST_AND_LAST ", count(*),"
        " count(DISTINCT worker), count(*) FILTER (WHERE lora_set <> before)"
        " FROM (SELECT j.assigned_at, j.finished_at, i.worker, i.lora_set,"
        "  lag(i.lora_set, 1, '') OVER (PARTITION BY i.worker ORDER BY j.assigned_at, j.assignment,"
        "  i.job_id) AS before" FROM_LATEST ") drawn"};
    struct kiln_params params = {0};
    KILN_BIND(&params, batch_id, latest_ms);
    return kiln_ledger_ask(
        ledger, &sums, &params,
        KILN_FIELDS(ret->began_ms, ret->ended_ms, ret->pictures, ret->workers, ret->switches), err);
}

static int read_set(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_makespan_set set;
    KILN_READ(rows, row, 0, set.lora_set, set.work_s, set.longest_s);
    return ((kiln_each_makespan_set *)caller->each)(caller->arg, &set, err);
}

int kiln_ledger_makespan(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         struct kiln_makespan *ret, kiln_each_makespan_set *each, void *arg,
                         struct kiln_error *err)
{
    static const struct kiln_statement sets = {"effort_sets",
                                               "SELECT i.lora_set, sum(" SECONDS "), max(" SECONDS
                                               ")" FROM_LATEST " GROUP BY i.lora_set"};
    struct kiln_params params = {0};
    struct kiln_makespan makespan;
    uint64_t batch_id;
    int64_t latest_ms;
    int rc = kiln_ledger_batch_id(ledger, pool, batch, &batch_id, err);
    if (rc == 0)
        rc = read_latest(ledger, batch_id, &latest_ms, err);
    if (rc == 0)
        rc = read_sums(ledger, batch_id, latest_ms, &makespan, err);
    if (rc)
        return rc;
    KILN_BIND(&params, batch_id, latest_ms);
    rc = kiln_ledger_each(ledger, &sets, &params, read_set, KILN_CALLER(each, arg), err);
    if (rc == 0)
        *ret = makespan;
    return rc;
}
