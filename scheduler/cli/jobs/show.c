/* show.c - `kiln show JOB`: the whole record; `kiln show BATCH`: its counts and refused jobs.
 *
 * A number is a job, or a batch if there is no such job; anything else is a batch.  The JSON of a
 * job has all keys of `kiln jobs --json`, and the job line, the moves so far and the objects.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/progress.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/snapshot.h"
#include "schemas/reuse/class.h"
#include "schemas/route.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/source.h"

struct shown {
    const struct kiln_cli *cli;
    struct kiln_text text; /* JSON */
    struct kiln_made made;
};

/* --- JSON ------------------------------------------------------------------------------------- */

/* Both rows of a latent: the object (where it is) and the latent (what it contains). */
static void add_latent(struct kiln_text *out, const struct kiln_object_row *latent,
                       const struct kiln_made *made)
{
    if (!latent) {
        kiln_json_put(out, "latent:n");
        return;
    }
    kiln_json_put(out,
                  "latent:{key:s width:i height:i bytes:u sha256:s encoding:s sigma:d states:i "
                  "shape:[",
                  latent->key, latent->width, latent->height, latent->bytes, latent->sha256,
                  made->encoding, made->sigma, made->states);
    kiln_text_printf(out, "%s]}", made->shape);
}

/* Only a picture has stage times. */
static void add_made(struct kiln_text *out, const struct kiln_made *made)
{
    kiln_json_put(out, "model_name:s model_hash:s", made->image ? made->model_name : NULL,
                  made->image || made->latent ? made->model_hash : NULL);
    if (made->image)
        kiln_json_put(out,
                      "timings:{wait_ms:d text_ms:d denoise_ms:d decode_ms:d encode_ms:d "
                      "upload_ms:d}",
                      made->wait_ms, made->text_ms, made->denoise_ms, made->decode_ms,
                      made->encode_ms, made->upload_ms);
    else
        kiln_json_put(out, "timings:n");
}

/* One move; the caller has opened the array. */
static int move_json(void *arg, const struct kiln_move_row *move, struct kiln_error *err)
{
    struct shown *shown = arg;
    (void)err;
    kiln_json_put(&shown->text, "{from:s to:s at:t attempt:i worker:s code:s reason:s}",
                  kiln_job_state_name((enum kiln_job_state)move->was),
                  kiln_job_state_name((enum kiln_job_state)move->state), move->at_ms, move->attempt,
                  move->worker, move->code ? kiln_code_name(move->code) : NULL, move->reason);
    return 0;
}

static int job_json(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct shown *shown = arg;
    (void)err;
    kiln_record_short(&shown->text, row);
    kiln_record_rest(&shown->text, row);
    kiln_record_images(&shown->text, row);
    add_latent(&shown->text, kiln_row_latent(row), &shown->made);
    add_made(&shown->text, &shown->made);
    kiln_json_put(&shown->text, "events:[");
    return 0;
}

/* --- text ------------------------------------------------------------------------------------- */

#define HANG 13 /* where values begin */

/* "  prompt     a red star" */
static void print_words(const struct kiln_cli *cli, const char *name, const char *words)
{
    kiln_print_fit(cli, HANG, "  %-10s %s", name, words);
}

/* How the picture comes about, from what, and what the run cost. */
static void print_mode(const struct kiln_cli *cli, const struct kiln_job_row *row)
{
    const struct kiln_job *job = &row->job;
    char mode[KILN_MODE_MAX], cost[64] = "", saving[KILN_MODE_SAVING_MAX], why[128];
    kiln_mode_text(&job->mode, mode);
    const bool other = row->forwards > 0 && strcmp(mode, row->rendered_mode) != 0;
    if (row->forwards > 0)
        snprintf(cost, sizeof cost, ", cost of %g full step%s", row->forwards,
                 row->forwards == 1 ? "" : "s");
    kiln_print_fit(cli, HANG, "  mode       %s%s%s%s", kiln_mode_shown(mode),
                   other ? ", rendered " : "", other ? kiln_mode_shown(row->rendered_mode) : "",
                   cost);
    if (kiln_row_reused(row))
        kiln_print_fit(cli, HANG, "  began from the latent of job %" PRIu64 " (%s) %s",
                       job->donor.job, kiln_reuse_class_name((enum kiln_reuse_class)job->donor.hit),
                       kiln_mode_saving(row->rendered_mode, row->start_sigma, row->own_forwards,
                                        row->forwards, saving, sizeof saving));
    else if (job->donor.job)
        kiln_print_fit(cli, HANG,
                       "  full run   the latent of job %" PRIu64 " was chosen, but it %s",
                       job->donor.job,
                       kiln_reuse_fallback(row->fallback, kiln_row_wasted(row), why, sizeof why));
    if (job->init_job)
        kiln_print_fit(cli, HANG, "  start      latent of job %" PRIu64 "", job->init_job);
    if (job->init_image)
        kiln_print_fit(cli, HANG, "  start      %s", job->init_image);
    if (job->init_mask)
        kiln_print_fit(cli, HANG, "  mask       %s", job->init_mask);
    if (job->parent)
        kiln_print_fit(cli, HANG, "  made from  job %" PRIu64 "", job->parent);
}

