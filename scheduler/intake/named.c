/* named.c - see named.h. */
#include "scheduler/intake/named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job/coarse.h"
#include "storage/ledger/read/latents.h"

/* Models of a page whose weights are asked for; of any more the worker alone decides, which knows
 * its own.  Few pages name two. */
#define MODELS_MAX 8

/* What the pool renders a model with. */
struct weights {
    const char *model; /* as jobs name it, borrowed from one */
    char hash[65];     /* "": it has rendered nothing with it lately */
};

struct check {
    struct kiln_ledger *ledger;
    const char *pool;
    struct weights models[MODELS_MAX];
    size_t model_count;
};

static const char *model_of(const struct kiln_job *job)
{
    return job->model ? job->model : "";
}

bool kiln_job_names_another(const struct kiln_job *job)
{
    return job->init_job != 0 || kiln_job_names_parent(job);
}

/* The hash of the weights that the job would be rendered with, by the pool's newest pictures of its
 * model; "" if that is not known. */
static int hash_for(struct check *check, const struct kiln_job *job, const char **ret,
                    struct kiln_error *err)
{
    const char *model = model_of(job);
    *ret = "";
    for (size_t i = 0; i < check->model_count; i++)
        if (strcmp(check->models[i].model, model) == 0) {
            *ret = check->models[i].hash;
            return 0;
        }
    if (check->model_count == MODELS_MAX)
        return 0;
    struct weights *w = &check->models[check->model_count];
    int rc = kiln_ledger_model_hash(check->ledger, check->pool, model, w->hash, err);
    if (rc)
        return rc;
    w->model = model;
    check->model_count++;
    *ret = w->hash;
    return 0;
}

/* Why the job cannot start from the latent of its init_job; "" if it can.  hash: of the weights
 * that it would be rendered with, or "". */
static void find_fault(const struct kiln_job *job, const struct kiln_latent_row *latent,
                       const char *hash, char *out, size_t size)
{
    const unsigned long long id = job->init_job;
    out[0] = '\0';
    if (!latent->known)
        snprintf(out, size, "init_job is %llu; there is no such job", id);
    else if (!latent->key[0])
        snprintf(
            out, size,
            "init_job is %llu; no latent of it is stored: it is not done, or was rendered with "
            "latents \"none\"",
            id);
    else if (latent->sigma != 0)
        snprintf(out, size, "init_job is %llu; its stored latent ends at sigma %g, unfinished", id,
                 latent->sigma);
    else if (hash[0] && !kiln_latent_of_model(latent, hash))
        snprintf(out, size,
                 "init_job is %llu; its latent is of a model with other weights (%.12s) than the "
                 "pool renders %s with now (%.12s)",
                 id, latent->model_hash, model_of(job)[0] ? model_of(job) : "its own model", hash);
    else if (!kiln_start_fits((struct kiln_picture_size){latent->width, latent->height},
                              (struct kiln_picture_size){job->width, job->height}))
        snprintf(out, size,
                 "init_job is %llu; its latent is of %ux%u, and this job of %ux%u; a latent is "
                 "enlarged up to %d times, and keeps its shape",
                 id, latent->width, latent->height, job->width, job->height,
                 KILN_START_ENLARGE_MAX);
    else if (job->mode.edited && (latent->width != job->width || latent->height != job->height))
        snprintf(out, size,
                 "init_job is %llu; its latent is of %ux%u, and this job of %ux%u; an edit keeps "
                 "the size",
                 id, latent->width, latent->height, job->width, job->height);
}

/* Why the job cannot be taken in, by what the ledger says of the jobs it names: *row is the first
 * of them; moves *row behind the last.  A parent that exists is older than its child, so nothing
 * can be made from itself. */
static int check_named(struct check *check, const struct kiln_job *job,
                       const struct kiln_latent_row **row, char *out, size_t size,
                       struct kiln_error *err)
{
    const char *hash = "";
    out[0] = '\0';
    if (job->init_job) {
        int rc = (*row)->key[0] ? hash_for(check, job, &hash, err) : 0;
        if (rc)
            return rc;
        find_fault(job, (*row)++, hash, out, size);
    }
    if (kiln_job_names_parent(job) && !(*row)++->known && !out[0])
        snprintf(out, size, "parent is %llu; there is no such job",
                 (unsigned long long)job->parent);
    return 0;
}

int kiln_named_check(struct kiln_ledger *ledger, const char *pool, const struct kiln_new_job *jobs,
                     size_t count, kiln_named_told *told, void *arg, struct kiln_error *err)
{
    struct check check = {.ledger = ledger, .pool = pool};
    size_t next = 0;
    uint64_t *ids = calloc(2 * count + 1, sizeof(*ids));
    struct kiln_latent_row *latents = calloc(2 * count + 1, sizeof(*latents));
    const struct kiln_latent_row *row = latents;
    int rc = ids && latents ? 0 : kiln_fail(err, KILN_NO_MEMORY, "intake: no memory for a page");
    for (size_t i = 0; i < count && rc == 0; i++) {
        const struct kiln_job *job = &jobs[i].job;
        if (job->init_job)
            ids[next++] = job->init_job;
        if (kiln_job_names_parent(job))
            ids[next++] = job->parent;
    }
    rc = rc ? rc : kiln_ledger_latents(ledger, pool, ids, next, latents, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        char reason[KILN_ERROR_TEXT_MAX];
        rc = check_named(&check, &jobs[i].job, &row, reason, sizeof(reason), err);
        rc = rc ? rc : told(arg, i, reason, err);
    }
    free(ids);
    free(latents);
    return rc;
}
