/* jobs.c - `kiln jobs`, one line a job; `kiln cancel` and `kiln retry`, which move them.
 *
 * The ledger is changed first, and only that counts.  The control message afterwards makes the
 * scheduler look at once: without Redis a cancellation takes effect a second later.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/control.h"
#include "schemas/wire/wire.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/batch.h"

/* Fixed columns, so that a listing of a million lines can stream.  Where one batch is listed, its
 * name would be the same in every line: the prompt stands there. */
static void job_text(struct kiln_text *line, const struct kiln_cli *cli,
                     const struct kiln_job_row *row, bool one_batch)
{
    static const char *const colors[KILN_JOB_STATE_COUNT] = {[KILN_JOB_QUEUED] = "",
                                                             [KILN_JOB_ASSIGNED] = "\033[36m",
                                                             [KILN_JOB_DONE] = "\033[32m",
                                                             [KILN_JOB_FAILED] = "\033[31m",
                                                             [KILN_JOB_CANCELLED] = "\033[33m"};
    const struct kiln_job *job = &row->job;
    char size[32];
    snprintf(size, sizeof size, "%ux%u", job->width, job->height);
    kiln_text_printf(line, "%-10" PRIu64 " %s%-9s%s %7u %-9s %2u steps", job->id,
                     cli->color_out ? colors[job->state] : "", kiln_job_state_name(job->state),
                     cli->color_out ? "\033[0m" : "", job->index, size, job->steps);
    if (!one_batch)
        kiln_text_printf(line, "  %s", job->batch);
    if (job->custom_id) {
        kiln_text_puts(line, "  ");
        kiln_text_safe(line, job->custom_id);
    }
    if (row->error && job->state != KILN_JOB_DONE) {
        kiln_text_printf(line, "  %s: ", kiln_code_name(row->error_code));
        kiln_text_safe(line, row->error);
    }
    if (one_batch) {
        kiln_text_puts(line, row->gone ? "  (gone) " : "  ");
        kiln_text_safe(line, job->prompt);
    }
    kiln_text_puts(line, "\n");
}

struct jobs {
    struct kiln_listing listing;
    bool one_batch;
};

static int list_job(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct jobs *jobs = arg;
    struct kiln_listing *listing = &jobs->listing;
    if (listing->cli->json) {
        kiln_record_short(&listing->line, row);
        kiln_text_puts(&listing->line, "}\n");
    } else {
        job_text(&listing->line, listing->cli, row, jobs->one_batch);
    }
    return kiln_listing_put(listing, err);
}

int kiln_verb_jobs(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    struct jobs jobs = {.listing = {.cli = cli, .none = "no jobs"}};
    int status = kiln_arg_limit(cli, args, &jobs.listing.left);
    if (status)
        return status;
    const char *name = kiln_arg(args, "state"), *batch;
    status = kiln_arg_batch(cli, args, 0, &batch);
    if (status)
        return status;
    int state = name ? kiln_job_state_by_name(name) : -1;
    if (name || batch)
        jobs.listing.none = "no matching jobs";
    jobs.one_batch = batch != NULL;
    if (name && state < 0)
        return kiln_usage(
            cli, "unknown state '%s'; a job is queued, assigned, done, failed or cancelled", name);
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc == 0 && batch)
        rc = kiln_check_batch(cli, ledger, batch, &err);
    kiln_listing_head(&jobs.listing, "%-10s %-9s %7s %-9s %-9s %s", "JOB", "STATE", "INDEX", "SIZE",
                      "STEPS", batch ? "PROMPT" : "BATCH");
    if (rc == 0)
        rc = kiln_ledger_jobs(ledger, kiln_pool(cli), batch, state, list_job, &jobs, &err);
    kiln_ledger_close(ledger);
    return kiln_listing_end(&jobs.listing, rc, &err);
}

/* --- cancel and retry ------------------------------------------------------------------------- */

typedef int move_jobs(struct kiln_ledger *ledger, const char *pool, uint64_t id, const char *batch,
                      uint64_t *ret_count, struct kiln_error *err);

/* Which jobs, how they are moved, and the result. */
struct move {
    struct kiln_cli *cli;
    move_jobs *jobs;
    const char *key, *word;          /* "cancelled": in --json, and in sentences */
    enum kiln_control_kind one, all; /* the message to the scheduler */
    bool asks;                       /* a person or --yes must confirm it for a batch */
    struct kiln_target what;
    bool yes, declined;
    uint64_t count;
    enum kiln_job_state state; /* of the one job, before */
    bool coming;               /* more jobs of the batch may follow */
};

static int found_job(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct move *move = arg;
    (void)err;
    move->state = row->job.state;
    return 0;
}

static int found_batch(void *arg, const struct kiln_batch_row *row, struct kiln_error *err)
{
    struct move *move = arg;
    (void)err;
    move->coming = !row->whole;
    return 0;
}

