/* prompts.c - see prompts.h. */
#include "storage/ledger/gallery/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/places.h"
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

/* Of a ctid as text, "(block,row)". */
static kiln_row_address address_of(const char *ctid)
{
    char *comma;
    const uint64_t block = strtoul(ctid + 1, &comma, 10);
    return block << 16 | strtoul(comma + 1, NULL, 10);
}

static int read_vector(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct reading *reading = arg;
    struct kiln_prompt_vector vector = {.row = reading->row};
    const char *bytes, *address;
    double scale;
    KILN_READ(rows, row, 0, vector.prompt_hash, scale, bytes, address);
    if (!kiln_row_bytes(bytes, reading->row, reading->dims))
        return 0;
    vector.scale = (float)scale;
    vector.address = address_of(address);
    for (size_t d = 0; d < reading->dims; d++)
        reading->row[d] ^= 0x80; /* signed to +128 */
    return reading->each(reading->arg, &vector, err);
}

int kiln_gallery_vectors(struct kiln_ledger *session, const char *recipe, size_t dims,
                         kiln_each_prompt_vector *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_vectors",
        "SELECT prompt_hash, scale, v, ctid FROM gallery_vector WHERE recipe = $1"};
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
                            const struct kiln_prompt_row *prompts, size_t count,
                            kiln_each_prompt_vector *each, void *arg, struct kiln_error *err)
{
    /* OFFSET 0: rows are looked up one by one, whatever the planner expects. */
    static const struct kiln_statement statement = {
        KILN_PLANNED_ONCE("gallery_vectors_of"),
        "SELECT v.* FROM unnest($2::text[]) w (hash) CROSS JOIN LATERAL (SELECT prompt_hash, scale,"
        "  v, ctid FROM gallery_vector WHERE recipe = $1::text"
        "  AND prompt_hash = w.hash COLLATE \"C\" OFFSET 0) v"};
    struct kiln_params params = {0};
    struct reading reading = {each, arg, malloc(dims), dims};
    if (!reading.row)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a vector");
    KILN_BIND(&params, recipe);
    KILN_BIND_COLUMN(&params, TEXT, count, prompts[i].prompt_hash);
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

struct putting {
    struct kiln_prompt_vector *vectors;
    size_t count;
};

static int note_address(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct putting *putting = arg;
    const char *hash, *address;
    (void)err;
    KILN_READ(rows, row, 0, hash, address);
    for (size_t i = 0; i < putting->count; i++)
        if (strcmp(putting->vectors[i].prompt_hash, hash) == 0)
            putting->vectors[i].address = address_of(address);
    return 0;
}

int kiln_gallery_vectors_put(struct kiln_ledger *session, const char *recipe, size_t dims,
                             struct kiln_prompt_vector *vectors, size_t count,
                             struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_vectors_put",
        "INSERT INTO gallery_vector (prompt_hash, recipe, scale, v, tokens)"
        " SELECT g.hash, $1, g.scale, decode(g.v, 'hex'), decode(g.tokens, 'hex')"
        " FROM unnest($2::text[], $3::float8[], $4::text[], $5::text[]) g (hash, scale, v, tokens)"
        " WHERE g.v IS NOT NULL ON CONFLICT DO NOTHING"
        " RETURNING prompt_hash, ctid"};
    struct kiln_params params = {0};
    struct kiln_text hex = {0};
    KILN_BIND(&params, recipe);
    KILN_BIND_COLUMN(&params, TEXT, count, vectors[i].prompt_hash);
    KILN_BIND_COLUMN(&params, FLOAT8, count, (double)vectors[i].scale);
    KILN_BIND_COLUMN(&params, TEXT, count, row_hex(&hex, &vectors[i], dims));
    KILN_BIND_COLUMN(&params, TEXT, count, tokens_hex(&hex, &vectors[i]));
    kiln_text_release(&hex);
    return kiln_ledger_run_each(session, &statement, &params, note_address,
                                &(struct putting){vectors, count}, err);
}

/* --- tokens --------------------------------------------------------------------------------- */
/* The arg of a kiln_each_row. */
struct asking {
    const struct kiln_prompt_row *prompts;
    kiln_each_prompt_tokens *each;
    void *arg;
    struct kiln_places by_hash; /* of prompts */
    bool *there;                /* of each prompt: it was at its address */
    size_t missing;             /* prompts that were not */
    uint32_t next;              /* of those, which come in their order */
};

static uint32_t hash_of(const char *prompt_hash)
{
    uint32_t hash = 0;
    for (int i = 0; i < 8 && prompt_hash[i]; i++) /* any digits of a hash are a hash */
        hash = hash * 31 + (unsigned char)prompt_hash[i];
    return hash;
}

static bool hash_at(const void *things, uint32_t n, uint32_t *ret)
{
    const struct kiln_prompt_row *prompts = things;
    *ret = hash_of(prompts[n].prompt_hash);
    return true;
}

