/* intake.c - jobs come in: bulk inserts, refusals, and the account of each enqueue call.
 *
 * A thousand jobs are one statement: each column travels as one array and unnest() makes rows of
 * them.  Those whose (batch, key) is there already are dropped.  In the same transaction the
 * batch's sums and the call's account (intake_call) grow.
 *
 * The stream delivers at least once, so counting must be repeatable.  Accepted counts inserted
 * rows. Duplicates leave no row, so the call keeps the newest stream entry that it has counted;
 * entries up to that one are not counted again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/queue/insert.h"
#include "storage/ledger/queue/quota.h"
#include "storage/ledger/queue/source.h"

#define CHUNK_JOBS 2000                /* of one statement */
#define CHUNK_BYTES (16 * 1024 * 1024) /* of texts in one statement, about */
#define WALKS 8 /* of one call, each over as many taken numbers as KILN_NUMBER_WALK */

/* --- batches by name ------------------------------------------------------------------------- */

/* The statement (find or make) with the batch names of the jobs, neighbours of one name once. */
static int find_batches(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                        const char *pool, const struct kiln_new_job *jobs, size_t count,
                        PGresult **ret, struct kiln_error *err)
{
    struct kiln_params params = {0};
    struct kiln_array names;
    KILN_BIND(&params, pool);
    kiln_array_start(&names, KILN_ARRAY_TEXT);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(jobs[i].job.batch, jobs[i - 1].job.batch) != 0)
            kiln_array_text(&names, jobs[i].job.batch);
    kiln_bind_array(&params, &names);
    return kiln_ledger_run(ledger, statement, &params, ret, err);
}

static bool id_of_batch(const PGresult *rows, const char *name, uint64_t *ret)
{
    for (int i = 0; i < PQntuples(rows); i++)
        if (strcmp(PQgetvalue(rows, i, 1), name) == 0) {
            *ret = kiln_row_u64(rows, i, 0);
            return true;
        }
    return false;
}

/* Fills ids[] from rows; false if a name is not among them. */
static bool resolve(const PGresult *rows, const struct kiln_new_job *jobs, size_t count,
                    uint64_t *ids)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(jobs[i].job.batch, jobs[i - 1].job.batch) == 0)
            ids[i] = ids[i - 1];
        else if (!id_of_batch(rows, jobs[i].job.batch, &ids[i]))
            return false;
    }
    return true;
}

/* ids[i] = the batch row of jobs[i], made if it is not there. */
int kiln_batch_ids(struct kiln_ledger *ledger, const char *pool, const struct kiln_new_job *jobs,
                   size_t count, uint64_t *ids, struct kiln_error *err)
{
    static const struct kiln_statement find = {
        "batches_find", "SELECT id, name FROM batch WHERE pool = $1 AND name = ANY ($2::text[])"};
    static const struct kiln_statement make = {
        "batches_make", "INSERT INTO batch (pool, name) SELECT DISTINCT $1::text, n"
                        " FROM unnest($2::text[]) n ORDER BY n ON CONFLICT DO NOTHING"};
    bool found = false;
    for (int round = 0; round < 2 && !found; round++) {
        PGresult *rows = NULL;
        int rc = round ? find_batches(ledger, &make, pool, jobs, count, NULL, err) : 0;
        if (rc == 0)
            rc = find_batches(ledger, &find, pool, jobs, count, &rows, err);
        if (rc != 0)
            return rc;
        found = resolve(rows, jobs, count, ids);
        PQclear(rows);
    }
    return found ? 0 : kiln_fail(err, KILN_STALE, "ledger: a batch vanished while jobs came in");
}

/* --- jobs ---------------------------------------------------------------------------------- */

/* "ms-seq" as one growing number; 0 for NULL.  2^20 entries a millisecond are beyond any Redis. */
static int64_t entry_number(const char *id)
{
    if (!id)
        return 0;
    char *end;
    unsigned long long ms = strtoull(id, &end, 10);
    unsigned long long sequence = *end == '-' ? strtoull(end + 1, NULL, 10) : 0;
    if (sequence >= 1u << 20)
        sequence = (1u << 20) - 1;
    return (int64_t)((ms & 0x7ffffffffffULL) << 20 | sequence);
}

