/* documents.c - see documents.h. */
#include "storage/ledger/gallery/documents.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/gallery/document.h"
#include "storage/ledger/gallery/windows.h"

/* --- reading pictures --------------------------------------------------------------------------
 */

struct document_row {
    uint64_t job;
    int level;
    char day[16];
    char *pool, *tsv; /* owned */
};

struct documents {
    struct document_row *rows;
    size_t count;
};

static void release(struct documents *documents)
{
    for (size_t i = 0; i < documents->count; i++) {
        free(documents->rows[i].pool);
        free(documents->rows[i].tsv);
    }
    free(documents->rows);
}

static int read_document(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct documents *documents = arg;
    struct document_row *to = &documents->rows[documents->count];
    struct kiln_document from;
    struct kiln_text text = {0};
    bool there = KILN_READ(rows, row, 0, to->job, to->day, to->level, to->pool, from.prompt,
                           from.custom_id, from.style, from.loras, from.tenant, from.model,
                           from.batch_id, from.width, from.height, from.aspect, from.mode);
    from.starred = kiln_row_bool(rows, row, 15);
    from.vote = (int)kiln_row_i64(rows, row, 16);
    from.part = to->job >> KILN_PART_BITS;
    kiln_document_put(&text, &from);
    to->tsv = kiln_text_take(&text);
    documents->count++;
    return there && to->tsv ? 0 : kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for words");
}

#define ASPECT KILN_GALLERY_ASPECT_SQL("i")
#define MODE KILN_GALLERY_MODE_SQL("i")
static const struct kiln_statement read_statement = {
    "gallery_documents",
    "SELECT i.job_id, (i.created_at AT TIME ZONE 'UTC')::date, coalesce(i.safety_flag, -1), i.pool,"
    " i.prompt, j.custom_id, i.style, (SELECT string_agg(l ->> 'name', ' ')"
    "  FROM jsonb_array_elements(i.loras) l), i.tenant, i.model_name, i.batch_id, i.width,"
    " i.height, " ASPECT ", " MODE ", EXISTS (SELECT FROM favourite f WHERE f.job_id = i.job_id),"
    " coalesce((SELECT value FROM vote v WHERE v.job_id = i.job_id), 0)"
    " FROM image i LEFT JOIN job j ON j.id = i.job_id WHERE i.job_id = ANY ($1::bigint[])"};

/* --- writing rows ------------------------------------------------------------------------------
 */

/* $1 all jobs; then a column of the rows each: job, day, level, pool, tsv.  gallery_day gets the
 * difference between the rows that were and those that are.  Fingerprints of pictures that have
 * gone or have another file go too; new ones are made elsewhere (fingerprints.h). */
static const struct kiln_statement write_statement = {
    "gallery_write",
    "WITH was AS MATERIALIZED (SELECT job_id, pool, day, coalesce(level, -1) AS level"
    "  FROM gallery_text WHERE job_id = ANY ($1::bigint[])),"
    " is_now AS MATERIALIZED (SELECT job_id, day::date, level, pool, tsv FROM unnest("
    "  $2::bigint[], $3::text[], $4::smallint[], $5::text[], $6::text[])"
    "  AS u (job_id, day, level, pool, tsv)),"
    " removed AS (DELETE FROM gallery_text WHERE job_id = ANY (ARRAY(SELECT job_id FROM was"
    "  EXCEPT SELECT job_id FROM is_now))),"
    " unprinted AS (DELETE FROM gallery_picture p WHERE job_id = ANY ($1::bigint[])"
    "  AND (NOT EXISTS (SELECT FROM is_now n WHERE n.job_id = p.job_id) OR p.file IS DISTINCT FROM"
    "   (SELECT " KILN_FINGERPRINT_FILE_SQL " FROM object o WHERE o.job_id = p.job_id"
    "    AND o.role = 'full'))),"
    " written AS (INSERT INTO gallery_text AS t (job_id, day, level, pool, tsv)"
    "  SELECT job_id, day, nullif(level, -1), pool, tsv::tsvector FROM is_now ORDER BY job_id"
    "  ON CONFLICT (job_id) DO UPDATE SET day = excluded.day, level = excluded.level,"
    "   pool = excluded.pool, tsv = excluded.tsv"
    "  WHERE (t.day, t.level, t.pool, t.tsv) IS DISTINCT FROM"
    "   (excluded.day, excluded.level, excluded.pool, excluded.tsv))"
    " INSERT INTO gallery_day AS d (pool, day, level, pictures, first_job, last_job)"
    " SELECT pool, day, level, sum(n), min(job_id), max(job_id) FROM"
    "  (SELECT pool, day, level, job_id, -1 AS n FROM was"
    "   UNION ALL SELECT pool, day, level, job_id, 1 FROM is_now) c"
    " GROUP BY pool, day, level ORDER BY pool, day, level ON CONFLICT (pool, day, level) DO UPDATE "
    "SET"
    "  pictures = d.pictures + excluded.pictures,"
    "  first_job = least(d.first_job, excluded.first_job),"
    "  last_job = greatest(d.last_job, excluded.last_job)"};

