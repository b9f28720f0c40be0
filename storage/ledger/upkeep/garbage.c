/* garbage.c - see garbage.h.
 *
 * The check "is this object an orphan?" and its removal must be atomic.  Otherwise a job that is
 * retried, rendered and committed in between loses its picture.  So the last check locks the jobs:
 * an assignment skips a locked row, a retry waits for it.  A job is read twice: as it was when the
 * statement began (p) and under the lock (l).  The absence of an object row is of the statement's
 * beginning, so it counts only if both agree.
 */
#include "storage/ledger/upkeep/garbage.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/job/inputs.h"
#include "storage/ledger/internal.h"
#include "storage/objects/store.h"

/* Rows that a page reads, and removes at most.  They are literals in the statements: for a LIMIT
 * that is a parameter a generic plan assumes a tenth of the table. */
#define READ_PAGE "2000"
#define DROP_PAGE "200"

/* --- keys ------------------------------------------------------------------------------------- */

/* Steps over a part of a key and its '/'; false: there is none. */
static bool skip_part(const char **at)
{
    size_t len = strcspn(*at, "/");
    if (len == 0 || (*at)[len] != '/')
        return false;
    *at += len + 1;
    return true;
}

/* A job's number, with the byte that must follow it. */
static bool read_job(const char *at, char end, uint64_t *ret)
{
    char *rest;
    size_t digits = strspn(at, "0123456789");
    if (digits == 0 || digits > 18 || at[0] == '0' || at[digits] != end)
        return false;
    *ret = strtoull(at, &rest, 10);
    return true;
}

/* Whether the rest of a key is one part that ends like this. */
static bool last_part(const char *at, const char *end)
{
    size_t len = strlen(at), tail = strlen(end);
    return !strchr(at, '/') && len > tail && strcmp(at + len - tail, end) == 0;
}

bool kiln_found_job(const char *key, uint64_t *ret_job)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789/._-";
    const char *at = key;
    *ret_job = 0;
    if (kiln_input_key_valid(key) || kiln_lora_key_valid(key))
        return true;
    if (key[strspn(key, letters)] || !skip_part(&at))
        return false;
    if (strncmp(key, "probe/", 6) == 0)
        return strlen(at) == 16 && strspn(at, "0123456789abcdef") == 16;
    bool latent = strncmp(key, "latents/", 8) == 0;
    if (!latent && strncmp(key, "images/", 7) != 0)
        return false;
    if ((latent && !skip_part(&at)) || !skip_part(&at) || !skip_part(&at)) /* model, year, month */
        return false;
    if (latent)
        return read_job(at, '-', ret_job) && last_part(at, ".safetensors.zst");
    if (!read_job(at, '/', ret_job) || !skip_part(&at) || !last_part(at, ".webp"))
        return false;
    if (*ret_job == KILN_PROBE_JOB) /* which no ledger has to know */
        *ret_job = 0;
    return true;
}

/* --- objects ---------------------------------------------------------------------------------- */

/* Whether a job needs the picture to start from or as a mask, or its record names it beside a
 * result.  Two look-ups, each by the index of its column. */
#define IS_INPUT_OF(column)                                                                        \
    "EXISTS (SELECT FROM job i WHERE i." column " = g.key AND " KILN_JOB_KEEPS_INPUT("i") ")"
#define IS_NAMED_INPUT                                                                             \
    "(g.key LIKE '" KILN_INPUTS_PREFIX "%'"                                                        \
    " AND (" IS_INPUT_OF("init_image") " OR " IS_INPUT_OF("init_mask") "))"

/* The registry of now, or a job, has the LoRA's file.  The last check is the function of the
 * database lora_file_free, under its lock. */
#define IS_LORA "g.key LIKE '" KILN_LORAS_PREFIX "%'"
#define LORA_SHA256 "substr(g.key, 7, 64)"
#define IS_NAMED_LORA                                                                              \
    "(" IS_LORA " AND (EXISTS (SELECT FROM lora v WHERE v.sha256 = " LORA_SHA256                   \
    " AND v.until IS NULL) OR EXISTS (SELECT FROM job i WHERE i.loras <> '[]'"                     \
    " AND jsonb_path_query_array(i.loras, '$[*].sha256') ? " LORA_SHA256                           \
    " AND " KILN_JOB_KEEPS_INPUT("i") ")))"

