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

static int read_due(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_backfill_due due;
    KILN_READ(rows, row, 0, due.id, due.batch_id, due.cursor, due.pass_jobs, due.room, due.name,
              due.overrides, due.width, due.height, due.window_from, due.window_to, due.seed_fixed,
              due.closed, due.cancelled);
    return ((kiln_each_due *)caller->each)(caller->arg, &due, err);
}

int kiln_ledger_backfills_due(struct kiln_ledger *ledger, const char *pool, kiln_each_due *each,
                              void *arg, struct kiln_error *err)
{
    /* A backfill without all of its lines is still being added. */
    static const struct kiln_statement due = {
        "backfills_due",
        "SELECT o.id, o.batch_id, o.cursor, o.pass_jobs,"
        " CASE WHEN o.error IS NOT NULL OR h.stopped OR o.until_at <= now()"
        "  OR o.cursor > 4294967295 THEN 0 ELSE greatest(0, least("
        "  o.mark - t.unfinished, " BY_RATE ", o.until_jobs - o.made,"
        "  CASE WHEN o.seed_fixed THEN o.pass_jobs - o.cursor END)) END::bigint,"
        " o.name, o.overrides, o.width, o.height, coalesce(o.window_from, -1),"
        " coalesce(o.window_to, -1), o.seed_fixed, h.closed, t.cancelled FROM backfill o,"
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
    KILN_BIND(&params, pool);
    return kiln_ledger_run_each(ledger, &due, &params, read_due, KILN_CALLER(each, arg), err);
}

static int read_line(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_backfill_line line;
    KILN_READ(rows, row, 0, line.first, line.jobs, line.line);
    return ((kiln_each_line *)caller->each)(caller->arg, &line, err);
}

int kiln_ledger_backfill_walk(struct kiln_ledger *ledger, uint64_t id, uint64_t place, uint32_t max,
                              kiln_each_line *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement walk = {
        "backfill_walk",
        "SELECT first, jobs, line FROM backfill_line WHERE backfill_id = $1::bigint"
        " AND first >= (SELECT max(first) FROM backfill_line"
        "  WHERE backfill_id = $1 AND first <= $2::bigint)"
        " ORDER BY first LIMIT $3::integer"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id, place, max);
    return kiln_ledger_run_each(ledger, &walk, &params, read_line, KILN_CALLER(each, arg), err);
}

/* $37 the backfill, $38 the cursor as it was read, $39 the new cursor. */
#define OURS                                                                                       \
    "ours AS (SELECT id FROM backfill WHERE id = $37::bigint AND cursor = $38::bigint FOR "        \
    "UPDATE), "
#define TOP_UP_SQL                                                                                 \
    KILN_INSERT_SQL(OURS, "WHERE EXISTS (SELECT FROM ours)", KILN_INSERT_SKIPS)                    \
    ", moved AS (UPDATE backfill o SET cursor = $39::bigint, " KILN_BACKFILL_MADE                  \
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
    const struct kiln_statement *retry = kiln_move_begin(KILN_MOVE_RETRY_DUE, &params);
    KILN_BIND(&params, due->batch_id, due->id, due->cursor);
    KILN_BIND_COLUMN(&params, TEXT, count, jobs[i].key);
    return kiln_ledger_ask(ledger, retry, &params, KILN_FIELDS(*ret_again), err);
}

int kiln_ledger_top_up(struct kiln_ledger *ledger, const char *pool,
                       const struct kiln_backfill_due *due, const struct kiln_new_job *jobs,
                       size_t count, uint64_t walked, uint64_t *ret_made, uint64_t *ret_again,
                       struct kiln_error *err)
{
    static const struct kiln_statement top_up = {"top_up", TOP_UP_SQL};
    struct kiln_params params = {0};
    uint64_t ids[KILN_TOP_UP_MAX];
    *ret_again = 0;
    int rc = due->cancelled ? retry_due(ledger, due, jobs, count, ret_again, err) : 0;
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++)
        ids[i] = due->batch_id;
    KILN_BIND(&params, pool);
    kiln_bind_jobs(&params, jobs, count, ids);
    KILN_BIND(&params, due->id, due->cursor, due->cursor + walked);
    return kiln_ledger_ask(ledger, &top_up, &params, KILN_FIELDS(*ret_made), err);
}

int kiln_ledger_backfill_fail(struct kiln_ledger *ledger, uint64_t id, const char *reason,
                              struct kiln_error *err)
{
    static const struct kiln_statement fail = {
        "backfill_fail", "UPDATE backfill SET error = $2::text WHERE id = $1::bigint"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id, reason);
    return kiln_ledger_run(ledger, &fail, &params, NULL, err);
}
