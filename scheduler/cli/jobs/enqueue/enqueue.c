/* enqueue.c - reads, checks and sends; one pass, or with --strict one to check and one to send.
 *
 * Lines are sent while they are read, so memory grows only by the tables of lines and custom_ids.
 * Many entries are in flight.  The entry with `end` is sent last and flushed: when Redis answers
 * it, Redis has everything.
 *
 * A failure in the middle (Redis dies, the disk is full) leaves a part of the batch in the stream,
 * without its end.  That is harmless: thanks to the keys the same command with the same batch
 * name adds only what is missing, and the message says so.
 */
#include "scheduler/cli/jobs/enqueue/enqueue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>
#include <time.h>

#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/jobs/enqueue/context.h"
#include "scheduler/cli/jobs/enqueue/digest_map.h"
#include "scheduler/cli/jobs/enqueue/identity.h"
#include "scheduler/cli/jobs/enqueue/model_watch.h"
#include "scheduler/cli/jobs/enqueue/uploads.h"
#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/job/expand.h"
#include "schemas/job/line.h"
#include "schemas/names.h"
#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "storage/webhook/webhook.h"

/* --- entries ------------------------------------------------------------------------------- */

/* A job as it goes into the intake stream.  With the key an enqueue call can be repeated: the same
 * batch name and key are the same job.  So lines may be inserted, moved and edited between two
 * calls, and only new content makes a job. */
struct entry {
    struct kiln_text line; /* with its seed */
    char key[KILN_INTAKE_KEY_MAX + 1];
    char index[12];
    bool known; /* the batch has it already */
};

/* Appended last, so that the rest of the line is unchanged. */
static void add_seed(struct kiln_text *line, uint64_t seed)
{
    line->len--; /* the closing brace */
    kiln_text_puts(line, ",\"seed\":");
    kiln_text_u64(line, seed);
    kiln_text_add(line, "}", 1);
}

/* Fills line, key and index; derives the job's seed from its batch and key unless has_seed. copy:
 * which job of its line it is. */
