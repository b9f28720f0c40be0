/* insert.h - the statement that inserts jobs, shared by intake.c (jobs that clients enqueue) and
 * top_up.c (jobs of backfills), so that both keep the same sums and accounts.
 */
#ifndef KILN_LEDGER_INSERT_H
#define KILN_LEDGER_INSERT_H

#include "storage/ledger/internal.h"

/* The columns of job that an insertion fills from arrays: the parameter, the type of its elements,
 * a cast, the column.  OWN: a value for each job.  SHARED: one value for all jobs of the statement
 * if they agree (kiln_bind_shared), as most jobs of a file do: unnest() of one more array costs
 * the server about as much as an index. */
#define KILN_INSERT_OWN(COLUMN)                                                                    \
    COLUMN(3, text, , key)                                                                         \
    COLUMN(4, text, , token)                                                                       \
    COLUMN(6, bigint, , index)                                                                     \
    COLUMN(7, text, , prompt)                                                                      \
    COLUMN(14, text, ::numeric, seed)
#define KILN_INSERT_SHARED(COLUMN)                                                                 \
    COLUMN(5, text, , custom_id)                                                                   \
    COLUMN(8, text, , negative_prompt)                                                             \
    COLUMN(9, text, , style)                                                                       \
    COLUMN(10, text, , tenant)                                                                     \
    COLUMN(11, text, , model)                                                                      \
    COLUMN(12, text, ::jsonb, loras)                                                               \
    COLUMN(13, text, , lora_set)                                                                   \
    COLUMN(15, float8, , guidance)                                                                 \
    COLUMN(16, integer, , width)                                                                   \
    COLUMN(17, integer, , height)                                                                  \
    COLUMN(18, integer, , steps)                                                                   \
    COLUMN(19, integer, , max_wait_s)                                                              \
    COLUMN(20, smallint, , priority)                                                               \
    COLUMN(21, smallint, , kind)                                                                   \
    COLUMN(22, smallint, , latents)                                                                \
    COLUMN(23, smallint, , teleport)                                                               \
    COLUMN(24, bool, , embed_metadata)                                                             \
    COLUMN(25, bool, , lora_auto)                                                                  \
    COLUMN(26, text, , sigmas)                                                                     \
    COLUMN(27, text, , mode)                                                                       \
    COLUMN(28, text, , init_image)                                                                 \
    COLUMN(29, bigint, , init_job)                                                                 \
    COLUMN(30, bigint, , parent)                                                                   \
    COLUMN(31, text, , init_mask)                                                                  \
    COLUMN(32, text, , source)                                                                     \
    COLUMN(33, smallint, , alike)                                                                  \
    COLUMN(34, text, , prompt_drawn)                                                               \
    COLUMN(35, text, , route)
/* What the statement says of a column, each with a comma before it. */
#define KILN_INSERT_NAME(number, type, cast, name) ", " #name
#define KILN_INSERT_ARRAY(number, type, cast, name) ", $" #number "::" #type "[]"
#define KILN_INSERT_VALUE(number, type, cast, name) ", u." #name #cast
#define KILN_INSERT_EITHER(number, type, cast, name) ", coalesce(u." #name ", s." #name ")" #cast
#define KILN_INSERT_ONLY(number, type, cast, name)                                                 \
    ", CASE WHEN cardinality($" #number "::" #type "[]) = 1 THEN ($" #number ")[1] END AS " #name
#define KILN_INSERT_NAMES KILN_INSERT_OWN(KILN_INSERT_NAME) KILN_INSERT_SHARED(KILN_INSERT_NAME)
#define KILN_INSERT_ARRAYS KILN_INSERT_OWN(KILN_INSERT_ARRAY) KILN_INSERT_SHARED(KILN_INSERT_ARRAY)
#define KILN_INSERT_VALUES KILN_INSERT_OWN(KILN_INSERT_VALUE) KILN_INSERT_SHARED(KILN_INSERT_EITHER)
#define KILN_INSERT_ONES KILN_INSERT_SHARED(KILN_INSERT_ONLY)