/* The set as [{"name", "scale", "sha256"}], into out, which is returned. */
#define LORAS_MAX (KILN_LORAS_MAX * (KILN_NAME_MAX + 160) + 3)
static const char *loras_json(const struct kiln_job *job, char out[LORAS_MAX])
{
    size_t len = (size_t)snprintf(out, LORAS_MAX, "[");
    for (uint32_t i = 0; i < job->lora_count; i++) { /* names need no escaping: see limits.h */
        const struct kiln_lora *lora = &job->loras[i];
        len += (size_t)snprintf(out + len, LORAS_MAX - len, "%s{\"name\":\"%s\",\"scale\":%.17g",
                                i ? "," : "", lora->name, lora->scale);
        if (lora->sha256[0])
            len += (size_t)snprintf(out + len, LORAS_MAX - len, ",\"sha256\":\"%s\"", lora->sha256);
        len += (size_t)snprintf(out + len, LORAS_MAX - len, "}");
    }
    snprintf(out + len, LORAS_MAX - len, "]");
    return out;
}

void kiln_bind_jobs(struct kiln_params *params, const struct kiln_new_job *jobs, size_t count,
                    const uint64_t *ids)
{
    char loras[LORAS_MAX], set[KILN_LORA_SET_MAX], sigmas[KILN_SIGMAS_TEXT_MAX], seed[24];
    char mode[KILN_MODE_MAX];
#define JOB jobs[i].job
#define OR_EMPTY(text) ((text) ? (text) : "")
    KILN_BIND_COLUMN(params, INT8, count, (int64_t)ids[i]);
    KILN_BIND_COLUMN(params, TEXT, count, jobs[i].key);
    KILN_BIND_COLUMN(params, TEXT, count, OR_EMPTY(jobs[i].token));
    KILN_BIND_SHARED(params, TEXT, count, JOB.custom_id);
    KILN_BIND_COLUMN(params, INT8, count, JOB.index);
    KILN_BIND_COLUMN(params, TEXT, count, JOB.prompt);
    KILN_BIND_SHARED(params, TEXT, count, OR_EMPTY(JOB.negative_prompt));
    KILN_BIND_SHARED(params, TEXT, count, JOB.style);
    KILN_BIND_SHARED(params, TEXT, count, OR_EMPTY(JOB.tenant));
    KILN_BIND_SHARED(params, TEXT, count, OR_EMPTY(JOB.model));
    KILN_BIND_SHARED(params, TEXT, count, loras_json(&JOB, loras));
    KILN_BIND_SHARED(params, TEXT, count,
                     (kiln_lora_set_key(JOB.loras, JOB.lora_count, set, sizeof set), set));
    KILN_BIND_COLUMN(params, TEXT, count,
                     (snprintf(seed, sizeof seed, "%llu", (unsigned long long)JOB.seed), seed));
    KILN_BIND_SHARED(params, FLOAT8, count, JOB.guidance);
    KILN_BIND_SHARED(params, INT4, count, JOB.width);
    KILN_BIND_SHARED(params, INT4, count, JOB.height);
    KILN_BIND_SHARED(params, INT4, count, JOB.steps);
    KILN_BIND_SHARED(params, INT4, count, JOB.max_wait_s);
    KILN_BIND_SHARED(params, INT2, count, JOB.priority);
    KILN_BIND_SHARED(params, INT2, count, JOB.kind);
    KILN_BIND_SHARED(params, INT2, count, JOB.latents);
    KILN_BIND_SHARED(params, INT2, count, JOB.teleport);
    KILN_BIND_SHARED(params, BOOL, count, JOB.embed_metadata);
    KILN_BIND_SHARED(params, BOOL, count, JOB.lora_auto);
    KILN_BIND_SHARED(
        params, TEXT, count,
        (kiln_sigmas_text(JOB.sigmas, JOB.sigma_count, sigmas, sizeof sigmas), sigmas));
    KILN_BIND_SHARED(params, TEXT, count, (kiln_mode_text(&JOB.mode, mode), mode));
    KILN_BIND_SHARED(params, TEXT, count, JOB.init_image);
    KILN_BIND_SHARED(params, INT8, count, (int64_t)JOB.init_job);
    KILN_BIND_SHARED(params, INT8, count, (int64_t)JOB.parent);
    KILN_BIND_SHARED(params, TEXT, count, JOB.init_mask);
    KILN_BIND_SHARED(params, TEXT, count, jobs[i].source);
    KILN_BIND_SHARED(params, INT2, count, JOB.alike);
    KILN_BIND_SHARED(params, TEXT, count, JOB.drawn);
    KILN_BIND_SHARED(params, TEXT, count, JOB.route);
    KILN_BIND_COLUMN(params, INT8, count, entry_number(jobs[i].entry));
}

