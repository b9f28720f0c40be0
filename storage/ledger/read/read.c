/* read.c - counts and short lists of the ledger, for people.
 *
 * Jobs by state come from batch_tally, whose shards are summed, so that asking about a batch of a
 * million jobs reads a handful of rows; only cancelled jobs whose rows gc has taken are counted key
 * by key.  Groups are counted over the waiting and running jobs alone, which are found through an
 * index and the table of assignments.
 */
#include "storage/ledger/read/read.h"

#include <stdio.h>

#include "storage/ledger/internal.h"

#define TALLY "SELECT count(*) AS shards" KILN_TALLY_SUMS

int kiln_ledger_counts(struct kiln_ledger *ledger, const char *pool, struct kiln_counts *ret,
                       struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_counts", TALLY " FROM batch_tally t JOIN batch b ON b.id = t.batch_id "
                             "WHERE b.pool = $1"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    PGresult *rows = NULL;
    int rc = kiln_ledger_run(ledger, &statement, &params, &rows, err);
    if (rc)
        return rc;
    kiln_row_counts(rows, 0, 1, ret->at);
    PQclear(rows);
    return 0;
}

#define CREATED MS("b.created_at")
#define REMOVED KILN_REMOVED_JOBS("b.id")
#define OLDEST MS("min(queued_at) FILTER (WHERE state = " KILN_SQL_QUEUED ")")
#define SEEN MS("w.first_seen") ", " MS("w.last_seen")

/* A refusal r whose job has not come in since, in another call. */
#define STILL_OUT "NOT EXISTS (SELECT FROM job j WHERE j.batch_id = r.batch_id AND j.key = r.key)"

int kiln_ledger_progress(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         struct kiln_progress *ret, struct kiln_error *err)
{
    /* A batch without an intake_call row has no jobs yet.  A refused job that came in later does
     * not count as refused; that is looked up once the batch has ended. */
    static const struct kiln_statement statement = {
        "read_progress", "SELECT " CREATED ", c.announced, c.accepted, c.duplicate, "
                         "CASE WHEN c.refused > 0 AND c.whole AND t.queued + t.assigned = 0 "
                         "THEN (SELECT count(DISTINCT r.key) FROM intake_refusal r "
                         "  WHERE r.batch_id = b.id AND " STILL_OUT ") ELSE c.refused END, "
                         "coalesce(c.whole, false), " REMOVED ", t.* FROM batch b, "
                         "LATERAL (SELECT coalesce(sum(announced), 0)::bigint AS announced, "
                         "         coalesce(sum(accepted), 0)::bigint AS accepted, "
                         "         coalesce(sum(duplicate), 0)::bigint AS duplicate, "
                         "         coalesce(sum(refused), 0)::bigint AS refused, "
                         "         " KILN_INTAKE_WHOLE " AS whole "
                         "         FROM intake_call WHERE batch_id = b.id) c, "
                         "LATERAL (" TALLY " FROM batch_tally t WHERE t.batch_id = b.id) t "
                         "WHERE b.pool = $1 AND b.name = $2"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, batch);
    PGresult *rows = NULL;
    int rc = kiln_ledger_run(ledger, &statement, &params, &rows, err);
    if (rc)
        return rc;
    if (PQntuples(rows) == 0) {
        PQclear(rows);
        return kiln_fail(err, KILN_NOT_FOUND, "there is no batch '%s' in pool %s", batch, pool);
    }
    KILN_READ(rows, 0, 0, ret->created_ms, ret->announced, ret->accepted, ret->duplicate,
              ret->refused, ret->whole, ret->removed);
    kiln_row_counts(rows, 0, 8, ret->jobs.at); /* behind the number of shards */
    ret->jobs.at[KILN_JOB_CANCELLED] += ret->removed;
    PQclear(rows);
    return 0;
}

/* --- lists ------------------------------------------------------------------------------------ */

static int read_refusal(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    return ((kiln_each_refusal *)caller->each)(caller->arg, kiln_row_text(rows, row, 0),
                                               kiln_row_text(rows, row, 1), err);
}

int kiln_ledger_refusals(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         kiln_each_refusal *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_refusals", "SELECT key, reason FROM (SELECT DISTINCT ON (r.key) r.key, r.reason, r.at"
                         " FROM intake_refusal r JOIN batch b ON b.id = r.batch_id"
                         " WHERE b.pool = $1 AND b.name = $2 AND " STILL_OUT
                         " ORDER BY r.key, r.at DESC) last ORDER BY at, key"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, batch);
    return kiln_ledger_each(ledger, &statement, &params, read_refusal, KILN_CALLER(each, arg), err);
}

int kiln_ledger_refusal_ends(struct kiln_ledger *ledger, const char *pool, const char *batch,
                             const char *token, struct kiln_refusal_ends *ret,
                             struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_refusal_ends",
        "SELECT first.key, first.reason, last.key FROM batch b, LATERAL (SELECT key, reason"
        "  FROM intake_refusal WHERE batch_id = b.id AND token = $3 ORDER BY at, key LIMIT 1"
        " ) first, LATERAL (SELECT key FROM intake_refusal WHERE batch_id = b.id AND token = $3"
        "  ORDER BY at DESC, key DESC LIMIT 1) last WHERE b.pool = $1 AND b.name = $2"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, batch, token);
    return kiln_ledger_ask(ledger, &statement, &params,
                           KILN_FIELDS(ret->first_key, ret->reason, ret->last_key), err);
}

