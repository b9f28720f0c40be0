/* follow.c - see follow.h.
 *
 * A round takes a snapshot, the target, and reads what the last one did not see
 * (storage/ledger/read/changes.h).  When all pages are done, the target becomes the last snapshot
 * and is stored.  What commits meanwhile may be read twice, which does no harm, since every page
 * makes the rows what the pictures are now.
 *
 * A writer that stays open for an hour holds nothing back: its number stays in xip, and the rows
 * of others are read once.
 *
 * Its commits do not wait for the disk.  The snapshot is stored after the rows that it stands for:
 * a crash of the server that loses rows loses the snapshot with them.
 *
 * The right to write is the leadership of a "pool" that no pool can be named: an advisory lock that
 * goes with the connection.  Whoever gets it begins with the stored snapshot, never with its own,
 * because a server that failed over may have lost the transactions that this one saw.
 */
#include "storage/ledger/gallery/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "storage/ledger/gallery/document.h"
#include "storage/ledger/gallery/documents.h"
#include "storage/ledger/gallery/prompts.h"
#include "storage/ledger/internal.h"
#include "storage/ledger/read/changes.h"

#define LOCK "the gallery's follower" /* a name of a pool has no spaces */
#define PAGE_ROWS 500
#define PAGES_MAX 8 /* of changes in one step */
/* Words are counted a minute after their pictures have come, since these come in any order, and the
 * counting goes by job.  In pages, a step each: all of a minute at 200 pictures a second took half
 * a second of a processor beside searches. */
#define COUNT_MS 60000
#define COUNT_ROWS 1000
#define COUNT_ROWS_MANY 20000 /* where at least so many wait, as after a rebuild: without a wait   \
                               */
#define KEPT_XIDS                                                                                  \
    "1000000" /* transactions for which image_change remembers, for other followers                \
               */
#define PRUNE_MS 600000
#define FORGET_MS 60000
#define FORGET_ROWS 2000 /* vectors that are looked at */

struct kiln_follower {
    struct kiln_ledger *session;
    struct kiln_follower_options options;
    bool loaded;           /* what follows is of the ledger */
    bool replaced;         /* the ledger, and nobody knows yet */
    bool leads;            /* and this follower writes */
    int64_t cluster;       /* 0: no ledger seen yet */
    char *snapshot;        /* what was seen by the last round */
    char *target;          /* of the round that is going on, NULL: none */
    char last_changed[24]; /* where its next page begins */
    uint64_t last_job;
    uint64_t rebuild_at; /* a rebuild goes on below this job; 0: the index is complete */
    uint64_t counted;    /* words of jobs up to this one are in gallery_word, */
    uint64_t count_to;   /* will be up to this one, */
    uint64_t newest;     /* and up to this one when its time has come */
    int64_t newest_ms;   /* kiln_clock_ms */
    uint64_t uncounted;  /* pictures written since then; COUNT_ROWS_MANY where nobody knows */
    int64_t pruned_ms, forgot_ms;
    struct kiln_vector_place vectors; /* of prompts, looked at for those that went */
};

int kiln_follower_open(const struct kiln_config *config, const char *name,
                       const struct kiln_follower_options *options, struct kiln_follower **ret,
                       struct kiln_error *err)
{
    struct kiln_follower *follower = calloc(1, sizeof *follower);
    if (!follower)
        return kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a follower");
    follower->options = *options;
    if (follower->options.page_rows == 0 || follower->options.page_rows > KILN_DOCUMENTS_MAX)
        follower->options.page_rows = PAGE_ROWS;
    if (follower->options.count_ms == 0)
        follower->options.count_ms = COUNT_MS;
    int rc = kiln_ledger_open(config, name, &follower->session, err);
    if (rc) {
        free(follower);
        return rc;
    }
    kiln_ledger_in_background(follower->session);
    *ret = follower;
    return 0;
}

static void forget_round(struct kiln_follower *follower)
{
    free(follower->target);
    follower->target = NULL;
}

static void forget(struct kiln_follower *follower)
{
    forget_round(follower);
    free(follower->snapshot);
    follower->snapshot = NULL;
    follower->loaded = false;
}

