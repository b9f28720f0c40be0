/* commit.c - a worker's picture becomes part of the ledger.
 *
 * Image, object and latent rows and the job's move to done are one statement (move.c), hence
 * one transaction and one round trip.  If the job is no longer assigned at the worker's attempt,
 * the statement writes nothing at all.
 */
#include <stdlib.h>
#include <string.h>

#include "schemas/job_line.h"
#include "schemas/sizes.h"
#include "storage/ledger/queue/move.h"

#define PIPELINE_MAX 64 /* commits in one round trip */

static void bind_objects(struct kiln_params *params, const struct kiln_commit *commit)
{
    struct kiln_array role, key, sha256, bytes, width, height, type;
    kiln_array_start(&role, KILN_ARRAY_TEXT);
    kiln_array_start(&key, KILN_ARRAY_TEXT);
    kiln_array_start(&sha256, KILN_ARRAY_TEXT);
    kiln_array_start(&bytes, KILN_ARRAY_INT8);
    kiln_array_start(&width, KILN_ARRAY_INT4);
    kiln_array_start(&height, KILN_ARRAY_INT4);
    kiln_array_start(&type, KILN_ARRAY_TEXT);
    for (size_t i = 0; i < commit->object_count; i++) {
        const struct kiln_commit_object *object = &commit->objects[i];
        kiln_array_text(&role, object->role);
        kiln_array_text(&key, object->key);
        kiln_array_text(&sha256, object->sha256);
        kiln_array_int(&bytes, (int64_t)object->bytes);
        kiln_array_int(&width, object->width);
        kiln_array_int(&height, object->height);
        kiln_array_text(&type, object->content_type);
    }
    kiln_bind_array(params, &role);
    kiln_bind_array(params, &key);
    kiln_bind_array(params, &sha256);
    kiln_bind_array(params, &bytes);
    kiln_bind_array(params, &width);
    kiln_bind_array(params, &height);
    kiln_bind_array(params, &type);
}

static const struct kiln_commit_object *latent_object(const struct kiln_commit *commit)
{
    for (size_t i = 0; i < commit->object_count; i++)
        if (strcmp(commit->objects[i].role, KILN_ROLE_LATENT) == 0)
            return &commit->objects[i];
    return NULL;
}

static void bind_latent(struct kiln_params *params, const struct kiln_commit *commit,
                        const struct kiln_commit_object *object)
{
    struct kiln_array shape;
    kiln_array_start(&shape, KILN_ARRAY_INT4);
    kiln_array_int(&shape, commit->latent_channels);
    kiln_array_int(&shape, object ? object->height : 0);
    kiln_array_int(&shape, object ? object->width : 0);
    kiln_bind_double(params, commit->sigma);
    kiln_bind_i64(params, commit->latent_states);
    kiln_bind_array(params, &shape);
    kiln_bind_text(params, object ? object->key : NULL);
    kiln_bind_text(params, commit->latent_encoding);
}

/* One level a state; a commit that names none has the one state that its sigma says. */
static void bind_sigmas(struct kiln_params *params, const struct kiln_commit *commit)
{
    struct kiln_array sigmas;
    kiln_array_start(&sigmas, KILN_ARRAY_FLOAT8);
    for (uint32_t i = 0; i < commit->latent_states; i++)
        kiln_array_double(&sigmas,
                          commit->latent_sigmas ? commit->latent_sigmas[i] : commit->sigma);
    kiln_bind_array(params, &sigmas);
}

/* flush: NULL, or "off" where a later transaction of the pipeline flushes for all. */
static int bind_commit(struct kiln_params *params, const struct kiln_commit *commit,
                       const char *flush, struct kiln_error *err)
{
    const struct kiln_job *job = commit->job;
    const struct kiln_commit_object *latent = latent_object(commit);
    if ((commit->latent_encoding != NULL) != (latent != NULL))
        return kiln_fail(err, KILN_INTERNAL,
                         "job %llu: a commit has a latent object and its encoding, or neither",
                         (unsigned long long)job->id);
    char prompt_hash[65];
    kiln_prompt_hash(job->prompt, job->negative_prompt, prompt_hash);
    int rc = kiln_move_begin(KILN_MOVE_COMMIT, params, err);
    kiln_bind_u64(params, job->id);
    kiln_bind_u64(params, job->attempt);
    kiln_bind_text(params, commit->worker);
    kiln_bind_double(params, commit->wait_ms);
    kiln_bind_double(params, commit->text_ms);
    kiln_bind_double(params, commit->denoise_ms);
    kiln_bind_double(params, commit->decode_ms);
    kiln_bind_double(params, commit->encode_ms);
    kiln_bind_double(params, commit->upload_ms);
    kiln_bind_copy(params, prompt_hash);
    kiln_bind_text(params, commit->model_name);
    kiln_bind_text(params, commit->model_hash);
    bind_objects(params, commit);
    bind_latent(params, commit, latent);
    kiln_bind_text(params, flush);
    bind_sigmas(params, commit);
    kiln_bind_text(params, commit->lora_files);
    return rc;
}

