/* prompts.c - see prompts.h. */
#include "storage/ledger/gallery/prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/gallery/question.h"
#include "storage/ledger/internal.h"

#define PICTURES                                                                                   \
    "SELECT i.job_id, " MS(                                                                        \
        "i.created_at") ", i.prompt_hash, b.name, i.tenant, i.model_name,"                         \
                        " i.style, CASE WHEN jsonb_array_length(i.loras) > 0 THEN"                 \
                        "  (SELECT string_agg(l->>'name', ' ') FROM "                              \
                        "jsonb_array_elements(i.loras) l) END,"                                    \
                        " i.width, i.height, " KILN_GALLERY_MODE_SQL(                              \
                            "i") ", coalesce(i.safety_flag, -1),"                                  \
                                 " f.job_id IS NOT NULL, coalesce(v.value, 0) FROM image i JOIN "  \
                                 "batch b ON b.id = "                                              \
                                 "i.batch_id"                                                      \
                                 " LEFT JOIN favourite f ON f.job_id = i.job_id"                   \
                                 " LEFT JOIN vote v ON v.job_id = i.job_id WHERE i.pool = $1"

static int read_picture(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct kiln_caller *caller = arg;
    struct kiln_prompt_picture p = {0};
    KILN_READ(rows, row, 0, p.job, p.created_ms, p.prompt_hash, p.batch, p.tenant, p.model, p.style,
              p.loras, p.width, p.height, p.mode, p.level, p.starred);
    KILN_READ(rows, row, 13, p.vote);
    return ((kiln_each_prompt_picture *)caller->each)(caller->arg, &p, err);
}

int kiln_gallery_prompt_pictures(struct kiln_ledger *session, const char *pool,
                                 kiln_each_prompt_picture *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {"prompt_pictures", PICTURES};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_each_ahead(session, &statement, &params, read_picture,
                                  KILN_CALLER(each, arg), err);
}

int kiln_gallery_prompt_pictures_of(struct kiln_ledger *session, const char *pool,
                                    const uint64_t *jobs, size_t count,
                                    kiln_each_prompt_picture *each, void *arg,
                                    struct kiln_error *err)
{
    static const struct kiln_statement statement = {"prompt_pictures_of",
                                                    PICTURES " AND i.job_id = ANY ($2::bigint[])"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i]);
    return kiln_ledger_run_each(session, &statement, &params, read_picture, KILN_CALLER(each, arg),
                                err);
}

static int read_prompt(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct kiln_caller *caller = arg;
    uint64_t job;
    const char *prompt;
    KILN_READ(rows, row, 0, job, prompt);
    return ((kiln_each_prompt *)caller->each)(caller->arg, job, prompt, err);
}

int kiln_gallery_prompts_of(struct kiln_ledger *session, const uint64_t *jobs, size_t count,
                            kiln_each_prompt *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "prompts_of", "SELECT job_id, prompt FROM image WHERE job_id = ANY ($1::bigint[])"};
    struct kiln_params params = {0};
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i]);
    return kiln_ledger_run_each(session, &statement, &params, read_prompt, KILN_CALLER(each, arg),
                                err);
}

/* --- vectors -------------------------------------------------------------------------------- */

struct reading {
    kiln_each_prompt_vector *each;
    void *arg;
    uint8_t *row; /* [dims] */
    size_t dims;
};

static int read_vector(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct reading *reading = arg;
    struct kiln_prompt_vector vector = {.row = reading->row};
    const char *bytes;
    double scale;
    KILN_READ(rows, row, 0, vector.prompt_hash, scale, bytes);
    if (!kiln_row_bytes(bytes, reading->row, reading->dims))
        return 0;
    vector.scale = (float)scale;
    for (size_t d = 0; d < reading->dims; d++)
        reading->row[d] ^= 0x80; /* signed to +128 */
    return reading->each(reading->arg, &vector, err);
}

int kiln_gallery_vectors(struct kiln_ledger *session, const char *recipe, size_t dims,
                         kiln_each_prompt_vector *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_vectors", "SELECT prompt_hash, scale, v FROM gallery_vector WHERE recipe = $1"};
    struct kiln_params params = {0};
    struct reading reading = {each, arg, malloc(dims), dims};
    if (!reading.row)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a vector");
    KILN_BIND(&params, recipe);
    int rc = kiln_ledger_each_ahead(session, &statement, &params, read_vector, &reading, err);
    free(reading.row);
    return rc;
}