void kiln_follower_close(struct kiln_follower *follower)
{
    if (!follower)
        return;
    forget(follower);
    kiln_ledger_close(follower->session);
    free(follower);
}

/* --- what is stored ----------------------------------------------------------------------------
 */

/* A new index begins: everything that this snapshot sees is left to the rebuild. */
static int begin_rebuild(struct kiln_follower *follower, struct kiln_error *err)
{
    static const struct kiln_statement begin = {
        "gallery_begin",
        "WITH others AS (DELETE FROM gallery_state WHERE cluster <> $1::bigint),"
        " words AS (DELETE FROM gallery_word)"
        " INSERT INTO gallery_state AS s (cluster, snapshot, rebuilt, version)"
        " VALUES ($1, $2::text::pg_snapshot, $3::bigint, $4::integer) ON CONFLICT (cluster)"
        " DO UPDATE SET snapshot = excluded.snapshot, rebuilt = excluded.rebuilt, counted = 0,"
        "  version = excluded.version, at = now()"};
    struct kiln_params params = {0};
    follower->rebuild_at = INT64_MAX;
    follower->counted = 0;
    follower->uncounted = COUNT_ROWS_MANY;
    KILN_BIND(&params, follower->cluster, follower->snapshot, follower->rebuild_at,
              KILN_DOCUMENT_VERSION);
    return kiln_ledger_run(follower->session, &begin, &params, NULL, err);
}

static int store(struct kiln_follower *follower, struct kiln_error *err)
{
    static const struct kiln_statement save = {
        "gallery_save", "UPDATE gallery_state SET snapshot = $2::text::pg_snapshot,"
                        " rebuilt = nullif($3::bigint, 0), counted = $4::bigint, at = now()"
                        " WHERE cluster = $1::bigint"};
    struct kiln_params params = {0};
    if (!follower->leads)
        return 0;
    KILN_BIND(&params, follower->cluster, follower->snapshot, follower->rebuild_at,
              follower->counted);
    return kiln_ledger_run(follower->session, &save, &params, NULL, err);
}

/* The follower's snapshot becomes one that has seen only what both it and `own` have.  The index
 * has what the stored one saw; this process has reported what its own one saw, which is less if it
 * was behind the writer that it takes over from. */
static int join_snapshots(struct kiln_follower *follower, const char *own, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_join", "SELECT coalesce((array_agg(x ORDER BY x))[1], top)::text || ':' || top"
                        "  || ':' || coalesce(string_agg(x::text, ',' ORDER BY x), '')"
                        " FROM (SELECT least(pg_snapshot_xmax($1::pg_snapshot),"
                        "   pg_snapshot_xmax($2::pg_snapshot)) AS top) m"
                        " LEFT JOIN (SELECT pg_snapshot_xip($1) AS x UNION"
                        "  SELECT pg_snapshot_xip($2)) u ON x < top GROUP BY top"};
    struct kiln_params params = {0};
    char *joined = NULL;
    KILN_BIND(&params, own, follower->snapshot);
    int rc = kiln_ledger_ask(follower->session, &statement, &params, KILN_FIELDS(joined), err);
    if (rc == 0) {
        free(follower->snapshot);
        follower->snapshot = joined;
    }
    return rc;
}

/* The state of the index, and of the cluster.  *ret_replaced: not the ledger of the last time, or
 * one that has lost transactions. */
