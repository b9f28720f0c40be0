/* batches.c - `kiln batches`, a line a batch; `kiln batch show|rename|rm`, one of them.
 *
 * Removing takes the rows and leaves the objects, which `kiln gc` then finds.  It asks first, or
 * needs --yes where nobody can be asked; one that still draws is refused without --force, and what
 * was done is said with its numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/confirm.h"
#include "scheduler/cli/core/output/listing.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/control.h"
#include "scheduler/cli/fleet/snapshot.h"
#include "scheduler/cli/jobs/effort.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/backfill.h"
#include "storage/ledger/read/batch.h"

#define FINISH_TRIES 3 /* a job that is handed out just now is cancelled by the next */

struct batches {
    struct kiln_listing listing;
    bool active; /* only those with something left to do */
    int64_t now_ms;
};

/* ,"tenants":["a","b"]; names of tenants hold no comma and nothing to escape. */
static void add_tenants(struct kiln_text *out, const char *tenants)
{
    kiln_text_puts(out, ",\"tenants\":[");
    for (const char *at = tenants; *at;) {
        size_t len = strcspn(at, ",");
        kiln_text_json(out, at, len);
        at += len;
        if (*at == ',') {
            kiln_text_puts(out, ",");
            at++;
        }
    }
    kiln_text_puts(out, "]");
}

/* The members of a batch, without the closing brace. */
static void batch_json(struct kiln_text *out, const struct kiln_batch_row *batch, int64_t now_ms)
{
    double rate = kiln_batch_rate(batch, now_ms);
    kiln_text_puts(out, "{\"batch\":");
    kiln_text_json(out, batch->name, strlen(batch->name));
    kiln_json_member_u64(out, "id", batch->id);
    add_tenants(out, batch->tenants);
    kiln_json_member_counts(out, "jobs", &batch->jobs);
    kiln_json_member_u64(out, "removed", batch->removed);
    kiln_json_member_bool(out, "whole", batch->whole);
    kiln_json_member_bool(out, "ended", kiln_batch_ended(batch));
    kiln_json_member_time(out, "created_at", batch->created_ms);
    kiln_json_member_time(out, "started_at", batch->first_ms);
    kiln_json_member_time(out, "finished_at", kiln_batch_ended(batch) ? batch->last_ms : 0);
    kiln_json_member_double(out, "rate_per_hour", rate);
}

static void batch_text(struct kiln_text *out, const struct kiln_batch_row *batch, int64_t now_ms)
{
    char created[32], finished[32];
    const uint64_t *at = batch->jobs.at;
    kiln_text_printf(
        out, "%-24s %-12s %8llu %8llu %8llu %7llu %7llu  %-19s  %-19s %8.0f/h\n", batch->name,
        batch->tenants[0] ? batch->tenants : "-", (unsigned long long)at[KILN_JOB_QUEUED],
        (unsigned long long)at[KILN_JOB_ASSIGNED], (unsigned long long)at[KILN_JOB_DONE],
        (unsigned long long)at[KILN_JOB_FAILED], (unsigned long long)at[KILN_JOB_CANCELLED],
        kiln_short_time(batch->created_ms, created, sizeof created),
        kiln_batch_ended(batch) ? kiln_short_time(batch->last_ms, finished, sizeof finished)
                                : (batch->whole ? "going on" : "coming in"),
        kiln_batch_rate(batch, now_ms));
}

static int list_batch(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err)
{
    struct batches *batches = arg;
    struct kiln_text *line = &batches->listing.line;
    if (batches->active && kiln_batch_ended(batch))
        return 0;
    if (batches->listing.cli->json) {
        batch_json(line, batch, batches->now_ms);
        kiln_text_puts(line, "}\n");
    } else {
        batch_text(line, batch, batches->now_ms);
    }
    return kiln_listing_put(&batches->listing, err);
}

/* Rates of batches that go on end at the database's present. */
static int read_batches(struct kiln_cli *cli, struct batches *batches, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    char version[32];
    int rc = kiln_open_reader(cli, &ledger, err);
    if (rc == 0)
        rc = kiln_ledger_clock(ledger, &batches->now_ms, version, sizeof version, err);
    if (rc == 0 && cli->tty_out && !cli->json)
        printf("%-24s %-12s %8s %8s %8s %7s %7s  %-19s  %-19s %10s\n", "BATCH", "TENANT", "QUEUED",
               "ASSIGNED", "DONE", "FAILED", "CANCEL", "CREATED", "FINISHED", "RATE");
    if (rc == 0)
        rc = kiln_ledger_batches(ledger, kiln_pool(cli), NULL, list_batch, batches, err);
    kiln_ledger_close(ledger);
    return rc;
}

