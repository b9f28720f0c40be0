/* ratings.c - see ratings.h. */
#include "storage/ledger/lora/ratings.h"

#include "storage/ledger/internal.h"

static int read_ratings(void *arg, const PGresult *rows, int at, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_lora_ratings row;
    KILN_READ(rows, at, 0, row.name, row.liked, row.rated, row.pool_liked, row.pool_rated, row.bias,
              row.seen);
    return ((kiln_each_lora_ratings *)caller->each)(caller->arg, &row, err);
}

/* A job's route has the version of the registry by which the names in its loras are to be read. */
int kiln_lora_ratings(struct kiln_ledger *ledger, const char *pool, kiln_each_lora_ratings *each,
                      void *arg, struct kiln_error *err)
{
    static const struct kiln_statement list = {
        "lora_ratings",
        "WITH mark AS (SELECT job_id, coalesce(v.value, 1) AS value"
        "  FROM vote v FULL JOIN favourite f USING (job_id)),"
        " rated AS (SELECT j.id, j.loras, (j.route::jsonb ->> 'v')::bigint AS version,"
        "  (m.value > 0)::int AS liked FROM mark m JOIN job j ON j.id = m.job_id"
        "  WHERE j.pool = $1::text AND j.route IS NOT NULL AND j.loras <> '[]'),"
        " used AS (SELECT was.lora, was.sha256, count(*) AS rated, sum(r.liked) AS liked"
        "  FROM rated r CROSS JOIN jsonb_array_elements(r.loras) one"
        "  JOIN lora was ON was.pool = $1 AND was.name = one ->> 'name'"
        "  AND was.since <= r.version AND (was.until > r.version OR was.until IS NULL)"
        "  GROUP BY was.lora, was.sha256),"
        " every AS (SELECT count(*) AS rated, coalesce(sum(liked), 0) AS liked FROM rated)"
        " SELECT l.name, coalesce(u.liked, 0)::bigint, coalesce(u.rated, 0), e.liked::bigint,"
        " e.rated, coalesce((l.entry ->> 'bias')::float8, 0), l.seen"
        " FROM lora l CROSS JOIN every e LEFT JOIN used u ON u.lora = l.lora AND u.sha256 = "
        "l.sha256"
        " WHERE l.pool = $1 AND l.until IS NULL AND (u.rated > 0 OR l.entry ? 'bias')"
        " ORDER BY l.name"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_run_each(ledger, &list, &params, read_ratings, KILN_CALLER(each, arg), err);
}