static int load(struct kiln_follower *follower, bool *ret_replaced, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_state", "SELECT c.system_identifier, coalesce(s.snapshot, pg_current_snapshot()),"
                         " s.cluster IS NOT NULL AND s.version = $1::integer,"
                         " coalesce(s.rebuilt, 0), coalesce(s.counted, 0),"
                         " coalesce(pg_snapshot_xmax($2::text::pg_snapshot) >"
                         "  pg_snapshot_xmax(pg_current_snapshot()), false)"
                         " FROM (SELECT system_identifier FROM pg_control_system()) c"
                         " LEFT JOIN gallery_state s ON s.cluster = c.system_identifier"};
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    int64_t cluster;
    bool known, lost, read;
    char *own = follower->snapshot;
    KILN_BIND(&params, KILN_DOCUMENT_VERSION, follower->snapshot);
    int rc = kiln_ledger_run(follower->session, &statement, &params, &rows, err);
    if (rc)
        return rc;
    follower->snapshot = NULL;
    forget(follower);
    read = KILN_READ(rows, 0, 0, cluster, follower->snapshot, known, follower->rebuild_at,
                     follower->counted, lost);
    PQclear(rows);
    if (!read)
        rc = kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a follower");
    else if (own && known && !lost && cluster == follower->cluster)
        rc = join_snapshots(follower, own, err);
    follower->uncounted = COUNT_ROWS_MANY;
    follower->count_to = follower->newest = 0;
    follower->newest_ms = kiln_clock_ms();
    if (rc) { /* what was reported is still known by the next attempt */
        free(follower->snapshot);
        follower->snapshot = own;
        return rc;
    }
    free(own);
    /* Reported until a step has succeeded. */
    follower->replaced |=
        follower->cluster != 0 && (cluster != follower->cluster || !known || lost);
    *ret_replaced = follower->replaced;
    follower->cluster = cluster;
    if (!known && follower->leads)
        rc = begin_rebuild(follower, err);
    follower->loaded = rc == 0;
    return rc;
}

/* Who writes; the state, if that is not known, or the connection is another one.  The server ends
 * the session of a writer that was silent for longer than a lease: the step begins in a new one. */
static int prepare(struct kiln_follower *follower, bool *ret_replaced, struct kiln_error *err)
{
    bool leads = false;
    int rc = kiln_ledger_lead(follower->session, LOCK, &leads, err);
    if (rc == KILN_STALE || (rc == KILN_UNAVAILABLE && follower->leads)) {
        kiln_ledger_stand_down(follower->session);
        follower->loaded = follower->leads = false;
        rc = kiln_ledger_lead(follower->session, LOCK, &leads, err);
    }
    if (rc)
        return rc;
    if (leads != follower->leads)
        follower->loaded = false;
    follower->leads = leads;
    return follower->loaded ? 0 : load(follower, ret_replaced, err);
}

/* --- changes -----------------------------------------------------------------------------------
 */

struct page {
    uint64_t *jobs;
    size_t count;
    char changed[24]; /* of the last row */
    uint64_t job;
    size_t rows; /* with jobs that came twice */
};

static int read_change(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    (void)err;
    struct page *page = arg;
    KILN_READ(rows, row, 0, page->changed, page->job);
    page->rows++;
    for (size_t i = 0; i < page->count; i++)
        if (page->jobs[i] == page->job)
            return 0;
    page->jobs[page->count++] = page->job;
    return 0;
}

static int report(struct kiln_follower *follower, const uint64_t *jobs, const bool *gone,
                  size_t count, struct kiln_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0 && follower->options.each; i++)
        rc = follower->options.each(follower->options.arg, jobs[i], gone[i], err);
    return rc;
}

/* Which of the jobs have no picture: for a follower that only reports. */
static int look_up(struct kiln_follower *follower, const uint64_t *jobs, size_t count, bool *gone,
                   struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_gone",
        "SELECT i.job_id IS NULL FROM unnest($1::bigint[]) WITH ORDINALITY g (id, n)"
        " LEFT JOIN image i ON i.job_id = g.id ORDER BY g.n"};
    struct kiln_params params = {0};
    PGresult *rows = NULL;
    KILN_BIND_COLUMN(&params, INT8, count, (int64_t)jobs[i]);
    int rc = kiln_ledger_run(follower->session, &statement, &params, &rows, err);
    for (int i = 0; rc == 0 && i < PQntuples(rows) && (size_t)i < count; i++)
        gone[i] = kiln_row_bool(rows, i, 0);
    PQclear(rows);
    return rc;
}

static int write_jobs(struct kiln_follower *follower, const uint64_t *jobs, size_t count,
                      bool *gone, struct kiln_follower_progress *progress, struct kiln_error *err)
{
    if (!follower->leads)
        return look_up(follower, jobs, count, gone, err);
    int rc = kiln_documents_write(follower->session, jobs, count, gone, err);
    follower->uncounted += count;
    if (rc == 0 && follower->options.written)
        rc = follower->options.written(follower->options.written_arg, jobs, count, err);
    for (size_t i = 0; i < count && rc == 0; i++)
        *(gone[i] ? &progress->removed : &progress->written) += 1;
    return rc;
}