int kiln_verb_batches(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct batches batches = {.listing = {.cli = cli}};
    int status = kiln_args_parse(cli, argc, argv, 0, 0, &args);
    if (status == 0)
        status = kiln_arg_int(cli, &args, "limit", 1, 1000000000, 0, &batches.listing.left);
    if (status)
        return status;
    batches.active = kiln_arg(&args, "active") != NULL;
    int rc = read_batches(cli, &batches, &err);
    return kiln_listing_end(&batches.listing, rc, &err);
}

/* --- one batch ------------------------------------------------------------------------------- */

struct seen {
    struct kiln_text json;
    struct kiln_counts jobs;
    uint64_t removed; /* of them: gc has taken their rows */
    int64_t now_ms;
    bool text, whole, ended;
};

static void print_time(const char *what, int64_t ms)
{
    char text[32];
    printf("  %-10s %s\n", what, kiln_short_time(ms, text, sizeof text));
}

static int see_batch(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err)
{
    struct seen *seen = arg;
    (void)err;
    seen->whole = batch->whole;
    seen->ended = kiln_batch_ended(batch);
    seen->jobs = batch->jobs;
    seen->removed = batch->removed;
    batch_json(&seen->json, batch, seen->now_ms);
    if (!seen->text)
        return 0;
    printf("batch %s  %s\n  tenants    %s\n", batch->name,
           seen->ended   ? "has ended"
           : seen->whole ? "goes on"
                         : "is still coming in",
           batch->tenants[0] ? batch->tenants : "-");
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        printf("  %-10s %llu\n", kiln_job_state_name((enum kiln_job_state)state),
               (unsigned long long)batch->jobs.at[state]);
    kiln_removed_print(batch->removed);
    print_time("created", batch->created_ms);
    print_time("started", batch->first_ms);
    print_time(seen->ended ? "finished" : "last move", batch->last_ms);
    printf("  rate       %.0f/h\n", kiln_batch_rate(batch, seen->now_ms));
    return 0;
}

static int batch_show(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                      struct kiln_error *err)
{
    struct seen seen = {.text = !cli->json};
    char version[32];
    int rc = kiln_ledger_clock(ledger, &seen.now_ms, version, sizeof version, err);
    if (rc == 0)
        rc = kiln_ledger_batches(ledger, kiln_pool(cli), batch, see_batch, &seen, err);
    if (rc == 0 && cli->json) {
        json_t *effort = kiln_effort_json(cli, batch);
        char *text = effort ? json_dumps(effort, JSON_COMPACT) : NULL;
        kiln_text_printf(&seen.json, ",\"effort\":%s}", text ? text : "null");
        if (seen.json.failed)
            rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the record");
        else
            puts(seen.json.at);
        free(text);
        json_decref(effort);
    } else if (rc == 0) {
        kiln_say_effort(cli, batch);
    }
    kiln_text_release(&seen.json);
    return rc;
}

static int batch_rename(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                        const char *name, struct kiln_error *err)
{
    int rc = kiln_ledger_rename_batch(ledger, kiln_pool(cli), batch, name, err);
    if (rc)
        return rc;
    kiln_say(cli, "batch %s is now called %s", batch, name);
    if (cli->json && kiln_print_json(cli, json_pack("{s:s, s:s}", "batch", name, "was", batch)))
        return kiln_fail(err, KILN_IO, "write to stdout");
    return 0;
}

/* Whether the batch may go at all: it has ended, or shall be ended, and no standing order fills it.
 */
static int may_go(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch, bool force,
                  struct seen *seen, struct kiln_error *err)
{
    char order[KILN_NAME_MAX + 1] = "";
    int rc = kiln_ledger_batches(ledger, kiln_pool(cli), batch, see_batch, seen, err);
    kiln_text_release(&seen->json);
    if (rc == 0)
        rc = kiln_ledger_backfill_of(ledger, kiln_pool(cli), batch, order, err);
    if (rc)
        return rc;
    if (order[0])
        return kiln_fail(err, KILN_EXISTS,
                         "batch '%s' is that of standing order %s; `kiln backfill rm %s` first",
                         batch, order, order);
    if (!seen->ended && !force)
        return kiln_fail(err, KILN_FULL,
                         "batch '%s' has not ended (%llu queued, %llu assigned%s); wait for it, or "
                         "`kiln batch rm %s --force` cancels what is left",
                         batch, (unsigned long long)seen->jobs.at[KILN_JOB_QUEUED],
                         (unsigned long long)seen->jobs.at[KILN_JOB_ASSIGNED],
                         seen->whole ? "" : ", still coming in", batch);
    return 0;
}

