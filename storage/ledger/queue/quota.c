/* quota.c - see quota.h. */
#include "storage/ledger/queue/quota.h"

#include "storage/ledger/internal.h"

static int read_quota(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_quota quota;
    KILN_READ(rows, row, 0, quota.tenant, quota.who, quota.queued, quota.gpu_s_day, quota.teleport,
              quota.at_ms);
    return ((kiln_each_quota *)caller->each)(caller->arg, &quota, err);
}

int kiln_ledger_quotas(struct kiln_ledger *ledger, const char *pool, kiln_each_quota *each,
                       void *arg, struct kiln_error *err)
{
    static const struct kiln_statement quotas = {
        "quotas", "SELECT tenant, who, coalesce(queued, -1), coalesce(gpu_s_day, -1),"
                  " coalesce(teleport, 0),"
                  " (extract(epoch FROM at) * 1000)::bigint FROM quota WHERE pool = $1::text"
                  " ORDER BY tenant"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_run_each(ledger, &quotas, &params, read_quota, KILN_CALLER(each, arg), err);
}

int kiln_ledger_quota_set(struct kiln_ledger *ledger, const char *pool,
                          const struct kiln_quota *quota, struct kiln_error *err)
{
    static const struct kiln_statement set = {
        "quota_set", "INSERT INTO quota (pool, tenant, who, queued, gpu_s_day, teleport)"
                     " VALUES ($1::text, $2::text, $3::text, nullif($4::bigint, -1),"
                     " nullif($5::float8, -1), nullif($6::smallint, 0))"
                     " ON CONFLICT (pool, tenant) DO UPDATE SET who = excluded.who,"
                     " queued = excluded.queued, gpu_s_day = excluded.gpu_s_day,"
                     " teleport = excluded.teleport, at = now()"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, quota->tenant, quota->who, quota->queued, quota->gpu_s_day,
              (int)quota->teleport);
    return kiln_ledger_run(ledger, &set, &params, NULL, err);
}

int kiln_ledger_quota_remove(struct kiln_ledger *ledger, const char *pool, const char *tenant,
                             struct kiln_error *err)
{
    static const struct kiln_statement remove = {
        "quota_remove",
        "DELETE FROM quota WHERE pool = $1::text AND tenant = $2::text RETURNING 1"};
    struct kiln_params params = {0};
    int gone;
    KILN_BIND(&params, pool, tenant);
    int rc = kiln_ledger_ask(ledger, &remove, &params, KILN_FIELDS(gone), err);
    if (rc == 0 && !gone)
        return kiln_fail(err, KILN_NOT_FOUND, "tenant '%s' has no quota", tenant);
    return rc;
}

int kiln_ledger_waiting_of(struct kiln_ledger *ledger, const char *pool, const char *tenant,
                           uint64_t *ret, struct kiln_error *err)
{
    static const struct kiln_statement count = {
        "waiting_of",
        "SELECT count(*) FROM job WHERE pool = $1::text AND waits AND tenant = $2::text"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, tenant);
    return kiln_ledger_ask(ledger, &count, &params, KILN_FIELDS(*ret), err);
}

/* The row that limits the tenant, of its own and that of "*": as kiln_quota_limits. */
#define LIMITS_OF(tenant)                                                                          \
    " FROM quota WHERE pool = $1::text AND tenant IN (" tenant ", '" KILN_TENANT_ANY "')"          \
    "  AND (queued IS NOT NULL OR gpu_s_day IS NOT NULL OR teleport IS NULL)"                      \
    "  ORDER BY tenant = '" KILN_TENANT_ANY "' LIMIT 1"

int kiln_ledger_quota_of(struct kiln_ledger *ledger, const char *pool, const char *tenant,
                         int64_t *ret_limit, uint64_t *ret_waiting, struct kiln_error *err)
{
    static const struct kiln_statement quota = {
        "quota_of", "SELECT coalesce((SELECT coalesce(queued, -1)" LIMITS_OF("$2::text") "), -1)"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, tenant);
    int rc = kiln_ledger_ask(ledger, &quota, &params, KILN_FIELDS(*ret_limit), err);
    if (rc)
        return rc;
    *ret_waiting = 0;
    return *ret_limit < 0 ? 0 : kiln_ledger_waiting_of(ledger, pool, tenant, ret_waiting, err);
}

#define TODAY "date_trunc('day', now() AT TIME ZONE 'UTC')"

static int read_day(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_day_row day;
    KILN_READ(rows, row, 0, day.tenant, day.used_s, day.limit_s, day.held, day.ends_ms);
    return ((kiln_each_day *)caller->each)(caller->arg, &day, err);
}

int kiln_ledger_day(struct kiln_ledger *ledger, const char *pool, kiln_each_day *each, void *arg,
                    struct kiln_error *err)
{
    static const struct kiln_statement day = {
        "day",
        "WITH drawn AS (SELECT tenant, sum(text_ms + denoise_ms + decode_ms)::float8 / 1000 AS s"
        "  FROM image WHERE pool = $1::text AND created_at >= " TODAY " AT TIME ZONE 'UTC'"
        "  AND EXISTS (SELECT FROM quota WHERE pool = $1 AND gpu_s_day IS NOT NULL) GROUP BY 1"
        "  UNION ALL SELECT j.tenant, sum(l.gpu_ms)::float8 / 1000 FROM latent l"
        "  JOIN job j ON j.id = l.job_id WHERE j.pool = $1 AND l.gpu_ms IS NOT NULL"
        "  AND l.created_at >= " TODAY " AT TIME ZONE 'UTC'"
        "  AND EXISTS (SELECT FROM quota WHERE pool = $1 AND gpu_s_day IS NOT NULL) GROUP BY 1"
        "  UNION ALL SELECT tenant, gpu_seconds FROM usage_removed WHERE pool = $1"
        "  AND day = " TODAY "::date"
        "), used AS (SELECT tenant, sum(s) AS s FROM drawn GROUP BY 1"
        "), held AS (SELECT name FROM hold WHERE pool = $1 AND scope = 'quota' AND held"
        "), someone AS (SELECT coalesce(u.tenant, h.name) AS tenant, coalesce(u.s, 0) AS s,"
        "  h.name IS NOT NULL AS held FROM used u FULL JOIN held h ON h.name = u.tenant)"
        " SELECT b.tenant, b.s, coalesce(q.gpu_s_day, -1), b.held,"
        "  (extract(epoch FROM " TODAY " + interval '1 day') * 1000)::bigint FROM someone b"
        " LEFT JOIN LATERAL (SELECT gpu_s_day" LIMITS_OF("b.tenant") ") q ON true"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_run_each(ledger, &day, &params, read_day, KILN_CALLER(each, arg), err);
}
