/* batch.c - see batch.h.
 *
 * The list reads sums (batch_tally, intake_call, batch_tenant), a few rows a batch, and the keys of
 * jobs whose rows gc removed.
 *
 * A batch is removed in pages of ended jobs with all their rows, each page one statement.  Their
 * objects become orphans and are left to gc, which knows how long an object may still be on its way
 * into the ledger.  A worker that commits a picture of a removed job finds no row, as after a lost
 * lease.
 */
#include "storage/ledger/read/batch.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/names.h"
#include "storage/ledger/internal.h"

#define PAGE 2000 /* jobs */

bool kiln_batch_ended(const struct kiln_batch_row *batch)
{
    return batch->whole && batch->jobs.at[KILN_JOB_QUEUED] == 0 &&
           batch->jobs.at[KILN_JOB_ASSIGNED] == 0;
}

double kiln_batch_rate(const struct kiln_batch_row *batch, int64_t now_ms)
{
    int64_t end_ms = kiln_batch_ended(batch) ? batch->last_ms : now_ms;
    if (batch->first_ms == 0 || end_ms <= batch->first_ms)
        return 0;
    return (double)batch->jobs.at[KILN_JOB_DONE] * 3600e3 / (double)(end_ms - batch->first_ms);
}

/* --- the list -------------------------------------------------------------------------------- */

static int list_batch(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct kiln_caller *caller = arg;
    struct kiln_batch_row batch;
    KILN_READ(rows, row, 0, batch.id, batch.name, batch.created_ms, batch.tenants, batch.whole,
              batch.removed, batch.first_ms, batch.last_ms);
    kiln_row_counts(rows, row, 8, batch.jobs.at);
    batch.jobs.at[KILN_JOB_CANCELLED] += batch.removed;
    caller->rows++;
    return ((kiln_each_batch *)caller->each)(caller->arg, &batch, err);
}

#define CREATED MS("b.created_at")
#define REMOVED_BEFORE KILN_REMOVED_JOBS("b.id")
#define FIRST_AND_LAST MS("min(first_at)") ", " MS("max(last_at)")

int kiln_ledger_batches(struct kiln_ledger *ledger, const char *pool, const char *batch,
                        kiln_each_batch *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement batches = {
        "batches",
        "SELECT b.id, b.name, " CREATED ", coalesce(o.tenants, ''), coalesce(c.whole, false),"
        " " REMOVED_BEFORE ", t.* FROM batch b,"
        " LATERAL (SELECT string_agg(tenant, ',' ORDER BY tenant) AS tenants FROM batch_tenant"
        "  WHERE batch_id = b.id) o,"
        " LATERAL (SELECT " KILN_INTAKE_WHOLE " AS whole FROM intake_call"
        "  WHERE batch_id = b.id) c,"
        " LATERAL (SELECT " FIRST_AND_LAST KILN_TALLY_SUMS
        " FROM batch_tally WHERE batch_id = b.id) t"
        " WHERE b.pool = $1::text AND ($2::text IS NULL OR b.name = $2) ORDER BY b.id DESC"};
    struct kiln_params params = {0};
    struct kiln_caller *caller = KILN_CALLER(each, arg);
    KILN_BIND(&params, pool, batch);
    int rc = kiln_ledger_each(ledger, &batches, &params, list_batch, caller, err);
    if (rc == 0 && batch && caller->rows == 0)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no batch '%s' in pool %s", batch, pool);
    return rc;
}

/* --- its name -------------------------------------------------------------------------------- */

int kiln_ledger_rename_batch(struct kiln_ledger *ledger, const char *pool, const char *batch,
                             const char *name, struct kiln_error *err)
{
    /* By id: the statement may be repeated, and then the old name is gone. */
    static const struct kiln_statement rename = {
        "batch_rename", "UPDATE batch SET name = $3::text WHERE id = $2::bigint AND NOT EXISTS"
                        " (SELECT FROM batch WHERE pool = $1::text AND name = $3 AND id <> $2)"
                        " RETURNING id"};
    struct kiln_params params = {0};
    uint64_t id, renamed;
    if (!kiln_name_valid(name, strlen(name), KILN_BATCH_NAME_MAX))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "'%s' is not a batch name: at most %d " KILN_NAME_RULE, name,
                         KILN_BATCH_NAME_MAX);
    if (kiln_name_reserved(name))
        return kiln_fail(err, KILN_BAD_INPUT, "batch '%s': " KILN_NAMES_RESERVED, name);
    if (kiln_name_reserved(batch))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "batch '%s' keeps its name, by which Kiln finds what it has made", batch);
    int rc = kiln_ledger_batch_id(ledger, pool, batch, &id, err);
    if (rc)
        return rc;
    KILN_BIND(&params, pool, id, name);
    rc = kiln_ledger_ask(ledger, &rename, &params, KILN_FIELDS(renamed), err);
    if (rc == 0 && !renamed)
        return kiln_fail(err, KILN_EXISTS, "pool %s has a batch '%s' already", pool, name);
    return rc;
}

