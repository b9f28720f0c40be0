/* unrated.c - see unrated.h. */
#include "storage/ledger/safety/unrated.h"

#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/internal.h"

/* --- a rule about prompts --------------------------------------------------------------------- */

static int read_rule_picture(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_rule_picture picture;
    KILN_READ(rows, row, 0, picture.job, picture.pool, picture.prompt, picture.said_by,
              picture.said);
    return ((kiln_each_rule_picture *)caller->each)(caller->arg, &picture, err);
}

int kiln_ledger_rule_pictures(struct kiln_ledger *session, const uint64_t *jobs, size_t count,
                              kiln_each_rule_picture *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "rule_pictures",
        "SELECT i.job_id, i.pool, i.prompt, v.source, coalesce(v.level, -1)"
        " FROM unnest($1::bigint[]) g (id) JOIN image i ON i.job_id = g.id"
        " LEFT JOIN LATERAL (SELECT source, level FROM safety_verdict s WHERE s.job_id = g.id"
        "  AND s.rank = 0 ORDER BY s.id DESC LIMIT 1) v ON true"};
    struct kiln_params params = {0};
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i]);
    return kiln_ledger_run_each(session, &statement, &params, read_rule_picture,
                                KILN_CALLER(each, arg), err);
}

int kiln_ledger_rule_begin(struct kiln_ledger *ledger, const char *source, uint64_t *ret_below,
                           struct kiln_error *err)
{
    static const struct kiln_statement begin = {
        "rule_begin", "WITH others AS (DELETE FROM safety_rule WHERE source <> $1::text),"
                      " fresh AS (INSERT INTO safety_rule (source, below) VALUES ($1, $2::bigint)"
                      "  ON CONFLICT DO NOTHING)"
                      " SELECT coalesce((SELECT below FROM safety_rule WHERE source = $1), $2)"};
    struct kiln_params params = {0};
    KILN_BIND(&params, source, (int64_t)INT64_MAX);
    return kiln_ledger_ask(ledger, &begin, &params, KILN_FIELDS(*ret_below), err);
}

int kiln_ledger_rule_reached(struct kiln_ledger *ledger, const char *source, uint64_t below,
                             struct kiln_error *err)
{
    static const struct kiln_statement reached = {
        "rule_reached", "UPDATE safety_rule SET below = $2::bigint WHERE source = $1::text"};
    struct kiln_params params = {0};
    KILN_BIND(&params, source, below);
    return kiln_ledger_run(ledger, &reached, &params, NULL, err);
}

struct jobs {
    uint64_t *at;
    uint32_t count;
};

static int read_job(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct jobs *jobs = arg;
    (void)err;
    jobs->at[jobs->count++] = kiln_row_u64(rows, row, 0);
    return 0;
}

int kiln_ledger_rule_next(struct kiln_ledger *session, uint64_t below, uint32_t most,
                          uint64_t *ret_jobs, uint32_t *ret_count, struct kiln_error *err)
{
    static const struct kiln_statement next = {
        "rule_next", "SELECT job_id FROM image WHERE job_id < $1::bigint ORDER BY job_id DESC"
                     " LIMIT $2::integer"};
    struct kiln_params params = {0};
    struct jobs jobs = {.at = ret_jobs};
    KILN_BIND(&params, below, most);
    int rc = kiln_ledger_run_each(session, &next, &params, read_job, &jobs, err);
    *ret_count = rc ? 0 : jobs.count;
    return rc;
}

/* --- a classifier ----------------------------------------------------------------------------- */

/* Looked up picture by picture: OFFSET hides it from the planner, which would read all opinions. */
#define UNRATED(OFFSET)                                                                            \
    "NOT EXISTS (SELECT FROM safety_verdict v WHERE v.job_id = i.job_id"                           \
    "  AND v.source = $2::text" OFFSET ")"

struct unrated {
    struct kiln_caller caller;
    uint64_t last;
};

/* The last row is where the walk ended, with no picture. */
static int read_unrated(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct unrated *unrated = arg;
    struct kiln_unrated_picture picture;
    bool end;
    KILN_READ(rows, row, 0, end, picture.job, picture.key);
    if (end) {
        unrated->last = picture.job;
        return 0;
    }
    return ((kiln_each_unrated *)unrated->caller.each)(unrated->caller.arg, &picture, err);
}

int kiln_ledger_unrated(struct kiln_ledger *session, const char *pool, const char *source,
                        uint64_t below, uint32_t most, kiln_each_unrated *each, void *arg,
                        uint64_t *ret_below, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "unrated",
        "WITH slice AS MATERIALIZED (SELECT job_id, pool FROM image WHERE job_id < $3::bigint"
        "  ORDER BY job_id DESC LIMIT $4::integer),"
        " hits AS MATERIALIZED (SELECT i.job_id FROM slice i WHERE i.pool = $1::text AND " UNRATED(
            " OFFSET 0") "  ORDER BY i.job_id DESC LIMIT $5::integer)"
                         " SELECT false AS ends, h.job_id, (SELECT o.key FROM object o WHERE "
                         "o.job_id = h.job_id"
                         "  AND o.role IN ('full', '512', '256') ORDER BY o.width DESC LIMIT 1) "
                         "FROM hits h"
                         " UNION ALL SELECT true, CASE WHEN (SELECT count(*) FROM hits) = $5 THEN"
                         "  (SELECT min(job_id) FROM hits) WHEN (SELECT count(*) FROM slice) < $4 "
                         "THEN 0"
                         "  ELSE (SELECT min(job_id) FROM slice) END, NULL ORDER BY ends, job_id "
                         "DESC"};
    struct kiln_params params = {0};
    struct unrated unrated = {.caller = {(void (*)(void))each, arg, 0}};
    KILN_BIND(&params, pool, source, below, KILN_UNRATED_ROWS, most);
    int rc = kiln_ledger_run_each(session, &statement, &params, read_unrated, &unrated, err);
    *ret_below = unrated.last;
    return rc;
}

int kiln_ledger_unrated_count(struct kiln_ledger *session, const char *pool, const char *source,
                              uint64_t *ret, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "unrated_count", "SELECT count(*) FROM image i WHERE i.pool = $1::text AND " UNRATED("")};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, source);
    return kiln_ledger_ask(session, &statement, &params, KILN_FIELDS(*ret), err);
}
