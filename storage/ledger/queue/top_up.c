/* top_up.c - the scheduler's side of backfills: which jobs are due, and making them. */
#include <string.h>

#include "storage/ledger/queue/backfill.h"
#include "storage/ledger/queue/insert.h"
#include "storage/ledger/queue/move.h"

/* Jobs that the rate of a backfill allows now. */
#define BY_RATE                                                                                    \
    "CASE WHEN o.rate IS NULL THEN o.mark WHEN o.due_at > now() THEN 0 ELSE"                       \
    " 1 + floor(extract(epoch FROM least(now() - o.due_at, " KILN_BACKFILL_CATCH_UP                \
    ")) * o.rate / 3600) END"

struct listing {
    kiln_each_due *each;
    void *arg;
};

static int list_due(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct listing *listing = arg;
    struct kiln_backfill_due due = {.id = kiln_row_u64(rows, row, 0),
                                    .batch_id = kiln_row_u64(rows, row, 1),
                                    .cursor = kiln_row_u64(rows, row, 2),
                                    .pass_jobs = kiln_row_u64(rows, row, 3),
                                    .room = kiln_row_u64(rows, row, 4),
                                    .overrides = kiln_row_text(rows, row, 6),
                                    .width = (uint32_t)kiln_row_u64(rows, row, 7),
                                    .height = (uint32_t)kiln_row_u64(rows, row, 8),
                                    .window_from = kiln_row_minute(rows, row, 9),
                                    .window_to = kiln_row_minute(rows, row, 10),
                                    .seed_fixed = kiln_row_bool(rows, row, 11),
                                    .closed = kiln_row_bool(rows, row, 12),
                                    .cancelled = kiln_row_u64(rows, row, 13)};
    kiln_row_copy(rows, row, 5, due.name, sizeof due.name);
    return listing->each(listing->arg, &due, err);
}

int kiln_ledger_backfills_due(struct kiln_ledger *ledger, const char *pool, kiln_each_due *each,
                              void *arg, struct kiln_error *err)
{
    /* A backfill without all of its lines is still being added. */
    static const struct kiln_statement due = {
        "orders_due",
        "SELECT o.id, o.batch_id, o.cursor, o.pass_jobs,"
        " CASE WHEN o.error IS NOT NULL OR h.stopped OR o.until_at <= now()"
        "  OR o.cursor > 4294967295 THEN 0 ELSE greatest(0, least("
        "  o.mark - t.unfinished, " BY_RATE ", o.until_jobs - o.made,"
        "  CASE WHEN o.seed_fixed THEN o.pass_jobs - o.cursor END)) END::bigint,"
        " o.name, o.overrides, o.width, o.height, o.window_from, o.window_to, o.seed_fixed,"
        " h.closed, t.cancelled FROM backfill o,"
        " LATERAL (SELECT coalesce(sum(queued + assigned), 0)::bigint AS unfinished,"
        "  coalesce(sum(cancelled), 0)::bigint AS cancelled FROM batch_tally WHERE batch_id = "
        "o.batch_id) t,"
        " LATERAL (SELECT coalesce(bool_or(scope <> 'window'), false) AS stopped,"
        "  coalesce(bool_or(scope = 'window'), false) AS closed FROM hold"
        "  WHERE pool = o.pool AND held AND (scope IN ('all', 'backfill')"
        "  OR (scope IN ('order', 'window') AND name = o.name))) h,"
        " LATERAL (SELECT first + jobs AS jobs FROM backfill_line WHERE backfill_id = o.id"
        "  ORDER BY first DESC LIMIT 1) l"
        " WHERE o.pool = $1::text AND l.jobs = o.pass_jobs ORDER BY o.id"};
    struct kiln_params params = {0};
    struct listing listing = {each, arg};
    PGresult *rows;
    KILN_BIND(&params, pool);
    int rc = kiln_ledger_run(ledger, &due, &params, &rows, err);
    if (rc)
        return rc;
    for (int i = 0; i < PQntuples(rows) && rc == 0; i++)
        rc = list_due(&listing, rows, i, err);
    PQclear(rows);
    return rc;
}