/* "  loras      ink:0.8", and what "auto" thought. */
static void print_loras(const struct kiln_cli *cli, const struct kiln_job *job)
{
    char set[KILN_LORA_SET_MAX];
    struct kiln_text words = {0};
    if (kiln_lora_set_text(job->loras, job->lora_count, set, sizeof set))
        kiln_print_fit(cli, HANG, "  loras      %s", set);
    kiln_route_words(job, &words);
    if (words.at)
        print_words(cli, "why", words.at);
    if (job->drawn)
        print_words(cli, "drawn as", job->drawn);
    kiln_text_release(&words);
}

static int job_text(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    const struct shown *shown = arg;
    const struct kiln_cli *cli = shown->cli;
    const struct kiln_job *job = &row->job;
    char time[64];
    (void)err;
    kiln_print_fit(cli, HANG, "job %" PRIu64 "  %s, attempt %u", job->id,
                   kiln_job_state_name(job->state), job->attempt);
    kiln_print_fit(cli, HANG, "  batch      %s, index %u%s%s", job->batch, job->index,
                   job->custom_id ? ", custom_id " : "", job->custom_id ? job->custom_id : "");
    print_words(cli, "prompt", job->prompt);
    if (job->negative_prompt && job->negative_prompt[0])
        print_words(cli, "negative", job->negative_prompt);
    kiln_print_fit(cli, HANG, "  picture    %ux%u, %u steps, guidance %g, seed %" PRIu64 "%s%s",
                   job->width, job->height, job->steps, job->guidance, job->seed,
                   job->style ? ", style " : "", job->style ? job->style : "");
    print_mode(cli, row);
    print_loras(cli, job);
    kiln_print_fit(cli, HANG, "  options    kind %s, latents %s, priority %d, tenant %s",
                   kiln_job_kind_name(job->kind), kiln_latents_name(job->latents),
                   (int)job->priority, job->tenant);
    print_words(cli, "created", kiln_time_text(row->created_ms, time, sizeof time));
    if (row->assigned_ms) /* only the moves that have happened */
        kiln_print_fit(cli, HANG, "  assigned   %s to %s",
                       kiln_time_text(row->assigned_ms, time, sizeof time), row->worker);
    if (row->finished_ms)
        print_words(cli, "finished", kiln_time_text(row->finished_ms, time, sizeof time));
    if (row->error && job->state != KILN_JOB_DONE)
        kiln_print_fit(cli, HANG, "  error      %s: %s", kiln_code_name(row->error_code),
                       row->error);
    for (uint32_t i = 0; i < row->object_count; i++)
        kiln_print_fit(cli, HANG, "  %-10s %ux%u, %s, %s", row->objects[i].role,
                       row->objects[i].width, row->objects[i].height,
                       KILN_BYTES(row->objects[i].bytes), row->objects[i].key);
    if (shown->made.image)
        kiln_print_fit(cli, HANG,
                       "  times      wait %.0f, text %.0f, denoise %.0f, decode %.0f, encode "
                       "%.0f, upload %.0f ms",
                       shown->made.wait_ms, shown->made.text_ms, shown->made.denoise_ms,
                       shown->made.decode_ms, shown->made.encode_ms, shown->made.upload_ms);
    puts("  events");
    return 0;
}

static int move_text(void *arg, const struct kiln_move_row *move, struct kiln_error *err)
{
    const struct shown *shown = arg;
    char text[64];
    (void)err;
    kiln_print_fit(shown->cli, 6, "    %s  %s -> %s, attempt %u%s%s%s%s",
                   kiln_time_text(move->at_ms, text, sizeof text),
                   kiln_job_state_name((enum kiln_job_state)move->was),
                   kiln_job_state_name((enum kiln_job_state)move->state), move->attempt,
                   move->worker ? ", " : "", move->worker ? move->worker : "",
                   move->reason ? ": " : "", move->reason ? move->reason : "");
    return 0;
}

