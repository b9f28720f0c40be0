/* jobs.c - `kiln jobs`, one line a job; `kiln cancel` and `kiln retry`, which move them.
 *
 * The ledger is changed first and is what counts; the order on the bus afterwards only makes the
 * scheduler look at once, so a Redis that is away costs a second, not the cancellation.
 */
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/confirm.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/control.h"
#include "schemas/wire.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/batch.h"

struct listing {
    struct kiln_cli *cli;
    struct kiln_text line;
    long left;
};

static const char *state_color(const struct kiln_cli *cli, enum kiln_job_state state)
{
    static const char *const colors[KILN_JOB_STATE_COUNT] = {[KILN_JOB_QUEUED] = "",
                                                             [KILN_JOB_ASSIGNED] = "\033[36m",
                                                             [KILN_JOB_DONE] = "\033[32m",
                                                             [KILN_JOB_FAILED] = "\033[31m",
                                                             [KILN_JOB_CANCELLED] = "\033[33m"};
    return cli->color_out ? colors[state] : "";
}

/* Fixed columns, so that a listing of a million lines can stream. */
static void print_row(const struct kiln_cli *cli, const struct kiln_job_row *row)
{
    const struct kiln_job *job = &row->job;
    char size[32];
    snprintf(size, sizeof size, "%ux%u", job->width, job->height);
    printf("%-10llu %s%-9s%s %7u %-9s %2u steps  %s", (unsigned long long)job->id,
           state_color(cli, job->state), kiln_job_state_name(job->state),
           cli->color_out ? "\033[0m" : "", job->index, size, job->steps, job->batch);
    if (job->custom_id) {
        fputs("  ", stdout);
        kiln_print_safe(job->custom_id);
    }
    if (row->error && job->state != KILN_JOB_DONE) {
        printf("  %s: ", kiln_code_name(row->error_code));
        kiln_print_safe(row->error);
    }
    putchar('\n');
}

/* Ends the walk at --limit, or when nobody reads any more. */
static int list_job(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct listing *listing = arg;
    if (listing->cli->json) {
        kiln_text_clear(&listing->line);
        kiln_record_short(&listing->line, row);
        kiln_text_puts(&listing->line, "}\n");
        if (listing->line.failed)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for a line of the listing");
        fwrite(listing->line.at, 1, listing->line.len, stdout);
    } else {
        print_row(listing->cli, row);
    }
    bool enough = listing->left > 0 && --listing->left == 0;
    return enough || !kiln_stdout_ok() ? kiln_fail(err, KILN_CANCELLED, "end of the listing") : 0;
}

int kiln_verb_jobs(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    struct listing listing = {.cli = cli};
    int status = kiln_args_parse(cli, argc, argv, 0, 0, &args);
    if (status == 0)
        status = kiln_arg_int(cli, &args, "limit", 1, 1000000000, 0, &listing.left);
    if (status)
        return status;
    const char *name = kiln_arg(&args, "state");
    int state = name ? kiln_job_state_by_name(name) : -1;
    if (name && state < 0)
        return kiln_usage(cli,
                          "'%s' is no state; there are queued, assigned, done, failed and "
                          "cancelled",
                          name);
    const char *batch = kiln_arg(&args, "batch");
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc == 0 && batch)
        rc = kiln_check_batch(cli, ledger, batch, &err);
    if (rc == 0 && cli->tty_out && !cli->json)
        printf("%-10s %-9s %7s %-9s %-9s %s\n", "JOB", "STATE", "INDEX", "SIZE", "", "BATCH");
    if (rc == 0)
        rc = kiln_ledger_jobs(ledger, kiln_pool(cli), batch, state, list_job, &listing, &err);
    kiln_text_release(&listing.line);
    kiln_ledger_close(ledger);
    return rc && rc != KILN_CANCELLED ? kiln_report(cli, &err) : 0;
}

/* --- cancel and retry ------------------------------------------------------------------------- */

typedef int move_jobs(struct kiln_ledger *ledger, const char *pool, uint64_t id, const char *batch,
                      uint64_t *ret_count, struct kiln_error *err);

