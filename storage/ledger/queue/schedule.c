/* schedule.c - the scheduler's side: queued jobs, assigned jobs, and its moves. */
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/queue/move.h"

#define PAGE 5000        /* jobs of a batch that one cancel or retry statement looks at */
#define FORGET_PAGE 2000 /* jobs */
#define PAGE_MIN 4       /* below this a statement that exceeds the time limit fails */

/* KILN_TELEPORT_AUTO is 2, as the number of a row for ever. */
#define ASKS(j)                                                                                    \
    "(" j ".teleport = 2 AND " j ".attempt = 0 AND " j ".guidance = 0"                             \
    " AND (" j ".lora_set = '' OR " KILN_SQL_ONE_LORA(j) "))"
_Static_assert(KILN_TELEPORT_AUTO == 2, "as in ASKS");

static int read_waiting(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_waiting job;
    KILN_READ(rows, row, 0, job.id, job.batch_id, job.model, job.tenant, job.lora_set, job.width,
              job.height, job.steps, job.attempt, job.max_wait_s, job.guidance, job.priority,
              job.kind, job.crashes, job.queued_ms, job.not_before_ms);
    KILN_READ(rows, row, 16, job.mode, job.failed_at, job.asks);
    int rc = ((kiln_ledger_each_waiting *)caller->each)(caller->arg, &job);
    return rc ? kiln_fail(err, rc, "ledger, queued jobs: the caller stopped") : 0;
}

int kiln_ledger_waiting(struct kiln_ledger *ledger, const char *pool, uint64_t after_id,
                        uint32_t max, kiln_ledger_each_waiting *each, void *arg,
                        struct kiln_error *err)
{
    static const struct kiln_statement read = {
        "waiting", "SELECT id, batch_id, model, tenant, lora_set, width, height, steps, attempt,"
                   " max_wait_s, guidance, priority, kind, crashes,"
                   " (extract(epoch FROM queued_at) * 1000)::bigint,"
                   " CASE WHEN not_before = '-infinity' THEN 0"
                   " ELSE (extract(epoch FROM not_before) * 1000)::bigint END, mode,"
                   " CASE WHEN error_code <> 0 THEN coalesce(worker, '') ELSE '' END, " ASKS(
                       "job") " FROM job WHERE pool = $1 AND waits AND id > $2::bigint"
                              " ORDER BY id LIMIT $3::integer"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, after_id, max);
    return kiln_ledger_run_each(ledger, &read, &params, read_waiting, KILN_CALLER(each, arg), err);
}

static int read_asking(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_job job;
    int rc = kiln_row_job(rows, row, &job, err);
    if (rc == KILN_CORRUPT) /* as it will turn out when it is assigned */
        return 0;
    if (rc)
        return rc;
    rc = ((kiln_ledger_each_asking *)caller->each)(caller->arg, &job);
    kiln_job_release(&job);
    return rc ? kiln_fail(err, rc, "ledger, jobs that ask for a latent: the caller stopped") : 0;
}

int kiln_ledger_asking(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                       size_t count, kiln_ledger_each_asking *each, void *arg,
                       struct kiln_error *err)
{
    static const struct kiln_statement read = {
        "asking", "SELECT " KILN_JOB_COLUMNS " FROM unnest($2::bigint[]) u (id)"
                  " JOIN job j ON j.id = u.id JOIN batch b ON b.id = j.batch_id"
                  " WHERE j.pool = $1 AND j.waits AND " ASKS("j")};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)ids[i]);
    return kiln_ledger_run_each(ledger, &read, &params, read_asking, KILN_CALLER(each, arg), err);
}

static int read_assigned(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_assigned_job job;
    KILN_READ(rows, row, 0, job.id, job.attempt, job.worker, job.assignment, job.assigned_ms,
              job.crashes);
    int rc = ((kiln_ledger_each_assigned *)caller->each)(caller->arg, &job);
    return rc ? kiln_fail(err, rc, "ledger, assigned jobs: the caller stopped") : 0;
}

