/* latents.c - see latents.h. */
#include "storage/ledger/read/latents.h"

#include <string.h>

#include "storage/ledger/internal.h"

int kiln_ledger_latents(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                        size_t count, struct kiln_latent_row *ret, struct kiln_error *err)
{
    static const struct kiln_statement look = {
        "latents", "SELECT g.id, j.id IS NOT NULL, coalesce(l.key, ''), coalesce(o.sha256, ''),"
                   " o.bytes, coalesce(l.model, ''), coalesce(l.model_hash, ''), l.width, "
                   "l.height, l.states, l.sigma, coalesce(l.lora_set, '')"
                   " FROM unnest($2::bigint[]) WITH ORDINALITY AS g (id, n)"
                   " LEFT JOIN job j ON j.id = g.id AND j.pool = $1"
                   " LEFT JOIN latent l ON l.job_id = j.id LEFT JOIN object o ON o.key = l.key"
                   " ORDER BY g.n"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, pool);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)ids[i]);
    int rc = kiln_ledger_run(ledger, &look, &params, &rows, err);
    if (rc != 0)
        return rc;
    for (int i = 0; i < PQntuples(rows) && (size_t)i < count; i++)
        KILN_READ(rows, i, 0, ret[i].job, ret[i].known, ret[i].key, ret[i].sha256, ret[i].bytes,
                  ret[i].model, ret[i].model_hash, ret[i].width, ret[i].height, ret[i].states,
                  ret[i].sigma, ret[i].lora_set);
    PQclear(rows);
    return 0;
}

int kiln_ledger_like_latents(struct kiln_ledger *ledger, const char *pool, uint64_t job,
                             uint32_t most, struct kiln_latent_row *ret, uint32_t *ret_count,
                             struct kiln_error *err)
{
    static const struct kiln_statement look = {
        "like_latents",
        "SELECT m.job_id, true, m.key, coalesce(o.sha256, ''), o.bytes, m.model, m.model_hash,"
        " m.width, m.height, m.states, m.sigma, m.lora_set FROM latent l JOIN latent m"
        " ON m.prompt_hash = l.prompt_hash AND m.model_hash = l.model_hash"
        " AND m.width = l.width AND m.height = l.height AND m.model = l.model"
        " AND m.steps = l.steps AND m.lora_set = l.lora_set AND m.guidance = l.guidance"
        " AND m.mode = l.mode AND m.sigma = 0 AND m.job_id <> l.job_id"
        " JOIN job j ON j.id = m.job_id AND j.pool = $1 LEFT JOIN object o ON o.key = m.key"
        " WHERE l.job_id = $2::bigint AND " KILN_SQL_DONOR_LORA(
            "m") " ORDER BY m.job_id DESC LIMIT $3::integer"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, pool, job, most);
    int rc = kiln_ledger_run(ledger, &look, &params, &rows, err);
    if (rc != 0)
        return rc;
    *ret_count = 0;
    for (int i = 0; i < PQntuples(rows) && *ret_count < most; i++) {
        struct kiln_latent_row *row = &ret[(*ret_count)++];
        KILN_READ(rows, i, 0, row->job, row->known, row->key, row->sha256, row->bytes, row->model,
                  row->model_hash, row->width, row->height, row->states, row->sigma, row->lora_set);
    }
    PQclear(rows);
    return 0;
}

int kiln_ledger_prompts(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                        size_t count, char **ret, struct kiln_error *err)
{
    static const struct kiln_statement look = {
        "prompts", "SELECT coalesce(j.prompt_drawn, j.prompt) FROM unnest($2::bigint[]) WITH "
                   "ORDINALITY AS g (id, n)"
                   " LEFT JOIN job j ON j.id = g.id AND j.pool = $1 ORDER BY g.n"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, pool);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)ids[i]);
    int rc = kiln_ledger_run(ledger, &look, &params, &rows, err);
    if (rc != 0)
        return rc;
    bool complete = true;
    for (int i = 0; i < PQntuples(rows) && (size_t)i < count; i++)
        complete &= ret[i] || KILN_READ(rows, i, 0, ret[i]);
    PQclear(rows);
    return complete ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for prompts");
}

int kiln_ledger_model_hash(struct kiln_ledger *ledger, const char *pool, const char *model,
                           char ret[65], struct kiln_error *err)
{
    static const struct kiln_statement look = {
        "model_hash",
        "SELECT coalesce((SELECT model_hash FROM ("
        "  (SELECT i.model_hash, i.created_at FROM (SELECT * FROM image ORDER BY job_id DESC"
        "    LIMIT 2000) i WHERE i.pool = $1 AND i.model = $2)"
        "  UNION ALL (SELECT l.model_hash, l.created_at FROM (SELECT * FROM latent"
        "    ORDER BY job_id DESC LIMIT 2000) l JOIN job j ON j.id = l.job_id"
        "    WHERE j.pool = $1 AND l.model = $2)) newest ORDER BY created_at DESC LIMIT 1), '')"};
    struct kiln_params params = {0};
    char found[65] = "";
    KILN_BIND(&params, pool, model);
    int rc = kiln_ledger_ask(ledger, &look, &params, KILN_FIELDS(found), err);
    if (rc == 0)
        memcpy(ret, found, sizeof found);
    return rc;
}
