/* ops.c - usage by tenant and day, and failures by cause.
 *
 * Usage is summed over the pictures.  Their rows come in order of time, so a BRIN index finds those
 * since a date.  Failures are found by the index of jobs with an error, which is nearly empty in a
 * healthy fleet.
 */
#include "storage/ledger/read/ops.h"

#include "storage/ledger/internal.h"
#include "storage/ledger/ledger.h"

#define SINCE_2 "to_timestamp($2::bigint / 1000.0)"
#define SINCE_3 "to_timestamp($3::bigint / 1000.0)"

/* --- usage ----------------------------------------------------------------------------------- */

static int read_usage(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_usage_row usage;
    KILN_READ(rows, row, 0, usage.tenant, usage.day, usage.jobs, usage.pictures, usage.gpu_seconds,
              usage.seconds_saved, usage.bytes);
    return ((kiln_each_usage *)caller->each)(caller->arg, &usage, err);
}

int kiln_ledger_usage(struct kiln_ledger *ledger, const char *pool, int64_t since_ms, unsigned by,
                      kiln_each_usage *each, void *arg, struct kiln_error *err)
{
    /* A job that only fills the latent cache leaves no picture; it is found by its latent.  All
     * rows of a job were written in one transaction and have the same time. */
    static const struct kiln_statement usage = {
        "usage",
        "WITH made AS ("
        "  SELECT job_id, tenant, created_at, 1 AS pictures,"
        "    (text_ms + denoise_ms + decode_ms)::float8 / 1000 AS gpu_seconds,"
        "    " KILN_SQL_SAVED_SECONDS " AS saved FROM image"
        "  WHERE pool = $1::text AND created_at >= " SINCE_2
        "  UNION ALL SELECT l.job_id, j.tenant, l.created_at, 0,"
        "    coalesce(l.gpu_ms, 0)::float8 / 1000, 0 FROM latent l"
        "  JOIN job j ON j.id = l.job_id WHERE j.pool = $1 AND j.kind = 1"
        "  AND l.created_at >= " SINCE_2
        "), stored AS (SELECT job_id, sum(bytes) AS bytes FROM object"
        "  WHERE created_at >= " SINCE_2 " GROUP BY 1"
        "), spent AS ("
        "  SELECT tenant, (created_at AT TIME ZONE 'UTC')::date AS day, count(*) AS jobs,"
        "    sum(pictures) AS pictures, sum(gpu_seconds) AS gpu_seconds, sum(saved) AS saved,"
        "    sum(bytes) AS bytes"
        "  FROM made LEFT JOIN stored USING (job_id) GROUP BY 1, 2"
        "  UNION ALL SELECT tenant, day, jobs, pictures, gpu_seconds, gpu_seconds_saved, 0"
        "  FROM usage_removed"
        "  WHERE pool = $1 AND day >= (" SINCE_2 " AT TIME ZONE 'UTC')::date"
        ") SELECT CASE WHEN $3::bool THEN tenant ELSE '' END,"
        "  CASE WHEN $4::bool THEN to_char(day, 'YYYY-MM-DD') ELSE '' END, sum(jobs)::bigint,"
        "  sum(pictures)::bigint, sum(gpu_seconds), sum(saved), coalesce(sum(bytes), 0)::bigint"
        " FROM spent GROUP BY 1, 2 ORDER BY 2, 1"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, since_ms, (by & KILN_USAGE_TENANT) != 0, (by & KILN_USAGE_DAY) != 0);
    return kiln_ledger_each(ledger, &usage, &params, read_usage, KILN_CALLER(each, arg), err);
}

/* --- errors ---------------------------------------------------------------------------------- */

/* The sentence without what differs from job to job: names in quotes, paths and object keys,
 * numbers, hexadecimal digests, and digits inside of words (worker-3).  Numbers come before
 * digests, or a long number would be taken for one. */
#define CAUSE                                                                                      \
    "regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace("                  \
    "coalesce(error, ''),"                                                                         \
    " '(^|[[:space:](])''[^'']*''', '\\1''...''', 'g'),"                                           \
    " '[A-Za-z0-9._-]*(/[A-Za-z0-9._-]+){2,}', 'PATH', 'g'),"                                      \
    " '\\m[0-9]+\\M', 'N', 'g'),"                                                                  \
    " '\\m[0-9a-f]{8,}\\M', 'HEX', 'g'),"                                                          \
    " '[0-9]+', 'N', 'g')"

static int read_cause(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_cause_row cause;
    KILN_READ(rows, row, 0, cause.code, cause.cause, cause.jobs, cause.batches, cause.example,
              cause.first_ms, cause.last_ms, cause.batch, cause.error);
    return ((kiln_each_cause *)caller->each)(caller->arg, &cause, err);
}

#define FIRST_AND_LAST MS("f.first_at") ", " MS("f.last_at")

int kiln_ledger_causes(struct kiln_ledger *ledger, const char *pool, const char *batch,
                       int64_t since_ms, kiln_each_cause *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement causes = {
        "causes",
        "WITH failed AS (SELECT error_code, " CAUSE " AS cause, count(*) AS jobs,"
        "  count(DISTINCT batch_id) AS batches, max(id) AS example, min(finished_at) AS first_at,"
        "  max(finished_at) AS last_at FROM job WHERE pool = $1::text AND error_code <> 0"
        "  AND ($2::bigint = 0 OR batch_id = $2) AND state = " KILN_SQL_FAILED
        " AND finished_at >= " SINCE_3 "  GROUP BY 1, 2"
        ") SELECT f.error_code, f.cause, f.jobs, f.batches, f.example, " FIRST_AND_LAST
        ", b.name, coalesce(j.error, '') FROM failed f JOIN job j ON j.id = f.example"
        " JOIN batch b ON b.id = j.batch_id ORDER BY f.jobs DESC, f.example"};
    struct kiln_params params = {0};
    uint64_t batch_id = 0;
    int rc = batch ? kiln_ledger_batch_id(ledger, pool, batch, &batch_id, err) : 0;
    if (rc)
        return rc;
    KILN_BIND(&params, pool, batch_id, since_ms);
    return kiln_ledger_each(ledger, &causes, &params, read_cause, KILN_CALLER(each, arg), err);
}

/* --- tables, from the server's own catalogue and statistics -------------------------------------
 */

static int read_size(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_table_size size;
    KILN_READ(rows, row, 0, size.name, size.table_bytes, size.index_bytes, size.live, size.dead,
              size.updates, size.in_place);
    return ((kiln_each_table *)caller->each)(caller->arg, &size, err);
}

int kiln_ledger_sizes(struct kiln_ledger *ledger, kiln_each_table *each, void *arg,
                      struct kiln_error *err)
{
    static const struct kiln_statement sizes = {
        "sizes", "SELECT relname, pg_table_size(relid), pg_indexes_size(relid), n_live_tup,"
                 " n_dead_tup, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
                 " WHERE schemaname = current_schema()"
                 " ORDER BY pg_total_relation_size(relid) DESC, relname"};
    return kiln_ledger_each(ledger, &sizes, &(struct kiln_params){0}, read_size,
                            KILN_CALLER(each, arg), err);
}
