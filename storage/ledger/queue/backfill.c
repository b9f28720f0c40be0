/* backfill.c - the person's side of backfills: add, list, remove. */
#include "storage/ledger/queue/backfill.h"

#include <stdio.h>
#include <string.h>

#include "storage/ledger/internal.h"

int kiln_ledger_backfill_add(struct kiln_ledger *ledger, const char *pool,
                             const struct kiln_backfill_spec *spec, uint64_t *ret_id,
                             struct kiln_error *err)
{
    /* If an earlier backfill of this name left a batch, it is used again, and its jobs are not made
     * twice.  Backfill and batch are added by one statement, so that neither is there alone. */
    static const struct kiln_statement add = {
        "backfill_add",
        "WITH new AS (INSERT INTO batch (pool, name) VALUES ($1::text, $2::text)"
        "  ON CONFLICT DO NOTHING RETURNING id), home AS (TABLE new UNION ALL"
        "  SELECT id FROM batch WHERE pool = $1 AND name = $2)"
        " INSERT INTO backfill (pool, name, who, overrides, width, height, pass_jobs, mark,"
        "  until_jobs, until_at, rate, window_from, window_to, seed_fixed, batch_id)"
        " SELECT $1::text, $3::text, $4::text, $5::text, $6::integer, $7::integer, $8::bigint,"
        "  $9::bigint, nullif($10::bigint, 0), to_timestamp(nullif($11::bigint, 0) / 1000.0),"
        "  nullif($12::float8, 0), nullif($13::smallint, -1), nullif($14::smallint, -1),"
        "  $15::bool, id FROM home ON CONFLICT DO NOTHING RETURNING id"};
    struct kiln_params params = {0};
    char name[KILN_BATCH_NAME_MAX + 1];
    snprintf(name, sizeof name, KILN_BACKFILL_BATCH "%s", spec->name);
    KILN_BIND(&params, pool, name, spec->name, spec->who, spec->overrides, spec->width,
              spec->height, spec->pass_jobs);
    KILN_BIND(&params, spec->mark, spec->until_jobs, spec->until_ms, spec->rate, spec->window_from,
              spec->window_to, spec->seed_fixed);
    int rc = kiln_ledger_ask(ledger, &add, &params, KILN_FIELDS(*ret_id), err);
    if (rc == 0 && *ret_id == 0)
        return kiln_fail(err, KILN_EXISTS,
                         "pool %s already has a backfill '%s'; see `kiln backfill show %s`", pool,
                         spec->name, spec->name);
    return rc;
}

int kiln_ledger_backfill_lines(struct kiln_ledger *ledger, uint64_t id,
                               const struct kiln_backfill_line *lines, size_t count,
                               struct kiln_error *err)
{
    static const struct kiln_statement add = {
        "backfill_lines", "INSERT INTO backfill_line (backfill_id, first, jobs, line)"
                          " SELECT $1::bigint, u.* FROM unnest($2::bigint[], $3::bigint[],"
                          " $4::text[]) AS u ON CONFLICT DO NOTHING"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)lines[i].first);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)lines[i].jobs);
    KILN_BIND_COLUMN(&params, TEXT, count, lines[i].line);
    return kiln_ledger_run(ledger, &add, &params, NULL, err);
}

int kiln_ledger_backfill_remove(struct kiln_ledger *ledger, const char *pool, const char *name,
                                bool *ret_batch_left, struct kiln_error *err)
{
    /* `made` is that of the row as it is deleted, so a top-up that was first is seen.  A batch
     * without sums never had a job, of an earlier backfill either. */
    static const struct kiln_statement remove = {
        "backfill_remove",
        "WITH gone AS (DELETE FROM backfill WHERE pool = $1::text AND name = $2::text"
        "  RETURNING batch_id, made),"
        " lifted AS (DELETE FROM hold WHERE pool = $1 AND name = $2"
        "  AND scope IN ('order', 'window')),"
        " emptied AS (DELETE FROM batch b USING gone WHERE b.id = gone.batch_id AND gone.made = 0"
        "  AND NOT EXISTS (SELECT FROM batch_tally WHERE batch_id = b.id)"
        "  AND NOT EXISTS (SELECT FROM intake_call WHERE batch_id = b.id) RETURNING 1)"
        " SELECT count(*), NOT EXISTS (TABLE emptied) FROM gone"};
    struct kiln_params params = {0};
    int gone;
    KILN_BIND(&params, pool, name);
    int rc = kiln_ledger_ask(ledger, &remove, &params, KILN_FIELDS(gone, *ret_batch_left), err);
    if (rc == 0 && !gone)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no backfill '%s' in pool %s", name, pool);
    return rc;
}

int kiln_ledger_backfill_restart(struct kiln_ledger *ledger, const char *pool, const char *name,
                                 struct kiln_error *err)
{
    static const struct kiln_statement restart = {
        "backfill_restart",
        "UPDATE backfill SET error = NULL WHERE pool = $1::text AND name = $2::text"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, name);
    return kiln_ledger_run(ledger, &restart, &params, NULL, err);
}

