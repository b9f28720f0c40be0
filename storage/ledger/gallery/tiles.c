/* tiles.c - the pictures of a list as the page shows them, and those that stand for others. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "schemas/job/sizes.h"
#include "storage/ledger/gallery/question.h"

/* The files of a picture i, a line each, as read_objects reads them: one text is made and sent in
 * less time than a column for each of their values. */
#define OBJECTS                                                                                    \
    "(SELECT string_agg(role || ' ' || bytes || ' ' || width || ' ' || height || ' ' || key,"      \
    "  E'\\n') FROM object WHERE job_id = i.job_id AND role <> '" KILN_ROLE_LATENT "'"             \
    "  AND strpos(role || key, E'\\n') = 0)"

/* $17: the jobs, in the order of the answer. */
#define CREATED MS("i.created_at")
#define COLOUR "(SELECT p.colour FROM gallery_picture p WHERE p.job_id = i.job_id)"
#define TILES(SIZE)                                                                                \
    "SELECT g.n, i.job_id, " CREATED ", i.width, i.height, i.prompt, i.prompt_hash, i.mode,"       \
    " b.name, i.tenant, i.style, i.seed::text,"                                                    \
    " EXISTS (SELECT FROM favourite f WHERE f.job_id = i.job_id),"                                 \
    " coalesce(i.safety_flag, -1), coalesce(" COLOUR ", -1), " OBJECTS ", " SIZE                   \
    " FROM unnest($17::bigint[]) WITH ORDINALITY AS g (id, n)"                                     \
    " CROSS JOIN LATERAL (SELECT i.* FROM image i WHERE i.job_id = g.id"                           \
    "  AND " KILN_GALLERY_SHOWN " OFFSET 0) i CROSS JOIN LATERAL (SELECT i.prompt_hash AS hash) s" \
    " JOIN batch b ON b.id = i.batch_id ORDER BY g.n"
#define STACK                                                                                      \
    "(SELECT count(*) FROM (SELECT FROM image i WHERE i.prompt_hash = s.hash"                      \
    "  AND " KILN_GALLERY_SHOWN " LIMIT 1000) v)"

struct reading {
    kiln_each_tile *each;
    void *arg;
    const double *scores;
    uint32_t rows;
};

/* A line "ROLE BYTES WIDTH HEIGHT KEY" of so many bytes.  One of another form is no file of ours.
 */
static void read_object(const char *line, size_t len, struct kiln_gallery_tile *tile)
{
    struct kiln_gallery_object *const at[KILN_STORED_SIZES] = {&tile->full, &tile->medium,
                                                               &tile->small};
    struct kiln_gallery_object object = {0};
    char role[16];
    int head = 0;
    if (sscanf(line, "%15s %" SCNu64 " %" SCNu32 " %" SCNu32 "%n", role, &object.bytes,
               &object.width, &object.height, &head) != 4)
        return;
    const size_t key = (size_t)head + 1; /* behind one blank */
    if (key >= len || len - key >= sizeof object.key)
        return;
    memcpy(object.key, line + key, len - key);
    for (int i = 0; i < KILN_STORED_SIZES; i++)
        if (strcmp(role, kiln_stored_sizes[i].name) == 0)
            *at[i] = object;
}

/* text: lines; NULL: none. */
static void read_objects(const char *text, struct kiln_gallery_tile *tile)
{
    while (text && *text) {
        const size_t len = strcspn(text, "\n");
        read_object(text, len, tile);
        text += len + (text[len] == '\n');
    }
}

static int read_tile(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct reading *reading = arg;
    struct kiln_gallery_tile tile = {0};
    const char *objects;
    uint32_t place;
    KILN_READ(rows, row, 0, place, tile.job, tile.created_ms, tile.width, tile.height, tile.prompt,
              tile.prompt_hash, tile.mode, tile.batch, tile.tenant, tile.style, tile.seed,
              tile.starred, tile.level, tile.colour, objects);
    KILN_READ(rows, row, 16, tile.stack);
    read_objects(objects, &tile);
    tile.relevance = reading->scores ? reading->scores[place - 1] : 0;
    reading->rows++;
    return reading->each(reading->arg, &tile, err);
}

int kiln_gallery_read_tiles(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                            uint64_t batch_id, const uint64_t *jobs, const double *scores,
                            uint32_t count, kiln_each_tile *each, void *arg, uint32_t *ret_rows,
                            struct kiln_error *err)
{
    static const struct kiln_statement tiles[2] = {
        {KILN_PLANNED_ONCE("gallery_tiles"), TILES("0")},
        {KILN_PLANNED_ONCE("gallery_stacks"), TILES(STACK)}};
    struct kiln_params params = {0};
    struct reading reading = {each, arg, scores, 0};
    kiln_gallery_bind(&params, filter, batch_id);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i]);
    int rc =
        kiln_ledger_run_each(session, &tiles[filter->stacked], &params, read_tile, &reading, err);
    if (rc == 0 && ret_rows)
        *ret_rows = reading.rows;
    return rc;
}

int kiln_gallery_tiles(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                       const uint64_t *jobs, uint32_t count, kiln_each_tile *each, void *arg,
                       struct kiln_error *err)
{
    uint64_t batch_id = 0;
    int rc = filter->batch
                 ? kiln_ledger_batch_id(session, filter->pool, filter->batch, &batch_id, err)
                 : 0;
    return rc ? rc
              : kiln_gallery_read_tiles(session, filter, batch_id, jobs, NULL, count, each, arg,
                                        NULL, err);
}

/* --- stacks ------------------------------------------------------------------------------------
 */

/* $17 jobs, $18 the words: the newest picture of each prompt among those of the question. */
#define HEADS                                                                                      \
    "WITH o AS MATERIALIZED (SELECT g.id, g.n, p.prompt_hash AS hash FROM unnest($17::bigint[])"   \
    "  WITH ORDINALITY AS g (id, n) CROSS JOIN LATERAL (SELECT prompt_hash FROM image"             \
    "   WHERE job_id = g.id OFFSET 0) p),"                                                         \
    " h AS MATERIALIZED (SELECT hash, (SELECT i.job_id FROM image i WHERE i.prompt_hash = p.hash"  \
    "  AND " KILN_GALLERY_SHOWN " AND ($18::text IS NULL OR EXISTS (SELECT FROM gallery_text t"    \
    "   WHERE t.job_id = i.job_id AND (t.tsv @@ $18::tsquery) IS TRUE))"                           \
    "  ORDER BY i.job_id + 0 DESC LIMIT 1) AS head FROM (SELECT DISTINCT hash FROM o) p)"          \
    " SELECT o.id FROM o JOIN h ON h.hash = o.hash AND h.head = o.id ORDER BY o.n"

int kiln_gallery_heads(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                       uint64_t *jobs, uint32_t *count, struct kiln_error *err)
{
    static const struct kiln_statement statement = {KILN_PLANNED_ONCE("gallery_heads"), HEADS};
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    if (*count == 0)
        return 0;
    kiln_gallery_bind(&params, &question->query->filter, question->batch_id);
    KILN_BIND_COLUMN(&params, INT8, *count, (int64_t)jobs[i]);
    KILN_BIND(&params, (const char *)question->words);
    int rc = kiln_ledger_run(session, &statement, &params, &rows, err);
    if (rc)
        return rc;
    *count = 0;
    for (int row = 0; row < PQntuples(rows); row++)
        jobs[(*count)++] = kiln_row_u64(rows, row, 0);
    PQclear(rows);
    return 0;
}