/* --- its removal ---------------------------------------------------------------------------------
 */

/* $1 batch id, $2 key to start after, $3 how many.  Foreign keys are checked when the statement
 * ends, so the order of the deletions does not matter.  A done job whose picture or latent
 * was removed before (ledger/upkeep/garbage.c) is in the accounts already.  The counters follow
 * each page: after a removal that stops half-way the sums still match the rows. */
#define REMOVED(state, name, number) ", -count(*) FILTER (WHERE state = " #number ")"
#define REMOVED_COUNTS KILN_JOB_STATES(REMOVED)
#define REMOVE_SQL                                                                                 \
    "WITH page AS (SELECT id, key FROM job WHERE batch_id = $1::bigint AND key > $2::text"         \
    "  AND state IN " KILN_SQL_ENDED " ORDER BY key LIMIT $3::integer FOR UPDATE"                  \
    "), events AS (DELETE FROM event e USING page WHERE e.job_id = page.id"                        \
    "), latents AS (DELETE FROM latent l USING page WHERE l.job_id = page.id"                      \
    "  RETURNING l.job_id, l.gpu_ms / 1000 AS gpu_seconds"                                         \
    "), objects AS (DELETE FROM object o USING page WHERE o.job_id = page.id RETURNING o.bytes"    \
    "), marks AS (DELETE FROM favourite f USING page WHERE f.job_id = page.id"                     \
    "), images AS (DELETE FROM image i USING page WHERE i.job_id = page.id"                        \
    "  RETURNING i.job_id, (i.text_ms + i.denoise_ms + i.decode_ms) / 1000 AS gpu_seconds,"        \
    "  " KILN_SQL_SAVED_SECONDS " AS saved"                                                        \
    "), jobs AS (DELETE FROM job j USING page WHERE j.id = page.id"                                \
    "  RETURNING j.id, j.pool, j.tenant, j.state, j.kind, j.finished_at"                           \
    "), kept AS (INSERT INTO usage_removed AS u (pool, tenant, day, jobs, pictures, gpu_seconds,"  \
    "    gpu_seconds_saved)"                                                                       \
    "  SELECT pool, tenant, (finished_at AT TIME ZONE 'UTC')::date, count(*), count(i.job_id),"    \
    "    coalesce(sum(i.gpu_seconds), 0) + coalesce(sum(l.gpu_seconds), 0),"                       \
    "    coalesce(sum(i.saved), 0) FROM jobs"                                                      \
    "  LEFT JOIN images i ON i.job_id = jobs.id LEFT JOIN latents l ON l.job_id = jobs.id"         \
    "  WHERE state = " KILN_SQL_DONE                                                               \
    " AND (i.job_id IS NOT NULL OR (kind = 1 AND l.job_id IS NOT NULL))"                           \
    "  GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"                                                          \
    "  ON CONFLICT (pool, tenant, day) DO UPDATE SET jobs = u.jobs + excluded.jobs,"               \
    "    pictures = u.pictures + excluded.pictures,"                                               \
    "    gpu_seconds = u.gpu_seconds + excluded.gpu_seconds,"                                      \
    "    gpu_seconds_saved = u.gpu_seconds_saved + excluded.gpu_seconds_saved"                     \
    "), counted AS (INSERT INTO batch_tally AS t (batch_id, shard" KILN_TALLY_COLUMNS ")"          \
    "  SELECT $1, pg_backend_pid() % 32" REMOVED_COUNTS " FROM jobs"                               \
    "  ON CONFLICT (batch_id, shard) DO UPDATE SET first_at = t.first_at" KILN_TALLY_ADDS          \
    ") SELECT count(*), max(key), (SELECT count(*) FROM objects),"                                 \
    "  (SELECT coalesce(sum(bytes), 0)::bigint FROM objects) FROM page"

/* One page; *after is replaced by the key to go on from, *ret_more is false after the last. */
static int remove_page(struct kiln_ledger *ledger, uint64_t id, char **after,
                       struct kiln_removed *removed, bool *ret_more, struct kiln_error *err)
{
    static const struct kiln_statement page = {"batch_remove", REMOVE_SQL};
    struct kiln_params params = {0};
    uint64_t jobs, objects, bytes;
    char *last;
    KILN_BIND(&params, id, *after, PAGE);
    int rc = kiln_ledger_ask(ledger, &page, &params, KILN_FIELDS(jobs, last, objects, bytes), err);
    if (rc)
        return rc;
    removed->jobs += jobs;
    removed->objects += objects;
    removed->bytes += bytes;
    *ret_more = jobs == PAGE;
    free(*after);
    *after = last;
    return *ret_more && !last ? kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory") : 0;
}