int kiln_ledger_claims(struct kiln_ledger *ledger, const struct kiln_found *objects, size_t count,
                       enum kiln_claim *ret, struct kiln_error *err)
{
    static const struct kiln_statement ask = {
        "claims", "SELECT CASE WHEN o.key IS NOT NULL OR " IS_NAMED_INPUT " OR " IS_NAMED_LORA
                  " THEN 0 WHEN j.state IN " KILN_SQL_UNFINISHED " THEN 1"
                  "  WHEN g.job <= (SELECT last_value FROM job_id_seq) THEN 2 ELSE 3 END"
                  " FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS g (key, job, n)"
                  " LEFT JOIN object o ON o.key = g.key COLLATE \"C\""
                  " LEFT JOIN job j ON j.id = g.job ORDER BY g.n"};
    static_assert(KILN_CLAIM_ROW == 0 && KILN_CLAIM_LIVE == 1 && KILN_CLAIM_NONE == 2 &&
                      KILN_CLAIM_UNKNOWN == 3,
                  "the numbers in the statement");
    struct kiln_params params = {0};
    KILN_BIND_COLUMN(&params, TEXT, count, objects[i].key);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)objects[i].job);
    PGresult *rows;
    int rc = kiln_ledger_run(ledger, &ask, &params, &rows, err);
    if (rc != 0)
        return rc;
    for (int i = 0; i < PQntuples(rows) && (size_t)i < count; i++)
        ret[i] = (enum kiln_claim)kiln_row_i64(rows, i, 0);
    PQclear(rows);
    return 0;
}

struct unclaimed_walk {
    kiln_use_unclaimed *use;
    void *arg;
    size_t n, at[KILN_UNCLAIMED_MAX];
};

/* Every row names how many there are, so that the last one is known while they are locked. */
static int take_unclaimed(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct unclaimed_walk *walk = arg;
    if (walk->n == KILN_UNCLAIMED_MAX)
        return kiln_fail(err, KILN_INTERNAL, "more than %d objects at a time", KILN_UNCLAIMED_MAX);
    walk->at[walk->n++] = (size_t)kiln_row_u64(rows, row, 0) - 1;
    bool last = walk->n == kiln_row_u64(rows, row, 1);
    return last ? walk->use(walk->arg, walk->at, walk->n, err) : 0;
}

int kiln_ledger_with_unclaimed(struct kiln_ledger *ledger, const struct kiln_found *objects,
                               size_t count, kiln_use_unclaimed *use, void *arg,
                               struct kiln_error *err)
{
    static const struct kiln_statement look = {
        "unclaimed",
        "WITH l AS MATERIALIZED ("
        "  SELECT id, state FROM job WHERE id = ANY ($2::bigint[]) ORDER BY id"
        "  FOR SHARE SKIP LOCKED"
        ") SELECT g.n, count(*) OVER ()"
        " FROM unnest($1::text[], $2) WITH ORDINALITY AS g (key, job, n)"
        " LEFT JOIN l ON l.id = g.job LEFT JOIN job p ON p.id = g.job"
        " WHERE (p.id IS NULL OR (p.state IN " KILN_SQL_ENDED " AND l.state = p.state))"
        " AND NOT EXISTS (SELECT FROM object o WHERE o.key = g.key COLLATE \"C\")"
        " AND NOT " IS_NAMED_INPUT " AND CASE WHEN " IS_LORA " THEN lora_file_free(" LORA_SHA256
        ") ELSE true END"
        " ORDER BY g.n"};
    struct unclaimed_walk walk = {.use = use, .arg = arg};
    struct kiln_params params = {0};
    KILN_BIND_COLUMN(&params, TEXT, count, objects[i].key);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)objects[i].job);
    return kiln_ledger_each_locked(ledger, &look, &params, take_unclaimed, &walk, err);
}

/* --- rows ------------------------------------------------------------------------------------- */

