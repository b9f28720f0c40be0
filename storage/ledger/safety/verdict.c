/* verdict.c - see verdict.h. */
#include "storage/ledger/safety/verdict.h"

#include <inttypes.h>

#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/internal.h"

#define SETTLE_TRIES 8

/* $1 pool, $2 job.  Writes the opinion that counts into the picture, if it has another. */
#define SETTLE                                                                                     \
    "WITH newest AS (SELECT DISTINCT ON (rank) level, rank, score, source FROM safety_verdict"     \
    "  WHERE job_id = $2::bigint ORDER BY rank, id DESC),"                                         \
    " best AS (SELECT max(rank) AS rank FROM newest WHERE level IS NOT NULL),"                     \
    " counts AS (SELECT n.level, n.score, n.source FROM (SELECT) one"                              \
    "  LEFT JOIN newest n ON n.rank = (SELECT rank FROM best)),"                                   \
    " noted AS (UPDATE image i SET safety_flag = c.level, safety_score = c.score,"                 \
    "   safety_source = c.source FROM counts c WHERE i.job_id = $2 AND i.pool = $1::text"          \
    "   AND (i.safety_flag, i.safety_score, i.safety_source) IS DISTINCT FROM"                     \
    "    (c.level, c.score, c.source) RETURNING 1)"                                                \
    " SELECT coalesce((SELECT level FROM counts), -1), EXISTS (SELECT FROM noted)"

/* Somebody else may have said something that our snapshot does not see, and be overwritten.  So it
 * is looked again until there is nothing to write: whoever writes last has seen all. */
static int settle(struct kiln_ledger *ledger, const char *pool, uint64_t job, int *ret_level,
                  struct kiln_error *err)
{
    static const struct kiln_statement statement = {"judge_settle", SETTLE};
    bool written = true;
    int rc = 0;
    for (int i = 0; i < SETTLE_TRIES && rc == 0 && written; i++) {
        struct kiln_params params = {0};
        KILN_BIND(&params, pool, job);
        rc = kiln_ledger_ask(ledger, &statement, &params, KILN_FIELDS(*ret_level, written), err);
    }
    return rc;
}

int kiln_ledger_judge(struct kiln_ledger *ledger, const char *pool,
                      const struct kiln_verdict *verdict, int *ret_level, struct kiln_error *err)
{
    static const struct kiln_statement say = {
        "judge", "WITH said AS (INSERT INTO safety_verdict (job_id, level, rank, score, source)"
                 "  SELECT job_id, nullif($3::integer, -1), $4::integer, $5::float8, $6::text"
                 "  FROM image WHERE job_id = $2::bigint AND pool = $1::text RETURNING 1)"
                 " SELECT count(*) FROM said"};
    struct kiln_params params = {0};
    uint64_t pictures;
    if (verdict->level < KILN_SAFETY_UNCHECKED || verdict->level >= KILN_SAFETY_LEVELS)
        return kiln_fail(err, KILN_BAD_INPUT, "there is no safety level %d", verdict->level);
    KILN_BIND(&params, pool, verdict->job, verdict->level, (int)verdict->rank, verdict->score,
              verdict->source);
    int rc = kiln_ledger_ask(ledger, &say, &params, KILN_FIELDS(pictures), err);
    if (rc == 0 && pictures == 0)
        rc = kiln_fail(err, KILN_NOT_FOUND, "there is no picture of job %" PRIu64 " in pool %s",
                       verdict->job, pool);
    return rc ? rc : settle(ledger, pool, verdict->job, ret_level, err);
}

static int read_verdict(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_verdict verdict;
    int64_t at_ms;
    int rank;
    KILN_READ(rows, row, 0, at_ms, verdict.job, verdict.level, rank, verdict.score, verdict.source);
    verdict.rank = (enum kiln_verdict_rank)rank;
    return ((kiln_each_verdict *)caller->each)(caller->arg, at_ms, &verdict, err);
}

#define SAID_AT MS("v.at")

int kiln_ledger_verdicts(struct kiln_ledger *ledger, const char *pool, uint64_t job,
                         kiln_each_verdict *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement verdicts = {
        KILN_PLANNED_ONCE("verdicts"),
        "SELECT " SAID_AT
        ", v.job_id, coalesce(v.level, -1), v.rank, coalesce(v.score, 0), v.source"
        " FROM safety_verdict v JOIN image i ON i.job_id = v.job_id WHERE v.job_id = $2::bigint"
        " AND i.pool = $1::text ORDER BY v.id DESC LIMIT 200"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, job);
    return kiln_ledger_run_each(ledger, &verdicts, &params, read_verdict, KILN_CALLER(each, arg),
                                err);
}
