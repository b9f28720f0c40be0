/* effort.c - sums over the pictures of a batch, in the order of their assignments.
 */
#include "storage/ledger/read/effort.h"

#include "storage/ledger/internal.h"
#include "storage/ledger/ledger.h"

#define SECONDS "(i.text_ms + i.denoise_ms + i.decode_ms) / 1000"

static int read_sums(struct kiln_ledger *ledger, uint64_t batch_id, struct kiln_effort *ret,
                     struct kiln_error *err)
{
    static const struct kiln_statement sums = {
        "effort_sums",
        "SELECT (extract(epoch FROM min(assigned_at)) * 1000)::bigint,"
        " (extract(epoch FROM max(finished_at)) * 1000)::bigint, count(*),"
        " count(DISTINCT worker), count(*) FILTER (WHERE lora_set <> before)"
        " FROM (SELECT j.assigned_at, j.finished_at, i.worker, i.lora_set,"
        "  lag(i.lora_set, 1, '') OVER (PARTITION BY i.worker ORDER BY j.assigned_at, j.assignment,"
        "  i.job_id) AS before"
        "  FROM image i JOIN job j ON j.id = i.job_id WHERE i.batch_id = $1::bigint) drawn"};
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    KILN_BIND(&params, batch_id);
    int rc = kiln_ledger_run(ledger, &sums, &params, &rows, err);
    if (rc)
        return rc;
    *ret = (struct kiln_effort){.began_ms = kiln_row_i64(rows, 0, 0),
                                .ended_ms = kiln_row_i64(rows, 0, 1),
                                .pictures = kiln_row_u64(rows, 0, 2),
                                .workers = (uint32_t)kiln_row_u64(rows, 0, 3),
                                .switches = kiln_row_u64(rows, 0, 4)};
    PQclear(rows);
    return 0;
}

struct reading {
    kiln_each_effort *each;
    void *arg;
};

static int read_set(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct reading *reading = arg;
    struct kiln_effort_set set = {.work_s = kiln_row_double(rows, row, 1),
                                  .longest_s = kiln_row_double(rows, row, 2)};
    kiln_row_copy(rows, row, 0, set.lora_set, sizeof set.lora_set);
    return reading->each(reading->arg, &set, err);
}

int kiln_ledger_effort(struct kiln_ledger *ledger, const char *pool, const char *batch,
                       struct kiln_effort *ret, kiln_each_effort *each, void *arg,
                       struct kiln_error *err)
{
    static const struct kiln_statement sets = {
        "effort_sets", "SELECT i.lora_set, sum(" SECONDS "), max(" SECONDS ")"
                       " FROM image i WHERE i.batch_id = $1::bigint GROUP BY i.lora_set"};
    struct kiln_params params = {0};
    struct reading reading = {each, arg};
    struct kiln_effort effort;
    uint64_t batch_id;
    int rc = kiln_ledger_batch_id(ledger, pool, batch, &batch_id, err);
    if (rc == 0)
        rc = read_sums(ledger, batch_id, &effort, err);
    if (rc)
        return rc;
    KILN_BIND(&params, batch_id);
    rc = kiln_ledger_each(ledger, &sets, &params, read_set, &reading, err);
    if (rc == 0)
        *ret = effort;
    return rc;
}