int kiln_ledger_drop_cancelled(struct kiln_ledger *ledger, const char *pool, int64_t age_s,
                               bool dry_run, uint64_t *cursor, uint64_t *ret_count, bool *ret_more,
                               struct kiln_error *err)
{
    /* Walked in order of id: no index by state is kept for this alone.  The batch's sums
     * follow, and their keys are kept with it. */
    static const struct kiln_statement drop = {
        "drop_cancelled",
        "WITH page AS MATERIALIZED (SELECT id, pool, state, finished_at FROM job"
        "  WHERE id > $2::bigint ORDER BY id LIMIT " READ_PAGE
        "), old AS MATERIALIZED (SELECT j.id, j.batch_id FROM page p JOIN job j ON j.id = p.id"
        "  WHERE p.pool = $1::text AND p.state = " KILN_SQL_CANCELLED
        "  AND j.state = " KILN_SQL_CANCELLED
        "  AND p.finished_at < now() - $3::bigint * interval '1 second'"
        "  AND NOT EXISTS (SELECT FROM object o WHERE o.job_id = p.id)"
        "  ORDER BY j.id FOR UPDATE OF j SKIP LOCKED"
        "), told AS (DELETE FROM event e USING old WHERE e.job_id = old.id AND NOT $4::boolean"
        "), gone AS (DELETE FROM job j USING old WHERE j.id = old.id AND NOT $4"
        "  RETURNING j.batch_id, j.key"
        "), kept AS (INSERT INTO removed_job (batch_id, key) SELECT batch_id, key FROM gone"
        "  ORDER BY batch_id, key ON CONFLICT DO NOTHING"
        "), counted AS (INSERT INTO batch_tally AS t (batch_id, shard, cancelled)"
        "  SELECT batch_id, pg_backend_pid() % 32, -count(*) FROM gone"
        "  GROUP BY batch_id ORDER BY batch_id"
        "  ON CONFLICT (batch_id, shard) DO UPDATE"
        "  SET cancelled = t.cancelled + excluded.cancelled"
        ") SELECT (SELECT count(*) FROM old), max(id), count(*) = " READ_PAGE " FROM page"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, *cursor, age_s, dry_run);
    return kiln_ledger_ask(ledger, &drop, &params, KILN_FIELDS(*ret_count, *cursor, *ret_more),
                           err);
}

/* What the accounts keep of rows that go; `gone` has pool, tenant, day, pictures, gpu_seconds and
 * saved. */
#define KEPT                                                                                       \
    "kept AS (INSERT INTO usage_removed AS u (pool, tenant, day, jobs, pictures, gpu_seconds,"     \
    "  gpu_seconds_saved) SELECT pool, tenant, day, count(*), sum(pictures),"                      \
    "  coalesce(sum(gpu_seconds), 0), sum(saved) FROM gone"                                        \
    "  GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"                                                          \
    "  ON CONFLICT (pool, tenant, day) DO UPDATE SET jobs = u.jobs + excluded.jobs,"               \
    "  pictures = u.pictures + excluded.pictures,"                                                 \
    "  gpu_seconds = u.gpu_seconds + excluded.gpu_seconds,"                                        \
    "  gpu_seconds_saved = u.gpu_seconds_saved + excluded.gpu_seconds_saved)"
/* `page` is read in order of id however little of it is old, so that a page costs the same wherever
 * it lies; `old` is what goes of it.  Every row says where the next page begins and whether there
 * is one; without anything old that is all it says. */
#define THEIR_OBJECTS                                                                              \
    " SELECT n.at, n.more, o.job_id, s.key, s.bytes FROM (SELECT"                                  \
    "  CASE WHEN d.n = " DROP_PAGE " THEN d.last ELSE coalesce(p.last, $2) END AS at,"             \
    "  d.n = " DROP_PAGE " OR p.n = " READ_PAGE " AS more"                                         \
    "  FROM (SELECT count(*) AS n, max(job_id) AS last FROM page) p,"                              \
    "  (SELECT count(*) AS n, max(job_id) AS last FROM old) d) n"                                  \
    " LEFT JOIN old o ON true LEFT JOIN object s ON s.job_id = o.job_id ORDER BY o.job_id, s.key"

/* Runs one of the two statements below and reports the objects that lost their row. */
static int drop_page(struct kiln_ledger *ledger, const struct kiln_statement *drop,
                     const struct kiln_drop *what, uint64_t *cursor, uint64_t *ret_jobs,
                     bool *ret_more, struct kiln_error *err)
{
    PGresult *rows;
    struct kiln_params params = {0};
    uint64_t last = 0;
    KILN_BIND(&params, what->pool, *cursor, what->age_s, what->dry_run);
    int rc = kiln_ledger_run_agreed(ledger, drop, &params, &rows, err);
    if (rc != 0)
        return rc;
    *ret_jobs = 0;
    *cursor = kiln_row_u64(rows, 0, 0);
    *ret_more = kiln_row_bool(rows, 0, 1);
    for (int row = 0; row < PQntuples(rows) && rc == 0; row++) {
        uint64_t job = kiln_row_u64(rows, row, 2); /* 0: nothing is old here */
        *ret_jobs += job != last;
        last = job;
        if (kiln_row_text(rows, row, 3))
            rc = what->each(what->arg, job, kiln_row_text(rows, row, 3), kiln_row_u64(rows, row, 4),
                            err);
    }
    PQclear(rows);
    return rc;
}

