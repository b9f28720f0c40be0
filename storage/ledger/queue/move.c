/* move.c - the only code that changes the state of a job.
 *
 * Every move is one SQL statement, hence one transaction, of the same four parts:
 *
 *     locked   finds and locks the rows that are still in a state the move may start from
 *     moved    updates them and returns what they were and are
 *     logged   one event row a moved job
 *     counted  the sums by state of the batches concerned, and when they last changed
 *
 * The states are parameters, taken from the table below and checked against kiln_move_legal(): the
 * SQL names none.  (As parameters they also keep the planner from walking a partial index, which an
 * out-of-date estimate may call empty, where the primary key is meant.)  Rows are locked in order
 * of id and counters in order of batch, so that moves wait for each other instead of deadlocking.
 *
 * A job is locked only if it still is what the caller believes: queued for an assignment, at the
 * same attempt for a commit or a return.  The second of two callers finds no row.  That is the
 * fence.
 */
#include "storage/ledger/queue/move.h"

#include <assert.h>

#include "storage/ledger/queue/insert.h"

#define CHANGE(state, name, number)                                                                \
    ", count(*) FILTER (WHERE state = " #number ") - count(*) FILTER (WHERE was = " #number ")"
#define CHANGES KILN_JOB_STATES(CHANGE)

/* After `moved` (id, batch_id, was, state, code, attempt, worker, reason). */
#define RECORD                                                                                     \
    ", logged AS ("                                                                                \
    "  INSERT INTO event (job_id, was, state, code, attempt, worker, reason)"                      \
    "  SELECT id, was, state, code, attempt, worker, reason FROM moved"                            \
    "), counted AS ("                                                                              \
    "  INSERT INTO batch_tally AS t (batch_id, shard, first_at, last_at" KILN_TALLY_COLUMNS        \
    ")  SELECT batch_id, pg_backend_pid() % 32, now(), now()" CHANGES                              \
    "  FROM moved GROUP BY batch_id ORDER BY batch_id ON CONFLICT (batch_id, shard) DO UPDATE"     \
    "  SET first_at = coalesce(t.first_at, excluded.first_at),"                                    \
    "    last_at = excluded.last_at" KILN_TALLY_ADDS ") "

/* $3 ids, $4 worker, $5 assignment.  Rows that someone else has locked are about to change: they
 * are left out.  The answer includes jobs that hold this assignment already, from an earlier run of
 * the same call whose answer was lost.  $6 may say how the transaction is flushed; NULL leaves that
 * to the server. */
#define ASSIGN_SQL                                                                                 \
    "WITH locked AS ("                                                                             \
    "  SELECT id, state AS was FROM job"                                                           \
    "  WHERE id = ANY ($3::bigint[]) AND state = ANY ($1::smallint[])"                             \
    "  ORDER BY id FOR UPDATE SKIP LOCKED"                                                         \
    "), moved AS ("                                                                                \
    "  UPDATE job AS j SET state = $2::smallint, attempt = j.attempt + 1, tries = j.tries + 1,"    \
    "    worker = $4::text, assignment = $5::text, assigned_at = now()"                            \
    "  FROM locked WHERE j.id = locked.id"                                                         \
    "  RETURNING j.*, locked.was, 0::smallint AS code, NULL::text AS reason"                       \
    ")" RECORD ", handed AS ("                                                                     \
    "  INSERT INTO assignment AS a (pool, id, worker, jobs)"                                       \
    "  SELECT pool, $5, $4, array_agg(id ORDER BY id) FROM moved GROUP BY pool"                    \
    "  ON CONFLICT (pool, id) DO UPDATE SET at = excluded.at, jobs ="                              \
    "    ARRAY(SELECT id FROM unnest(a.jobs || excluded.jobs) g (id) GROUP BY id ORDER BY id)"     \
    "), told AS ("                                                                                 \
    "  SELECT set_config('synchronous_commit', coalesce($6,"                                       \
    "    current_setting('synchronous_commit')), true) AS set"                                     \
    ") SELECT " KILN_JOB_COLUMNS " FROM moved j JOIN batch b ON b.id = j.batch_id, told "          \
    "UNION ALL SELECT " KILN_JOB_COLUMNS " FROM job j JOIN batch b ON b.id = j.batch_id "          \
    "WHERE j.id = ANY ($3) AND j.state = $2 AND j.assignment = $5"

