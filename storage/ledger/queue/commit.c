/* commit.c - the worker's side: records a picture.
 *
 * Image, object and latent rows and the job's move to done are one statement (move.c), hence
 * one transaction and one round trip.  If the job is no longer assigned at the worker's attempt,
 * the statement writes nothing at all.
 */
#include <stdlib.h>
#include <string.h>

#include "schemas/job/line.h"
#include "schemas/job/sizes.h"
#include "storage/ledger/queue/move.h"

#define PIPELINE_MAX 64 /* commits in one round trip */

static const struct kiln_commit_object *latent_object(const struct kiln_commit *commit)
{
    for (size_t i = 0; i < commit->object_count; i++)
        if (strcmp(commit->objects[i].role, KILN_ROLE_LATENT) == 0)
            return &commit->objects[i];
    return NULL;
}

/* flush: NULL, or "off" where a later transaction of the pipeline flushes for all. */
static int bind_commit(struct kiln_params *params, const struct kiln_commit *commit,
                       const char *flush, const struct kiln_statement **ret, struct kiln_error *err)
{
    const struct kiln_job *job = commit->job;
    const struct kiln_commit_object *latent = latent_object(commit);
    if ((commit->latent_encoding != NULL) != (latent != NULL))
        return kiln_fail(err, KILN_INTERNAL,
                         "job %llu: a commit has a latent object and its encoding, or neither",
                         (unsigned long long)job->id);
    const uint32_t shape[] = {commit->latent_channels, latent ? latent->height : 0,
                              latent ? latent->width : 0};
    char prompt_hash[65], drawn_hash[65], mode[KILN_MODE_MAX];
    kiln_mode_text(&commit->mode, mode);
    kiln_prompt_hash(job->prompt, job->negative_prompt, prompt_hash);
    kiln_prompt_hash(kiln_job_drawn(job), job->negative_prompt, drawn_hash);
    *ret = kiln_move_begin(KILN_MOVE_COMMIT, params);
    KILN_BIND(params, job->id, job->attempt, commit->worker, commit->wait_ms, commit->text_ms,
              commit->denoise_ms, commit->decode_ms, commit->encode_ms, commit->upload_ms);
    kiln_bind_copy(params, prompt_hash);
    KILN_BIND(params, commit->model_name, commit->model_hash);
    KILN_BIND_COLUMN(params, TEXT, commit->object_count, commit->objects[i].role);
    KILN_BIND_COLUMN(params, TEXT, commit->object_count, commit->objects[i].key);
    KILN_BIND_COLUMN(params, TEXT, commit->object_count, commit->objects[i].sha256);
    KILN_BIND_COLUMN(params, INT8, commit->object_count, (int64_t)commit->objects[i].bytes);
    KILN_BIND_COLUMN(params, INT4, commit->object_count, commit->objects[i].width);
    KILN_BIND_COLUMN(params, INT4, commit->object_count, commit->objects[i].height);
    KILN_BIND_COLUMN(params, TEXT, commit->object_count, commit->objects[i].content_type);
    KILN_BIND(params, commit->sigma, commit->latent_states);
    KILN_BIND_COLUMN(params, INT4, 3, shape[i]);
    KILN_BIND(params, latent ? latent->key : NULL, commit->latent_encoding, flush);
    /* A commit that names no levels has the one state that its sigma says. */
    KILN_BIND_COLUMN(params, FLOAT8, commit->latent_states,
                     commit->latent_sigmas ? commit->latent_sigmas[i] : commit->sigma);
    KILN_BIND(params, commit->lora_files);
    /* An exact run takes its steps: NULL. */
    kiln_bind_copy(params, mode);
    if (commit->forwards > 0)
        KILN_BIND(params, commit->forwards);
    else
        kiln_bind_text(params, NULL);
    KILN_BIND(params, job->donor.job, job->donor.hit, commit->fallback);
    kiln_bind_copy(params, drawn_hash);
    KILN_BIND(params, commit->start_sigma, commit->own_forwards, commit->start);
    return 0;
}

int kiln_ledger_commit(struct kiln_ledger *ledger, const struct kiln_commit *commit, bool *ret_ours,
                       struct kiln_error *err)
{
    struct kiln_params params = {0};
    const struct kiln_statement *statement;
    int rc = bind_commit(&params, commit, NULL, &statement, err);
    return rc ? rc : kiln_ledger_ask(ledger, statement, &params, KILN_FIELDS(*ret_ours), err);
}

/* The transactions do not wait for the disk; the last statement waits for all of them (move.h). */
static int commit_page(struct kiln_ledger *ledger, const struct kiln_commit *commits, size_t count,
                       bool *ret_ours, struct kiln_error *err)
{
    PGresult *rows[PIPELINE_MAX];
    const struct kiln_statement *statement;
    struct kiln_params *params = calloc(count, sizeof *params);
    if (!params)
        return kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory for %zu commits", count);
    size_t bound = 0;
    int rc = 0;
    for (; bound < count && rc == 0; bound++)
        rc = bind_commit(&params[bound], &commits[bound], "off", &statement, err);
    if (rc == 0)
        rc = kiln_ledger_run_many(ledger, statement, params, count, &kiln_flush_statement, rows,
                                  err);
    while (bound > 0)
        kiln_params_release(&params[--bound]);
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
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i].id);
    KILN_BIND_COLUMN(&params, INT4, count, jobs[i].attempt);
    PGresult *rows;
    int rc = kiln_ledger_run(ledger, &ask, &params, &rows, err);
    if (rc != 0)
        return rc;
    for (int i = 0; i < PQntuples(rows) && (size_t)i < count; i++)
        ret_ours[i] = kiln_row_bool(rows, i, 0);
    PQclear(rows);
    return 0;
}