static bool agreed(const struct kiln_cli *cli, const char *batch, const struct seen *seen, bool yes)
{
    char question[KILN_BATCH_NAME_MAX + 160];
    uint64_t all = 0;
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        all += seen->jobs.at[state];
    all -= seen->removed;
    snprintf(question, sizeof question,
             "Batch %s goes for ever, with the rows of its %llu jobs and pictures.", batch,
             (unsigned long long)all);
    return kiln_confirm(cli, yes, question);
}

/* *ret_status is set where nobody agreed. */
static int batch_rm(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch, bool force,
                    bool yes, int *ret_status, struct kiln_error *err)
{
    struct seen seen = {0};
    struct kiln_removed removed = {0};
    uint64_t cancelled = 0;
    char bytes[32];
    int rc = may_go(cli, ledger, batch, force, &seen, err);
    if (rc)
        return rc;
    if (!agreed(cli, batch, &seen, yes)) {
        *ret_status = EX_USAGE;
        return 0;
    }
    rc = KILN_STALE;
    for (int i = 0; rc == KILN_STALE && i < FINISH_TRIES; i++) {
        struct kiln_removed gone = {0};
        uint64_t more = 0;
        rc = force ? kiln_cancel_batch(cli, ledger, batch, &more, err) : 0;
        cancelled += more;
        if (rc == 0)
            rc = kiln_ledger_remove_batch(ledger, kiln_pool(cli), batch, &gone, err);
        removed.jobs += gone.jobs;
        removed.objects += gone.objects;
        removed.bytes += gone.bytes;
    }
    if (rc)
        return rc;
    if (cancelled)
        kiln_say(cli, "%llu jobs cancelled", (unsigned long long)cancelled);
    kiln_say(cli,
             "batch %s removed: %llu jobs; %llu objects of %s are left to `kiln gc`; the seconds "
             "they cost stay in `kiln usage`",
             batch, (unsigned long long)removed.jobs, (unsigned long long)removed.objects,
             kiln_bytes_text((double)removed.bytes, bytes, sizeof bytes));
    if (cli->json &&
        kiln_print_json(cli, json_pack("{s:s, s:I, s:I, s:I, s:I}", "removed", batch, "cancelled",
                                       (json_int_t)cancelled, "jobs", (json_int_t)removed.jobs,
                                       "objects", (json_int_t)removed.objects, "bytes",
                                       (json_int_t)removed.bytes)))
        return kiln_fail(err, KILN_IO, "write to stdout");
    return 0;
}

int kiln_verb_batch(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    int status = kiln_args_parse(cli, argc, argv, 2, 3, &args);
    if (status)
        return status;
    const char *what = args.rest[0], *batch = args.rest[1];
    bool rename = strcmp(what, "rename") == 0, remove = strcmp(what, "rm") == 0;
    bool force = kiln_arg(&args, "force") != NULL, yes = kiln_arg(&args, "yes") != NULL;
    if (!rename && !remove && strcmp(what, "show") != 0)
        return kiln_usage(cli, "'%s' is nothing to do with a batch; there are show, rename and rm",
                          what);
    if (rename != (args.rest_count == 3))
        return kiln_usage(cli, rename ? "rename needs the new name too" : "name one batch");
    if ((force || yes) && !remove)
        return kiln_usage(cli, "--%s is for rm", force ? "force" : "yes");
    int rc = rename || remove ? kiln_open_ledger(cli, &ledger, &err)
                              : kiln_open_reader(cli, &ledger, &err);
    if (rc == 0)
        rc = kiln_check_batch(cli, ledger, batch, &err);
    if (rc == 0)
        rc = rename   ? batch_rename(cli, ledger, batch, args.rest[2], &err)
             : remove ? batch_rm(cli, ledger, batch, force, yes, &status, &err)
                      : batch_show(cli, ledger, batch, &err);
    kiln_ledger_close(ledger);
    return rc ? kiln_report(cli, &err) : status;
}