/* $3 id, $4 attempt, $5 worker; the picture from $6 on.  True also for a job that this very attempt
 * has completed: a repeated commit.  The rows of the picture take the job's own words; $12 is the
 * hash of those that were written, $35 of those that were drawn.  $27 may say how the transaction
 * is flushed; NULL leaves that to the server. */
#define COMMIT_SQL                                                                                 \
    "WITH locked AS ("                                                                             \
    "  SELECT id, state AS was FROM job WHERE id = $3::bigint AND attempt = $4::integer"           \
    "  AND state = ANY ($1::smallint[]) FOR UPDATE"                                                \
    "), moved AS ("                                                                                \
    "  UPDATE job AS j SET state = $2::smallint, worker = $5::text, finished_at = now(),"          \
    "    error_code = 0, error = NULL"                                                             \
    "  FROM locked WHERE j.id = locked.id"                                                         \
    "  RETURNING j.*, locked.was, 0::smallint AS code, NULL::text AS reason"                       \
    ")" RECORD ", pictured AS ("                                                                   \
    "  INSERT INTO image (job_id, batch_id, seed, guidance, width, height, steps, attempt,"        \
    "    wait_ms, text_ms, denoise_ms, decode_ms, encode_ms, upload_ms, pool, prompt,"             \
    "    negative_prompt, prompt_hash, model, model_name, model_hash, loras, lora_set, style,"     \
    "    tenant, worker, mode, forwards, donor, hit, fallback, start_sigma, own_forwards,"         \
    "    start, parent)"                                                                           \
    "  SELECT id, batch_id, seed, guidance, width, height, steps, attempt, $6::real, $7::real,"    \
    "    $8::real, $9::real, $10::real, $11::real, pool, prompt, negative_prompt, $12::text,"      \
    "    model, $13::text, $14::text, loras, lora_set, style, tenant, worker,"                     \
    "    $30::text, $31::real, nullif($32::bigint, 0), nullif($33::smallint, 0), $34::text,"       \
    "    nullif($36::real, 0), nullif($37::real, 0), $38::text, parent"                            \
    "  FROM moved WHERE kind = 0"                                                                  \
    "), stored AS ("                                                                               \
    "  INSERT INTO object (job_id, role, key, sha256, bytes, width, height, content_type)"         \
    "  SELECT moved.id, o.* FROM moved, unnest($15::text[], $16::text[], $17::text[],"             \
    "    $18::bigint[], $19::integer[], $20::integer[], $21::text[]) AS o"                         \
    "), cached AS ("                                                                               \
    "  INSERT INTO latent (job_id, sigma, seed, guidance, width, height, steps, states, shape,"    \
    "    key, encoding, model, model_hash, lora_set, prompt_hash, sigmas, gpu_ms,"                 \
    "    lora_files, mode, forwards, start, parent)"                                               \
    "  SELECT id, $22::double precision, seed, guidance, width, height, steps, $23::integer,"      \
    "    $24::integer[], $25::text, $26::text, model, $14, lora_set, $35::text, $28::float8[],"    \
    "    CASE WHEN kind = 1 THEN $7 + $8 + $9 END, string_to_array($29::text, '+'), $30, $31,"     \
    "    $38, parent"                                                                              \
    "  FROM moved WHERE $26 IS NOT NULL"                                                           \
    ") SELECT EXISTS (SELECT FROM moved) OR EXISTS ("                                              \
    "  SELECT FROM job WHERE id = $3 AND attempt = $4 AND state = $2),"                            \
    "  set_config('synchronous_commit', coalesce($27, current_setting('synchronous_commit')), "    \
    "true)"

/* $4 ids, $5 attempts, $6 codes, $7 reasons, $8 crashed, $9 final, $10 max attempts, $11 first
 * pause in s, $12 longest pause.  The pause is uniform below base * 2^(tries - 1): full jitter.
 * A return with code 0 does not count as a try.  A repeated return answers with the state that the
 * first one led to. */