static int give_tokens(const struct asking *asking, uint32_t place, const PGresult *rows, int row,
                       int column, struct kiln_error *err)
{
    return asking->each(asking->arg, place, (const uint8_t *)PQgetvalue(rows, row, column),
                        (size_t)PQgetlength(rows, row, column), err);
}

/* A row that may be another prompt's: its hash says whose it is. */
static int read_at_address(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct asking *asking = arg;
    const char *hash = PQgetvalue(rows, row, 0);
    uint32_t place = hash_of(hash), n;
    int rc = 0;
    while (rc == 0 && (n = kiln_places_look(&asking->by_hash, &place)) != KILN_PLACES_NONE)
        if (strcmp(asking->prompts[n].prompt_hash, hash) == 0) {
            asking->there[n] = true;
            asking->missing--;
            rc = give_tokens(asking, n, rows, row, 1, err);
        }
    return rc;
}

static int ask_addresses(struct kiln_ledger *session, const char *recipe, size_t count,
                         struct asking *asking, struct kiln_error *err)
{
    /* OFFSET 0: without it, a plan made for a small table might walk the rows of the recipe. */
    static const struct kiln_statement statement = {
        KILN_BINARY_ROWS("gallery_tokens_at"),
        "SELECT prompt_hash, tokens FROM (SELECT recipe, prompt_hash, tokens FROM gallery_vector"
        "  WHERE ctid = ANY ($2::tid[]) OFFSET 0) v WHERE recipe = $1"};
    struct kiln_params params = {0};
    KILN_BIND(&params, recipe);
    KILN_BIND_COLUMN(&params, TID, count, (int64_t)asking->prompts[i].address);
    return kiln_ledger_run_each(session, &statement, &params, read_at_address, asking, err);
}

static int read_by_key(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct asking *asking = arg;
    while (asking->there[asking->next])
        asking->next++;
    return give_tokens(asking, asking->next++, rows, row, 0, err);
}

/* Those that were not at their addresses. */
static int ask_keys(struct kiln_ledger *session, const char *recipe, size_t count,
                    struct asking *asking, struct kiln_error *err)
{
    /* OFFSET 0: rows are looked up one by one, whatever the planner expects. */
    static const struct kiln_statement statement = {
        KILN_BINARY_ROWS("gallery_tokens"),
        "SELECT v.tokens FROM unnest($2::text[]) WITH ORDINALITY AS w (hash, place)"
        " LEFT JOIN LATERAL (SELECT tokens FROM gallery_vector WHERE recipe = $1::text"
        "  AND prompt_hash = w.hash COLLATE \"C\" OFFSET 0) v ON true ORDER BY w.place"};
    struct kiln_params params = {0};
    struct kiln_array hashes;
    kiln_array_start(&hashes, KILN_ARRAY_TEXT);
    for (size_t i = 0; i < count; i++)
        if (!asking->there[i])
            kiln_array_text(&hashes, asking->prompts[i].prompt_hash);
    KILN_BIND(&params, recipe);
    kiln_bind_array(&params, &hashes);
    return kiln_ledger_run_each(session, &statement, &params, read_by_key, asking, err);
}

int kiln_gallery_tokens(struct kiln_ledger *session, const char *recipe,
                        const struct kiln_prompt_row *prompts, size_t count,
                        kiln_each_prompt_tokens *each, void *arg, struct kiln_error *err)
{
    struct asking asking = {prompts, each, arg, .there = calloc(count + 1, sizeof(bool)),
                            .missing = count};
    int rc = asking.there && kiln_places_fit(&asking.by_hash, prompts, (uint32_t)count, hash_at)
                 ? ask_addresses(session, recipe, count, &asking, err)
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the tokens of prompts");
    if (rc == 0 && asking.missing > 0)
        rc = ask_keys(session, recipe, count, &asking, err);
    kiln_places_release(&asking.by_hash);
    free(asking.there);
    return rc;
}

/* --- upkeep --------------------------------------------------------------------------------- */
int kiln_gallery_vectors_forget(struct kiln_ledger *session, uint32_t rows,
                                struct kiln_vector_place *place, struct kiln_error *err)
{
    /* The hash of a picture has the collation of the database, as its index. */
    static const struct kiln_statement statement = {
        "vectors_forget",
        "WITH page AS MATERIALIZED (SELECT recipe, prompt_hash, made_at FROM gallery_vector"
        "  WHERE (recipe, prompt_hash) > ($1::text, $2::text) ORDER BY recipe, prompt_hash"
        "  LIMIT $3::integer),"
        " gone AS (DELETE FROM gallery_vector v USING page p WHERE v.recipe = p.recipe"
        "  AND v.prompt_hash = p.prompt_hash AND p.made_at < now() - interval '1 day'"
        "  AND NOT EXISTS (SELECT FROM image i"
        "   WHERE i.prompt_hash = p.prompt_hash COLLATE \"default\"))"
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