int kiln_ledger_assigned(struct kiln_ledger *ledger, const char *pool,
                         kiln_ledger_each_assigned *each, void *arg, struct kiln_error *err)
{
    /* A row without assigned jobs may belong to an assignment that another session is making and
     * that this snapshot cannot see.  Then the row is locked, or young again. */
    static const struct kiln_statement read = {
        "assigned",
        "WITH over AS (DELETE FROM assignment WHERE (pool, id) IN (SELECT a.pool, a.id"
        "  FROM assignment a WHERE a.pool = $1"
        "  AND a.at < clock_timestamp() - interval '10 s' AND NOT EXISTS (SELECT"
        "  FROM unnest(a.jobs) u (id) JOIN job j ON j.id = u.id"
        "  WHERE j.state = " KILN_SQL_ASSIGNED " AND j.assignment = a.id) FOR UPDATE SKIP LOCKED))"
        " SELECT j.id, j.attempt, j.worker, j.assignment,"
        " (extract(epoch FROM j.assigned_at) * 1000)::bigint, j.crashes"
        " FROM " KILN_ASSIGNED_JOBS " WHERE a.pool = $1 ORDER BY j.worker, j.id"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_run_each(ledger, &read, &params, read_assigned, KILN_CALLER(each, arg), err);
}

/* --- assign ---------------------------------------------------------------------------------- */

/* All rows or none: on failure the records made so far are released. */
static int read_jobs(const PGresult *rows, struct kiln_job *jobs, size_t size, size_t *ret_count,
                     struct kiln_error *err)
{
    size_t count = 0;
    int rc = 0;
    while (rc == 0 && count < size && (int)count < PQntuples(rows)) {
        rc = kiln_row_job(rows, (int)count, &jobs[count], err);
        count += rc == 0;
    }
    if (rc == 0)
        *ret_count = count;
    while (rc != 0 && count > 0)
        kiln_job_release(&jobs[--count]);
    return rc;
}

/* flush: NULL, or "off" where a later transaction of the pipeline flushes for all. */
static const struct kiln_statement *
bind_assign(struct kiln_params *params, const struct kiln_new_assignment *want, const char *flush)
{
    const struct kiln_statement *assign = kiln_move_begin(KILN_MOVE_ASSIGN, params);
    KILN_BIND_COLUMN(params, INT8, want->count, (int64_t)want->ids[i]);
    KILN_BIND(params, want->worker, want->assignment, flush);
    return assign;
}

int kiln_ledger_assign(struct kiln_ledger *ledger, const char *worker, const char *assignment,
                       const uint64_t *ids, size_t count, struct kiln_job *jobs, size_t *ret_count,
                       struct kiln_error *err)
{
    struct kiln_new_assignment want = {worker, assignment, ids, count, jobs, 0};
    struct kiln_params params = {0};
    PGresult *rows;
    const struct kiln_statement *assign = bind_assign(&params, &want, NULL);
    int rc = kiln_ledger_run(ledger, assign, &params, &rows, err);
    if (rc)
        return rc;
    rc = read_jobs(rows, jobs, count, ret_count, err);
    PQclear(rows);
    return rc;
}

static int assign_page(struct kiln_ledger *ledger, struct kiln_new_assignment *wanted, size_t count,
                       struct kiln_error *err)
{
    PGresult *rows[KILN_NEW_ASSIGNMENTS_MAX];
    struct kiln_params params[KILN_NEW_ASSIGNMENTS_MAX];
    const struct kiln_statement *assign = NULL;
    memset(params, 0, sizeof params);
    for (size_t i = 0; i < count; i++)
        assign = bind_assign(&params[i], &wanted[i], "off");
    int rc = kiln_ledger_run_many(ledger, assign, params, count, &kiln_flush_statement, rows, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++) {
        if (rc == 0)
            rc = read_jobs(rows[i], wanted[i].jobs, wanted[i].count, &wanted[i].given, err);
        PQclear(rows[i]);
    }
    return rc;
}

static void release_given(struct kiln_new_assignment *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++)
        while (wanted[i].given > 0)
            kiln_job_release(&wanted[i].jobs[--wanted[i].given]);
}

int kiln_ledger_assign_many(struct kiln_ledger *ledger, struct kiln_new_assignment *wanted,
                            size_t count, struct kiln_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < count; i++)
        wanted[i].given = 0;
    for (size_t at = 0; at < count && rc == 0;) {
        struct kiln_new_assignment *one = &wanted[at];
        size_t n = count - at < KILN_NEW_ASSIGNMENTS_MAX ? count - at : KILN_NEW_ASSIGNMENTS_MAX;
        rc = n == 1 ? kiln_ledger_assign(ledger, one->worker, one->assignment, one->ids, one->count,
                                         one->jobs, &one->given, err)
                    : assign_page(ledger, one, n, err);
        at += n;
    }
    if (rc)
        release_given(wanted, count);
    return rc;
}