static const struct kiln_statement insert[] = {
    {"insert_new_jobs", KILN_INSERT_SQL("", "", "") "SELECT count(*) FROM made"},
    {"insert_jobs", KILN_INSERT_SQL("", "", KILN_INSERT_SKIPS) "SELECT count(*) FROM made"}};

/* One statement, one transaction: jobs, sums and accounts move together.  Then those that were
 * there already.  ON CONFLICT looks up each key twice and logs each row twice, so the statement
 * without it comes first.  If that finds a known key, it inserts nothing and the other one follows,
 * which then goes on until a chunk is all new: a file that is sent again has many such chunks. */
static int insert_chunk(struct kiln_ledger *ledger, const char *pool,
                        const struct kiln_new_job *jobs, size_t count, const uint64_t *ids,
                        uint64_t *inserted, struct kiln_error *err)
{
    bool *skips = kiln_ledger_met_known(ledger);
    uint64_t made;
    int rc;
    do {
        struct kiln_params params = {0};
        KILN_BIND(&params, pool);
        kiln_bind_jobs(&params, jobs, count, ids);
        rc = kiln_ledger_ask(ledger, &insert[*skips], &params, KILN_FIELDS(made), err);
    } while (rc == KILN_BAD_INPUT && !*skips && (*skips = true));
    if (rc == 0 && (*skips = made < count)) /* repeatable, like the insertion */
        rc = kiln_ledger_sent_again(ledger, jobs, count, ids, err);
    if (rc == 0)
        *inserted += made;
    return rc;
}

/* How many of the jobs go into the next statement. */
static size_t chunk_of(const struct kiln_new_job *jobs, size_t count)
{
    size_t bytes = 0, n = 0;
    while (n < count && n < CHUNK_JOBS && (n == 0 || bytes < CHUNK_BYTES)) {
        bytes += strlen(jobs[n].job.prompt) + strlen(kiln_job_drawn(&jobs[n].job)) + 1024;
        n++;
    }
    return n;
}

int kiln_ledger_insert_jobs(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_new_job *jobs, size_t count, uint64_t *ret_inserted,
                            struct kiln_error *err)
{
    uint64_t *ids = calloc(count ? count : 1, sizeof *ids);
    if (!ids)
        return kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory for %zu jobs", count);
    uint64_t inserted = 0;
    int rc = count ? kiln_batch_ids(ledger, pool, jobs, count, ids, err) : 0;
    for (size_t at = 0; rc == 0 && at < count;) {
        size_t n = chunk_of(jobs + at, count - at);
        rc = insert_chunk(ledger, pool, jobs + at, n, ids + at, &inserted, err);
        at += n;
    }
    free(ids);
    if (rc == 0)
        *ret_inserted = inserted;
    return rc;
}

bool kiln_ledger_insert_begin(struct kiln_ledger *ledger, const char *pool,
                              const struct kiln_new_job *jobs, size_t count)
{
    struct kiln_params params = {0};
    struct kiln_error why;
    uint64_t ids[CHUNK_JOBS];
    if (*kiln_ledger_met_known(ledger) || count == 0 || chunk_of(jobs, count) < count ||
        kiln_batch_ids(ledger, pool, jobs, count, ids, &why))
        return false;
    KILN_BIND(&params, pool);
    kiln_bind_jobs(&params, jobs, count, ids);
    return kiln_ledger_begin(ledger, &insert[0], &params, &why) == 0;
}

int kiln_ledger_insert_end(struct kiln_ledger *ledger, uint64_t *ret_inserted,
                           struct kiln_error *err)
{
    PGresult *rows;
    int rc = kiln_ledger_end(ledger, &rows, err);
    if (rc == KILN_BAD_INPUT)
        *kiln_ledger_met_known(ledger) = true;
    if (rc)
        return rc;
    *ret_inserted = kiln_row_u64(rows, 0, 0);
    PQclear(rows);
    return 0;
}