int kiln_gallery_vectors_of(struct kiln_ledger *session, const char *recipe, size_t dims,
                            const struct kiln_prompt_hash *prompts, size_t count,
                            kiln_each_prompt_vector *each, void *arg, struct kiln_error *err)
{
    /* OFFSET 0: rows are looked up one by one, whatever the planner expects. */
    static const struct kiln_statement statement = {
        KILN_PLANNED_ONCE("gallery_vectors_of"),
        "SELECT v.* FROM unnest($2::text[]) w (hash) CROSS JOIN LATERAL (SELECT prompt_hash, scale,"
        "  v FROM gallery_vector WHERE recipe = $1::text"
        "  AND prompt_hash = w.hash COLLATE \"C\" OFFSET 0) v"};
    struct kiln_params params = {0};
    struct reading reading = {each, arg, malloc(dims), dims};
    if (!reading.row)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a vector");
    KILN_BIND(&params, recipe);
    KILN_BIND_COLUMN(&params, TEXT, count, prompts[i].hex);
    int rc = kiln_ledger_run_each(session, &statement, &params, read_vector, &reading, err);
    free(reading.row);
    return rc;
}

static void put_hex(struct kiln_text *text, uint8_t byte)
{
    static const char digits[] = "0123456789abcdef";
    kiln_text_add(text, (const char[]){digits[byte >> 4], digits[byte & 15]}, 2);
}

static const char *row_hex(struct kiln_text *text, const struct kiln_prompt_vector *v, size_t dims)
{
    kiln_text_clear(text);
    for (size_t d = 0; d < dims; d++)
        put_hex(text, v->row[d] ^ 0x80);
    return text->failed ? NULL : text->at;
}

static const char *tokens_hex(struct kiln_text *text, const struct kiln_prompt_vector *v)
{
    kiln_text_clear(text);
    for (size_t i = 0; i < v->tokens_size; i++)
        put_hex(text, v->tokens[i]);
    return text->failed || !v->tokens ? NULL : text->at;
}

int kiln_gallery_vectors_put(struct kiln_ledger *session, const char *recipe, size_t dims,
                             const struct kiln_prompt_vector *vectors, size_t count,
                             struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_vectors_put",
        "INSERT INTO gallery_vector (prompt_hash, recipe, scale, v, tokens)"
        " SELECT g.hash, $1, g.scale, decode(g.v, 'hex'), decode(g.tokens, 'hex')"
        " FROM unnest($2::text[], $3::float8[], $4::text[], $5::text[]) g (hash, scale, v, tokens)"
        " WHERE g.v IS NOT NULL ON CONFLICT DO NOTHING"};
    struct kiln_params params = {0};
    struct kiln_text hex = {0};
    KILN_BIND(&params, recipe);
    KILN_BIND_COLUMN(&params, TEXT, count, vectors[i].prompt_hash);
    KILN_BIND_COLUMN(&params, FLOAT8, count, (double)vectors[i].scale);
    KILN_BIND_COLUMN(&params, TEXT, count, row_hex(&hex, &vectors[i], dims));
    KILN_BIND_COLUMN(&params, TEXT, count, tokens_hex(&hex, &vectors[i]));
    kiln_text_release(&hex);
    return kiln_ledger_run(session, &statement, &params, NULL, err);
}

/* --- tokens --------------------------------------------------------------------------------- */
static int read_tokens(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct kiln_caller *caller = arg;
    return ((kiln_each_prompt_tokens *)caller->each)(caller->arg, (size_t)row,
                                                     (const uint8_t *)PQgetvalue(rows, row, 0),
                                                     (size_t)PQgetlength(rows, row, 0), err);
}

