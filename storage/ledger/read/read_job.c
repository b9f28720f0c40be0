/* read_job.c - jobs as people see them: lists, one record, what it made, why it waits.
 *
 * One set of columns serves every list, so a job reads the same in `kiln jobs`, `kiln show` and
 * `kiln export`.  The objects of a job come along as one JSON array, in place of a second query for
 * each of a million jobs.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/internal.h"
#include "storage/ledger/read/read.h"
#include "storage/ledger/read/reader.h"

#define PAGE 1000 /* jobs */

#define BEGIN MS("j.created_at") ", " MS("j.queued_at")
#define PAUSE "CASE WHEN j.not_before = '-infinity' THEN 0 ELSE " MS("j.not_before") " END"
#define END MS("j.assigned_at") ", " MS("j.finished_at")
#define ROW_COLUMNS                                                                                \
    KILN_JOB_COLUMNS ", j.worker, j.assignment, j.tries, j.crashes, j.error_code, j.error, " BEGIN \
                     ", " PAUSE ", " END ", j.gone"
#define OBJECTS_COLUMN (KILN_JOB_COLUMN_COUNT + 12) /* only where a query asks for it */
/* Pictures by falling width, the latent after them; mode, forwards and model as rendered. */
#define OBJECTS                                                                                    \
    "(SELECT json_agg(json_build_array(o.role, o.key, o.sha256, o.bytes, o.width, o.height) "      \
    " ORDER BY o.role = 'latent', o.width DESC, o.height DESC, o.bytes DESC)"                      \
    " FROM object o WHERE o.job_id = j.id), r.mode, r.forwards, r.model_name, r.model_hash,"       \
    " r.donor, r.hit, r.fallback, r.start_sigma, r.own_forwards"
#define FROM_JOB " FROM job j JOIN batch b ON b.id = j.batch_id "
#define FROM_RENDERED                                                                              \
    FROM_JOB "LEFT JOIN LATERAL (SELECT mode, coalesce(forwards, steps) AS forwards, model_name,"  \
             "  model_hash, donor, hit, fallback, start_sigma, "                                   \
             "  coalesce(own_forwards, steps) AS own_forwards FROM image WHERE job_id = j.id"      \
             "  UNION ALL SELECT mode, coalesce(forwards, steps), NULL, model_hash, NULL, NULL,"   \
             "  NULL, NULL, steps FROM latent"                                                     \
             "  WHERE job_id = j.id LIMIT 1) r ON true "

static int read_objects(const char *text, struct kiln_job_row *row, struct kiln_error *err)
{
    json_t *list = text ? json_loads(text, 0, NULL) : NULL, *item;
    size_t i;
    json_array_foreach(list, i, item)
    {
        const char *role, *key, *sha256;
        json_int_t bytes, width, height;
        if (i == KILN_ROLES_MAX || json_unpack(item, "[s,s,s,I,I,I]", &role, &key, &sha256, &bytes,
                                               &width, &height) != 0) {
            json_decref(list);
            return kiln_fail(err, KILN_PROTOCOL, "job %llu: its objects are not as expected",
                             (unsigned long long)row->job.id);
        }
        struct kiln_object_row *object = &row->objects[row->object_count++];
        snprintf(object->role, sizeof object->role, "%s", role);
        snprintf(object->key, sizeof object->key, "%s", key);
        snprintf(object->sha256, sizeof object->sha256, "%s", sha256);
        object->bytes = (uint64_t)bytes;
        object->width = (uint32_t)width;
        object->height = (uint32_t)height;
    }
    json_decref(list);
    return 0;
}

static int read_job(void *arg, const PGresult *rows, int at, struct kiln_error *err)
{
    struct kiln_caller *caller = arg;
    struct kiln_job_row row = {0};
    int rc = kiln_row_job(rows, at, &row.job, err);
    if (rc)
        return rc;
    KILN_READ(rows, at, KILN_JOB_COLUMN_COUNT, row.worker, row.assignment, row.tries, row.crashes,
              row.error_code, row.error, row.created_ms, row.queued_ms, row.not_before_ms,
              row.assigned_ms, row.finished_ms, row.gone);
    if (PQnfields(rows) > OBJECTS_COLUMN) {
        KILN_READ(rows, at, OBJECTS_COLUMN + 1, row.rendered_mode, row.forwards, row.model_name,
                  row.model_hash, row.job.donor.job, row.job.donor.hit, row.fallback,
                  row.start_sigma, row.own_forwards);
        rc = read_objects(kiln_row_text(rows, at, OBJECTS_COLUMN), &row, err);
    }
    caller->rows++;
    if (rc == 0)
        rc = ((kiln_each_job *)caller->each)(caller->arg, &row, err);
    kiln_job_release(&row.job);
    return rc;
}

int kiln_ledger_jobs(struct kiln_ledger *ledger, const char *pool, const char *batch, int state,
                     kiln_each_job *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement all = {
        "read_jobs", "SELECT " ROW_COLUMNS FROM_JOB
                     "WHERE j.pool = $1 AND ($2 < 0 OR j.state = $2) AND j.id > $3"
                     " ORDER BY j.id LIMIT $4"};
    static const struct kiln_statement of_batch = {
        "read_batch_jobs", "SELECT " ROW_COLUMNS FROM_JOB
                           "WHERE j.batch_id = $1 AND ($2 < 0 OR j.state = $2) AND j.id > $3"
                           " ORDER BY j.id LIMIT $4"};
    struct kiln_page page = {.rows_max = PAGE, .keys = 1, .more = true};
    uint64_t id = 0;
    int rc = batch ? kiln_ledger_batch_id(ledger, pool, batch, &id, err) : 0;
    while (rc == 0 && page.more) {
        struct kiln_params params = {0};
        if (batch)
            KILN_BIND(&params, id, state);
        else
            KILN_BIND(&params, pool, state);
        rc = kiln_ledger_page(ledger, batch ? &of_batch : &all, &params, &page, read_job,
                              KILN_CALLER(each, arg), err);
    }
    return rc;
}

