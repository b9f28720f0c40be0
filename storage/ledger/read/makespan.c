/* makespan.c - sums over the pictures of a batch, in the order of their assignments. */
#include "storage/ledger/read/makespan.h"

#include "storage/ledger/internal.h"
#include "storage/ledger/ledger.h"

#define FIRST_AND_LAST MS("min(assigned_at)") ", " MS("max(finished_at)")
#define SECONDS "(i.text_ms + i.denoise_ms + i.decode_ms) / 1000"

static int read_sums(struct kiln_ledger *ledger, uint64_t batch_id, struct kiln_makespan *ret,
                     struct kiln_error *err)
{
    static const struct kiln_statement sums = {
        "effort_sums",
        "SELECT " FIRST_AND_LAST ", count(*),"
        " count(DISTINCT worker), count(*) FILTER (WHERE lora_set <> before)"
        " FROM (SELECT j.assigned_at, j.finished_at, i.worker, i.lora_set,"
        "  lag(i.lora_set, 1, '') OVER (PARTITION BY i.worker ORDER BY j.assigned_at, j.assignment,"
        "  i.job_id) AS before"
        "  FROM image i JOIN job j ON j.id = i.job_id WHERE i.batch_id = $1::bigint) drawn"};
    struct kiln_params params = {0};
    KILN_BIND(&params, batch_id);
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
    static const struct kiln_statement sets = {
        "effort_sets", "SELECT i.lora_set, sum(" SECONDS "), max(" SECONDS ")"
                       " FROM image i WHERE i.batch_id = $1::bigint GROUP BY i.lora_set"};
    struct kiln_params params = {0};
    struct kiln_makespan makespan;
    uint64_t batch_id;
    int rc = kiln_ledger_batch_id(ledger, pool, batch, &batch_id, err);
    if (rc == 0)
        rc = read_sums(ledger, batch_id, &makespan, err);
    if (rc)
        return rc;
    KILN_BIND(&params, batch_id);
    rc = kiln_ledger_each(ledger, &sets, &params, read_set, KILN_CALLER(each, arg), err);
    if (rc == 0)
        *ret = makespan;
    return rc;
}