static int make_entry(struct entry *entry, struct kiln_identity *identity, struct kiln_job *job,
                      bool has_seed, uint64_t copy, struct kiln_error *err)
{
    kiln_text_clear(&entry->line);
    struct kiln_job bare = *job; /* a dry run has the setting coarse, which belongs to no key */
    if (!job->coarse_said && !kiln_mode_starts(&job->mode))
        bare.mode.kind = KILN_MODE_EXACT;
    kiln_job_line_write(&bare, false, &entry->line);
    if (has_seed)
        add_seed(&entry->line, job->seed);
    if (entry->line.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line");
    int code = kiln_identity_key(identity, job, copy, &entry->line, entry->key, &entry->known, err);
    if (code)
        return code;
    if (!has_seed) {
        job->seed = kiln_seed_derive(job->batch, entry->key);
        add_seed(&entry->line, job->seed);
    }
    snprintf(entry->index, sizeof entry->index, "%u", job->index);
    return entry->line.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line") : 0;
}

/* --- a run --------------------------------------------------------------------------------- */

struct run {
    struct kiln_cli *cli;
    const struct kiln_enqueue_request *request;
    struct kiln_enqueue_result *result;
    struct kiln_enqueue_context context;
    struct kiln_input *input;
    struct kiln_expand *expand;
    struct entry entry;
    struct kiln_identity identity;
    char source[KILN_BATCH_NAME_MAX + 1]; /* the file's name; "": it has none */
    struct kiln_digest_map custom_ids;    /* the line where each occurs first */
    struct kiln_uploads uploads;          /* pictures that jobs start from */
    struct kiln_model_watch watch;
    struct kiln_bus *bus; /* NULL while only checking */
    char stream[128], token[KILN_WIRE_ID_MAX + 1];
    uint64_t index;    /* of the next job */
    struct seek *seek; /* set while the input is read again only to find two lines */
};

/* The lines of two keys; 0: not found. */
struct seek {
    const char *first_key, *last_key;
    uint64_t first, last;
};

/* --- refused lines ------------------------------------------------------------------------- */

/* Counts all and keeps the first KILN_REFUSALS_KEPT: a million bad lines must not use up memory. */
static void keep_refusal(struct kiln_enqueue_result *result, uint64_t line, const char *error)
{
    result->refused++;
    if (result->refusal_count == KILN_REFUSALS_KEPT)
        return;
    if (!result->refusals)
        result->refusals = calloc(KILN_REFUSALS_KEPT, sizeof *result->refusals);
    char *copy = result->refusals ? strdup(error) : NULL;
    if (!copy)
        return;
    result->refusals[result->refusal_count++] = (struct kiln_refusal){line, copy};
}

#define LINE_NAME_MAX (KILN_PATH_MAX + 32)
/* "FILE:7", or "job 17" for a line that was made from one. */
static const char *name_line(const struct run *run, uint64_t line, char out[LINE_NAME_MAX])
{
    const struct kiln_made_lines *made = run->request->made;
    if (made)
        snprintf(out, LINE_NAME_MAX, "job %" PRIu64, made->jobs[line - 1]);
    else
        snprintf(out, LINE_NAME_MAX, "%s:%" PRIu64, kiln_input_name(run->input), line);
    return out;
}

/* --- one line ------------------------------------------------------------------------------ */

/* Results name the custom_id, so it must be unique in a file. */
static int check_custom_id(struct run *run, const char *custom_id, uint64_t line,
                           struct kiln_error *err)
{
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_sha256(custom_id, strlen(custom_id), digest);
    uint32_t *first = kiln_digest_map_at(&run->custom_ids, digest);
    if (!first)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the custom_ids of the file");
    if (*first)
        return kiln_fail(err, KILN_BAD_INPUT, "custom_id \"%.64s\" is already used in line %u",
                         custom_id, *first);
    *first = line < UINT32_MAX ? (uint32_t)line : UINT32_MAX;
    return 0;
}

static void keep_model(struct kiln_enqueue_result *result, const char *model)
{
    size_t at = 0;
    while (at < result->model_count && strcmp(result->models[at], model) != 0)
        at++;
    if (at == result->model_count && at < KILN_MODELS_KEPT)
        snprintf(result->models[result->model_count++], sizeof result->models[0], "%s", model);
}

/* Checks one job of the current line, and adds it to the plan or sends it. */
static int take_job(struct run *run, uint64_t which, uint64_t line, struct kiln_error *err)
{
    struct kiln_job job;
    int code = kiln_expand_job(run->expand, which, &job, err);
    if (code)
        return code;
    if (which == 0 && job.custom_id)
        code = check_custom_id(run, job.custom_id, line, err);
    if (!code) /* before the key is made: the job is the same from any path */
        code =
            kiln_upload_inputs(&run->uploads, run->cli->config, run->bus && !run->seek, &job, err);
    const bool dry_run = run->request->dry_run;
    if (!code && (run->bus || dry_run)) {
        char *unnamed = job.batch; /* owned by the job, which is released with it */
        job.batch = run->result->batch;
        job.index = (uint32_t)run->index;
        code = make_entry(&run->entry, &run->identity, &job, kiln_expand_has_seed(run->expand),
                          which, err);
        job.batch = unnamed;
    }
    if (!code && !run->seek)
        kiln_model_watch_see(&run->watch, &job);
    if (!code && !run->seek && job.model && job.model[0])
        keep_model(run->result, job.model);
    if (!code && dry_run)
        kiln_plan_add(&run->result->plan, job.model && job.model[0] ? NULL : run->watch.card, &job,
                      !run->entry.known);
    if (!code && run->bus) {
        const struct entry *entry = &run->entry;
        const char *fields[] = {"batch", run->result->batch, "job",    entry->line.at,
                                "index", entry->index,       "key",    entry->key,
                                "token", run->token,         "source", run->source};
        size_t lengths[] = {5, strlen(run->result->batch), 3, entry->line.len,
                            5, strlen(entry->index),       3, strlen(entry->key),
                            5, strlen(run->token),         6, strlen(run->source)};
        if (!code && !run->seek) /* does not wait for the answer */
            code = kiln_bus_append_async(run->bus, run->stream, fields, lengths,
                                         run->source[0] ? 6 : 5, err);
        if (!code && !run->seek && run->request->sent)
            run->request->sent(run->request->arg, line, which, &job, entry->key);
        if (run->seek && strcmp(run->entry.key, run->seek->first_key) == 0)
            run->seek->first = line;
        if (run->seek && strcmp(run->entry.key, run->seek->last_key) == 0)
            run->seek->last = line;
    }
    kiln_job_release(&job);
    run->index += !code;
    if (!code && run->cli->progress && !run->seek && run->index % 65536 == 0)
        fprintf(stderr, "\r%" PRIu64 " jobs %s ", run->index, run->bus ? "sent" : "checked");
    return code;
}

/* Reads the rest of the input.  A refused line is not an error; none of its jobs is sent. */
static int pass(struct run *run, struct kiln_error *err)
{
    for (;;) {
        const char *text;
        char safe[KILN_ERROR_TEXT_MAX], name[LINE_NAME_MAX];
        size_t len;
        uint64_t line, count = 0;
        int code = kiln_input_next(run->input, &text, &len, &line, err);
        if (!code && !text)
            return 0;
        if (!code)
            code = kiln_expand_begin(run->expand, text, len, &run->context.job, err);
        if (!code)
            count = kiln_expand_count(run->expand);
        if (run->index + count > KILN_BATCH_JOBS_MAX)
            return kiln_fail(err, KILN_FULL, "line %" PRIu64 ": a batch has at most %d jobs", line,
                             KILN_BATCH_JOBS_MAX);
        for (uint64_t which = 0; which < count && !code; which++)
            code = take_job(run, which, line, err);
        if (code && code != KILN_BAD_INPUT)
            return code;
        if (code && !run->seek) {
            if (!run->cli->silent)
                fprintf(stderr, "%s: %s\n", name_line(run, line, name),
                        kiln_safe_line(err->text, safe, sizeof safe));
            keep_refusal(run->result, line, err->text);
        }
    }
}

/* --- the stream ---------------------------------------------------------------------------- */

static int random_hex(char *out, size_t bytes, struct kiln_error *err)
{
    uint8_t noise[16];
    if (getrandom(noise, bytes, 0) != (ssize_t)bytes)
        return kiln_fail(err, KILN_INTERNAL, "the system has no random numbers");
    kiln_hex(noise, bytes, out);
    return 0;
}

/* The batch that is named, else that of the file; else a new one, "b-20261121-1f3a9c07", which
 * sorts by day, and two people who enqueue at once do not meet. */
static int name_batch(struct run *run, struct kiln_error *err)
{
    const struct kiln_enqueue_request *request = run->request;
    char day[32], noise[9], own[KILN_BATCH_NAME_MAX + 1];
    struct tm parts;
    time_t now = time(NULL);
    if (request->made || !kiln_file_names(request->file, own, run->source))
        own[0] = run->source[0] = '\0';
    const char *named = request->batch ? request->batch : own;
    const char *source = run->source[0] ? run->source : NULL;
    snprintf(run->result->batch, sizeof run->result->batch, "%s", named);
    if (named[0])
        return kiln_identity_open(&run->identity, run->cli, run->result->batch, source,
                                  request->dry_run, err);
    gmtime_r(&now, &parts);
    strftime(day, sizeof day, "%Y%m%d", &parts);
    int code = random_hex(noise, 4, err);
    if (!code)
        snprintf(run->result->batch, sizeof run->result->batch, "b-%s-%s", day, noise);
    return code;
}

/* Sends some keys that the file no longer has. */
static int send_gone(void *arg, const char *keys, size_t len, struct kiln_error *err)
{
    struct run *run = arg;
    const char *fields[] = {"batch", run->result->batch, "token", run->token, "gone", keys};
    size_t lengths[] = {5, strlen(run->result->batch), 5, strlen(run->token), 4, len};
    return kiln_bus_append_async(run->bus, run->stream, fields, lengths, 3, err);
}

/* Opens the stream and makes the pass that sends.  After a failure it says how to continue. */
static int send_all(struct run *run, struct kiln_error *err)
{
    kiln_wire_key(run->stream, sizeof run->stream, kiln_pool(run->cli), "intake", NULL);
    int code = random_hex(run->token, 12, err);
    if (!code)
        code = kiln_open_bus(run->cli, &run->bus, err);
    if (code)
        return code;
    run->index = 0;
    code = pass(run, err);
    run->result->sent = run->index;
    if (!code && run->result->sent > 0) /* a file without a good line is a mistake, not empty */
        code =
            kiln_identity_gone(&run->identity, run->cli, send_gone, run, &run->result->gone, err);
    if (!code && run->result->sent > 0) { /* the last entry: how many jobs this call announced */
        char end[24];
        snprintf(end, sizeof end, "%" PRIu64, run->result->sent);
        const char *on_done = run->request->on_done;
        const char *fields[] = {"batch", run->result->batch, "token", run->token, "end",
                                end,     "on_done",          on_done};
        size_t lengths[] = {5, strlen(run->result->batch),   5, strlen(run->token), 3, strlen(end),
                            7, on_done ? strlen(on_done) : 0};
        code = kiln_bus_append_async(run->bus, run->stream, fields, lengths, on_done ? 4 : 3, err);
        code = code ? code : kiln_bus_flush(run->bus, err);
        run->result->safe = !code;
    } else if (!code && run->request->on_done && run->result->refused > 0) {
        kiln_warn(run->cli,
                  "no job was sent, so the URL of --on-done will not be notified of batch %s",
                  run->result->batch);
    }
    if (code && run->index > 0)
        kiln_warn(run->cli,
                  "stopped early: part of batch %s may be in the stream; repeat the command with "
                  "--batch %s, and only what is missing is added",
                  run->result->batch, run->result->batch);
    return code;
}

/* Finds the lines of the keys in the receipt.  The input is read once more for that, instead of
 * keeping a table of all lines.  The lines of a pipe remain unknown. */
static void find_lines(struct run *run, const struct kiln_receipt *receipt, struct seek *seek)
{
    struct kiln_error err;
    uint64_t sent = run->index;
    *seek = (struct seek){.first_key = receipt->first_key, .last_key = receipt->last_key};
    if (!receipt->first_key[0] || kiln_input_rewind(run->input, &err) != 0)
        return;
    kiln_digest_map_release(&run->custom_ids);
    kiln_identity_rewind(&run->identity);
    run->index = 0;
    run->seek = seek;
    if (pass(run, &err) != 0)
        seek->first = seek->last = 0;
    run->seek = NULL;
    run->index = sent;
}

/* Prints what the scheduler refused, with the lines if they can be found. */
static void report_refused(struct run *run, const struct kiln_receipt *receipt)
{
    struct seek seek;
    char text[KILN_ERROR_TEXT_MAX + 128];
    const char *reason = receipt->first_refusal;
    uint64_t jobs = receipt->refused;
    find_lines(run, receipt, &seek);
    if (!seek.first || !seek.last) {
        kiln_warn(run->cli, "the scheduler refused %s, the first: %s", KILN_COUNT(jobs, "job"),
                  reason);
        keep_refusal(run->result, 0, reason);
    } else if (jobs == 1) {
        if (run->request->made)
            kiln_warn(run->cli, "the scheduler refused a redraw of job %" PRIu64 ": %s",
                      run->request->made->jobs[seek.first - 1], reason);
        else
            kiln_warn(run->cli, "the scheduler refused a job of line %" PRIu64 ": %s", seek.first,
                      reason);
        keep_refusal(run->result, seek.first, reason);
    } else { /* bad entries are refused before those beyond a quota, so not in order of lines */
        bool in_order = seek.first <= seek.last;
        uint64_t from = in_order ? seek.first : seek.last, to = in_order ? seek.last : seek.first;
        const struct kiln_made_lines *made = run->request->made;
        snprintf(text, sizeof text,
                 "%" PRIu64 " jobs, from %s %" PRIu64 " to %s %" PRIu64 ", the first: %s", jobs,
                 made ? "a redraw of job" : "line", made ? made->jobs[from - 1] : from,
                 made ? "one of job" : "line", made ? made->jobs[to - 1] : to, reason);
        kiln_warn(run->cli, "the scheduler refused %s", text);
        keep_refusal(run->result, from, text);
    }
    if (jobs > 1)
        kiln_warn(run->cli, "`kiln show %s` lists each with its reason", run->result->batch);
    run->result->refused += jobs - 1;
}

/* ", 2 gone from the file", or nothing. */
static const char *gone_text(uint64_t count, char *out, size_t size)
{
    if (count > 0)
        snprintf(out, size, ", %" PRIu64 " gone from the file", count);
    return out;
}

/* The text of the receipt, or NULL when wait_ms have passed. */
static int pop_receipt(struct run *run, const char *list, uint32_t wait_ms, char **ret_text,
                       struct kiln_error *err)
{
    const struct kiln_enqueue_request *request = run->request;
    double end_ms = kiln_monotonic_ms() + wait_ms, left_ms = wait_ms;
    int code = 0;
    while (code == 0 && !*ret_text && left_ms >= 1) {
        bool piece = request->unanswered && left_ms > KILN_TROUBLE_LOOK_MS;
        code = kiln_bus_pop(run->bus, list, piece ? KILN_TROUBLE_LOOK_MS : (uint32_t)left_ms,
                            ret_text, err);
        if (code == 0 && !*ret_text && piece)
            request->unanswered(request->arg, run->result->batch);
        left_ms = end_ms - kiln_monotonic_ms();
    }
    return code;
}

/* Waits for the scheduler's receipt.  The jobs are safe without it, and the message says so. */
static int take_receipt(struct run *run, struct kiln_error *err)
{
    char list[192], *text = NULL;
    struct kiln_receipt receipt;
    struct kiln_enqueue_result *result = run->result;
    const char *pool = kiln_config_text(run->cli->config, KILN_KEY_POOL);
    kiln_wire_key(list, sizeof list, pool, "receipt", run->token);
    uint32_t wait_s = run->request->wait_s ? run->request->wait_s : KILN_RECEIPT_WAIT_S;
    int code = pop_receipt(run, list, wait_s * 1000, &text, err);
    if (!code && !text)
        return kiln_fail(
            err, KILN_TIMEOUT,
            "no receipt within %u s, so probably no scheduler is running; %s of batch %s are "
            "safe in the stream and will be taken in when one starts",
            wait_s, KILN_COUNT(result->sent, "job"), result->batch);
    if (!code)
        code = kiln_receipt_decode(text, strlen(text), &receipt, err);
    free(text);
    if (code)
        return code;
    result->receipted = true;
    result->accepted = receipt.accepted;
    result->duplicate = receipt.duplicate;
    if (receipt.refused > 0)
        report_refused(run, &receipt);
    if (receipt.duplicate + result->gone > 0 && !run->cli->json)
        kiln_say(run->cli, "batch %s: %" PRIu64 " new, %" PRIu64 " unchanged%s", result->batch,
                 receipt.accepted, receipt.duplicate, gone_text(result->gone, (char[64]){""}, 64));
    return 0;
}

/* --- the whole ----------------------------------------------------------------------------- */

static int check_and_send(struct run *run, struct kiln_error *err)
{
    const struct kiln_enqueue_request *request = run->request;
    struct kiln_enqueue_result *result = run->result;
    int code = kiln_enqueue_context_open(run->cli->config, request->sets, request->set_count,
                                         !request->no_files, &run->context, err);
    run->context.job.no_empty = !request->allow_empty && !request->made;
    if (!code && request->dry_run) /* no key is made of its lines, so they may have the setting */
        code = kiln_job_context_modes(&run->context.job, run->cli->config, err);
    if (!code && request->made)
        code = kiln_input_open_text("the redraws", request->made->text, request->made->len,
                                    &run->input, err);
    else if (!code && request->input)
        run->input = request->input;
    else if (!code)
        code = kiln_input_open(request->file, request->format, request->strict && !request->dry_run,
                               &run->input, err);
    if (!code && !(run->expand = kiln_expand_new()))
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", kiln_input_name(run->input));
    if (!code)
        code = name_batch(run, err);
    if (!code && (request->dry_run || request->strict)) /* the pass that sends nothing */
        code = pass(run, err);
    if (!code && request->dry_run && run->identity.ledger) {
        result->compared = true;
        result->accepted = run->index - run->identity.met;
        result->duplicate = run->identity.met;
        result->gone = run->identity.own - run->identity.own_met;
    }
    if (!code && request->strict && result->refused > 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "%s refused, so nothing was sent (--strict)",
                         KILN_COUNT(result->refused, "line"));
    if (!code && request->strict && !request->dry_run) {
        kiln_digest_map_release(&run->custom_ids);
        code = kiln_input_rewind(run->input, err);
    }
    if (!code && !request->dry_run)
        code = send_all(run, err);
    if (!code && run->index == 0 && result->refused == 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "%s contains no jobs", kiln_input_name(run->input));
    if (!code && !request->dry_run && !request->no_wait && result->sent > 0)
        code = take_receipt(run, err);
    return code;
}

static bool sets_model(const struct kiln_enqueue_request *request)
{
    for (size_t i = 0; i < request->set_count; i++)
        if (strncmp(request->sets[i].value, "model=", 6) == 0)
            return true;
    return false;
}

int kiln_enqueue(struct kiln_cli *cli, const struct kiln_enqueue_request *request,
                 struct kiln_enqueue_result *result)
{
    struct run run = {.cli = cli, .request = request, .result = result};
    struct kiln_error err = {0};
    memset(result, 0, sizeof *result);
    if (request->batch &&
        !kiln_name_valid(request->batch, strlen(request->batch), KILN_BATCH_NAME_MAX))
        return kiln_usage(cli, "--batch \"%.64s\": a name has up to %d " KILN_NAME_RULE,
                          request->batch, KILN_BATCH_NAME_MAX);
    if (request->batch && kiln_name_reserved(request->batch))
        return kiln_usage(cli, "--batch %s: " KILN_NAMES_RESERVED, request->batch);
    if (request->on_done &&
        (strlen(request->on_done) > KILN_INTAKE_URL_MAX ||
         kiln_webhook_check(request->on_done, kiln_config_text(cli->config, KILN_KEY_WEBHOOK_HOSTS),
                            &err)))
        return kiln_usage(cli, "--on-done: %s", err.code ? err.text : "the URL is too long");
    kiln_model_watch_open(cli, &run.watch);
    int code = check_and_send(&run, &err);
    if (cli->progress && run.index >= 65536)
        fputc('\n', stderr);
    if (code == KILN_CORRUPT) /* the file as a whole, not one line */
        keep_refusal(result, 0, err.text);
    int status = result->refused > 0 ? EX_DATAERR : EX_OK;
    if (code)
        status = run.context.sets_wrong ? kiln_usage(cli, "%s", err.text) : kiln_report(cli, &err);
    if (!code && result->refused > 0)
        kiln_say(cli, "%s %s, %" PRIu64 " refused", KILN_COUNT(run.index, "job"),
                 request->dry_run ? "accepted" : "sent", result->refused);
    if (!code && run.index > 0) {
        const bool models =
            kiln_input_passed_over(run.input, !sets_model(request), result->passed_over);
        if (result->passed_over[0])
            kiln_warn(cli, "%s asks for %s, which only OpenAI has: %s", kiln_input_name(run.input),
                      result->passed_over,
                      models ? "its pictures come from the fleet's own model; --set model=NAME "
                               "chooses one"
                             : "it is passed over");
    }
    result->error = err;
    result->error.code = code;
    kiln_bus_close(run.bus);
    kiln_input_close(run.input ? run.input : request->input);
    kiln_expand_free(run.expand);
    kiln_text_release(&run.entry.line);
    kiln_identity_release(&run.identity);
    kiln_digest_map_release(&run.custom_ids);
    kiln_uploads_release(&run.uploads);
    kiln_model_watch_release(&run.watch);
    kiln_enqueue_context_release(&run.context);
    return status;
}

void kiln_enqueue_release(struct kiln_enqueue_result *result)
{
    for (size_t i = 0; i < result->refusal_count; i++)
        free(result->refusals[i].error);
    free(result->refusals);
    memset(result, 0, sizeof *result);
}