int kiln_gallery_tokens(struct kiln_ledger *session, const char *recipe,
                        const struct kiln_prompt_hash *prompts, size_t count,
                        kiln_each_prompt_tokens *each, void *arg, struct kiln_error *err)
{
    /* OFFSET 0: rows are looked up one by one, whatever the planner expects. */
    static const struct kiln_statement statement = {
        KILN_BINARY_ROWS("gallery_tokens"),
        "SELECT v.tokens FROM unnest($2::text[]) WITH ORDINALITY AS w (hash, place)"
        " LEFT JOIN LATERAL (SELECT tokens FROM gallery_vector WHERE recipe = $1::text"
        "  AND prompt_hash = w.hash COLLATE \"C\" OFFSET 0) v ON true ORDER BY w.place"};
    struct kiln_params params = {0};
    KILN_BIND(&params, recipe);
    KILN_BIND_COLUMN(&params, TEXT, count, prompts[i].hex);
    return kiln_ledger_run_each(session, &statement, &params, read_tokens, KILN_CALLER(each, arg),
                                err);
}

static int read_stored(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct kiln_caller *caller = arg;
    return ((kiln_each_stored_tokens *)caller->each)(caller->arg, PQgetvalue(rows, row, 0),
                                                     (const uint8_t *)PQgetvalue(rows, row, 1),
                                                     (size_t)PQgetlength(rows, row, 1), err);
}

static int ask_more(struct kiln_ledger *session, uint32_t block, bool *ret, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_vector_blocks",
        "SELECT pg_relation_size('gallery_vector') / current_setting('block_size')::bigint"
        " > $1::bigint"};
    struct kiln_params params = {0};
    KILN_BIND(&params, block);
    return kiln_ledger_ask(session, &statement, &params, KILN_FIELDS(*ret), err);
}

int kiln_gallery_tokens_walk(struct kiln_ledger *session, const char *recipe, uint32_t blocks,
                             uint32_t *block, bool *ret_more, kiln_each_stored_tokens *each,
                             void *arg, struct kiln_error *err)
{
    /* OFFSET 0: without it, a plan might walk the rows of the recipe by the index. */
    static const struct kiln_statement statement = {
        KILN_BINARY_ROWS("gallery_tokens_walk"),
        "SELECT prompt_hash, tokens FROM (SELECT recipe, prompt_hash, tokens FROM gallery_vector"
        "  WHERE ctid >= $2::tid AND ctid < $3::tid OFFSET 0) v WHERE recipe = $1"};
    struct kiln_params params = {0};
    const uint32_t end = *block + blocks;
    char from[24], to[24];
    snprintf(from, sizeof from, "(%u,0)", *block);
    snprintf(to, sizeof to, "(%u,0)", end);
    KILN_BIND(&params, recipe, (const char *)from, (const char *)to);
    int rc = kiln_ledger_run_each(session, &statement, &params, read_stored, KILN_CALLER(each, arg),
                                  err);
    rc = rc ? rc : ask_more(session, end, ret_more, err);
    if (rc == 0)
        *block = end;
    return rc;
}

/* --- upkeep --------------------------------------------------------------------------------- */
int kiln_gallery_vectors_forget(struct kiln_ledger *session, uint32_t rows,
                                struct kiln_vector_place *place, struct kiln_error *err)
{
    /* The hash of a picture has the collation of the database, as its index.  OFFSET 0
     * makes Postgres ask that index for each prompt. */
    static const struct kiln_statement statement = {
        "vectors_forget",
        "WITH page AS MATERIALIZED (SELECT recipe, prompt_hash, made_at FROM gallery_vector"
        "  WHERE (recipe, prompt_hash) > ($1::text, $2::text) ORDER BY recipe, prompt_hash"
        "  LIMIT $3::integer),"
        " gone AS (DELETE FROM gallery_vector v USING page p WHERE v.recipe = p.recipe"
        "  AND v.prompt_hash = p.prompt_hash AND p.made_at < now() - interval '1 day'"
        "  AND NOT EXISTS (SELECT FROM image i"
        "   WHERE i.prompt_hash = p.prompt_hash COLLATE \"default\" OFFSET 0))"
        " SELECT recipe, prompt_hash FROM page ORDER BY recipe DESC, prompt_hash DESC LIMIT 1"};
    struct kiln_params params = {0};
    struct kiln_vector_place next = {"", ""};
    KILN_BIND(&params, (const char *)place->recipe, (const char *)place->prompt_hash, rows);
    int rc = kiln_ledger_ask(session, &statement, &params,
                             KILN_FIELDS(next.recipe, next.prompt_hash), err);
    if (rc == 0)
        *place = next;
    return rc;
}
