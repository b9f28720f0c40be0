/* picture.c - everything of one picture: the record that `kiln show` has, and what a gallery adds.
 */
#include <inttypes.h>

#include "storage/ledger/gallery/question.h"

const char *const kiln_safety_level_names[KILN_SAFETY_LEVELS + 1] = {"clear", "unsure", "mature",
                                                                     "explicit", NULL};

#define RELATED_MAX 1000 /* of variants and children that are counted */

struct whole {
    struct kiln_ledger *session;
    const struct kiln_gallery_filter *filter;
    kiln_each_picture *each;
    void *arg;
    char source[128];
    struct kiln_gallery_picture picture;
};

static int use_job(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct whole *whole = arg;
    whole->picture.job = row;
    return whole->each(whole->arg, &whole->picture, err);
}

/* Within the row of the tile, whose texts are lent. */
static int use_tile(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct whole *whole = arg;
    whole->picture.tile = *tile;
    return kiln_ledger_job(whole->session, whole->filter->pool, tile->job, use_job, whole, err);
}

/* $1 pool, $2 job, $3 levels, $4 the most that is counted. */
static int read_around(struct whole *whole, uint64_t job, struct kiln_error *err)
{
    static const struct kiln_statement around = {
        KILN_PLANNED_ONCE("gallery_around"),
        "SELECT i.safety_score, i.safety_source, (SELECT count(*) FROM (SELECT FROM image v"
        "  WHERE v.prompt_hash = i.prompt_hash AND v.pool = i.pool AND v.job_id <> i.job_id"
        "  AND NOT (" KILN_GALLERY_SAME_SQL(
            "i",
            "v") ")"
                 "  AND coalesce(v.safety_flag, -1) = ANY ($3::smallint[]) LIMIT $4::integer) v),"
                 " (SELECT count(*) FROM (SELECT FROM job c JOIN image v ON v.job_id = c.id"
                 "  WHERE c.parent = i.job_id AND c.parent <> 0"
                 "  AND coalesce(v.safety_flag, -1) = ANY ($3) LIMIT $4) c),"
                 " coalesce((SELECT v.job_id FROM job c JOIN image v ON v.job_id = c.parent"
                 "  WHERE c.id = i.job_id AND v.pool = i.pool"
                 "  AND coalesce(v.safety_flag, -1) = ANY ($3)), 0),"
                 " coalesce((SELECT v.job_id FROM image v WHERE v.job_id = i.donor"
                 "  AND i.fallback IS NULL AND v.pool = i.pool"
                 "  AND coalesce(v.safety_flag, -1) = ANY ($3)), 0),"
                 " coalesce((SELECT value FROM vote v WHERE v.job_id = i.job_id), 0)"
                 " FROM image i WHERE i.job_id = $2::bigint AND i.pool = $1::text"};
    struct kiln_params params = {0};
    struct kiln_gallery_picture *picture = &whole->picture;
    KILN_BIND(&params, whole->filter->pool, job);
    kiln_gallery_bind_levels(&params, whole->filter);
    KILN_BIND(&params, RELATED_MAX);
    int rc = kiln_ledger_ask(whole->session, &around, &params,
                             KILN_FIELDS(picture->safety_score, whole->source, picture->variants,
                                         picture->children, picture->parent, picture->donor,
                                         picture->vote),
                             err);
    if (rc)
        return rc;
    picture->safety_source = *whole->source ? whole->source : NULL;
    return kiln_ledger_made(whole->session, job, &picture->made, err);
}

int kiln_gallery_picture(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                         uint64_t job, kiln_each_picture *each, void *arg, struct kiln_error *err)
{
    struct kiln_gallery_filter shown = {.pool = filter->pool,
                                        .level_max = filter->level_max,
                                        .show_unchecked = filter->show_unchecked};
    struct whole whole = {.session = session, .filter = &shown, .each = each, .arg = arg};
    uint32_t found = 0;
    int rc = job <= INT64_MAX ? read_around(&whole, job, err) : 0;
    if (rc == 0 && job <= INT64_MAX)
        rc = kiln_gallery_read_tiles(session, &shown, 0, &job, NULL, 1, use_tile, &whole, &found,
                                     err);
    if (rc == 0 && !found)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no picture of job %" PRIu64 " in pool %s",
                         job, filter->pool);
    return rc;
}

/* --- what was made from it -------------------------------------------------------------------- */

struct children {
    uint64_t jobs[KILN_GALLERY_ROWS_MAX];
    uint32_t count;
};

static int read_child(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct children *children = arg;
    (void)err;
    KILN_READ(rows, row, 0, children->jobs[children->count]);
    children->count++;
    return 0;
}

int kiln_gallery_children(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                          uint64_t job, uint32_t max, kiln_each_tile *each, void *arg,
                          struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        KILN_PLANNED_ONCE("gallery_children"),
        "SELECT c.id FROM job c JOIN image v ON v.job_id = c.id WHERE c.parent = $1::bigint"
        " AND c.parent <> 0 AND v.pool = $2::text AND coalesce(v.safety_flag, -1) ="
        " ANY ($3::smallint[]) ORDER BY c.id DESC LIMIT $4::integer"};
    struct kiln_params params = {0};
    struct children children = {.count = 0};
    KILN_BIND(&params, job, filter->pool);
    kiln_gallery_bind_levels(&params, filter);
    KILN_BIND(&params, (int)(max < KILN_GALLERY_ROWS_MAX ? max : KILN_GALLERY_ROWS_MAX));
    int rc = kiln_ledger_run_each(session, &statement, &params, read_child, &children, err);
    return rc || children.count == 0
               ? rc
               : kiln_gallery_tiles(session, filter, children.jobs, children.count, each, arg, err);
}