/* --- the account of a call ------------------------------------------------------------------- */

static int batch_of(struct kiln_ledger *ledger, const char *pool, const char *batch,
                    uint64_t *ret_id, struct kiln_error *err)
{
    struct kiln_new_job named = {.job = {.batch = (char *)batch}}; /* read only */
    return kiln_batch_ids(ledger, pool, &named, 1, ret_id, err);
}

/* --- the index of each job ------------------------------------------------------------------- */

/* The first job that names an index gets it, if no job has it.  Jobs are looked up by a counting
 * subquery, which the planner must run by index, row by row.  Of a new table it has no statistics,
 * and for a join it would read the whole batch for each job of a page. */
#define JOBS_AT "(SELECT count(*) FROM job j WHERE j.batch_id = $1::bigint AND j.index = "

/* The jobs that are new, each with the index that it is granted, or -1. */
static const struct kiln_statement grant = {
    "number_grant",
    "SELECT g.n, CASE WHEN g.wish BETWEEN 0 AND 4294967295"
    "   AND row_number() OVER (PARTITION BY g.wish ORDER BY g.n) = 1"
    "   AND " JOBS_AT "g.wish) = 0 THEN g.wish ELSE -1 END"
    "  FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS g (key, wish, n)"
    "  WHERE (SELECT count(*) FROM job j WHERE j.batch_id = $1 AND j.key = g.key) = 0"};

/* The next number, with the batch locked.  After the last number it starts again at 0: numbers were
 * skipped, and a batch is not full while one is free. */
#define NUMBERS_GO_ON                                                                              \
    "at AS MATERIALIZED (SELECT CASE WHEN next_index > 4294967295 THEN 0 ELSE next_index END"      \
    "  AS first FROM batch WHERE id = $1::bigint FOR NO KEY UPDATE)"

/* The next $2 numbers that no job has and that were not granted ($3); at most $4 taken numbers are
 * skipped.  next_index moves only over numbers given out here and taken ones. */
static const struct kiln_statement walk = {
    "number_walk",
    "WITH " NUMBERS_GO_ON ", ahead AS MATERIALIZED (SELECT first,"
    "   least(first + $2::bigint + $4::bigint, 4294967296) AS beyond FROM at"
    "), free AS MATERIALIZED (SELECT c.index"
    "  FROM ahead, generate_series(ahead.first, ahead.beyond - 1) AS c (index)"
    "  WHERE c.index NOT IN (SELECT unnest($3::bigint[])) AND " JOBS_AT "c.index) = 0 LIMIT $2"
    "), moved AS (UPDATE batch b SET next_index ="
    "   CASE WHEN f.jobs = $2 THEN f.last + 1 ELSE ahead.beyond END"
    "  FROM ahead, (SELECT count(*) AS jobs, max(index) AS last FROM free) f WHERE b.id = $1)"
    " SELECT index FROM free ORDER BY index"};

/* Skips a block of taken numbers that is longer than a walk: probes ahead at doubling distances,
 * then bisects to a free number that follows a taken one. */
static const struct kiln_statement leap = {
    "number_leap",
    "WITH RECURSIVE " NUMBERS_GO_ON
    ", found AS (SELECT first - 1 + hop / 2 AS taken, first - 1 + hop AS free"
    "   FROM at, (SELECT 1::bigint << k FROM generate_series(0, 32) k) AS hops (hop)"
    "   WHERE first - 1 + hop <= 4294967295 AND " JOBS_AT "first - 1 + hop) = 0"
    "   ORDER BY hop LIMIT 1"
    "), halved AS (SELECT taken, free FROM found UNION ALL"
    "  SELECT CASE WHEN jobs > 0 THEN middle ELSE taken END,"
    "    CASE WHEN jobs > 0 THEN free ELSE middle END"
    "  FROM (SELECT taken, free, (taken + free) / 2 AS middle,"
    "    " JOBS_AT "(taken + free) / 2) AS jobs FROM halved WHERE free - taken > 1) AS half"
    "), moved AS (UPDATE batch b SET next_index = h.free"
    "  FROM (SELECT min(free) AS free FROM halved) h WHERE b.id = $1 AND h.free IS NOT NULL"
    "  RETURNING 1) SELECT count(*) > 0 FROM moved"};