/* Which jobs, how they are moved, and what came of it. */
struct move {
    struct kiln_cli *cli;
    move_jobs *jobs;
    const char *question; /* NULL: nobody is asked */
    uint64_t id;
    const char *batch; /* NULL: the one job */
    bool yes, declined;
    uint64_t count;
    enum kiln_job_state state; /* of the one job, before */
    bool coming;               /* more of the batch may follow */
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

/* A whole batch is moved after a question to whoever sits there. */
static bool agreed(const struct move *move)
{
    char question[2 * KILN_BATCH_NAME_MAX + 120];
    if (!move->question || !move->batch)
        return true;
    snprintf(question, sizeof question, "All jobs of batch %s %s", move->batch, move->question);
    return kiln_confirm_at_terminal(move->yes, question);
}

/* Moves one job or a batch; what was named must exist. */
static int move_named(struct move *move, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    const char *pool = kiln_pool(move->cli);
    int rc = kiln_open_ledger(move->cli, &ledger, err);
    if (rc == 0)
        rc = move->batch ? kiln_check_batch(move->cli, ledger, move->batch, err)
                         : kiln_ledger_job(ledger, pool, move->id, found_job, move, err);
    move->declined = rc == 0 && !agreed(move);
    if (rc == 0 && !move->declined)
        rc = move->jobs(ledger, pool, move->id, move->batch, &move->count, err);
    if (rc == 0 && !move->declined && move->batch && move->question)
        rc = kiln_ledger_batches(ledger, pool, move->batch, found_batch, move, err);
    kiln_ledger_close(ledger);
    return rc;
}

static void say_moved(const struct move *move, const char *word)
{
    struct kiln_cli *cli = move->cli;
    if (move->count == 0 && !move->batch)
        kiln_say(cli, "0 jobs %s: job %llu is %s", word, (unsigned long long)move->id,
                 kiln_job_state_name(move->state));
    else
        kiln_say(cli, "%llu %s %s", (unsigned long long)move->count,
                 move->count == 1 ? "job" : "jobs", word);
    if (move->coming)
        kiln_say(cli,
                 "batch %s is still coming in: what comes from now on is drawn, unless you say it "
                 "again once `kiln batch show %s` has all of it",
                 move->batch, move->batch);
}

/* JOB or --batch B; word is "cancelled" or "queued again". */
static int move_verb(struct move *move, int argc, char **argv, enum kiln_control_kind one,
                     enum kiln_control_kind all, const char *key, const char *word)
{
    struct kiln_cli *cli = move->cli;
    struct kiln_args args;
    struct kiln_error err;
    int status = kiln_args_parse(cli, argc, argv, 0, 1, &args);
    if (status)
        return status;
    move->batch = kiln_arg(&args, "batch");
    move->yes = kiln_arg(&args, "yes") != NULL;
    if ((move->batch != NULL) == (args.rest_count == 1))
        return kiln_usage(cli, "name one job, or a batch with --batch");
    if (!move->batch && (status = kiln_arg_job(cli, args.rest[0], &move->id)) != 0)
        return status;
    if (move_named(move, &err))
        return kiln_report(cli, &err);
    if (move->declined)
        return EX_USAGE;
    struct kiln_control order = {
        .kind = move->batch ? all : one, .job = move->id, .recorded = true};
    snprintf(order.id, sizeof order.id, "%s", move->batch ? move->batch : "");
    if (move->count > 0)
        kiln_control_notify(cli, &order);
    say_moved(move, word);
    return cli->json ? kiln_print_json(cli, json_pack("{s:I}", key, (json_int_t)move->count)) : 0;
}

int kiln_verb_cancel(struct kiln_cli *cli, int argc, char **argv)
{
    struct move move = {.cli = cli,
                        .jobs = kiln_ledger_cancel,
                        .question = "that wait or run are cancelled; `kiln retry` takes it back."};
    return move_verb(&move, argc, argv, KILN_CONTROL_CANCEL_JOB, KILN_CONTROL_CANCEL_BATCH,
                     "cancelled", "cancelled");
}

int kiln_verb_retry(struct kiln_cli *cli, int argc, char **argv)
{
    struct move move = {.cli = cli, .jobs = kiln_ledger_retry};
    return move_verb(&move, argc, argv, KILN_CONTROL_WAKE, KILN_CONTROL_WAKE, "retried",
                     "queued again");
}
