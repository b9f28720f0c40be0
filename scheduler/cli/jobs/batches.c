/* batches.c - `kiln batches`, a line a batch; `kiln batch show|rename|rm`, one of them.
 *
 * Removing a batch deletes its rows and leaves its objects, which `kiln gc` finds afterwards.  It
 * asks first, or needs --yes where nobody can be asked.  A batch that still renders needs --force.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/control.h"
#include "scheduler/cli/fleet/snapshot.h"
#include "scheduler/cli/jobs/makespan.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/backfill.h"
#include "storage/ledger/queue/source.h"
#include "storage/ledger/read/batch.h"

#define REMOVE_TRIES 3 /* a job that is assigned meanwhile is cancelled by the next try */

/* The members of a batch, without the closing brace. */
static void batch_json(struct kiln_text *out, const struct kiln_batch_row *batch, int64_t now_ms)
{
    bool ended = kiln_batch_ended(batch);
    const char *tenant = batch->tenants; /* "ann,bob": names have no comma */
    kiln_json_put(out, "{batch:s id:u tenants:[", batch->name, batch->id);
    for (size_t len; (len = strcspn(tenant, ",")) > 0; tenant += len + (tenant[len] == ',')) {
        kiln_text_puts(out, tenant == batch->tenants ? "" : ",");
        kiln_text_json(out, tenant, len);
    }
    kiln_json_put(out,
                  "] jobs:c removed:u whole:b ended:b created_at:t started_at:t finished_at:t "
                  "rate_per_hour:d",
                  &batch->jobs, batch->removed, batch->whole, ended, batch->created_ms,
                  batch->first_ms, ended ? batch->last_ms : (int64_t)0,
                  kiln_batch_rate(batch, now_ms));
}

#define NAME_COLUMNS 20 /* of a batch, in the list */

/* --- the list --------------------------------------------------------------------------------- */

struct batches {
    struct kiln_listing listing;
    bool active;    /* only batches with something left to do */
    int64_t now_ms; /* by the database's clock: until then counts the rate of an active batch */
};

/* Whether times of creation and tenants have room: also where nobody counts columns. */
static bool is_wide(const struct kiln_cli *cli)
{
    return cli->columns == 0 || cli->columns >= 120;
}

static int list_batch(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err)
{
    struct batches *batches = arg;
    struct kiln_text *line = &batches->listing.line;
    const uint64_t *jobs = batch->jobs.at;
    bool ended = kiln_batch_ended(batch);
    char created[32], finished[32];
    if (batches->active && ended)
        return 0;
    if (batches->listing.cli->json) {
        batch_json(line, batch, batches->now_ms);
        kiln_text_puts(line, "}\n");
    } else {
        const struct kiln_cli *cli = batches->listing.cli;
        kiln_text_cell(line, cli->columns, batch->name, NAME_COLUMNS);
        kiln_text_printf(line, " %7" PRIu64 " %7" PRIu64 " %6" PRIu64 " %6" PRIu64 " %-20s %6.0f/h",
                         jobs[KILN_JOB_QUEUED] + jobs[KILN_JOB_ASSIGNED], jobs[KILN_JOB_DONE],
                         jobs[KILN_JOB_FAILED], jobs[KILN_JOB_CANCELLED],
                         ended ? kiln_short_time(batch->last_ms, finished, sizeof finished)
                               : (batch->whole ? "active" : "coming in"),
                         kiln_batch_rate(batch, batches->now_ms));
        if (is_wide(cli))
            kiln_text_printf(line, "  %-20s  %s",
                             kiln_short_time(batch->created_ms, created, sizeof created),
                             batch->tenants[0] ? batch->tenants : "-");
        kiln_text_puts(line, "\n");
    }
    return kiln_listing_put(&batches->listing, err);
}

int kiln_verb_batches(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    struct batches batches = {.listing = {.cli = cli}};
    char version[32];
    int status = kiln_arg_limit(cli, args, &batches.listing.left);
    if (status)
        return status;
    batches.active = kiln_arg(args, "active") != NULL;
    batches.listing.none = batches.active ? "no active batches" : "no batches";
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc == 0)
        rc = kiln_ledger_clock(ledger, &batches.now_ms, version, sizeof version, &err);
    kiln_listing_head(&batches.listing, "%-*s %7s %7s %6s %6s %-20s %8s%s", NAME_COLUMNS, "BATCH",
                      "LEFT", "DONE", "FAILED", "CANCEL", "FINISHED", "RATE",
                      is_wide(cli) ? "  CREATED               TENANTS" : "");
    if (rc == 0)
        rc = kiln_ledger_batches(ledger, kiln_pool(cli), NULL, list_batch, &batches, &err);
    kiln_ledger_close(ledger);
    return kiln_listing_end(&batches.listing, rc, &err);
}