static int begin_round(struct kiln_follower *follower, struct kiln_error *err)
{
    static const struct kiln_statement now = {"gallery_now", "SELECT pg_current_snapshot()"};
    struct kiln_params params = {0};
    int rc = kiln_ledger_ask(follower->session, &now, &params, KILN_FIELDS(follower->target), err);
    snprintf(follower->last_changed, sizeof follower->last_changed, "0");
    follower->last_job = 0;
    return rc;
}

/* One page of the round; *ret_end: it was the last one. */
static int read_page(struct kiln_follower *follower, struct page *page, bool *gone, bool *ret_end,
                     struct kiln_follower_progress *progress, struct kiln_error *err)
{
    static const struct kiln_statement changes = {"gallery_changes",
                                                  KILN_CHANGES_SQL("image", "image_change")};
    struct kiln_params params = {0};
    page->count = page->rows = 0;
    KILN_BIND(&params, follower->snapshot, (const char *)follower->last_changed, follower->last_job,
              follower->options.page_rows, follower->target);
    int rc = kiln_ledger_run_each(follower->session, &changes, &params, read_change, page, err);
    if (rc || page->count == 0) {
        *ret_end = true;
        return rc;
    }
    rc = write_jobs(follower, page->jobs, page->count, gone, progress, err);
    if (rc == 0)
        rc = report(follower, page->jobs, gone, page->count, err);
    if (rc)
        return rc;
    snprintf(follower->last_changed, sizeof follower->last_changed, "%s", page->changed);
    follower->last_job = page->job;
    *ret_end = page->rows < follower->options.page_rows;
    return 0;
}

static int follow(struct kiln_follower *follower, struct page *page, bool *gone,
                  struct kiln_follower_progress *progress, struct kiln_error *err)
{
    bool end = false;
    int rc = follower->target ? 0 : begin_round(follower, err);
    for (int pages = 0; rc == 0 && !end && pages < PAGES_MAX; pages++)
        rc = read_page(follower, page, gone, &end, progress, err);
    progress->more = !end;
    if (rc || !end)
        return rc;
    free(follower->snapshot);
    follower->snapshot = follower->target;
    follower->target = NULL;
    return store(follower, err);
}

/* --- rebuild, words, and what can go -----------------------------------------------------------
 */

/* A page of jobs below the last one: those with a picture or a row. */
static int rebuild(struct kiln_follower *follower, struct page *page, bool *gone,
                   struct kiln_follower_progress *progress, struct kiln_error *err)
{
    static const struct kiln_statement below = {
        "gallery_below",
        "SELECT 0, job_id FROM ((SELECT job_id FROM image WHERE job_id < $1::bigint"
        "  ORDER BY job_id DESC LIMIT $2::integer) UNION (SELECT job_id FROM gallery_text"
        "  WHERE job_id < $1 ORDER BY job_id DESC LIMIT $2) UNION (SELECT job_id FROM"
        "  gallery_picture WHERE job_id < $1 ORDER BY job_id DESC LIMIT $2)) j"
        " ORDER BY job_id DESC LIMIT $2"};
    struct kiln_params params = {0};
    page->count = page->rows = 0;
    KILN_BIND(&params, follower->rebuild_at, follower->options.page_rows);
    int rc = kiln_ledger_run_each(follower->session, &below, &params, read_change, page, err);
    if (rc == 0 && page->count > 0)
        rc = write_jobs(follower, page->jobs, page->count, gone, progress, err);
    if (rc)
        return rc;
    follower->rebuild_at = page->count < follower->options.page_rows ? 0 : page->job;
    progress->more = true; /* words are to be counted at its end */
    return store(follower, err);
}

/* Whether so much time has passed since the last time that it had. */
static bool is_due(int64_t *last_ms, int64_t every_ms)
{
    const int64_t now_ms = kiln_clock_ms();
    const bool due = *last_ms == 0 || now_ms - *last_ms >= every_ms;
    *last_ms = due ? now_ms : *last_ms;
    return due;
}

