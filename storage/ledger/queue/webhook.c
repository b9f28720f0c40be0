/* webhook.c - see webhook.h.
 *
 * A look for due messages reads the sums of the batches of all that wait (batch_tally,
 * intake_call), a few rows each; its caller spaces the looks by what they cost.
 */
#include "storage/ledger/queue/webhook.h"

#include <string.h>

#include "storage/ledger/internal.h"
#include "storage/ledger/queue/insert.h"

int kiln_ledger_webhook_keep(struct kiln_ledger *ledger, const char *pool, const char *batch,
                             const char *entry, const char *url, bool *ret_full,
                             struct kiln_error *err)
{
    /* The conflict is one of two: the entry is known, or the URL waits already. */
    static const struct kiln_statement keep = {
        "webhook_keep",
        "WITH others AS (SELECT count(*) AS n FROM webhook"
        "  WHERE batch_id = $1::bigint AND outcome IS NULL AND url <> $3::text"
        "), made AS (INSERT INTO webhook (batch_id, entry, url) SELECT $1, $2::text, $3"
        "  FROM others WHERE n < $4::bigint ON CONFLICT DO NOTHING)"
        " SELECT n >= $4 FROM others"};
    struct kiln_params params = {0};
    const struct kiln_new_job named = {.job = {.batch = (char *)batch}}; /* read only */
    uint64_t batch_id;
    int rc = kiln_batch_ids(ledger, pool, &named, 1, &batch_id, err);
    if (rc)
        return rc;
    KILN_BIND(&params, batch_id, entry, url, (uint32_t)KILN_WEBHOOKS_OF_BATCH);
    return kiln_ledger_ask(ledger, &keep, &params, KILN_FIELDS(*ret_full), err);
}

#define FIRST_AND_LAST MS("d.first_at") ", " MS("d.last_at")
#define REMOVED KILN_REMOVED_JOBS("d.batch_id")
#define TENANTS                                                                                    \
    "(SELECT left(coalesce(string_agg(tenant, ',' ORDER BY tenant), ''), $3)"                      \
    " FROM batch_tenant o WHERE o.batch_id = d.batch_id)"

int kiln_ledger_webhook_take(struct kiln_ledger *ledger, const char *pool, double lease_s,
                             struct kiln_webhook_row *ret, bool *ret_found, struct kiln_error *err)
{
    /* The attempt is counted and put off before it is made: whoever dies in it leaves a message
     * that is due again. */
    static const struct kiln_statement take = {
        "webhook_take",
        "WITH due AS MATERIALIZED (SELECT w.id, w.batch_id, b.name, t.* FROM webhook w"
        "  JOIN batch b ON b.id = w.batch_id,"
        "  LATERAL (SELECT " KILN_INTAKE_WHOLE " AS whole FROM intake_call"
        "    WHERE batch_id = w.batch_id) c,"
        "  LATERAL (SELECT min(first_at) AS first_at, max(last_at) AS last_at" KILN_TALLY_SUMS
        "    FROM batch_tally WHERE batch_id = w.batch_id) t"
        "  WHERE w.outcome IS NULL AND w.due_at <= now() AND b.pool = $1::text AND c.whole"
        "  AND t.queued + t.assigned = 0 ORDER BY w.due_at LIMIT 1 FOR UPDATE OF w SKIP LOCKED"
        "), taken AS (UPDATE webhook w SET tries = w.tries + 1,"
        "  began_at = coalesce(w.began_at, now()), due_at = now() + make_interval(secs => $2)"
        "  FROM due WHERE w.id = due.id"
        "  RETURNING w.id, w.url, w.delivery, w.tries, w.began_at)"
        " SELECT n.id, d.name, n.url, n.delivery, n.tries,"
        "  extract(epoch FROM now() - n.began_at)::bigint, " FIRST_AND_LAST
        ", d.done, d.failed, d.cancelled + " REMOVED ", " TENANTS
        " FROM taken n JOIN due d ON d.id = n.id"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, lease_s, (uint32_t)KILN_WEBHOOK_TENANTS_MAX);
    memset(ret, 0, sizeof *ret);
    int rc = kiln_ledger_ask(ledger, &take, &params,
                             KILN_FIELDS(ret->id, ret->batch, ret->url, ret->delivery, ret->tries,
                                         ret->age_s, ret->began_ms, ret->ended_ms, ret->done,
                                         ret->failed, ret->cancelled, ret->tenants),
                             err);
    *ret_found = rc == 0 && ret->id != 0;
    return rc;
}

int kiln_ledger_webhook_tried(struct kiln_ledger *ledger, uint64_t id, const char *error,
                              double retry_s, struct kiln_error *err)
{
    static const struct kiln_statement tried = {
        "webhook_tried",
        "UPDATE webhook SET error = $2::text, due_at = now() + make_interval(secs => $3),"
        " outcome = CASE WHEN $2 IS NULL THEN 'delivered' WHEN $3 = 0 THEN 'failed' END,"
        " ended_at = CASE WHEN $2 IS NULL OR $3 = 0 THEN now() END"
        " WHERE id = $1::bigint AND outcome IS NULL"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id, error, retry_s);
    return kiln_ledger_run(ledger, &tried, &params, NULL, err);
}

int kiln_ledger_webhook_trouble(struct kiln_ledger *ledger, const char *pool,
                                struct kiln_webhook_trouble *ret, struct kiln_error *err)
{
    static const struct kiln_statement trouble = {
        "webhook_trouble",
        "WITH bad AS MATERIALIZED (SELECT w.batch_id, w.error, w.outcome, w.due_at FROM webhook w"
        "  WHERE w.outcome = 'failed' AND w.ended_at > now() - interval '1 day' UNION ALL"
        "  SELECT w.batch_id, w.error, w.outcome, w.due_at FROM webhook w"
        "  WHERE w.outcome IS NULL AND w.tries >= 3 AND w.error IS NOT NULL)"
        " SELECT count(*) FILTER (WHERE bad.outcome IS NOT NULL),"
        "  count(*) FILTER (WHERE bad.outcome IS NULL),"
        "  (array_agg(b.name ORDER BY bad.due_at DESC))[1],"
        "  (array_agg(bad.error ORDER BY bad.due_at DESC))[1]"
        " FROM bad JOIN batch b ON b.id = bad.batch_id WHERE b.pool = $1::text"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    memset(ret, 0, sizeof *ret);
    return kiln_ledger_ask(ledger, &trouble, &params,
                           KILN_FIELDS(ret->failed, ret->retried, ret->batch, ret->error), err);
}
