/* favourite.c - `kiln favourite`: pictures that `kiln gc --older-than` leaves alone. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/upkeep/favourite.h"

#define JOBS_MAX 1000 /* of one command line */

static int print_row(void *arg, const struct kiln_favourite_row *row, struct kiln_error *err)
{
    struct kiln_cli *cli = arg;
    char at[32];
    kiln_time_text(row->at_ms, at, sizeof at);
    if (cli->json)
        (void)kiln_print_json(cli, json_pack("{s:I, s:s, s:s?, s:s}", "job", (json_int_t)row->job,
                                             "batch", row->batch, "key", row->key, "at", at));
    else
        printf("%10" PRIu64 "  %-24s  %s  %s\n", row->job, row->batch, at,
               row->key ? row->key : "-");
    return kiln_stdout_ok() ? 0 : kiln_fail(err, KILN_CANCELLED, "nobody reads the list");
}

static int mark(struct kiln_cli *cli, struct kiln_ledger *ledger, const struct kiln_args *args,
                const char *batch, bool favourite)
{
    struct kiln_error err;
    uint64_t ids[JOBS_MAX], changed = 0, pictures = 0;
    size_t count = 0;
    for (int i = 1; i < args->rest_count; i++) {
        int status = kiln_arg_job(cli, args->rest[i], &ids[count++]);
        if (status)
            return status;
    }
    if (kiln_ledger_mark(ledger, kiln_pool(cli), ids, count, batch, favourite, &changed, &pictures,
                         &err))
        return kiln_report(cli, &err);
    if (!batch && pictures < count) {
        kiln_fail(&err, KILN_NOT_FOUND, "%zu of the %zu jobs have no picture in this pool",
                  count - (size_t)pictures, count);
        return kiln_report(cli, &err);
    }
    kiln_say(cli, "%" PRIu64 " pictures %s, %" PRIu64 " were so already", changed,
             favourite ? "are kept from now on" : "are no favourites any more", pictures - changed);
    if (!cli->json)
        return 0;
    return kiln_print_json(cli, json_pack("{s:b, s:I, s:I}", "favourite", favourite, "changed",
                                          (json_int_t)changed, "pictures", (json_int_t)pictures));
}

int kiln_verb_favourite(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    int status = kiln_args_parse(cli, argc, argv, 1, JOBS_MAX, &args);
    if (status)
        return status;
    const char *what = args.rest[0], *batch = kiln_arg(&args, "batch");
    bool add = strcmp(what, "add") == 0, list = strcmp(what, "ls") == 0;
    if (!add && !list && strcmp(what, "rm") != 0)
        return kiln_usage(cli, "'%s' is nothing to do with favourites; there are add, rm and ls",
                          what);
    if (list ? args.rest_count > 1 : (args.rest_count > 1) == (batch != NULL))
        return kiln_usage(cli, list ? "ls takes no job" : "name jobs, or one batch with --batch");
    if (kiln_open_ledger(cli, &ledger, &err))
        return kiln_report(cli, &err);
    if (batch && kiln_check_batch(cli, ledger, batch, &err)) {
        status = kiln_report(cli, &err);
    } else if (list) {
        int rc = kiln_ledger_favourites(ledger, kiln_pool(cli), batch, print_row, cli, &err);
        status = rc && rc != KILN_CANCELLED ? kiln_report(cli, &err) : 0;
    } else {
        status = mark(cli, ledger, &args, batch, add);
    }
    kiln_ledger_close(ledger);
    return status;
}
