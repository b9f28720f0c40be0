/* favourite.c - `kiln favourite`: pictures that `kiln gc --older-than` keeps. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/upkeep/favourite.h"

static int list_row(void *arg, const struct kiln_favourite_row *row, struct kiln_error *err)
{
    struct kiln_listing *listing = arg;
    struct kiln_text *line = &listing->line;
    char at[32];
    if (listing->cli->json)
        kiln_json_put(line, "{job:u batch:s key:s at:t}\n", row->job, row->batch, row->key,
                      row->at_ms);
    else {
        kiln_text_printf(line, "%10" PRIu64 "  ", row->job);
        kiln_text_cell(line, listing->cli->columns, row->batch, 24);
        kiln_text_printf(line, "  %s  %s\n", kiln_short_time(row->at_ms, at, sizeof at),
                         row->key ? row->key : "-");
    }
    return kiln_listing_put(listing, err);
}

/* Makes the pictures of the jobs, or of the batch, favourites or not.  To take the marks of a whole
 * batch must be confirmed, since nothing else knows which pictures had one. */
static int set_favourites(struct kiln_cli *cli, struct kiln_ledger *ledger,
                          const struct kiln_args *args, const char *batch, bool favourite)
{
    struct kiln_error err;
    uint64_t ids[KILN_WORDS_MAX], changed = 0, pictures = 0;
    size_t count = 0;
    char question[KILN_BATCH_NAME_MAX + 100];
    snprintf(
        question, sizeof question,
        "The pictures of batch %s will no longer be favourites, and `kiln gc` may remove them.",
        batch ? batch : "");
    if (batch && !favourite && !kiln_confirm(cli, kiln_arg(args, "yes") != NULL, question))
        return EX_USAGE;
    for (int i = 1; i < args->rest_count && !batch; i++) {
        int status = kiln_arg_job(cli, args->rest[i], &ids[count++]);
        if (status)
            return status;
    }
    int rc = kiln_ledger_mark(ledger, kiln_pool(cli), ids, count, batch, favourite, &changed,
                              &pictures, &err);
    const bool only = rc == 0 && !batch && count == 1 && pictures == 0;
    if (only)
        rc = kiln_check_job(cli, ledger, ids[0], &err);
    if (only && rc == 0)
        rc = kiln_fail(&err, KILN_NOT_FOUND, "job %" PRIu64 " has no picture in pool %s", ids[0],
                       kiln_pool(cli));
    else if (rc == 0 && !batch && pictures < count)
        rc = kiln_fail(&err, KILN_NOT_FOUND, "%zu of %zu jobs have no picture in pool %s",
                       count - (size_t)pictures, count, kiln_pool(cli));
    if (rc)
        return kiln_report(cli, &err);
    kiln_say(cli, "%s %s the favourites", changed ? KILN_COUNT(changed, "picture") : "no pictures",
             favourite ? "added to" : "removed from");
    if (!cli->json)
        return 0;
    return kiln_print_json(cli, json_pack("{s:b, s:I, s:I}", "favourite", favourite, "changed",
                                          (json_int_t)changed, "pictures", (json_int_t)pictures));
}

int kiln_verb_favourite(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    const char *what = args->rest[0];
    struct kiln_target target = {0};
    bool add = strcmp(what, "add") == 0, list = strcmp(what, "ls") == 0;
    if (!add && !list && strcmp(what, "rm") != 0)
        return kiln_usage(cli, "unknown subcommand '%s'; use add, rm or ls", what);
    bool one = args->rest_count <= 2; /* else a list of jobs */
    int status = list  ? kiln_arg_batch(cli, args, 1, &target.batch)
                 : one ? kiln_arg_target(cli, args, 1, &target)
                       : 0;
    long limit = 0;
    if (status == 0)
        status = kiln_arg_limit(cli, args, &limit);
    if (status)
        return status;
    if (limit && !list)
        return kiln_usage(cli, "--limit is only for ls");
    if (list ? !one : one ? !target.job && !target.batch : kiln_arg(args, "batch") != NULL)
        return kiln_usage(cli, list ? "ls takes one batch" : "name jobs or one batch");
    if (kiln_arg(args, "yes") && (add || list))
        return kiln_usage(cli, "--yes is only for rm");
    const char *batch = target.batch;
    int rc = kiln_open_ledger(cli, &ledger, &err);
    if (rc == 0 && batch)
        rc = kiln_check_batch(cli, ledger, batch, &err);
    if (rc) {
        status = kiln_report(cli, &err);
    } else if (list) {
        struct kiln_listing listing = {.cli = cli, .left = limit, .none = "no favourites"};
        kiln_listing_head(&listing, "%10s  %-24s  %-20s  %s", "JOB", "BATCH", "MARKED", "PICTURE");
        rc = kiln_ledger_favourites(ledger, kiln_pool(cli), batch, list_row, &listing, &err);
        status = kiln_listing_end(&listing, rc, &err);
    } else {
        status = set_favourites(cli, ledger, args, batch, add);
    }
    kiln_ledger_close(ledger);
    return status;
}