int kiln_ledger_commit(struct kiln_ledger *ledger, const struct kiln_commit *commit, bool *ret_ours,
                       struct kiln_error *err)
{
    struct kiln_params params = {0};
    PGresult *rows;
    int rc = bind_commit(&params, commit, NULL, err);
    if (rc == 0)
        rc = kiln_move_run(ledger, KILN_MOVE_COMMIT, &params, &rows, err);
    kiln_params_release(&params);
    if (rc != 0)
        return rc;
    *ret_ours = kiln_row_bool(rows, 0, 0);
    PQclear(rows);
    return 0;
}

/* Each picture is a transaction that does not wait for the disk; the last one writes a mark into
 * the server's log and waits, which covers all that was written before it. */
static int commit_page(struct kiln_ledger *ledger, const struct kiln_commit *commits, size_t count,
                       bool *ret_ours, struct kiln_error *err)
{
    PGresult *rows[PIPELINE_MAX];
    struct kiln_params *params = calloc(count, sizeof *params);
    if (!params)
        return kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory for %zu commits", count);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = bind_commit(&params[i], &commits[i], "off", err);
    if (rc == 0)
        rc = kiln_ledger_run_many(ledger, kiln_move_statement(KILN_MOVE_COMMIT), params, count,
                                  &kiln_flush_statement, rows, err);
    for (size_t i = 0; i < count; i++)
        kiln_params_release(&params[i]);
    free(params);
    for (size_t i = 0; i < count && rc == 0; i++) {
        ret_ours[i] = kiln_row_bool(rows[i], 0, 0);
        PQclear(rows[i]);
    }
    return rc;
}

int kiln_ledger_commit_many(struct kiln_ledger *ledger, const struct kiln_commit *commits,
                            size_t count, bool *ret_ours, struct kiln_error *err)
{
    int rc = 0;
    for (size_t at = 0; at < count && rc == 0;) {
        size_t n = count - at < PIPELINE_MAX ? count - at : PIPELINE_MAX;
        rc = n == 1 ? kiln_ledger_commit(ledger, commits + at, ret_ours + at, err)
                    : commit_page(ledger, commits + at, n, ret_ours + at, err);
        at += n;
    }
    return rc;
}

int kiln_ledger_still_ours(struct kiln_ledger *ledger, const struct kiln_job *jobs, size_t count,
                           bool *ret_ours, struct kiln_error *err)
{
    static const struct kiln_statement ask = {
        "still_ours", "SELECT coalesce(j.state = " KILN_SQL_ASSIGNED
                      ", false) FROM unnest($1::bigint[], $2::integer[])"
                      " WITH ORDINALITY AS g (id, attempt, n)"
                      " LEFT JOIN job j ON j.id = g.id AND j.attempt = g.attempt ORDER BY g.n"};
    struct kiln_params params = {0};
    struct kiln_array ids, attempts;
    kiln_array_start(&ids, KILN_ARRAY_INT8);
    kiln_array_start(&attempts, KILN_ARRAY_INT4);
    for (size_t i = 0; i < count; i++) {
        kiln_array_int(&ids, (int64_t)jobs[i].id);
        kiln_array_int(&attempts, jobs[i].attempt);
    }
    kiln_bind_array(&params, &ids);
    kiln_bind_array(&params, &attempts);
    PGresult *rows;
    int rc = kiln_ledger_run(ledger, &ask, &params, &rows, err);
    kiln_params_release(&params);
    if (rc != 0)
        return rc;
    for (int i = 0; i < PQntuples(rows) && (size_t)i < count; i++)
        ret_ours[i] = kiln_row_bool(rows, i, 0);
    PQclear(rows);
    return 0;
}