/* --- the list -------------------------------------------------------------------------------- */

#define ENDED                                                                                      \
    "(coalesce(o.made >= o.until_jobs, false) OR coalesce(o.until_at <= now(), false)"             \
    " OR (o.seed_fixed AND o.cursor >= o.pass_jobs))"

#define UNTIL MS("o.until_at")
#define TIMES MS("o.created_at") ", " MS("o.topped_at") ", " MS("o.due_at")

/* Whether it is paused: with everything, with all backfills, by name, or by its window. */
#define HELD                                                                                       \
    "EXISTS (SELECT FROM hold h WHERE h.pool = o.pool AND h.held AND (h.scope IN ('all',"          \
    " 'backfill') OR (h.scope IN ('order', 'window') AND h.name = o.name)))"

/* GPU-seconds of its pictures and of its latents without pictures. */
#define SPENT                                                                                      \
    "(SELECT coalesce(sum(text_ms + denoise_ms + decode_ms), 0)::float8 / 1000 FROM image i"       \
    " WHERE i.batch_id = o.batch_id) + (SELECT coalesce(sum(gpu_ms), 0)::float8 / 1000"            \
    " FROM latent l JOIN job j ON j.id = l.job_id"                                                 \
    " WHERE j.batch_id = o.batch_id AND l.gpu_ms IS NOT NULL)"

/* The jobs of its batch whose rows are gone, and how many are in each state. */
#define JOBS                                                                                       \
    "SELECT " KILN_REMOVED_JOBS("o.batch_id") KILN_TALLY_SUMS                                      \
        " FROM batch_tally WHERE batch_id = o.batch_id"

static int read_backfill(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct kiln_caller *caller = arg;
    struct kiln_backfill_row backfill;
    struct kiln_backfill_spec *spec = &backfill.spec;
    uint64_t removed;
    KILN_READ(rows, row, 0, backfill.id, backfill.batch_id, backfill.batch, spec->name, spec->who,
              spec->overrides, spec->width, spec->height, spec->pass_jobs, spec->mark,
              spec->until_jobs, spec->until_ms, spec->rate, spec->window_from, spec->window_to,
              spec->seed_fixed);
    KILN_READ(rows, row, 16, backfill.cursor, backfill.made, backfill.lines, backfill.error,
              backfill.created_ms, backfill.topped_ms, backfill.due_ms, backfill.ended,
              backfill.held, backfill.gpu_seconds, removed);
    kiln_row_counts(rows, row, 27, backfill.jobs.at);
    backfill.jobs.at[KILN_JOB_CANCELLED] += removed;
    caller->rows++;
    return ((kiln_each_backfill *)caller->each)(caller->arg, &backfill, err);
}

int kiln_ledger_backfills(struct kiln_ledger *ledger, const char *pool, const char *name,
                          kiln_each_backfill *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement list = {
        "backfills",
        "SELECT o.id, o.batch_id, b.name, o.name, o.who, o.overrides, o.width, o.height,"
        " o.pass_jobs, o.mark, o.until_jobs, " UNTIL ", o.rate, coalesce(o.window_from, -1),"
        " coalesce(o.window_to, -1), o.seed_fixed, o.cursor, o.made,"
        " (SELECT count(*) FROM backfill_line WHERE backfill_id = o.id), o.error, " TIMES ", " ENDED
        ", " HELD ", " SPENT ", t.* FROM backfill o JOIN batch b ON b.id = o.batch_id,"
        " LATERAL (" JOBS ") t WHERE o.pool = $1::text AND ($2::text IS NULL OR o.name = $2)"
        " ORDER BY o.name"};
    struct kiln_params params = {0};
    struct kiln_caller *caller = KILN_CALLER(each, arg);
    KILN_BIND(&params, pool, name);
    int rc = kiln_ledger_each(ledger, &list, &params, read_backfill, caller, err);
    if (rc == 0 && name && caller->rows == 0)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no backfill '%s' in pool %s", name, pool);
    return rc;
}

int kiln_ledger_backfill_of(struct kiln_ledger *ledger, const char *pool, const char *batch,
                            char *ret, struct kiln_error *err)
{
    static const struct kiln_statement find = {
        "backfill_of", "SELECT o.name FROM backfill o JOIN batch b ON b.id = o.batch_id"
                       " WHERE b.pool = $1::text AND b.name = $2::text"};
    struct kiln_params params = {0};
    char name[KILN_NAME_MAX + 1];
    KILN_BIND(&params, pool, batch);
    int rc = kiln_ledger_ask(ledger, &find, &params, KILN_FIELDS(name), err);
    if (rc == 0)
        memcpy(ret, name, sizeof name);
    return rc;
}