/* --- one batch -------------------------------------------------------------------------------- */

static void print_time(const char *what, int64_t ms)
{
    char text[32];
    printf("  %-10s %s\n", what, kiln_short_time(ms, text, sizeof text));
}

#define FIELD_COLUMNS 13 /* where values begin */

struct shown {
    const struct kiln_cli *cli;
    struct kiln_text json;
    int64_t now_ms;
    struct kiln_counts gone;
};

static int show_row(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err)
{
    struct shown *shown = arg;
    bool ended = kiln_batch_ended(batch);
    (void)err;
    if (shown->cli->json) {
        batch_json(&shown->json, batch, shown->now_ms);
        return 0;
    }
    kiln_print_fit(shown->cli, FIELD_COLUMNS, "batch %s  %s", batch->name,
                   ended          ? "ended"
                   : batch->whole ? "active"
                                  : "still coming in");
    kiln_print_fit(shown->cli, FIELD_COLUMNS, "  tenants    %s",
                   batch->tenants[0] ? batch->tenants : "-");
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        printf("  %-10s %" PRIu64 "\n", kiln_job_state_name((enum kiln_job_state)state),
               batch->jobs.at[state]);
    kiln_apart_print(&shown->gone, batch->removed);
    print_time("created", batch->created_ms);
    print_time("started", batch->first_ms);
    print_time(ended ? "finished" : "last move", batch->last_ms);
    printf("  rate       %.0f/h\n", kiln_batch_rate(batch, shown->now_ms));
    return 0;
}

static int batch_show(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                      struct kiln_error *err)
{
    struct shown shown = {.cli = cli};
    char version[32];
    int rc = kiln_ledger_clock(ledger, &shown.now_ms, version, sizeof version, err);
    if (rc == 0)
        rc = kiln_ledger_gone_counts(ledger, kiln_pool(cli), batch, &shown.gone, err);
    if (rc == 0)
        rc = kiln_ledger_batches(ledger, kiln_pool(cli), batch, show_row, &shown, err);
    if (rc == 0 && cli->json) {
        json_t *makespan = kiln_makespan_json(cli, batch);
        char *text = makespan ? json_dumps(makespan, KILN_JSON_PRINTED) : NULL;
        kiln_text_printf(&shown.json, ",\"gone\":%" PRIu64 ",\"effort\":%s}",
                         kiln_counts_total(&shown.gone), text ? text : "null");
        if (shown.json.failed)
            rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the record");
        else
            puts(shown.json.at);
        free(text);
        json_decref(makespan);
    } else if (rc == 0) {
        kiln_say_makespan(cli, batch);
    }
    kiln_text_release(&shown.json);
    return rc;
}

/* --- removing a batch ------------------------------------------------------------------------- */

struct removal {
    uint64_t rows, queued, assigned;
    bool whole, ended;
};

static int count_rows(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err)
{
    (void)err;
    struct removal *removal = arg;
    *removal = (struct removal){.rows = kiln_counts_total(&batch->jobs) - batch->removed,
                                .queued = batch->jobs.at[KILN_JOB_QUEUED],
                                .assigned = batch->jobs.at[KILN_JOB_ASSIGNED],
                                .whole = batch->whole,
                                .ended = kiln_batch_ended(batch)};
    return 0;
}

/* Whether the batch may be removed: no backfill fills it, and it has ended or force is set. */
static int check_removal(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                         bool force, struct removal *ret, struct kiln_error *err)
{
    char backfill[KILN_NAME_MAX + 1] = "";
    int rc = kiln_ledger_batches(ledger, kiln_pool(cli), batch, count_rows, ret, err);
    if (rc == 0)
        rc = kiln_ledger_backfill_of(ledger, kiln_pool(cli), batch, backfill, err);
    if (rc)
        return rc;
    if (backfill[0])
        return kiln_fail(err, KILN_EXISTS,
                         "batch '%s' belongs to backfill %s; remove that first: `kiln backfill rm "
                         "%s`",
                         batch, backfill, backfill);
    if (!ret->ended && !force)
        return kiln_fail(err, KILN_FULL,
                         "batch '%s' has not ended (%" PRIu64 " queued, %" PRIu64
                         " assigned%s); wait for it, or cancel the rest with `kiln batch rm %s "
                         "--force`",
                         batch, ret->queued, ret->assigned, ret->whole ? "" : ", still coming in",
                         batch);
    return 0;
}

