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

#define ROW_COLUMNS                                                                                \
    KILN_JOB_COLUMNS                                                                               \
    ", j.worker, j.assignment, j.tries, j.crashes, j.error_code, j.error, " MS(                    \
        "j.created_at") ", " MS("j.queued_at") ", "                                                \
                                               "CASE WHEN j.not_before = '-infinity' THEN 0 "      \
                                               "ELSE " MS("j.not_before") " END, " MS(             \
                                                   "j.assigned_at") ", " MS("j.finished_at")
/* Pictures by falling width, the latent after them. */
#define OBJECTS                                                                                    \
    "(SELECT json_agg(json_build_array(o.role, o.key, o.sha256, o.bytes, o.width, o.height) "      \
    " ORDER BY o.role = 'latent', o.width DESC, o.height DESC, o.bytes DESC)"                      \
    " FROM object o WHERE o.job_id = j.id)"
#define FROM_JOB " FROM job j JOIN batch b ON b.id = j.batch_id "

enum row_column {
    COLUMN_WORKER = KILN_JOB_COLUMN_COUNT,
    COLUMN_ASSIGNMENT,
    COLUMN_TRIES,
    COLUMN_CRASHES,
    COLUMN_ERROR_CODE,
    COLUMN_ERROR,
    COLUMN_CREATED,
    COLUMN_QUEUED,
    COLUMN_NOT_BEFORE,
    COLUMN_ASSIGNED,
    COLUMN_FINISHED,
    COLUMN_OBJECTS, /* last; only where a query asks for it */
};

struct job_walk {
    kiln_each_job *each;
    void *arg;
    uint64_t seen;
};

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

static int forward_job(void *arg, const PGresult *rows, int at, struct kiln_error *err)
{
    struct job_walk *walk = arg;
    struct kiln_job_row row = {.tries = (uint32_t)kiln_row_u64(rows, at, COLUMN_TRIES),
                               .crashes = (uint32_t)kiln_row_u64(rows, at, COLUMN_CRASHES),
                               .error_code = (int)kiln_row_i64(rows, at, COLUMN_ERROR_CODE),
                               .error = kiln_row_text(rows, at, COLUMN_ERROR),
                               .created_ms = kiln_row_i64(rows, at, COLUMN_CREATED),
                               .queued_ms = kiln_row_i64(rows, at, COLUMN_QUEUED),
                               .not_before_ms = kiln_row_i64(rows, at, COLUMN_NOT_BEFORE),
                               .assigned_ms = kiln_row_i64(rows, at, COLUMN_ASSIGNED),
                               .finished_ms = kiln_row_i64(rows, at, COLUMN_FINISHED)};
    int rc = kiln_row_job(rows, at, &row.job, err);
    if (rc)
        return rc;
    kiln_row_copy(rows, at, COLUMN_WORKER, row.worker, sizeof row.worker);
    kiln_row_copy(rows, at, COLUMN_ASSIGNMENT, row.assignment, sizeof row.assignment);
    if (PQnfields(rows) > COLUMN_OBJECTS)
        rc = read_objects(kiln_row_text(rows, at, COLUMN_OBJECTS), &row, err);
    walk->seen++;
    if (rc == 0)
        rc = walk->each(walk->arg, &row, err);
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
    struct kiln_params params = {0};
    struct job_walk walk = {.each = each, .arg = arg};
    struct kiln_page page = {.rows_max = PAGE, .keys = 1, .more = true};
    uint64_t id = 0;
    int rc = batch ? kiln_ledger_batch_id(ledger, pool, batch, &id, err) : 0;
    if (batch)
        KILN_BIND(&params, id);
    else
        KILN_BIND(&params, pool);
    KILN_BIND(&params, state);
    while (rc == 0 && page.more)
        rc = kiln_ledger_page(ledger, batch ? &of_batch : &all, &params, &page, forward_job, &walk,
                              err);
    return rc;
}

int kiln_ledger_results(struct kiln_ledger *ledger, const char *pool, const char *batch,
                        kiln_each_job *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {"read_results",
                                                    "SELECT " ROW_COLUMNS ", " OBJECTS FROM_JOB
                                                    "WHERE j.batch_id = $1 ORDER BY j.index, j.id"};
    uint64_t id = 0;
    int rc = kiln_ledger_batch_id(ledger, pool, batch, &id, err);
    if (rc)
        return rc;
    struct kiln_params params = {0};
    KILN_BIND(&params, id);
    struct job_walk walk = {.each = each, .arg = arg};
    return kiln_ledger_each(ledger, &statement, &params, forward_job, &walk, err);
}