int kiln_ledger_drop_pictures(struct kiln_ledger *ledger, const struct kiln_drop *what,
                              uint64_t *cursor, uint64_t *ret_pictures, bool *ret_more,
                              struct kiln_error *err)
{
    static const struct kiln_statement drop = {
        "drop_pictures",
        "WITH page AS MATERIALIZED (SELECT job_id, batch_id, created_at FROM image"
        "  WHERE job_id > $2::bigint ORDER BY job_id LIMIT " READ_PAGE
        "), old AS MATERIALIZED (SELECT p.job_id FROM page p JOIN batch b ON b.id = p.batch_id"
        "  WHERE b.pool = $1::text AND p.created_at < now() - $3::bigint * interval '1 second'"
        "  AND b.created_at < now() - $3 * interval '1 second'"
        "  AND NOT EXISTS (SELECT FROM favourite f WHERE f.job_id = p.job_id)"
        "  ORDER BY p.job_id LIMIT " DROP_PAGE "), cached AS (DELETE FROM latent l USING old"
        "  WHERE l.job_id = old.job_id AND NOT $4::boolean"
        "), stored AS (DELETE FROM object o USING old WHERE o.job_id = old.job_id AND NOT $4"
        "), gone AS (DELETE FROM image i USING old WHERE i.job_id = old.job_id AND NOT $4"
        "  RETURNING i.pool, i.tenant, (i.created_at AT TIME ZONE 'UTC')::date AS day,"
        "  1 AS pictures, (i.text_ms + i.denoise_ms + i.decode_ms)::float8 / 1000 AS gpu_seconds,"
        "  " KILN_SQL_SAVED_SECONDS " AS saved"
        "), " KEPT THEIR_OBJECTS};
    return drop_page(ledger, &drop, what, cursor, ret_pictures, ret_more, err);
}

int kiln_ledger_drop_latents(struct kiln_ledger *ledger, const struct kiln_drop *what,
                             uint64_t *cursor, uint64_t *ret_latents, bool *ret_more,
                             struct kiln_error *err)
{
    /* The cache's batch is as old as the cache, so a latent's own age counts. */
    static const struct kiln_statement drop = {
        "drop_latents",
        "WITH page AS MATERIALIZED (SELECT job_id, created_at FROM latent"
        " WHERE job_id > $2::bigint ORDER BY job_id LIMIT " READ_PAGE
        "), old AS MATERIALIZED (SELECT p.job_id FROM page p JOIN job j ON j.id = p.job_id"
        "  WHERE j.pool = $1::text AND j.kind = 1"
        "  AND p.created_at < now() - $3::bigint * interval '1 second'"
        "  AND latent_need(p.job_id) IS NULL"
        "  ORDER BY p.job_id LIMIT " DROP_PAGE "), cached AS (DELETE FROM latent l USING old"
        "  WHERE l.job_id = old.job_id AND NOT $4::boolean"
        "  RETURNING l.job_id, l.created_at, l.gpu_ms::float8 / 1000 AS gpu_seconds"
        "), stored AS (DELETE FROM object o USING old WHERE o.job_id = old.job_id AND NOT $4"
        "), gone AS (SELECT j.pool, j.tenant, (c.created_at AT TIME ZONE 'UTC')::date AS day,"
        "  0 AS pictures, c.gpu_seconds, 0 AS saved FROM cached c JOIN job j ON j.id = c.job_id"
        "), " KEPT THEIR_OBJECTS};
    static_assert(KILN_KIND_LATENT_CACHE == 1, "the number in the statement");
    return drop_page(ledger, &drop, what, cursor, ret_latents, ret_more, err);
}

/* --- eviction from the cache of latents ------------------------------------------------------- */