/* $1 batch id, $2 and $3 the token and key to go on behind: a page of what else a batch may have
 * any number of, unless it has jobs again.  Answers how many, and the last token and key. */
#define ROWS_PAGE "2000"
#define REMOVE_ROWS(table, token, key, behind)                                                     \
    "WITH page AS MATERIALIZED (SELECT ctid AS at, " token " AS token, " key " AS key FROM " table \
    "  WHERE batch_id = $1::bigint AND " behind                                                    \
    "  AND NOT EXISTS (SELECT FROM job WHERE batch_id = $1 LIMIT 1)"                               \
    "  ORDER BY 2, 3 LIMIT " ROWS_PAGE "), gone AS (DELETE FROM " table                            \
    " WHERE ctid = ANY (ARRAY(SELECT at FROM page))"                                               \
    ") SELECT count(*), max(token), (SELECT key FROM page ORDER BY token DESC, key DESC LIMIT 1)"  \
    " FROM page"

static int remove_rows(struct kiln_ledger *ledger, const struct kiln_statement *page, uint64_t id,
                       struct kiln_error *err)
{
    PGresult *rows = NULL;
    int rc = 0;
    for (bool more = true; more && rc == 0;) {
        struct kiln_params params = {0};
        PGresult *before = rows;
        KILN_BIND(&params, id, before ? kiln_row_text(before, 0, 1) : "",
                  before ? kiln_row_text(before, 0, 2) : "");
        rows = NULL;
        rc = kiln_ledger_run(ledger, page, &params, &rows, err);
        PQclear(before);
        more = rc == 0 && kiln_row_u64(rows, 0, 0) == (uint64_t)atoi(ROWS_PAGE);
    }
    PQclear(rows);
    return rc;
}

/* Refusals, calls, and the keys of jobs that gc has removed: a page at a time, since one statement
 * for a million of them would meet its time limit. */
static int remove_others(struct kiln_ledger *ledger, uint64_t id, struct kiln_error *err)
{
    static const struct kiln_statement pages[] = {
        {"batch_remove_refusals",
         REMOVE_ROWS("intake_refusal", "token", "key", "(token, key) > ($2::text, $3::text)")},
        {"batch_remove_calls", REMOVE_ROWS("intake_call", "token", "$3::text", "token > $2::text")},
        {"batch_remove_keys", REMOVE_ROWS("removed_job", "key", "$3::text", "key > $2::text")},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof pages / sizeof *pages && rc == 0; i++)
        rc = remove_rows(ledger, &pages[i], id, err);
    return rc;
}

/* The batch itself, unless it has jobs again. */
static int remove_row(struct kiln_ledger *ledger, uint64_t id, const char *batch,
                      struct kiln_error *err)
{
    static const struct kiln_statement row = {
        "batch_remove_row",
        "WITH live AS (SELECT FROM job WHERE batch_id = $1::bigint LIMIT 1"
        "), calls AS (DELETE FROM intake_call WHERE batch_id = $1 AND NOT EXISTS (TABLE live)"
        "), refusals AS (DELETE FROM intake_refusal WHERE batch_id = $1"
        "  AND NOT EXISTS (TABLE live)"
        "), gone AS (DELETE FROM batch WHERE id = $1 AND NOT EXISTS (TABLE live)"
        ") SELECT count(*) FROM live"};
    struct kiln_params params = {0};
    uint64_t live;
    KILN_BIND(&params, id);
    int rc = kiln_ledger_ask(ledger, &row, &params, KILN_FIELDS(live), err);
    if (rc == 0 && live)
        return kiln_fail(err, KILN_STALE, "batch '%s' has jobs that wait or run", batch);
    return rc;
}

int kiln_ledger_remove_batch(struct kiln_ledger *ledger, const char *pool, const char *batch,
                             struct kiln_removed *ret, struct kiln_error *err)
{
    struct kiln_removed removed = {0};
    uint64_t id;
    int rc = kiln_ledger_batch_id(ledger, pool, batch, &id, err);
    if (rc)
        return rc;
    char *after = strdup("");
    if (!after)
        return kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory");
    for (bool more = true; rc == 0 && more;)
        rc = remove_page(ledger, id, &after, &removed, &more, err);
    free(after);
    if (rc == 0)
        rc = remove_others(ledger, id, err);
    if (rc == 0)
        rc = remove_row(ledger, id, batch, err); /* with what has come since */
    *ret = removed;
    return rc;
}