/* Three questions to the ledger.  If the job ends between them, the later answers are newer, but
 * each is complete. */
static int show_job(struct kiln_cli *cli, struct kiln_ledger *ledger, uint64_t id,
                    struct kiln_error *err)
{
    struct shown shown = {.cli = cli};
    int rc = kiln_ledger_made(ledger, id, &shown.made, err);
    if (rc == 0)
        rc = kiln_ledger_job(ledger, kiln_pool(cli), id, cli->json ? job_json : job_text, &shown,
                             err);
    if (rc == 0)
        rc = kiln_ledger_moves(ledger, id, cli->json ? move_json : move_text, &shown, err);
    if (rc == 0 && cli->json) {
        kiln_text_puts(&shown.text, "]}\n");
        if (shown.text.failed)
            rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the record");
        else if (fputs(shown.text.at, stdout) == EOF)
            (void)kiln_stdout_ok(); /* keeps errno for the end of the command */
    }
    kiln_text_release(&shown.text);
    return rc;
}

/* --- a batch ---------------------------------------------------------------------------------- */

static int refusal_json(void *arg, const char *key, const char *reason, struct kiln_error *err)
{
    (void)err;
    json_array_append_new(arg, json_pack("{s:s, s:s}", "key", key, "reason", reason));
    return 0;
}

static int refusal_text(void *arg, const char *key, const char *reason, struct kiln_error *err)
{
    (void)err;
    kiln_print_fit(arg, HANG, "  refused    %s: %s", key, reason);
    return 0;
}

/* The counts, the sums of its enqueue calls, and the refused jobs with the reasons.  *ret_status is
 * set if they could not be printed. */
static int show_batch(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                      int *ret_status, struct kiln_error *err)
{
    struct kiln_progress progress;
    int rc = kiln_check_batch(cli, ledger, batch, err);
    if (rc == 0)
        rc = kiln_ledger_progress(ledger, kiln_pool(cli), batch, &progress, err);
    if (rc == 0)
        rc = kiln_ledger_gone_counts(ledger, kiln_pool(cli), batch, &progress.gone, err);
    if (rc)
        return rc;
    char created[64];
    kiln_time_text(progress.created_ms, created, sizeof created);
    if (cli->json) {
        json_t *refusals = json_array();
        rc = kiln_ledger_refusals(ledger, kiln_pool(cli), batch, refusal_json, refusals, err);
        json_t *value = json_pack(
            "{s:s, s:s, s:b, s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "batch", batch, "created_at",
            created, "whole", (int)progress.whole, "jobs", kiln_counts_json(&progress.jobs), "gone",
            (json_int_t)kiln_counts_total(&progress.gone), "removed", (json_int_t)progress.removed,
            "announced", (json_int_t)progress.announced, "accepted", (json_int_t)progress.accepted,
            "duplicate", (json_int_t)progress.duplicate, "refused", refusals);
        if (rc)
            json_decref(value);
        else
            *ret_status = kiln_print_json(cli, value);
        return rc;
    }
    kiln_print_fit(cli, HANG, "batch %s  %s", batch,
                   progress.whole ? "all lines received" : "still coming in");
    print_words(cli, "created", created);
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        printf("  %-10s %" PRIu64 "\n", kiln_job_state_name((enum kiln_job_state)state),
               progress.jobs.at[state]);
    kiln_apart_print(&progress.gone, progress.removed);
    return kiln_ledger_refusals(ledger, kiln_pool(cli), batch, refusal_text, cli, err);
}

int kiln_verb_show(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err, none;
    struct kiln_ledger *ledger = NULL;
    const char *what = args->rest[0];
    bool number = what[0] && strspn(what, "0123456789") == strlen(what);
    uint64_t id = 0;
    int status = number ? kiln_arg_job(cli, what, &id) : 0;
    if (status)
        return status;
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc == 0 && number)
        rc = show_job(cli, ledger, id, &err);
    bool batch = rc == 0 && !number;
    if (rc == KILN_NOT_FOUND && number) /* a batch may be called 2026 */
        batch = kiln_ledger_batch_id(ledger, kiln_pool(cli), what, &id, &none) == 0;
    if (batch)
        rc = show_batch(cli, ledger, what, &status, &err);
    kiln_ledger_close(ledger);
    return rc ? kiln_report(cli, &err) : status;
}