int kiln_ledger_results(struct kiln_ledger *ledger, const char *pool, const char *batch,
                        kiln_each_job *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {"read_results",
                                                    "SELECT " ROW_COLUMNS ", " OBJECTS FROM_RENDERED
                                                    "WHERE j.batch_id = $1 ORDER BY j.index, j.id"};
    uint64_t id = 0;
    int rc = kiln_ledger_batch_id(ledger, pool, batch, &id, err);
    if (rc)
        return rc;
    struct kiln_params params = {0};
    KILN_BIND(&params, id);
    return kiln_ledger_each(ledger, &statement, &params, read_job, KILN_CALLER(each, arg), err);
}

int kiln_ledger_job(struct kiln_ledger *ledger, const char *pool, uint64_t id, kiln_each_job *each,
                    void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {KILN_PLANNED_ONCE("read_job"),
                                                    "SELECT " ROW_COLUMNS ", " OBJECTS FROM_RENDERED
                                                    "WHERE j.id = $1 AND j.pool = $2"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id, pool);
    struct kiln_caller *caller = KILN_CALLER(each, arg);
    int rc = kiln_ledger_run_each(ledger, &statement, &params, read_job, caller, err);
    if (rc == 0 && caller->rows == 0)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no job %llu in pool %s",
                         (unsigned long long)id, pool);
    return rc;
}

int kiln_ledger_made(struct kiln_ledger *ledger, uint64_t id, struct kiln_made *ret,
                     struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        KILN_PLANNED_ONCE("read_made"),
        "SELECT i.job_id IS NOT NULL, l.job_id IS NOT NULL, i.model_name, "
        "coalesce(i.model_hash, l.model_hash), i.wait_ms, i.text_ms, i.denoise_ms, i.decode_ms, "
        "i.encode_ms, i.upload_ms, l.sigma, l.states, l.encoding, "
        "array_to_string(l.shape, ',') FROM (SELECT $1::bigint AS id) j "
        "LEFT JOIN image i ON i.job_id = j.id LEFT JOIN latent l ON l.job_id = j.id"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id);
    return kiln_ledger_ask(ledger, &statement, &params,
                           KILN_FIELDS(ret->image, ret->latent, ret->model_name, ret->model_hash,
                                       ret->wait_ms, ret->text_ms, ret->denoise_ms, ret->decode_ms,
                                       ret->encode_ms, ret->upload_ms, ret->sigma, ret->states,
                                       ret->encoding, ret->shape),
                           err);
}

/* --- the story of a job ----------------------------------------------------------------------- */

static int read_move(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_move_row move;
    KILN_READ(rows, row, 0, move.at_ms, move.was, move.state, move.code, move.attempt, move.worker,
              move.reason);
    return ((kiln_each_move *)caller->each)(caller->arg, &move, err);
}

int kiln_ledger_moves(struct kiln_ledger *ledger, uint64_t id, kiln_each_move *each, void *arg,
                      struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_moves", "SELECT " MS("at") ", was, state, code, attempt, worker, reason FROM event "
                                         "WHERE job_id = $1 ORDER BY id"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id);
    return kiln_ledger_each(ledger, &statement, &params, read_move, KILN_CALLER(each, arg), err);
}

int kiln_ledger_ahead(struct kiln_ledger *ledger, const char *pool, uint64_t id, uint64_t *ret_all,
                      uint64_t *ret_group, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_ahead",
        "SELECT count(*), count(*) FILTER (WHERE (j.model, j.lora_set, j.width, j.height, j.steps, "
        "j.mode) = (me.model, me.lora_set, me.width, me.height, me.steps, me.mode)) "
        "FROM job j, (SELECT * FROM job WHERE id = $1) me "
        "WHERE j.pool = $2 AND j.waits AND j.id < $1"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id, pool);
    return kiln_ledger_ask(ledger, &statement, &params, KILN_FIELDS(*ret_all, *ret_group), err);
}

/* --- by key ----------------------------------------------------------------------------------- */

static int read_keyed(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct kiln_caller *caller = arg;
    const char *key;
    uint64_t id;
    KILN_READ(rows, row, 0, key, id);
    return ((kiln_each_keyed *)caller->each)(caller->arg, key, id, err);
}

int kiln_ledger_keyed_jobs(struct kiln_ledger *ledger, const char *pool, const char *batch,
                           const char *const *keys, size_t count, kiln_each_keyed *each, void *arg,
                           struct kiln_error *err)
{
    static const struct kiln_statement keyed = {
        "keyed_jobs",
        "SELECT j.key, j.id FROM batch b JOIN job j ON j.batch_id = b.id"
        " WHERE b.pool = $1::text AND b.name = $2::text AND j.key = ANY ($3::text[])"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, batch);
    KILN_BIND_COLUMN(&params, TEXT, count, keys[i]);
    return kiln_ledger_each(ledger, &keyed, &params, read_keyed, KILN_CALLER(each, arg), err);
}