/* What was newest before is counted now. */
static int find_newest(struct kiln_follower *follower, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_newest", "SELECT coalesce(max(job_id), 0) FROM gallery_text"};
    struct kiln_params params = {0};
    follower->count_to = follower->newest;
    follower->uncounted = 0;
    return kiln_ledger_ask(follower->session, &statement, &params, KILN_FIELDS(follower->newest),
                           err);
}

/* Once the index is complete. */
static int count_words(struct kiln_follower *follower, struct kiln_follower_progress *progress,
                       struct kiln_error *err)
{
    const bool many = follower->uncounted >= COUNT_ROWS_MANY;
    const uint32_t rows_max = many ? COUNT_ROWS_MANY : COUNT_ROWS;
    uint32_t rows;
    int rc = 0;
    if (!many && follower->counted >= follower->count_to &&
        is_due(&follower->newest_ms, follower->options.count_ms))
        rc = find_newest(follower, err);
    const uint64_t to = many ? INT64_MAX : follower->count_to;
    if (rc || follower->counted >= to)
        return rc;
    rc =
        kiln_documents_count_words(follower->session, &follower->counted, to, rows_max, &rows, err);
    if (rc)
        return rc;
    progress->more = many && rows == rows_max;
    if (many && rows < rows_max)
        follower->uncounted = 0;
    else if (rows < rows_max)
        follower->counted = to;
    return store(follower, err);
}

/* For a follower that only reports: how far the one that writes is. */
static int look_at_rebuild(struct kiln_follower *follower, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_rebuilt", "SELECT coalesce(max(rebuilt), 0) FROM gallery_state"};
    struct kiln_params params = {0};
    return kiln_ledger_ask(follower->session, &statement, &params,
                           KILN_FIELDS(follower->rebuild_at), err);
}

static int prune(struct kiln_follower *follower, struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        "gallery_prune",
        "DELETE FROM image_change WHERE (changed, job_id) IN (SELECT changed, job_id"
        " FROM image_change WHERE changed < greatest(0, pg_snapshot_xmin($1::text::pg_snapshot)"
        "::text::bigint - " KEPT_XIDS ")::text::xid8 ORDER BY changed, job_id LIMIT 5000)"};
    struct kiln_params params = {0};
    int rc =
        is_due(&follower->forgot_ms, FORGET_MS)
            ? kiln_gallery_vectors_forget(follower->session, FORGET_ROWS, &follower->vectors, err)
            : 0;
    if (rc || !is_due(&follower->pruned_ms, PRUNE_MS))
        return rc;
    KILN_BIND(&params, follower->snapshot);
    return kiln_ledger_run(follower->session, &statement, &params, NULL, err);
}

static int step(struct kiln_follower *follower, struct page *page, bool *gone,
                struct kiln_follower_progress *progress, struct kiln_error *err)
{
    int rc = prepare(follower, &progress->replaced, err);
    if (rc == 0)
        rc = follow(follower, page, gone, progress, err);
    if (rc == 0 && follower->rebuild_at)
        rc = follower->leads ? rebuild(follower, page, gone, progress, err)
                             : look_at_rebuild(follower, err);
    else if (rc == 0 && follower->leads && !progress->more)
        rc = count_words(follower, progress, err);
    if (rc == 0 && follower->leads && !progress->more)
        rc = prune(follower, err);
    progress->writes = follower->leads;
    progress->complete = follower->rebuild_at == 0;
    progress->rebuilt_down_to = follower->rebuild_at;
    return rc;
}

int kiln_follower_step(struct kiln_follower *follower, struct kiln_follower_progress *ret,
                       struct kiln_error *err)
{
    struct kiln_follower_progress progress = {0};
    struct page page = {.jobs = calloc(follower->options.page_rows, sizeof *page.jobs)};
    bool *gone = calloc(follower->options.page_rows, sizeof *gone);
    int rc = page.jobs && gone ? step(follower, &page, gone, &progress, err)
                               : kiln_fail(err, KILN_NO_MEMORY, "gallery: no memory for a page");
    free(page.jobs);
    free(gone);
    if (rc) {
        follower->loaded = false; /* the stored snapshot is the truth */
        return kiln_fail_in(err, "gallery follower");
    }
    *ret = progress;
    ret->replaced = follower->replaced;
    follower->replaced = false;
    return 0;
}
