/* donors.c - see donors.h. */
#include "storage/ledger/read/donors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/internal.h"
#include "storage/ledger/read/changes.h"

#define PAGE_ROWS 2000

struct kiln_donors {
    struct kiln_ledger *session;
    const char *pool;
    char *snapshot;        /* what was seen by the last round; NULL: nothing was read yet */
    char *target;          /* of the round that is going on; NULL: none */
    int64_t below;         /* the first reading goes on below this job; 0: it is done */
    char last_changed[24]; /* where the next page of the round begins */
    int64_t last_job;
    bool end; /* the page was the last one of its round */
};

/* A row of latent l with its job j. */
#define IS_DONOR                                                                                   \
    "l.sigma = 0 AND l.guidance = 0 AND j.pool = $1::text AND " KILN_SQL_WHOLE(                    \
        "l") " AND " KILN_SQL_DONOR_LORA("l")
#define COLUMNS                                                                                    \
    "coalesce(l.prompt_hash, ''), l.width, l.height, l.steps, coalesce(l.model, ''),"              \
    " coalesce(l.model_hash, ''), coalesce(l.mode <> '', false),"                                  \
    " (extract(epoch FROM l.created_at) * 1000)::bigint,"                                          \
    " (SELECT count(*) FROM image i WHERE i.donor = l.job_id)::integer,"                           \
    " CASE WHEN " IS_DONOR " THEN coalesce(j.prompt_drawn, j.prompt, '') ELSE '' END,"             \
    " CASE WHEN " IS_DONOR                                                                         \
    " THEN coalesce(j.negative_prompt, '') ELSE '' END, coalesce(l.lora_set, '')"

int kiln_donors_open(const struct kiln_config *config, const char *name, struct kiln_donors **ret,
                     struct kiln_error *err)
{
    struct kiln_donors *donors = calloc(1, sizeof *donors);
    if (!donors)
        return kiln_fail(err, KILN_NO_MEMORY, "donors: no memory for a reader");
    donors->pool = kiln_config_text(config, KILN_KEY_POOL);
    int rc = kiln_ledger_open(config, name, &donors->session, err);
    if (rc) {
        free(donors);
        return rc;
    }
    *ret = donors;
    return 0;
}

void kiln_donors_close(struct kiln_donors *donors)
{
    if (!donors)
        return;
    free(donors->snapshot);
    free(donors->target);
    kiln_ledger_close(donors->session);
    free(donors);
}

static int now(struct kiln_donors *donors, char **ret, struct kiln_error *err)
{
    static const struct kiln_statement statement = {"donors_now", "SELECT pg_current_snapshot()"};
    struct kiln_params params = {0};
    return kiln_ledger_ask(donors->session, &statement, &params, KILN_FIELDS(*ret), err);
}

static int give(const PGresult *rows, kiln_each_donor *each, void *arg, struct kiln_error *err)
{
    for (int i = 0; i < PQntuples(rows); i++) {
        struct kiln_donor_row row = {0};
        KILN_READ(rows, i, 0, row.job, row.gone, row.prompt_hash, row.width, row.height, row.steps,
                  row.model, row.model_hash, row.coarse, row.created_ms, row.uses, row.prompt,
                  row.negative_prompt, row.lora_set);
        int rc = each(arg, &row);
        if (rc)
            return kiln_fail(err, rc, "donors: the caller stopped");
    }
    return 0;
}

/* --- the first reading ------------------------------------------------------------------------ */

static int read_below(struct kiln_donors *donors, kiln_each_donor *each, void *arg,
                      struct kiln_error *err)
{
    /* A page of all latents, so that a page without donors moves on as well. */
    static const struct kiln_statement below = {
        "donors_below", "WITH page AS MATERIALIZED (SELECT * FROM latent WHERE job_id < $2::bigint"
                        "  ORDER BY job_id DESC LIMIT $3::integer)"
                        " SELECT l.job_id, NOT (" IS_DONOR "), " COLUMNS
                        " FROM page l JOIN job j ON j.id = l.job_id ORDER BY l.job_id DESC"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, donors->pool, donors->below, PAGE_ROWS);
    int rc = kiln_ledger_run(donors->session, &below, &params, &rows, err);
    if (rc)
        return rc;
    const int count = PQntuples(rows);
    rc = give(rows, each, arg, err);
    if (rc == 0)
        donors->below = count < PAGE_ROWS ? 0 : kiln_row_i64(rows, count - 1, 0);
    PQclear(rows);
    return rc;
}

