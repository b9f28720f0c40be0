/* fingerprints.c - see fingerprints.h. */
#include "storage/ledger/gallery/fingerprints.h"

#include <assert.h>
#include <string.h>

#include "schemas/digest.h"
#include "storage/ledger/gallery/question.h"

/* A picture i of `image`, its row p, and where there is none the files o.  The smallest file is
 * enough for a hash of 64 x 64 places.
 *
 * The plan must suit a page.  OFFSET 0: rows of gallery_picture are looked up one by one; a join
 * reads all of them where the planner expects a tenth of the pictures, which it does of a LIMIT
 * that is a parameter.  So there is also a LIMIT that it knows. */
#define TEXT_OF(number) #number
#define PAGE_MAX(number) TEXT_OF(number)
#define PRINTS(IMAGE)                                                                              \
    "SELECT i.job_id, i.pool, o.key, coalesce(p.file, o.file, 0), p.quality, p.colour, p.pdq"      \
    " FROM (" IMAGE ") i LEFT JOIN LATERAL (SELECT * FROM gallery_picture"                         \
    "  WHERE job_id = i.job_id OFFSET 0) p ON true"                                                \
    " LEFT JOIN LATERAL (SELECT (array_agg(o.key ORDER BY o.width * o.height, o.role))[1] AS key," \
    "  max(" KILN_FINGERPRINT_FILE_SQL ") FILTER (WHERE o.role = 'full') AS file FROM object o"    \
    "  WHERE p.job_id IS NULL AND o.job_id = i.job_id AND o.role IN ('256', '512', 'full')) o"     \
    "  ON true ORDER BY i.job_id DESC"

struct reading {
    kiln_each_fingerprint *each;
    void *arg;
};

static int read_row(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct reading *reading = arg;
    struct kiln_fingerprint_row r = {.made = false};
    const char *hash;
    KILN_READ(rows, row, 0, r.print.job, r.pool, r.key, r.print.file, r.print.quality,
              r.print.colour, hash);
    r.made = kiln_row_bytes(hash, r.print.hash, sizeof r.print.hash);
    return reading->each(reading->arg, &r, err);
}

int kiln_gallery_fingerprints_below(struct kiln_ledger *session, uint64_t below, uint32_t count,
                                    kiln_each_fingerprint *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "fingerprints_below",
        PRINTS("SELECT * FROM (SELECT job_id, pool FROM image WHERE job_id < $1::bigint"
               " ORDER BY job_id DESC LIMIT " PAGE_MAX(
                   KILN_FINGERPRINTS_MAX) ") page LIMIT $2::integer")};
    struct reading reading = {each, arg};
    struct kiln_params params = {0};
    assert(count <= KILN_FINGERPRINTS_MAX);
    KILN_BIND(&params, below, count);
    return kiln_ledger_run_each(session, &statement, &params, read_row, &reading, err);
}

int kiln_gallery_fingerprints_of(struct kiln_ledger *session, const uint64_t *jobs, size_t count,
                                 kiln_each_fingerprint *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "fingerprints_of",
        PRINTS("SELECT job_id, pool FROM image WHERE job_id = ANY ($1::bigint[])")};
    struct reading reading = {each, arg};
    struct kiln_params params = {0};
    assert(count <= KILN_FINGERPRINTS_MAX);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i]);
    return kiln_ledger_run_each(session, &statement, &params, read_row, &reading, err);
}

static const char *hash_hex(const struct kiln_fingerprint *print, char *text)
{
    kiln_hex(print->hash, sizeof print->hash, text);
    return text;
}

int kiln_gallery_fingerprints_put(struct kiln_ledger *session,
                                  const struct kiln_fingerprint *prints, size_t count,
                                  struct kiln_error *err)
{
    /* The lock keeps a picture until the row is there, so that whoever removes the picture finds
     * the row.  One that is being removed is skipped; it is found missing again if it stays. */
    static const struct kiln_statement statement = {
        "fingerprints_put",
        "INSERT INTO gallery_picture (job_id, file, quality, colour, pdq)"
        " SELECT u.job_id, nullif(u.file, 0), u.quality, u.colour, decode(u.pdq, 'hex')"
        " FROM image i JOIN unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::integer[],"
        "  $5::text[]) u (job_id, file, quality, colour, pdq) ON u.job_id = i.job_id"
        " WHERE nullif(u.file, 0) IS NOT DISTINCT FROM (SELECT " KILN_FINGERPRINT_FILE_SQL
        "  FROM object o WHERE o.job_id = i.job_id AND o.role = 'full')"
        " FOR KEY SHARE OF i SKIP LOCKED"
        " ON CONFLICT DO NOTHING"};
    struct kiln_params params = {0};
    char hex[2 * KILN_FINGERPRINT_HASH_BYTES + 1];
    assert(count <= KILN_FINGERPRINTS_MAX);
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)prints[i].job);
    KILN_BIND_COLUMN(&params, INT8, count, prints[i].file);
    KILN_BIND_COLUMN(&params, INT2, count, prints[i].quality);
    KILN_BIND_COLUMN(&params, INT4, count, prints[i].colour);
    KILN_BIND_COLUMN(&params, TEXT, count, hash_hex(&prints[i], hex));
    return kiln_ledger_run(session, &statement, &params, NULL, err);
}

/* --- the same picture --------------------------------------------------------------------------
 */

/* Of pictures with this one's file a few are looked at, those that were written last: there may be
 * a hundred thousand, all black.  The two bounds and the order make the planner read them from the
 * index of files, whatever it thinks that a file is shared by. */
#define FILE_SHARED                                                                                \
    "SELECT job_id FROM gallery_picture WHERE file >= s.file AND file <= s.file"                   \
    " ORDER BY file DESC LIMIT 4 * $3::integer"

int kiln_gallery_same(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                      uint64_t job, uint32_t most, uint64_t *ret_jobs, uint32_t *ret_count,
                      struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        KILN_PLANNED_ONCE("gallery_same"),
        "SELECT job_id FROM (SELECT i.job_id FROM image s JOIN image i"
        "  ON i.prompt_hash = s.prompt_hash AND i.pool = s.pool WHERE s.job_id = $1::bigint"
        "  AND s.pool = $2::text AND i.job_id <> s.job_id"
        "  AND " KILN_GALLERY_SAME_SQL(
            "s", "i") " UNION SELECT v.job_id FROM gallery_picture s"
                      "  CROSS JOIN LATERAL (" FILE_SHARED ") v"
                      "  JOIN object a ON a.job_id = s.job_id AND a.role = 'full' JOIN object b"
                      "   ON b.job_id = v.job_id AND b.role = 'full' AND b.sha256 = a.sha256"
                      "  JOIN image i ON i.job_id = v.job_id AND i.pool = $2"
                      "  WHERE s.job_id = $1 AND v.job_id <> s.job_id) j"
                      " ORDER BY job_id DESC LIMIT $3"};
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    *ret_count = 0;
    KILN_BIND(&params, job, filter->pool, most);
    int rc = kiln_ledger_run(session, &statement, &params, &rows, err);
    for (int row = 0; rc == 0 && row < PQntuples(rows); row++)
        ret_jobs[(*ret_count)++] = kiln_row_u64(rows, row, 0);
    PQclear(rows);
    return rc;
}