int kiln_ledger_backfill_walk(struct kiln_ledger *ledger, uint64_t id, uint64_t place, uint32_t max,
                              kiln_each_line *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement walk = {
        "order_walk", "SELECT first, jobs, line FROM backfill_line WHERE backfill_id = $1::bigint"
                      " AND first >= (SELECT max(first) FROM backfill_line"
                      "  WHERE backfill_id = $1 AND first <= $2::bigint)"
                      " ORDER BY first LIMIT $3::integer"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, id, place, max);
    int rc = kiln_ledger_run(ledger, &walk, &params, &rows, err);
    if (rc)
        return rc;
    for (int i = 0; i < PQntuples(rows) && rc == 0; i++) {
        const struct kiln_backfill_line line = {.first = kiln_row_u64(rows, i, 0),
                                                .jobs = kiln_row_u64(rows, i, 1),
                                                .line = kiln_row_text(rows, i, 2)};
        rc = each(arg, &line, err);
    }
    PQclear(rows);
    return rc;
}

/* $28 the backfill, $29 the cursor as it was read, $30 the new cursor. */
#define OURS                                                                                       \
    "ours AS (SELECT id FROM backfill WHERE id = $28::bigint AND cursor = $29::bigint FOR "        \
    "UPDATE), "
#define TOP_UP_SQL                                                                                 \
    KILN_INSERT_SQL(OURS, "WHERE EXISTS (SELECT FROM ours)")                                       \
    ", moved AS (UPDATE backfill o SET cursor = $30::bigint, " KILN_BACKFILL_MADE                  \
    "  FROM (SELECT count(*) AS jobs FROM made) m, ours WHERE o.id = ours.id)"                     \
    " SELECT count(*) FROM made"

/* Queues cancelled jobs again.  It runs before the cursor moves, so after an interruption the next
 * top-up finds the rest.  These jobs count as made, and against the low-water mark, like new ones.
 */
static int retry_due(struct kiln_ledger *ledger, const struct kiln_backfill_due *due,
                     const struct kiln_new_job *jobs, size_t count, uint64_t *ret_again,
                     struct kiln_error *err)
{
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    int rc = kiln_move_begin(KILN_MOVE_RETRY_DUE, &params, err);
    KILN_BIND(&params, due->batch_id, due->id, due->cursor);
    KILN_BIND_COLUMN(&params, TEXT, count, jobs[i].key);
    if (rc == 0)
        rc = kiln_move_run(ledger, KILN_MOVE_RETRY_DUE, &params, &rows, err);
    if (rc == 0)
        *ret_again = kiln_row_u64(rows, 0, 0);
    PQclear(rows);
    kiln_params_release(&params);
    return rc;
}

int kiln_ledger_top_up(struct kiln_ledger *ledger, const char *pool,
                       const struct kiln_backfill_due *due, const struct kiln_new_job *jobs,
                       size_t count, uint64_t walked, uint64_t *ret_made, uint64_t *ret_again,
                       struct kiln_error *err)
{
    static const struct kiln_statement top_up = {"top_up", TOP_UP_SQL};
    struct kiln_params params = {0};
    uint64_t ids[KILN_TOP_UP_MAX];
    int64_t made;
    *ret_again = 0;
    int rc = due->cancelled ? retry_due(ledger, due, jobs, count, ret_again, err) : 0;
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++)
        ids[i] = due->batch_id;
    KILN_BIND(&params, pool);
    kiln_bind_jobs(&params, jobs, count, ids);
    KILN_BIND(&params, due->id, due->cursor, due->cursor + walked);
    rc = kiln_ledger_run_number(ledger, &top_up, &params, &made, err);
    kiln_params_release(&params);
    if (rc == 0)
        *ret_made = (uint64_t)made;
    return rc;
}

int kiln_ledger_backfill_fail(struct kiln_ledger *ledger, uint64_t id, const char *reason,
                              struct kiln_error *err)
{
    static const struct kiln_statement fail = {
        "order_fail", "UPDATE backfill SET error = $2::text WHERE id = $1::bigint"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id, reason);
    return kiln_ledger_run(ledger, &fail, &params, NULL, err);
}