/* $1 is the pool, $2 to $36 are an array a column, as kiln_bind_jobs fills them; what follows is
 * the caller's.  before: further parts of the WITH, each with a comma behind it; only: a WHERE for
 * the rows; known: what becomes of a job whose key is there, an error if "".  The caller ends it:
 * the jobs that were new are the rows of `made`.  unnest() pads an array of one shared value with
 * NULL, where coalesce() takes the value from `s`. */
#define KILN_INSERT_SQL(before, only, known)                                                       \
    "WITH " before "made AS ("                                                                     \
    "  INSERT INTO job (pool, batch_id" KILN_INSERT_NAMES ")"                                      \
    "  SELECT $1::text, u.batch_id" KILN_INSERT_VALUES "  FROM (SELECT 1" KILN_INSERT_ONES         \
    " OFFSET 0) AS s,"                                                                             \
    "    unnest($2::bigint[]" KILN_INSERT_ARRAYS ") AS u (batch_id" KILN_INSERT_NAMES ") " only    \
    " " known " RETURNING batch_id, token, index, tenant"                                          \
    "), counted AS ("                                                                              \
    "  INSERT INTO batch_tally AS t (batch_id, shard, queued)"                                     \
    "  SELECT batch_id, pg_backend_pid() % 32, count(*) FROM made GROUP BY 1 ORDER BY 1"           \
    "  ON CONFLICT (batch_id, shard) DO UPDATE SET queued = t.queued + excluded.queued"            \
    "), owned AS ("                                                                                \
    "  INSERT INTO batch_tenant SELECT DISTINCT batch_id, tenant FROM made ORDER BY 1, 2"          \
    "  ON CONFLICT DO NOTHING"                                                                     \
    "), fresh AS ("                                                                                \
    "  SELECT g.batch_id, g.token, max(g.entry) AS entry,"                                         \
    "    count(*) FILTER (WHERE g.entry > coalesce(c.entry, 0) OR g.entry = 0) AS jobs"            \
    "  FROM unnest($2, $4, $36::bigint[]) AS g (batch_id, token, entry)"                           \
    "  LEFT JOIN intake_call c USING (batch_id, token) GROUP BY 1, 2"                              \
    "), gained AS (SELECT batch_id, token, count(*) AS jobs FROM made GROUP BY 1, 2"               \
    "), called AS ("                                                                               \
    "  INSERT INTO intake_call AS c (batch_id, token, entry, accepted, duplicate)"                 \
    "  SELECT f.batch_id, f.token, f.entry, coalesce(g.jobs, 0),"                                  \
    "    greatest(f.jobs - coalesce(g.jobs, 0), 0)"                                                \
    "  FROM fresh f LEFT JOIN gained g USING (batch_id, token) " only " ORDER BY 1, 2"             \
    "  ON CONFLICT (batch_id, token) DO UPDATE SET accepted = c.accepted + excluded.accepted,"     \
    "    duplicate = c.duplicate + excluded.duplicate, entry = greatest(c.entry, excluded.entry)"  \
    ") "

/* A job whose key is there is left out. */
#define KILN_INSERT_SKIPS "ON CONFLICT (batch_id, key) DO NOTHING"

/* How many taken numbers one statement of kiln_ledger_number passes one by one. */
#define KILN_NUMBER_WALK 10000

/* The account of a backfill o after it made m.jobs jobs.  After an outage of the scheduler it
 * catches up on at most a minute of its rate. */
#define KILN_BACKFILL_CATCH_UP "interval '1 minute'"
#define KILN_BACKFILL_MADE                                                                         \
    "made = o.made + m.jobs, topped_at = now(), due_at = CASE WHEN o.rate IS NULL THEN o.due_at"   \
    " ELSE greatest(o.due_at, now() - " KILN_BACKFILL_CATCH_UP                                     \
    ") + make_interval(secs => m.jobs * 3600 / o.rate) END"

/* Binds $2 to $36: ids[i] is the batch row of jobs[i]. */
void kiln_bind_jobs(struct kiln_params *params, const struct kiln_new_job *jobs, size_t count,
                    const uint64_t *ids);

/* ids[i] = the batch row of jobs[i], made if it is not there. */
int kiln_batch_ids(struct kiln_ledger *ledger, const char *pool, const struct kiln_new_job *jobs,
                   size_t count, uint64_t *ids, struct kiln_error *err) KILN_MUST_CHECK;

#endif