int kiln_ledger_latent_worths(struct kiln_ledger *ledger, const char *pool, uint64_t *cursor,
                              kiln_each_worth *each, void *arg, bool *ret_more,
                              struct kiln_error *err)
{
    /* Every row says where the next page begins and whether there is one. */
    static const struct kiln_statement list = {
        "latent_worths",
        "WITH page AS MATERIALIZED (SELECT * FROM latent WHERE job_id > $2::bigint"
        "  ORDER BY job_id LIMIT " READ_PAGE
        "), ours AS (SELECT l.job_id, o.bytes, l.states, l.created_at FROM page l"
        "  JOIN job j ON j.id = l.job_id AND j.pool = $1::text JOIN object o ON o.key = l.key"
        ") SELECT p.at, p.more, l.job_id, l.bytes, (SELECT coalesce(sum("
        KILN_SQL_SAVED_SECONDS "), 0) FROM image i WHERE i.donor = l.job_id),"
        " extract(epoch FROM now() - l.created_at)::bigint, l.states = 1"
        " FROM (SELECT coalesce(max(job_id), $2) AS at, count(*) = " READ_PAGE
        "  AS more FROM page) p LEFT JOIN ours l ON true ORDER BY l.job_id"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, pool, *cursor);
    int rc = kiln_ledger_run(ledger, &list, &params, &rows, err);
    if (rc)
        return rc;
    *cursor = kiln_row_u64(rows, 0, 0);
    *ret_more = kiln_row_bool(rows, 0, 1);
    for (int i = 0; i < PQntuples(rows) && rc == 0; i++) {
        struct kiln_latent_worth row;
        if (!kiln_row_text(rows, i, 2)) /* nothing of the pool is in the page */
            break;
        KILN_READ(rows, i, 2, row.job, row.bytes, row.seconds, row.age_s, row.final);
        rc = each(arg, &row, err);
    }
    PQclear(rows);
    return rc;
}

static int read_object(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    return ((kiln_each_dropped *)caller->each)(caller->arg, kiln_row_u64(rows, row, 0),
                                               kiln_row_text(rows, row, 1),
                                               kiln_row_u64(rows, row, 2), err);
}

int kiln_ledger_evict_latents(struct kiln_ledger *ledger, const char *pool, const uint64_t *jobs,
                              size_t count, bool dry_run, kiln_each_dropped *each, void *arg,
                              struct kiln_error *err)
{
    static const struct kiln_statement evict = {
        "evict_latents",
        "WITH locked AS MATERIALIZED (SELECT job_id FROM latent"
        "  WHERE job_id = ANY ($2::bigint[]) AND states = 1 ORDER BY job_id FOR UPDATE"
        "), unneeded AS MATERIALIZED (SELECT k.job_id, j.kind, j.pool, j.tenant FROM locked k"
        "  JOIN job j ON j.id = k.job_id WHERE j.pool = $1::text AND latent_need(k.job_id) IS NULL"
        "), named AS MATERIALIZED (SELECT o.job_id, o.key, o.bytes FROM unneeded u"
        "  JOIN latent l ON l.job_id = u.job_id JOIN object o ON o.key = l.key"
        "), cached AS (DELETE FROM latent l USING unneeded u WHERE l.job_id = u.job_id"
        "  AND NOT $3::boolean RETURNING u.*, l.created_at, l.gpu_ms::float8 / 1000 AS gpu_seconds"
        "), stored AS (DELETE FROM object o USING named n WHERE o.key = n.key AND NOT $3"
        "), gone AS (SELECT pool, tenant, (created_at AT TIME ZONE 'UTC')::date AS day,"
        "  0 AS pictures, gpu_seconds, 0 AS saved FROM cached WHERE kind = 1"
        "), " KEPT " SELECT job_id, key, bytes FROM named ORDER BY job_id"};
    static_assert(KILN_KIND_LATENT_CACHE == 1, "the number in the statement");
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i]);
    KILN_BIND(&params, dry_run);
    return kiln_ledger_run_each(ledger, &evict, &params, read_object, KILN_CALLER(each, arg), err);
}

/* --- samples ---------------------------------------------------------------------------------- */

int kiln_ledger_sample_objects(struct kiln_ledger *ledger, uint32_t count, kiln_each_dropped *each,
                               void *arg, struct kiln_error *err)
{
    /* The next job with objects behind a random number: as many index look-ups. */
    static const struct kiln_statement sample = {
        "sample_objects",
        "SELECT DISTINCT o.job_id, o.key, o.bytes FROM ("
        "  SELECT random() * m.last AS at FROM generate_series(1, $1::integer),"
        "  (SELECT max(job_id) AS last FROM object) m OFFSET 0) g,"
        " LATERAL (SELECT job_id, key, bytes FROM object WHERE job_id ="
        "  (SELECT job_id FROM object WHERE job_id >= g.at::bigint ORDER BY job_id LIMIT 1)) o"};
    struct kiln_params params = {0};
    KILN_BIND(&params, count);
    return kiln_ledger_each(ledger, &sample, &params, read_object, KILN_CALLER(each, arg), err);
}