int kiln_ledger_note_donors(struct kiln_ledger *ledger, const char *pool, const char *assignment,
                            const uint64_t *donors, size_t count, bool *ret_there,
                            struct kiln_error *err)
{
    static const struct kiln_statement note = {
        "note_donors", "SELECT assignment_note_donors($1, $2, $3::bigint[])"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, pool, assignment);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)donors[i]);
    int rc = kiln_ledger_run(ledger, &note, &params, &rows, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++) {
        ret_there[i] = false;
        for (int row = 0; row < PQntuples(rows); row++)
            ret_there[i] = ret_there[i] || kiln_row_u64(rows, row, 0) == donors[i];
    }
    PQclear(rows);
    return 0;
}

/* --- return ---------------------------------------------------------------------------------- */

static int state_of(const PGresult *rows, const struct kiln_return *given)
{
    for (int i = 0; i < PQntuples(rows); i++)
        if (kiln_row_u64(rows, i, 0) == given->id && kiln_row_u64(rows, i, 1) == given->attempt)
            return (int)kiln_row_i64(rows, i, 2);
    return -1;
}

int kiln_ledger_return(struct kiln_ledger *ledger, const struct kiln_return *returns, size_t count,
                       int *ret_states, struct kiln_error *err)
{
    const struct kiln_ledger_limits *limits = kiln_ledger_limits(ledger);
    struct kiln_params params = {0};
    PGresult *rows;
    const struct kiln_statement *back = kiln_move_begin(KILN_MOVE_RETURN, &params);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)returns[i].id);
    KILN_BIND_COLUMN(&params, INT4, count, returns[i].attempt);
    KILN_BIND_COLUMN(&params, INT2, count, returns[i].code);
    KILN_BIND_COLUMN(&params, TEXT, count, returns[i].reason);
    KILN_BIND_COLUMN(&params, BOOL, count, returns[i].crashed);
    KILN_BIND_COLUMN(&params, BOOL, count, returns[i].final);
    KILN_BIND(&params, limits->max_attempts, limits->backoff_base_s, limits->backoff_max_s);
    int rc = kiln_ledger_run(ledger, back, &params, &rows, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++)
        ret_states[i] = state_of(rows, &returns[i]);
    PQclear(rows);
    return 0;
}

/* --- cancel and retry ------------------------------------------------------------------------ */

static int move_one(struct kiln_ledger *ledger, enum kiln_move move, const char *pool, uint64_t id,
                    uint64_t *ret_count, struct kiln_error *err)
{
    static const struct kiln_statement find = {
        "job_exists", "SELECT id FROM job WHERE id = $1::bigint AND pool = $2"};
    struct kiln_params params = {0};
    const struct kiln_statement *statement = kiln_move_begin(move, &params);
    uint64_t found;
    KILN_BIND(&params, pool, id);
    int rc = kiln_ledger_ask(ledger, statement, &params, KILN_FIELDS(*ret_count), err);
    if (rc != 0 || *ret_count > 0)
        return rc;
    KILN_BIND(&params, id, pool);
    rc = kiln_ledger_ask(ledger, &find, &params, KILN_FIELDS(found), err);
    if (rc == 0 && !found)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no job %llu in pool '%s'",
                         (unsigned long long)id, pool);
    return rc;
}

/* Where the walk through a batch stands. */
struct batch_walk {
    uint64_t batch_id, moved;
    char *after; /* the last key that was looked at */
    uint32_t page;
    bool more;
};

static int move_page(struct kiln_ledger *ledger, enum kiln_move move, struct batch_walk *walk,
                     struct kiln_error *err)
{
    struct kiln_params params = {0};
    const struct kiln_statement *statement = kiln_move_begin(move, &params);
    uint64_t moved;
    uint32_t seen;
    char *after;
    KILN_BIND(&params, walk->batch_id, walk->after, walk->page);
    int rc = kiln_ledger_ask(ledger, statement, &params, KILN_FIELDS(moved, after, seen), err);
    if (rc)
        return rc;
    walk->moved += moved;
    walk->more = seen == walk->page;
    free(walk->after);
    walk->after = after;
    return walk->more && !after ? kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory") : 0;
}

/* Page by page in order of the keys, each page one transaction: a batch of a million jobs is
 * not locked for long.  A page that exceeds the time limit is split. */
