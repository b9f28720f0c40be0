/* export.c - see export.h.
 *
 * The search is that of the server's lists, by age (every word must be there) or by words and
 * meaning; filters are those of an address, and what the server hides is not exported.  Its jobs
 * are listed once, before anything is written, so that a search that finds nothing leaves nothing
 * behind.
 */
#include "scheduler/gallery/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/jobs/export/export.h"
#include "scheduler/gallery/parts/ask.h"
#include "scheduler/gallery/serve.h"
#include "schemas/words/query.h"
#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/ledger.h"

#define BUDGET_MS 1000 /* of a page; nobody else waits for it */

struct found {
    uint64_t *jobs;
    size_t count, room;
    size_t fused; /* of them by words and meaning: what has the words may come again behind them */
    uint64_t limit; /* 0: none */
};

/* --- finding ---------------------------------------------------------------------------------- */

static int note_job(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct found *found = arg;
    if (found->limit && found->count == found->limit)
        return 0;
    for (size_t i = 0; i < found->fused; i++)
        if (found->jobs[i] == tile->job)
            return 0;
    if (found->count == found->room) {
        size_t room = found->room ? 2 * found->room : KILN_GALLERY_ROWS_MAX;
        uint64_t *jobs = realloc(found->jobs, room * sizeof *jobs);
        if (!jobs)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu pictures", room);
        found->jobs = jobs;
        found->room = room;
    }
    found->jobs[found->count++] = tile->job;
    return 0;
}

/* Reads the vectors that a server has made; warns about prompts that have none. */
static int open_meaning(struct kiln_cli *cli, struct kiln_keeper **ret, struct kiln_error *err)
{
    uint32_t prompts, waiting;
    int rc = kiln_keeper_open_reading(cli->config, ret, &prompts, &waiting, err);
    if (rc == 0 && waiting > 0)
        kiln_warn(cli,
                  "no vector yet for %s of %u, whose pictures are found by words alone; a running "
                  "`kiln gallery serve` makes vectors",
                  KILN_COUNT(waiting, "prompt"), prompts);
    return rc;
}

static int list_all(struct kiln_ledger *session, struct kiln_gallery_ask *ask, struct found *found,
                    struct kiln_error *err)
{
    struct kiln_gallery_page page = {0};
    char cursor[KILN_GALLERY_CURSOR_MAX];
    for (;;) { /* ends: each page begins below the last one */
        int rc = kiln_gallery_ask_list(ask, session, note_job, found, &page, err);
        if (rc || !page.older[0] || (found->limit && found->count == found->limit))
            return rc;
        if (ask->mixed && page.older[0] != KILN_MIXED_CURSOR) { /* the rest has the words */
            ask->mixed = NULL, ask->query.order = KILN_GALLERY_NEWEST;
            found->fused = found->count;
        }
        snprintf(cursor, sizeof cursor, "%s", page.older);
        ask->query.cursor = cursor;
    }
}

static int find(struct kiln_cli *cli, const struct kiln_web_args *args, bool meaning,
                struct found *found, struct kiln_error *err)
{
    struct kiln_gallery_app app = {.pool = kiln_pool(cli)};
    struct kiln_gallery_ask ask;
    struct kiln_ledger *session = NULL;
    kiln_gallery_levels(cli->config, &app);
    int rc = meaning ? open_meaning(cli, &app.keeper, err) : 0;
    rc = rc ? rc : kiln_gallery_ask_read(&app, args, &ask, err);
    rc = rc ? rc : kiln_open_reader(cli, &session, err);
    ask.query.rows_max = KILN_GALLERY_ROWS_MAX;
    ask.query.budget_ms = BUDGET_MS;
    rc = rc ? rc : list_all(session, &ask, found, err);
    kiln_ledger_close(session);
    kiln_keeper_free(app.keeper);
    return rc;
}

/* --- its rows --------------------------------------------------------------------------------- */

/* A job that was removed since it was found is left out. */
static int walk(void *arg, struct kiln_ledger *session, const char *pool, kiln_each_job *each,
                void *each_arg, struct kiln_error *err)
{
    const struct found *found = arg;
    int rc = 0;
    for (size_t i = 0; i < found->count && rc == 0; i++) {
        rc = kiln_ledger_job(session, pool, found->jobs[i], each, each_arg, err);
        rc = rc == KILN_NOT_FOUND ? 0 : rc;
    }
    return rc;
}

/* --- the verb --------------------------------------------------------------------------------- */

