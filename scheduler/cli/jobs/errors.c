/* errors.c - `kiln errors`: the failed jobs by cause, an example of each, and what to do next.
 *
 * `kiln show` prints the full error of a job and the history of its attempts.
 */
#include <inttypes.h>
#include <stdio.h>

#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/times.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/trouble.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/ops.h"

static int list_cause(void *arg, const struct kiln_cause_row *cause, struct kiln_error *err)
{
    struct kiln_listing *listing = arg;
    struct kiln_text *line = &listing->line;
    char first[32], last[32];
    if (listing->cli->json) {
        kiln_json_put(line,
                      "{code:s cause:s jobs:u batches:u example:u batch:s error:s first_at:t "
                      "last_at:t next:s}\n",
                      kiln_code_name(cause->code), cause->cause, cause->jobs, cause->batches,
                      cause->example, cause->batch, cause->error, cause->first_ms, cause->last_ms,
                      kiln_cause_next(cause->code));
        return kiln_listing_put(listing, err);
    }
    kiln_text_printf(line, "%s in %s  %s: ", KILN_COUNT(cause->jobs, "job"),
                     KILN_COUNT(cause->batches, "batch"), kiln_code_name(cause->code));
    kiln_text_safe(line, cause->cause);
    kiln_text_printf(line, "\n  between    %s and %s\n",
                     kiln_short_time(cause->first_ms, first, sizeof first),
                     kiln_short_time(cause->last_ms, last, sizeof last));
    kiln_text_printf(line, "  example    job %" PRIu64 " of batch %s: ", cause->example,
                     cause->batch);
    kiln_text_safe(line, cause->error);
    kiln_text_printf(line, "\n  next       %s\n", kiln_cause_next(cause->code));
    return kiln_listing_put(listing, err);
}

int kiln_verb_errors(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    struct kiln_listing listing = {.cli = cli, .none = "no failed jobs", .hang = 13};
    int64_t since_ms = 0;
    int status = kiln_arg_since(cli, args, 0, &since_ms);
    if (status)
        return status;
    const char *batch;
    status = kiln_arg_limit(cli, args, &listing.left);
    if (status == 0)
        status = kiln_arg_batch(cli, args, 0, &batch);
    if (status)
        return status;
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc == 0 && batch)
        rc = kiln_check_batch(cli, ledger, batch, &err);
    if (rc == 0)
        rc =
            kiln_ledger_causes(ledger, kiln_pool(cli), batch, since_ms, list_cause, &listing, &err);
    struct kiln_troubles now = {.count = 0};
    if (rc == 0 && kiln_troubles_look(cli, ledger, NULL, &now, &err))
        now.count = 0; /* the list is what was asked for */
    kiln_ledger_close(ledger);
    kiln_troubles_remark(cli, &now);
    if (rc == 0 && listing.rows)
        kiln_say(cli, "to retry: kiln retry JOB, or kiln retry BATCH");
    return kiln_listing_end(&listing, rc, &err);
}