static int move_batch(struct kiln_ledger *ledger, enum kiln_move move, const char *pool,
                      const char *batch, uint64_t *ret_count, struct kiln_error *err)
{
    struct batch_walk walk = {.page = PAGE, .more = true};
    int rc = kiln_ledger_batch_id(ledger, pool, batch, &walk.batch_id, err);
    if (rc == 0 && !(walk.after = strdup("")))
        return kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory");
    while (rc == 0 && walk.more) {
        rc = move_page(ledger, move, &walk, err);
        if (rc == KILN_TIMEOUT && kiln_ledger_refused(ledger, rc) && walk.page > PAGE_MIN) {
            walk.page /= 4;
            rc = 0;
        }
    }
    free(walk.after);
    if (rc == 0)
        *ret_count = walk.moved;
    return rc;
}

int kiln_ledger_cancel(struct kiln_ledger *ledger, const char *pool, uint64_t id, const char *batch,
                       uint64_t *ret_count, struct kiln_error *err)
{
    return id ? move_one(ledger, KILN_MOVE_CANCEL, pool, id, ret_count, err)
              : move_batch(ledger, KILN_MOVE_CANCEL_BATCH, pool, batch, ret_count, err);
}

int kiln_ledger_retry(struct kiln_ledger *ledger, const char *pool, uint64_t id, const char *batch,
                      uint64_t *ret_count, struct kiln_error *err)
{
    return id ? move_one(ledger, KILN_MOVE_RETRY, pool, id, ret_count, err)
              : move_batch(ledger, KILN_MOVE_RETRY_BATCH, pool, batch, ret_count, err);
}

/* --- workers --------------------------------------------------------------------------------- */

int kiln_ledger_worker_seen(struct kiln_ledger *ledger, const char *pool, const char *worker,
                            const char *host, const char *device, const char *state,
                            const char *trouble, struct kiln_error *err)
{
    static const struct kiln_statement upsert = {
        "worker_seen", "INSERT INTO worker AS w (pool, name, host, device, state, trouble)"
                       " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (pool, name) DO UPDATE SET"
                       " host = excluded.host, device = excluded.device, state = excluded.state,"
                       " trouble = excluded.trouble, last_seen = now()"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, worker, host, device, state, trouble);
    return kiln_ledger_run(ledger, &upsert, &params, NULL, err);
}

int kiln_ledger_worker_lost(struct kiln_ledger *ledger, const char *pool, const char *worker,
                            uint64_t silent_ms, struct kiln_error *err)
{
    static const struct kiln_statement lost = {
        "worker_lost", "UPDATE worker SET state = 'gone', last_seen = now() - $3::bigint *"
                       " interval '1 ms' WHERE pool = $1 AND name = $2"
                       " AND last_seen < now() - $3::bigint * interval '1 ms'"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, worker, silent_ms);
    return kiln_ledger_run(ledger, &lost, &params, NULL, err);
}

/* --- events ---------------------------------------------------------------------------------- */

/* Removes the events of jobs that ended long ago; the jobs and their pictures stay.  Without this
 * the table of events, two or more rows a job, would be the largest.  It is read in order of job
 * ids, a page a call, so no call delays the scheduler and no index by time is needed. */
int kiln_ledger_forget(struct kiln_ledger *ledger, const char *pool, uint32_t keep_days,
                       uint64_t *cursor, uint64_t *ret_forgotten, bool *ret_more,
                       struct kiln_error *err)
{
    /* Jobs behind one that was created recently are recent too: the walk ends there. */
    static const struct kiln_statement forget = {
        "forget",
        "WITH page AS (SELECT id, pool, state, created_at, finished_at FROM job"
        "  WHERE id > greatest($2::bigint,"
        "    (SELECT job_id FROM event ORDER BY job_id, id LIMIT 1) - 1)"
        "  ORDER BY id LIMIT $3::integer"
        "), old AS (SELECT id FROM page WHERE pool = $1::text AND state IN " KILN_SQL_ENDED
        "  AND finished_at < now() - $4::integer * interval '1 day'"
        "), gone AS (DELETE FROM event e USING old WHERE e.job_id = old.id RETURNING 1"
        ") SELECT (SELECT count(*) FROM gone), max(id), count(*) = $3"
        "  AND max(created_at) < now() - $4 * interval '1 day' FROM page"};
    struct kiln_params params = {0};
    uint64_t last;
    KILN_BIND(&params, pool, *cursor, FORGET_PAGE, keep_days);
    int rc = kiln_ledger_ask(ledger, &forget, &params, KILN_FIELDS(*ret_forgotten, last, *ret_more),
                             err);
    if (rc == 0 && *ret_more)
        *cursor = last;
    return rc;
}
