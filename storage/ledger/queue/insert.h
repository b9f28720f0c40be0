/* insert.h - the statement that inserts jobs, shared by intake.c (jobs that clients enqueue) and
 * top_up.c (jobs of backfills), so that both keep the same sums and accounts.
 */
#ifndef KILN_LEDGER_INSERT_H
#define KILN_LEDGER_INSERT_H

#include "storage/ledger/internal.h"

/* $1 is the pool, $2 to $36 are an array a column, as kiln_bind_jobs fills them; what follows is
 * the caller's.  before: further parts of the WITH, each with a comma behind it; only: a WHERE for
 * the rows.  The caller ends it: the jobs that were new are the rows of `made`. */
#define KILN_INSERT_SQL(before, only)                                                              \
    "WITH " before "made AS ("                                                                     \
    "  INSERT INTO job (pool, batch_id, key, token, custom_id, index, prompt, negative_prompt,"    \
    "    style, tenant, model, loras, lora_set, seed, guidance, width, height, steps, max_wait_s," \
    "    priority, kind, latents, teleport, embed_metadata, lora_auto, sigmas,"                    \
    "    mode, init_image, init_job, parent, init_mask, source, alike, prompt_drawn, route)"       \
    "  SELECT $1::text, u.* FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[],"         \
    "    $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],"              \
    "    $12::text[]::jsonb[], $13::text[], $14::text[]::numeric[], $15::float8[], "               \
    "$16::integer[],"                                                                              \
    "    $17::integer[], $18::integer[], $19::integer[], $20::smallint[], $21::smallint[],"        \
    "    $22::smallint[], $23::smallint[], $24::bool[], $25::bool[], $26::text[], $27::text[],"    \
    "    $28::text[], $29::bigint[], $30::bigint[], $31::text[], $32::text[], $33::smallint[],"    \
    "    $34::text[], $35::text[])"                                                                \
    "    AS u " only                                                                               \
    "  ON CONFLICT (batch_id, key) DO NOTHING RETURNING batch_id, token, index, tenant"            \
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