/* --- changes ---------------------------------------------------------------------------------- */

struct page {
    int64_t jobs[PAGE_ROWS];
    size_t count;
    char changed[24]; /* of the last row */
    int64_t job;
};

static int read_change(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct page *page = arg;
    (void)err;
    KILN_READ(rows, row, 0, page->changed, page->job);
    page->jobs[page->count++] = page->job;
    return 0;
}

static int look_up(struct kiln_donors *donors, const struct page *page, kiln_each_donor *each,
                   void *arg, struct kiln_error *err)
{
    static const struct kiln_statement look = {
        "donors_look", "SELECT g.id, coalesce(NOT (" IS_DONOR "), true), " COLUMNS
                       " FROM unnest($2::bigint[]) g (id) LEFT JOIN latent l ON l.job_id = g.id"
                       " LEFT JOIN job j ON j.id = g.id"};
    struct kiln_params params = {0};
    PGresult *rows;
    KILN_BIND(&params, donors->pool);
    KILN_BIND_COLUMN(&params, INT8, page->count, page->jobs[i]);
    int rc = kiln_ledger_run(donors->session, &look, &params, &rows, err);
    if (rc)
        return rc;
    rc = give(rows, each, arg, err);
    PQclear(rows);
    return rc;
}

/* One page of the round. */
static int read_page(struct kiln_donors *donors, struct page *page, kiln_each_donor *each,
                     void *arg, struct kiln_error *err)
{
    static const struct kiln_statement changes = {"donors_changes",
                                                  KILN_CHANGES_SQL("latent", "latent_gone")};
    struct kiln_params params = {0};
    page->count = 0;
    KILN_BIND(&params, donors->snapshot, (const char *)donors->last_changed, donors->last_job,
              PAGE_ROWS, donors->target);
    int rc = kiln_ledger_run_each(donors->session, &changes, &params, read_change, page, err);
    if (rc == 0 && page->count > 0)
        rc = look_up(donors, page, each, arg, err);
    if (rc)
        return rc;
    donors->end = page->count < PAGE_ROWS;
    if (page->count > 0) {
        snprintf(donors->last_changed, sizeof donors->last_changed, "%s", page->changed);
        donors->last_job = page->job;
    }
    return 0;
}

static int follow(struct kiln_donors *donors, kiln_each_donor *each, void *arg,
                  struct kiln_error *err)
{
    if (!donors->target) {
        int rc = now(donors, &donors->target, err);
        if (rc)
            return rc;
        snprintf(donors->last_changed, sizeof donors->last_changed, "0");
        donors->last_job = 0;
    }
    struct page *page = malloc(sizeof *page);
    int rc = page ? read_page(donors, page, each, arg, err)
                  : kiln_fail(err, KILN_NO_MEMORY, "donors: no memory for a page");
    free(page);
    if (rc || !donors->end)
        return rc;
    free(donors->snapshot);
    donors->snapshot = donors->target;
    donors->target = NULL;
    return 0;
}

int kiln_donors_step(struct kiln_donors *donors, kiln_each_donor *each, void *arg,
                     bool *ret_complete, bool *ret_more, struct kiln_error *err)
{
    int rc = 0;
    if (!donors->snapshot) { /* before the first row, so that nothing falls between */
        donors->below = INT64_MAX;
        rc = now(donors, &donors->snapshot, err);
    }
    if (rc)
        return rc;
    const bool reading = donors->below != 0;
    rc = reading ? read_below(donors, each, arg, err) : follow(donors, each, arg, err);
    *ret_complete = donors->below == 0;
    *ret_more = rc == 0 && (reading || !donors->end);
    return rc;
}