/* Words and filters as an address would have them; name and value of a filter are in `pairs`. */
static int read_args(struct kiln_cli *cli, const struct kiln_args *args, char *pairs,
                     struct kiln_web_args *ret)
{
    ret->at[ret->count++] = kiln_arg(args, "meaning") ? (struct kiln_web_arg){"meaning", "on"}
                                                      : (struct kiln_web_arg){"sort", "newest"};
    if (args->rest_count > 1)
        ret->at[ret->count++] = (struct kiln_web_arg){.name = "q", .value = args->rest[1]};
    for (int i = 0; i < args->given_count; i++) {
        const char *value = args->given[i].value, *is;
        char names[256];
        if (strcmp(args->given[i].option->name, "filter") != 0)
            continue;
        if (!(is = strchr(value, '=')) || !kiln_gallery_is_filter(value, (size_t)(is - value))) {
            kiln_gallery_filter_names(names, sizeof names);
            return kiln_usage(cli, "--filter is \"%s\"; it must be NAME=VALUE, and NAME one of %s",
                              value, names);
        }
        if (ret->count == KILN_WEB_ARGS_MAX)
            return kiln_usage(cli, "more than %d filters", KILN_WEB_ARGS_MAX);
        char *pair = memcpy(pairs, value, strlen(value) + 1);
        pairs += strlen(value) + 1;
        pair[is - value] = '\0';
        ret->at[ret->count++] =
            (struct kiln_web_arg){.name = pair, .value = pair + (is - value) + 1};
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct kiln_web_arg *one = a, *two = b;
    int order = strcmp(one->name, two->name);
    return order ? order : strcmp(one->value, two->value);
}

/* "filter=value q=words": the same for the same search, in whatever order it was typed. */
static void name_search(struct kiln_text *out, const struct kiln_web_args *asked)
{
    struct kiln_web_args sorted = *asked;
    qsort(sorted.at, (size_t)sorted.count, sizeof *sorted.at, by_name);
    for (int i = 0; i < (int)sorted.count; i++)
        if (strcmp(sorted.at[i].name, "sort") != 0)
            kiln_text_printf(out, "%s%s=%s", out->len ? " " : "", sorted.at[i].name,
                             sorted.at[i].value);
}

static int export(struct kiln_cli *cli, const struct kiln_args *args,
                  const struct kiln_web_args *asked)
{
    struct kiln_error err;
    struct found found = {0};
    struct kiln_text search = {0};
    struct kiln_export_source source = {.walk = walk, .arg = &found};
    struct kiln_export export = {.batch = args->rest_count > 1 ? args->rest[1] : "Pictures",
                                 .out = kiln_arg(args, "out"),
                                 .html = kiln_arg(args, "html") != NULL,
                                 .latents = kiln_arg(args, "latents") != NULL,
                                 .source = &source};
    long limit;
    const bool meaning = kiln_arg(args, "meaning") != NULL;
    if (!export.out)
        return kiln_usage(cli, "--out DIR is missing");
    if (meaning && args->rest_count < 2)
        return kiln_usage(cli, "--meaning needs the words of a search");
    int status = kiln_arg_limit(cli, args, &limit);
    status = status ? status : kiln_export_format(cli, args, &export);
    status = status ? status : kiln_export_args(cli, args, &export);
    if (status)
        return status;
    found.limit = (uint64_t)limit;
    int rc = find(cli, asked, meaning && !kiln_query_is_exact(args->rest[1]), &found, &err);
    if (rc == 0 && found.count == 0)
        rc = kiln_fail(&err, KILN_NOT_FOUND, "no picture matches");
    name_search(&search, asked);
    if (rc == 0 && search.failed)
        rc = kiln_fail(&err, KILN_NO_MEMORY, "no memory for the words of the search");
    source.search = search.at ? search.at : "";
    source.total = found.count;
    status = rc ? kiln_report(cli, &err) : kiln_export_verb(cli, &export);
    kiln_text_release(&search);
    free(found.jobs);
    return status;
}

int kiln_gallery_export_verb(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_web_args asked = {.count = 0};
    size_t size = 1;
    if (args->rest_count > 2)
        return kiln_usage(cli, "put the words of a search between quotes");
    for (int i = 0; i < args->given_count; i++)
        size += args->given[i].value ? strlen(args->given[i].value) + 1 : 0;
    char *pairs = malloc(size);
    if (!pairs)
        return kiln_code_exit(KILN_NO_MEMORY);
    int status = read_args(cli, args, pairs, &asked);
    status = status ? status : export(cli, args, &asked);
    free(pairs);
    return status;
}