static int write_rows(struct kiln_ledger *session, const uint64_t *jobs, size_t count,
                      const struct documents *documents, struct kiln_error *err)
{
    const struct document_row *rows = documents->rows;
    struct kiln_params params = {0};
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i]);
    KILN_BIND_COLUMN(&params, INT8, documents->count, (int64_t)rows[i].job);
    KILN_BIND_COLUMN(&params, TEXT, documents->count, rows[i].day);
    KILN_BIND_COLUMN(&params, INT2, documents->count, rows[i].level);
    KILN_BIND_COLUMN(&params, TEXT, documents->count, rows[i].pool);
    KILN_BIND_COLUMN(&params, TEXT, documents->count, rows[i].tsv);
    return kiln_ledger_run(session, &write_statement, &params, NULL, err);
}

static void note_gone(const uint64_t *jobs, size_t count, const struct documents *documents,
                      bool *ret_gone)
{
    for (size_t i = 0; i < count; i++) {
        ret_gone[i] = true;
        for (size_t k = 0; k < documents->count && ret_gone[i]; k++)
            ret_gone[i] = documents->rows[k].job != jobs[i];
    }
}

int kiln_documents_write(struct kiln_ledger *session, const uint64_t *jobs, size_t count,
                         bool *ret_gone, struct kiln_error *err)
{
    assert(count > 0 && count <= KILN_DOCUMENTS_MAX);
    struct documents documents = {.rows = calloc(count, sizeof *documents.rows)};
    struct kiln_params params = {0};
    if (!documents.rows)
        return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for words");
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i]);
    int rc =
        kiln_ledger_run_each(session, &read_statement, &params, read_document, &documents, err);
    if (rc == 0)
        rc = write_rows(session, jobs, count, &documents, err);
    if (rc == 0)
        note_gone(jobs, count, &documents, ret_gone);
    release(&documents);
    return rc;
}

/* --- words, counted ----------------------------------------------------------------------------
 */

int kiln_documents_count_words(struct kiln_ledger *session, uint64_t *cursor, uint64_t to,
                               uint32_t rows_max, uint32_t *ret_rows, struct kiln_error *err)
{
    static const struct kiln_statement find = {
        "gallery_uncounted",
        "SELECT coalesce(max(job_id), $1), count(*) FROM (SELECT job_id"
        "  FROM gallery_text WHERE job_id > $1::bigint AND job_id <= $3::bigint"
        "  ORDER BY job_id LIMIT $2::integer) page"};
    /* Numbers and ids, of which each picture may have one, are left out; those of filters are not.
     */
    static const struct kiln_statement count = {
        "gallery_count_words",
        "INSERT INTO gallery_word AS w (word, pictures) SELECT word, ndoc FROM ts_stat("
        "  format('SELECT tsv FROM gallery_text WHERE job_id > %s AND job_id <= %s',"
        "  $1::bigint, $2::bigint)) WHERE (word !~ '[0-9]' OR word ~ '^[a-z]:') AND length(word) "
        "<= 40"
        " ORDER BY word COLLATE \"C\" ON CONFLICT (word) DO UPDATE"
        " SET pictures = w.pictures + excluded.pictures"};
    struct kiln_params params = {0};
    uint64_t last;
    KILN_BIND(&params, *cursor, rows_max, to);
    int rc = kiln_ledger_ask(session, &find, &params, KILN_FIELDS(last, *ret_rows), err);
    if (rc != 0 || *ret_rows == 0)
        return rc;
    KILN_BIND(&params, *cursor, last);
    rc = kiln_ledger_run(session, &count, &params, NULL, err);
    if (rc == 0)
        *cursor = last;
    return rc;
}