/* Moves one job or a batch, which must exist. */
static int move_named(struct move *move, struct kiln_ledger *ledger, struct kiln_error *err)
{
    const char *pool = kiln_pool(move->cli);
    char question[KILN_BATCH_NAME_MAX + 120];
    int rc = move->what.batch ? kiln_check_batch(move->cli, ledger, move->what.batch, err)
                              : kiln_ledger_job(ledger, pool, move->what.job, found_job, move, err);
    if (move->what.job)
        rc = kiln_no_job(move->cli, ledger, move->what.job, rc, err);
    if (rc == 0 && move->what.batch && move->asks) {
        snprintf(
            question, sizeof question,
            "All queued and assigned jobs of batch %s will be cancelled; `kiln retry` undoes it.",
            move->what.batch);
        move->declined = !kiln_confirm(move->cli, move->yes, question);
    }
    if (rc == 0 && !move->declined)
        rc = move->jobs(ledger, pool, move->what.job, move->what.batch, &move->count, err);
    if (rc == 0 && !move->declined && move->what.batch && move->asks)
        rc = kiln_ledger_batches(ledger, pool, move->what.batch, found_batch, move, err);
    return rc;
}

static void say_moved(const struct move *move)
{
    const struct kiln_cli *cli = move->cli;
    if (move->what.batch)
        kiln_say(cli, "%s %s", move->count ? KILN_COUNT(move->count, "job") : "no jobs",
                 move->word);
    else if (move->count)
        kiln_say(cli, "job %" PRIu64 " %s", move->what.job, move->word);
    else
        kiln_say(cli, "job %" PRIu64 " was not changed: it is already %s", move->what.job,
                 kiln_job_state_name(move->state));
    if (move->coming)
        kiln_say(
            cli,
            "batch %s is still coming in, and jobs that arrive now will be rendered; cancel it "
            "again when `kiln batch show %s` no longer says so",
            move->what.batch, move->what.batch);
}

/* Moves it, tells the scheduler and the caller; an exit status. */
static int move_one(struct move *move, struct kiln_ledger *ledger)
{
    struct kiln_error err;
    move->count = 0;
    if (move_named(move, ledger, &err))
        return kiln_report(move->cli, &err);
    if (move->declined)
        return EX_USAGE;
    struct kiln_control control = {
        .kind = move->what.batch ? move->all : move->one, .job = move->what.job, .recorded = true};
    snprintf(control.id, sizeof control.id, "%s", move->what.batch ? move->what.batch : "");
    if (move->count > 0)
        kiln_control_notify(move->cli, &control);
    say_moved(move);
    return 0;
}

/* What the words name, into ret: one job or a batch, or several jobs, of which each must be a
 * number. */
static int read_targets(const struct kiln_args *args, struct kiln_cli *cli, struct kiln_target *ret)
{
    const char *name = cli->verb->name;
    if (args->rest_count > 1 && kiln_arg(args, "batch"))
        return kiln_usage(cli, "name jobs or one batch");
    int status = args->rest_count > 1 ? 0 : kiln_arg_target(cli, args, 0, ret);
    for (int i = 0; args->rest_count > 1 && i < args->rest_count && status == 0; i++)
        status = kiln_arg_job(cli, args->rest[i], &ret[i].job);
    if (status == 0 && !ret->job && !ret->batch)
        status = kiln_usage(cli, "name a job or a batch: kiln %s 17, kiln %s sketches", name, name);
    return status;
}

/* A job that does not exist does not keep the others. */
static int move_all(struct move *move, const struct kiln_target *targets, int target_count)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    uint64_t count = 0;
    int status = 0;
    if (kiln_open_ledger(move->cli, &ledger, &err))
        return kiln_report(move->cli, &err);
    for (int i = 0; i < target_count; i++) {
        move->what = targets[i];
        int failed = move_one(move, ledger);
        status = status ? status : failed;
        count += move->count;
    }
    kiln_ledger_close(ledger);
    if (!move->cli->json || (status && target_count == 1))
        return status;
    int printed = kiln_print_json(move->cli, json_pack("{s:I}", move->key, (json_int_t)count));
    return status ? status : printed;
}

/* cancel or retry, of jobs or a batch. */
int kiln_verb_cancel(struct kiln_cli *cli, const struct kiln_args *args)
{
    const struct move cancel = {.cli = cli,
                                .jobs = kiln_ledger_cancel,
                                .key = "cancelled",
                                .word = "cancelled",
                                .one = KILN_CONTROL_CANCEL_JOB,
                                .all = KILN_CONTROL_CANCEL_BATCH,
                                .asks = true};
    const struct move retry = {.cli = cli,
                               .jobs = kiln_ledger_retry,
                               .key = "retried",
                               .word = "queued again",
                               .one = KILN_CONTROL_WAKE,
                               .all = KILN_CONTROL_WAKE};
    struct move move = strcmp(cli->verb->name, "cancel") == 0 ? cancel : retry;
    const int target_count = args->rest_count > 1 ? args->rest_count : 1;
    struct kiln_target *targets = calloc((size_t)target_count, sizeof *targets);
    if (!targets)
        return EX_OSERR;
    move.yes = kiln_arg(args, "yes") != NULL;
    int status = read_targets(args, cli, targets);
    if (status == 0 && move.asks && !move.yes && kiln_arg(args, "batch") && !kiln_can_ask()) {
        /* Scripts for older releases, which did not ask. */
        kiln_warn(cli, "from the next release on, cancel --batch needs --yes in scripts");
        move.yes = true;
    }
    status = status ? status : move_all(&move, targets, target_count);
    free(targets);
    return status;
}
