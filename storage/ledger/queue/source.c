/* source.c - see source.h. */
#include "storage/ledger/queue/source.h"

#include "storage/ledger/internal.h"
#include "storage/ledger/read/read.h"

int kiln_ledger_gone(struct kiln_ledger *ledger, const char *pool, const char *batch,
                     const char *const *keys, size_t count, struct kiln_error *err)
{
    static const struct kiln_statement mark = {
        "source_gone", "UPDATE job SET gone = true WHERE NOT gone AND key = ANY ($3::text[])"
                       " AND batch_id = (SELECT id FROM batch WHERE pool = $1::text"
                       "  AND name = $2::text)"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, batch);
    KILN_BIND_COLUMN(&params, TEXT, count, keys[i]);
    return kiln_ledger_run(ledger, &mark, &params, NULL, err);
}

#define IN_STATE(state, name, number) ", count(*) FILTER (WHERE state = " #number ")"

int kiln_ledger_gone_counts(struct kiln_ledger *ledger, const char *pool, const char *batch,
                            struct kiln_counts *ret, struct kiln_error *err)
{
    static const struct kiln_statement count = {
        "source_gone_count", "SELECT count(*)" KILN_JOB_STATES(
                                 IN_STATE) " FROM job WHERE batch_id = $1::bigint AND gone"};
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    uint64_t batch_id;
    int rc = kiln_ledger_batch_id(ledger, pool, batch, &batch_id, err);
    if (rc)
        return rc;
    KILN_BIND(&params, batch_id);
    rc = kiln_ledger_run(ledger, &count, &params, &rows, err);
    if (rc)
        return rc;
    kiln_row_counts(rows, 0, 1, ret->at);
    PQclear(rows);
    return 0;
}

int kiln_ledger_sent_again(struct kiln_ledger *ledger, const struct kiln_new_job *jobs,
                           size_t count, const uint64_t *ids, struct kiln_error *err)
{
    static const struct kiln_statement again = {
        "source_again",
        "UPDATE job j SET gone = false, source = coalesce(j.source, g.source)"
        " FROM unnest($1::bigint[], $2::text[], $3::text[]) AS g (batch_id, key, source)"
        " WHERE j.batch_id = g.batch_id AND j.key = g.key"
        " AND (j.gone OR (j.source IS NULL AND g.source IS NOT NULL))"};
    struct kiln_params params = {0};
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)ids[i]);
    KILN_BIND_COLUMN(&params, TEXT, count, jobs[i].key);
    KILN_BIND_COLUMN(&params, TEXT, count, jobs[i].source);
    return kiln_ledger_run(ledger, &again, &params, NULL, err);
}

static int read_key(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    const char *key;
    bool own;
    KILN_READ(rows, row, 0, key, own);
    return ((kiln_each_key *)caller->each)(caller->arg, key, own, err);
}

int kiln_ledger_keys(struct kiln_ledger *ledger, const char *pool, const char *batch,
                     enum kiln_batch_keys which, const char *source, kiln_each_key *each, void *arg,
                     struct kiln_error *err)
{
#define OWN "source IS NOT NULL AND NOT gone AND source = $2::text"
    static const struct kiln_statement statements[] = {
        [KILN_KEYS_ALL] = {"keys_all", "SELECT key, coalesce(" OWN ", false) FROM job"
                                       " WHERE batch_id = $1::bigint"},
        [KILN_KEYS_OF_SOURCE] = {"keys_source", "SELECT key, true FROM job"
                                                " WHERE batch_id = $1::bigint AND " OWN},
        [KILN_KEYS_OF_CUSTOM_ID] = {"keys_custom_id",
                                    "SELECT key, coalesce(" OWN ", false) FROM job"
                                    " WHERE batch_id = $1::bigint AND key >= 'c:' AND key < 'c;'"}};
    struct kiln_params params = {0};
    uint64_t id;
    int rc = kiln_ledger_batch_id(ledger, pool, batch, &id, err);
    if (rc)
        return rc == KILN_NOT_FOUND ? 0 : rc;
    KILN_BIND(&params, id, source);
    return kiln_ledger_each(ledger, &statements[which], &params, read_key, KILN_CALLER(each, arg),
                            err);
}