#define RETURN_SQL                                                                                 \
    "WITH given AS ("                                                                              \
    "  SELECT * FROM unnest($4::bigint[], $5::integer[], $6::smallint[], $7::text[], $8::bool[],"  \
    "    $9::bool[]) AS g (id, attempt, code, reason, crashed, final)"                             \
    "), locked AS ("                                                                               \
    "  SELECT j.id, j.state AS was, g.code, g.reason, g.final,"                                    \
    "    j.tries - (g.code = 0)::integer AS tries, j.crashes + g.crashed::integer AS crashes"      \
    "  FROM given g JOIN job j ON j.id = g.id AND j.attempt = g.attempt"                           \
    "  WHERE j.state = ANY ($1::smallint[]) ORDER BY j.id FOR UPDATE OF j"                         \
    "), judged AS ("                                                                               \
    "  SELECT id, was, code, reason, tries, crashes, crashes >= $10::integer AS poisoned,"         \
    "    code <> 0 AND (final OR tries >= $10 OR crashes >= $10) AS over FROM locked"              \
    "), moved AS ("                                                                                \
    "  UPDATE job AS j SET tries = v.tries, crashes = v.crashes,"                                  \
    "    state = CASE WHEN v.over THEN $3::smallint ELSE $2::smallint END,"                        \
    "    finished_at = CASE WHEN v.over THEN now() END,"                                           \
    "    not_before = CASE WHEN v.code = 0 THEN j.not_before ELSE now() + make_interval("          \
    "      secs => random() * least($11::float8 * 2 ^ least(v.tries - 1, 60), $12::float8)) END,"  \
    "    error_code = CASE WHEN v.code = 0 THEN j.error_code"                                      \
    "      WHEN v.over AND v.poisoned THEN 18 ELSE v.code END,"                                    \
    "    error = CASE WHEN v.code = 0 THEN j.error WHEN v.over AND v.poisoned THEN"                \
    "      format('its worker died %s times while it was rendered; last: %s',"                     \
    "        v.crashes, v.reason)"                                                                 \
    "      ELSE v.reason END"                                                                      \
    "  FROM judged v WHERE j.id = v.id"                                                            \
    "  RETURNING j.id, j.batch_id, v.was, j.state, CASE WHEN v.code = 0 THEN 0::smallint"          \
    "    ELSE j.error_code END AS code, j.attempt, j.worker, v.reason"                             \
    ")" RECORD "SELECT id, attempt, state FROM moved UNION ALL "                                   \
    "SELECT j.id, j.attempt, j.state FROM given g JOIN job j ON j.id = g.id "                      \
    "AND j.attempt = g.attempt WHERE j.state IN ($2, $3)"

/* $3 pool, $4 id. */
#define LOCK_ONE                                                                                   \
    "WITH locked AS (SELECT id, state AS was FROM job WHERE id = $4::bigint"                       \
    "  AND pool = $3::text AND state = ANY ($1::smallint[]) FOR UPDATE), "

/* $3 batch id, $4 key to start after, $5 how many rows to look at: a page in order of the index
 * (batch_id, key).  Those in other states count, too: a million finished jobs are not passed over
 * in one statement. */
#define LOCK_PAGE                                                                                  \
    "WITH page AS MATERIALIZED (SELECT id, key FROM job WHERE batch_id = $3::bigint"               \
    "  AND key > $4::text ORDER BY key LIMIT $5::integer"                                          \
    "), locked AS (SELECT id, state AS was FROM job WHERE id = ANY (ARRAY(SELECT id FROM page))"   \
    "  AND state = ANY ($1::smallint[]) ORDER BY id FOR UPDATE), "
#define PAGE_TAIL                                                                                  \
    "SELECT (SELECT count(*) FROM locked), (SELECT max(key) FROM page), (SELECT count(*) FROM "    \
    "page)"
#define ONE_TAIL "SELECT count(*) FROM locked"

#define CANCEL                                                                                     \
    "moved AS ("                                                                                   \
    "  UPDATE job AS j SET state = $2::smallint, finished_at = now()"                              \
    "  FROM locked WHERE j.id = locked.id RETURNING j.id, j.batch_id, locked.was, j.state,"        \
    "    12::smallint AS code, j.attempt, j.worker, NULL::text AS reason"                          \
    ")" RECORD

#define RETRY                                                                                      \
    "moved AS ("                                                                                   \
    "  UPDATE job AS j SET state = $2::smallint, tries = 0, crashes = 0, queued_at = now(),"       \
    "    not_before = '-infinity', finished_at = NULL, error_code = 0, error = NULL"               \
    "  FROM locked WHERE j.id = locked.id RETURNING j.id, j.batch_id, locked.was, j.state,"        \
    "    0::smallint AS code, j.attempt, j.worker, 'retry'::text AS reason"                        \
    ")" RECORD