int kiln_ledger_job(struct kiln_ledger *ledger, const char *pool, uint64_t id, kiln_each_job *each,
                    void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_job", "SELECT " ROW_COLUMNS ", " OBJECTS FROM_JOB "WHERE j.id = $1 AND j.pool = $2"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id, pool);
    struct job_walk walk = {.each = each, .arg = arg};
    int rc = kiln_ledger_each(ledger, &statement, &params, forward_job, &walk, err);
    if (rc == 0 && walk.seen == 0)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no job %llu in pool %s",
                         (unsigned long long)id, pool);
    return rc;
}

int kiln_ledger_made(struct kiln_ledger *ledger, uint64_t id, struct kiln_made *ret,
                     struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_made",
        "SELECT i.job_id IS NOT NULL, l.job_id IS NOT NULL, i.model_name, "
        "coalesce(i.model_hash, l.model_hash), i.wait_ms, i.text_ms, i.denoise_ms, i.decode_ms, "
        "i.encode_ms, i.upload_ms, l.sigma, l.states, l.encoding, "
        "array_to_string(l.shape, ',') FROM (SELECT $1::bigint AS id) j "
        "LEFT JOIN image i ON i.job_id = j.id LEFT JOIN latent l ON l.job_id = j.id"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id);
    PGresult *rows = NULL;
    int rc = kiln_ledger_run(ledger, &statement, &params, &rows, err);
    if (rc)
        return rc;
    *ret = (struct kiln_made){.image = kiln_row_bool(rows, 0, 0),
                              .latent = kiln_row_bool(rows, 0, 1),
                              .wait_ms = kiln_row_double(rows, 0, 4),
                              .text_ms = kiln_row_double(rows, 0, 5),
                              .denoise_ms = kiln_row_double(rows, 0, 6),
                              .decode_ms = kiln_row_double(rows, 0, 7),
                              .encode_ms = kiln_row_double(rows, 0, 8),
                              .upload_ms = kiln_row_double(rows, 0, 9),
                              .sigma = kiln_row_double(rows, 0, 10),
                              .states = (uint32_t)kiln_row_u64(rows, 0, 11)};
    kiln_row_copy(rows, 0, 2, ret->model_name, sizeof ret->model_name);
    kiln_row_copy(rows, 0, 3, ret->model_hash, sizeof ret->model_hash);
    kiln_row_copy(rows, 0, 12, ret->encoding, sizeof ret->encoding);
    kiln_row_copy(rows, 0, 13, ret->shape, sizeof ret->shape);
    PQclear(rows);
    return 0;
}

/* --- the story of a job ----------------------------------------------------------------------- */

struct move_walk {
    kiln_each_move *each;
    void *arg;
};

static int forward_move(void *arg, const PGresult *rows, int at, struct kiln_error *err)
{
    struct move_walk *walk = arg;
    struct kiln_move_row move = {.at_ms = kiln_row_i64(rows, at, 0),
                                 .was = (int)kiln_row_i64(rows, at, 1),
                                 .state = (int)kiln_row_i64(rows, at, 2),
                                 .code = (int)kiln_row_i64(rows, at, 3),
                                 .attempt = (uint32_t)kiln_row_u64(rows, at, 4),
                                 .worker = kiln_row_text(rows, at, 5),
                                 .reason = kiln_row_text(rows, at, 6)};
    return walk->each(walk->arg, &move, err);
}

int kiln_ledger_moves(struct kiln_ledger *ledger, uint64_t id, kiln_each_move *each, void *arg,
                      struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_moves", "SELECT " MS("at") ", was, state, code, attempt, worker, reason FROM event "
                                         "WHERE job_id = $1 ORDER BY id"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id);
    struct move_walk walk = {each, arg};
    return kiln_ledger_each(ledger, &statement, &params, forward_move, &walk, err);
}

int kiln_ledger_ahead(struct kiln_ledger *ledger, const char *pool, uint64_t id, uint64_t *ret_all,
                      uint64_t *ret_group, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "read_ahead",
        "SELECT count(*), count(*) FILTER (WHERE (j.model, j.lora_set, j.width, j.height, j.steps) "
        "= (me.model, me.lora_set, me.width, me.height, me.steps)) "
        "FROM job j, (SELECT * FROM job WHERE id = $1) me "
        "WHERE j.pool = $2 AND j.waits AND j.id < $1"};
    struct kiln_params params = {0};
    KILN_BIND(&params, id, pool);
    PGresult *rows = NULL;
    int rc = kiln_ledger_run(ledger, &statement, &params, &rows, err);
    if (rc)
        return rc;
    *ret_all = kiln_row_u64(rows, 0, 0);
    *ret_group = kiln_row_u64(rows, 0, 1);
    PQclear(rows);
    return 0;
}