enum { LACKING = -1, KNOWN = -2 }; /* in place of an index: none yet, or its key is there already */

/* Fills ret_index[] with what is granted, LACKING or KNOWN. */
static int grant_wishes(struct kiln_ledger *ledger, uint64_t batch_id, const char *const *keys,
                        const int64_t *wishes, size_t count, int64_t *ret_index,
                        struct kiln_error *err)
{
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, batch_id);
    KILN_BIND_COLUMN(&params, TEXT, count, keys[i]);
    KILN_BIND_COLUMN(&params, INT8, count, wishes ? wishes[i] : -1);
    int rc = kiln_ledger_run(ledger, &grant, &params, &rows, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        ret_index[i] = KNOWN;
    for (int i = 0; i < PQntuples(rows); i++) {
        uint64_t place = kiln_row_u64(rows, i, 0);
        if (place >= 1 && place <= count)
            ret_index[place - 1] = kiln_row_i64(rows, i, 1);
    }
    PQclear(rows);
    return 0;
}

/* One walk for all that have no number yet.  *missing: how many of them there are, then how many
 * are left. */
static int number_rest(struct kiln_ledger *ledger, uint64_t batch_id, size_t count,
                       int64_t *indexes, size_t *missing, struct kiln_error *err)
{
    struct kiln_params params = {0};
    struct kiln_array granted;
    PGresult *rows;
    kiln_array_start(&granted, KILN_ARRAY_INT8);
    for (size_t i = 0; i < count; i++)
        if (indexes[i] >= 0)
            kiln_array_int(&granted, indexes[i]);
    KILN_BIND(&params, batch_id, *missing);
    kiln_bind_array(&params, &granted);
    KILN_BIND(&params, KILN_NUMBER_WALK);
    int rc = kiln_ledger_run(ledger, &walk, &params, &rows, err);
    if (rc != 0)
        return rc;
    int row = 0;
    for (size_t i = 0; i < count && row < PQntuples(rows); i++)
        if (indexes[i] == LACKING)
            indexes[i] = kiln_row_i64(rows, row++, 0);
    *missing -= (size_t)row;
    PQclear(rows);
    return 0;
}

int kiln_ledger_number(struct kiln_ledger *ledger, const char *pool, const char *batch,
                       const char *const *keys, const int64_t *wishes, size_t count,
                       int64_t *ret_index, struct kiln_error *err)
{
    uint64_t batch_id;
    int rc = batch_of(ledger, pool, batch, &batch_id, err);
    if (rc == 0)
        rc = grant_wishes(ledger, batch_id, keys, wishes, count, ret_index, err);
    if (rc != 0)
        return rc;
    size_t missing = 0;
    bool room = true; /* there is a free number beyond those that a walk has passed */
    for (size_t i = 0; i < count; i++)
        missing += ret_index[i] == LACKING;
    for (int round = 0; rc == 0 && missing > 0 && room && round < WALKS; round++) {
        struct kiln_params params = {0};
        KILN_BIND(&params, batch_id);
        if (round > 0)
            rc = kiln_ledger_ask(ledger, &leap, &params, KILN_FIELDS(room), err);
        if (rc == 0 && room)
            rc = number_rest(ledger, batch_id, count, ret_index, &missing, err);
    }
    for (size_t i = 0; i < count; i++)
        if (ret_index[i] == KNOWN)
            ret_index[i] = 0;
    return rc;
}

int kiln_ledger_refuse(struct kiln_ledger *ledger, const char *pool, const char *batch,
                       const char *token, const char *key, const char *reason,
                       struct kiln_error *err)
{
    static const struct kiln_statement record = {
        "refuse", "WITH made AS (INSERT INTO intake_refusal (batch_id, token, key, reason)"
                  " VALUES ($1::bigint, $2::text, $3::text, $4::text)"
                  " ON CONFLICT DO NOTHING RETURNING 1)"
                  " INSERT INTO intake_call AS c (batch_id, token, refused)"
                  " SELECT $1, $2, count(*) FROM made HAVING count(*) > 0"
                  " ON CONFLICT (batch_id, token) DO UPDATE SET refused = c.refused + 1"};
    uint64_t batch_id;
    int rc = batch_of(ledger, pool, batch, &batch_id, err);
    if (rc != 0)
        return rc;
    struct kiln_params params = {0};
    KILN_BIND(&params, batch_id, token, key, reason);
    return kiln_ledger_run(ledger, &record, &params, NULL, err);
}