static int read_group(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_group_row group;
    KILN_READ(rows, row, 0, group.model, group.lora_set, group.width, group.height, group.steps,
              group.mode, group.queued, group.assigned, group.oldest_ms);
    return ((kiln_each_group *)caller->each)(caller->arg, &group, err);
}

int kiln_ledger_groups(struct kiln_ledger *ledger, const char *pool, kiln_each_group *each,
                       void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_groups", "SELECT model, lora_set, width, height, steps, mode, "
                       "count(*) FILTER (WHERE state = " KILN_SQL_QUEUED "), "
                       "count(*) FILTER (WHERE state = " KILN_SQL_ASSIGNED "), " OLDEST
                       " FROM (SELECT * FROM job WHERE pool = $1 AND waits UNION ALL "
                       "SELECT j.* FROM " KILN_ASSIGNED_JOBS " WHERE a.pool = $1) j "
                       "GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY count(*) DESC, 1, 2, 3, 4, 5, 6"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_each(ledger, &statement, &params, read_group, KILN_CALLER(each, arg), err);
}

static int read_model(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    return ((kiln_each_model *)caller->each)(caller->arg, kiln_row_text(rows, row, 0), err);
}

int kiln_ledger_waiting_models(struct kiln_ledger *ledger, const char *pool, const char *batch,
                               kiln_each_model *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_waiting_models", "SELECT DISTINCT model FROM job WHERE pool = $1 AND waits AND "
                               "batch_id = (SELECT id FROM batch WHERE pool = $1 AND name = $2) "
                               "ORDER BY 1"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, batch);
    return kiln_ledger_each(ledger, &statement, &params, read_model, KILN_CALLER(each, arg), err);
}

static int read_sort(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_waiting_row sort;
    KILN_READ(rows, row, 0, sort.batch_id, sort.width, sort.height, sort.steps, sort.priority,
              sort.model, sort.tenant, sort.lora_set, sort.mode);
    return ((kiln_each_waiting *)caller->each)(caller->arg, &sort, err);
}

#define SORTS                                                                                      \
    "SELECT DISTINCT batch_id, width, height, steps, priority, model, tenant, lora_set, mode FROM "
#define THE_BATCH "(SELECT id FROM batch WHERE pool = $1 AND name = $2)"

int kiln_ledger_waiting_sorts(struct kiln_ledger *ledger, const char *pool, const char *batch,
                              bool first, kiln_each_waiting *each, void *arg,
                              struct kiln_error *err)
{
    static const struct kiln_statement all = {"read_waiting_sorts",
                                              SORTS "job WHERE pool = $1 AND waits AND "
                                                    "batch_id = " THE_BATCH},
                                       some = {"read_first_sorts",
                                               /* in an order that only job_waits has */
                                               SORTS
                                               "(SELECT * FROM job WHERE waits AND (pool, id) >= "
                                               "($1, coalesce((SELECT id FROM job WHERE index = 0 "
                                               "AND batch_id = " THE_BATCH " LIMIT 1), 0)) "
                                               "ORDER BY pool, id LIMIT 2000) j "
                                               "WHERE batch_id = " THE_BATCH};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, batch);
    return kiln_ledger_each(ledger, first ? &some : &all, &params, read_sort,
                            KILN_CALLER(each, arg), err);
}

static int read_worker(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_worker_row worker;
    KILN_READ(rows, row, 0, worker.name, worker.host, worker.device, worker.state,
              worker.first_seen_ms, worker.last_seen_ms, worker.assigned, worker.trouble);
    return ((kiln_each_worker *)caller->each)(caller->arg, &worker, err);
}

int kiln_ledger_workers(struct kiln_ledger *ledger, const char *pool, kiln_each_worker *each,
                        void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_workers", "SELECT w.name, w.host, w.device, w.state, " SEEN ", "
                        "(SELECT count(*) FROM " KILN_ASSIGNED_JOBS
                        " WHERE a.pool = w.pool AND a.worker = w.name), "
                        "coalesce(w.trouble, '') FROM worker w WHERE w.pool = $1 ORDER BY w.name"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_each(ledger, &statement, &params, read_worker, KILN_CALLER(each, arg), err);
}

/* --- the server ------------------------------------------------------------------------------- */

int kiln_ledger_clock(struct kiln_ledger *ledger, int64_t *ret_ms, char *version, size_t size,
                      struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_clock", "SELECT " MS("clock_timestamp()") ", current_setting('server_version')"};
    struct kiln_params params = {0};
    char text[64];
    int rc = kiln_ledger_ask(ledger, &statement, &params, KILN_FIELDS(*ret_ms, text), err);
    if (rc == 0)
        snprintf(version, size, "%s", text);
    return rc;
}

int kiln_ledger_led(struct kiln_ledger *ledger, const char *pool, bool *ret_led,
                    struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_led",
        "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND granted "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
        "AND objsubid = 2 AND classid::bigint = $1 "
        "AND objid::bigint = hashtext($2)::bigint & 4294967295"};
    struct kiln_params params = {0};
    KILN_BIND(&params, KILN_LEADER_LOCK, pool);
    return kiln_ledger_ask(ledger, &statement, &params, KILN_FIELDS(*ret_led), err);
}