/* $3 batch id, $4 the backfill, $5 its cursor as it was read, $6 keys of jobs that it made before.
 */
#define RETRY_DUE_SQL                                                                              \
    "WITH ours AS (SELECT id FROM backfill WHERE id = $4::bigint AND cursor = $5::bigint"          \
    "  FOR UPDATE"                                                                                 \
    "), locked AS (SELECT j.id, j.key, j.state AS was FROM ours, job j"                            \
    "  WHERE j.batch_id = $3::bigint AND j.key = ANY ($6::text[]) AND j.state = ANY "              \
    "($1::smallint[])"                                                                             \
    "  ORDER BY j.id FOR UPDATE OF j"                                                              \
    "), " RETRY ", paid AS (UPDATE backfill o SET " KILN_BACKFILL_MADE                             \
    "  FROM (SELECT count(*) AS jobs FROM moved) m WHERE o.id = $4 AND m.jobs > 0) "               \
    "SELECT count(*) FROM locked"

#define CANCEL_SQL LOCK_ONE CANCEL ONE_TAIL
#define CANCEL_BATCH_SQL LOCK_PAGE CANCEL PAGE_TAIL
#define RETRY_SQL LOCK_ONE RETRY ONE_TAIL
#define RETRY_BATCH_SQL LOCK_PAGE RETRY PAGE_TAIL

#define QUEUED KILN_JOB_QUEUED
#define ASSIGNED KILN_JOB_ASSIGNED
#define DONE KILN_JOB_DONE
#define FAILED KILN_JOB_FAILED
#define CANCELLED KILN_JOB_CANCELLED
#define NONE (-1)

static const struct {
    struct kiln_statement statement;
    int from[2], to, otherwise;
} moves[KILN_MOVE_COUNT] = {
    [KILN_MOVE_ASSIGN] = {{"assign", ASSIGN_SQL}, {QUEUED, NONE}, ASSIGNED, NONE},
    [KILN_MOVE_COMMIT] = {{"commit", COMMIT_SQL}, {ASSIGNED, NONE}, DONE, NONE},
    [KILN_MOVE_RETURN] = {{"return", RETURN_SQL}, {ASSIGNED, NONE}, QUEUED, FAILED},
    [KILN_MOVE_CANCEL] = {{"cancel", CANCEL_SQL}, {QUEUED, ASSIGNED}, CANCELLED, NONE},
    [KILN_MOVE_CANCEL_BATCH] = {{"cancel_batch", CANCEL_BATCH_SQL},
                                {QUEUED, ASSIGNED},
                                CANCELLED,
                                NONE},
    [KILN_MOVE_RETRY] = {{"retry", RETRY_SQL}, {FAILED, CANCELLED}, QUEUED, NONE},
    [KILN_MOVE_RETRY_BATCH] = {{"retry_batch", RETRY_BATCH_SQL}, {FAILED, CANCELLED}, QUEUED, NONE},
    [KILN_MOVE_RETRY_DUE] = {{"retry_due", RETRY_DUE_SQL}, {CANCELLED, NONE}, QUEUED, NONE},
};

const struct kiln_statement *kiln_move_begin(enum kiln_move move, struct kiln_params *params)
{
    const int *states = moves[move].from, otherwise = moves[move].otherwise;
    struct kiln_array from;
    kiln_array_start(&from, KILN_ARRAY_INT2);
    for (int i = 0; i < 2 && states[i] != NONE; i++) {
        enum kiln_job_state state = (enum kiln_job_state)states[i];
        assert(kiln_move_legal(state, (enum kiln_job_state)moves[move].to));
        assert(otherwise == NONE || kiln_move_legal(state, (enum kiln_job_state)otherwise));
        kiln_array_int(&from, state);
    }
    kiln_bind_array(params, &from);
    KILN_BIND(params, moves[move].to);
    if (otherwise != NONE)
        KILN_BIND(params, otherwise);
    return &moves[move].statement;
}

const struct kiln_statement kiln_flush_statement = {
    "flush", "SELECT pg_logical_emit_message(true, 'kiln', 'flush')"};