int kiln_ledger_announce(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         const char *token, uint64_t announced, uint64_t *ret_accepted,
                         uint64_t *ret_duplicate, uint64_t *ret_refused, struct kiln_error *err)
{
    static const struct kiln_statement announce = {
        "announce", "INSERT INTO intake_call AS c (batch_id, token, announced)"
                    " VALUES ($1::bigint, $2::text, $3::bigint)"
                    " ON CONFLICT (batch_id, token) DO UPDATE SET announced = excluded.announced"
                    " RETURNING accepted, duplicate, refused"};
    uint64_t batch_id;
    int rc = batch_of(ledger, pool, batch, &batch_id, err);
    if (rc != 0)
        return rc;
    struct kiln_params params = {0};
    KILN_BIND(&params, batch_id, token, announced);
    return kiln_ledger_ask(ledger, &announce, &params,
                           KILN_FIELDS(*ret_accepted, *ret_duplicate, *ret_refused), err);
}

/* --- refusing jobs beyond a quota ------------------------------------------------------------- */

int kiln_ledger_known(struct kiln_ledger *ledger, const char *pool, const struct kiln_new_job *jobs,
                      size_t count, bool *ret_known, struct kiln_error *err)
{
    static const struct kiln_statement known = {
        "known", "SELECT EXISTS (SELECT FROM job j JOIN batch b ON b.id = j.batch_id"
                 "  WHERE b.pool = $1::text AND b.name = $2::text AND j.key = g.key)"
                 " FROM unnest($3::text[]) WITH ORDINALITY AS g (key, n) ORDER BY g.n"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, pool, count ? jobs[0].job.batch : "");
    KILN_BIND_COLUMN(&params, TEXT, count, jobs[i].key);
    int rc = kiln_ledger_run(ledger, &known, &params, &rows, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++)
        ret_known[i] = kiln_row_bool(rows, (int)i, 0);
    PQclear(rows);
    return 0;
}

int kiln_ledger_refuse_jobs(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_new_job *jobs, size_t count, const char *reason,
                            struct kiln_error *err)
{
    static const struct kiln_statement refuse = {
        "refuse_jobs",
        /* A microsecond apart: `at` keeps the order of the stream, page after page. */
        "WITH made AS (INSERT INTO intake_refusal (batch_id, token, key, reason, at)"
        "  SELECT u.batch_id, u.token, u.key, $4::text, now() + u.n * interval '1 microsecond'"
        "  FROM unnest($1::bigint[], $2::text[], $3::text[])"
        "  WITH ORDINALITY AS u (batch_id, token, key, n)"
        "  ON CONFLICT DO NOTHING RETURNING batch_id, token)"
        " INSERT INTO intake_call AS c (batch_id, token, refused)"
        " SELECT batch_id, token, count(*) FROM made GROUP BY 1, 2 ORDER BY 1, 2"
        " ON CONFLICT (batch_id, token) DO UPDATE SET refused = c.refused + excluded.refused"};
    struct kiln_params params = {0};
    uint64_t *ids = calloc(count ? count : 1, sizeof *ids);
    if (!ids)
        return kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory for %zu refusals", count);
    int rc = count ? kiln_batch_ids(ledger, pool, jobs, count, ids, err) : 0;
    if (rc == 0 && count) {
        KILN_BIND_COLUMN(&params, INT8, count, (int64_t)ids[i]);
        KILN_BIND_COLUMN(&params, TEXT, count, jobs[i].token ? jobs[i].token : "");
        KILN_BIND_COLUMN(&params, TEXT, count, jobs[i].key);
        KILN_BIND(&params, reason);
        rc = kiln_ledger_run(ledger, &refuse, &params, NULL, err);
    }
    free(ids);
    return rc;
}