/* *ret_status is set if nobody agreed, or the answer could not be printed. */
static int batch_rm(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch, bool force,
                    bool yes, int *ret_status, struct kiln_error *err)
{
    struct removal removal;
    struct kiln_removed removed = {0}; /* the sums of all tries */
    uint64_t cancelled = 0;
    char question[KILN_BATCH_NAME_MAX + 160];
    int rc = check_removal(cli, ledger, batch, force, &removal, err);
    if (rc)
        return rc;
    snprintf(question, sizeof question,
             "Batch %s and the rows of its %s and pictures will be removed for good.", batch,
             KILN_COUNT(removal.rows, "job"));
    if (!kiln_confirm(cli, yes, question)) {
        *ret_status = EX_USAGE;
        return 0;
    }
    rc = KILN_STALE;
    for (int i = 0; rc == KILN_STALE && i < REMOVE_TRIES; i++) {
        struct kiln_removed now = {0};
        uint64_t count = 0;
        rc = force ? kiln_cancel_batch(cli, ledger, batch, &count, err) : 0;
        if (rc == 0)
            rc = kiln_ledger_remove_batch(ledger, kiln_pool(cli), batch, &now, err);
        cancelled += count;
        removed.jobs += now.jobs;
        removed.objects += now.objects;
        removed.bytes += now.bytes;
    }
    if (rc)
        return rc;
    if (cancelled)
        kiln_say(cli, "%s cancelled", KILN_COUNT(cancelled, "job"));
    kiln_say(cli, "removed batch %s with %s", batch, KILN_COUNT(removed.jobs, "job"));
    if (removed.objects)
        kiln_say(cli,
                 "      %s (%s) in the store: `kiln gc` removes those that are older than a day "
                 "(--grace)",
                 KILN_COUNT(removed.objects, "object"), KILN_BYTES(removed.bytes));
    if (cli->json)
        *ret_status = kiln_print_json(
            cli, json_pack("{s:s, s:I, s:I, s:I, s:I}", "removed", batch, "cancelled",
                           (json_int_t)cancelled, "jobs", (json_int_t)removed.jobs, "objects",
                           (json_int_t)removed.objects, "bytes", (json_int_t)removed.bytes));
    return 0;
}

int kiln_verb_batch(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    const char *what = args->rest[0], *batch = args->rest[1];
    const char *name = args->rest_count == 3 ? args->rest[2] : NULL;
    bool rename = strcmp(what, "rename") == 0, remove = strcmp(what, "rm") == 0;
    bool force = kiln_arg(args, "force") != NULL, yes = kiln_arg(args, "yes") != NULL;
    if (!rename && !remove && strcmp(what, "show") != 0)
        return kiln_usage(cli, "unknown subcommand '%s'; use show, rename or rm", what);
    if (rename != (name != NULL))
        return kiln_usage(cli, rename ? "the new name is missing" : "name one batch");
    if ((force || yes) && !remove)
        return kiln_usage(cli, "--%s is only for rm", force ? "force" : "yes");
    int status = 0, rc = rename || remove ? kiln_open_ledger(cli, &ledger, &err)
                                          : kiln_open_reader(cli, &ledger, &err);
    if (rc == 0)
        rc = kiln_check_batch(cli, ledger, batch, &err);
    if (rc == 0)
        rc = rename   ? kiln_ledger_rename_batch(ledger, kiln_pool(cli), batch, name, &err)
             : remove ? batch_rm(cli, ledger, batch, force, yes, &status, &err)
                      : batch_show(cli, ledger, batch, &err);
    kiln_ledger_close(ledger);
    if (rc == 0 && rename) {
        kiln_say(cli, "renamed batch %s to %s", batch, name);
        if (cli->json)
            status = kiln_print_json(cli, json_pack("{s:s, s:s}", "batch", name, "was", batch));
    }
    return rc ? kiln_report(cli, &err) : status;
}
