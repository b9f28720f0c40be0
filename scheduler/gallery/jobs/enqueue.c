/* enqueue.c - POST /v1/batches: job lines into the queue, with a receipt of each line.
 *
 * The whole body is in a file before its first line is read (web/spool.h), and the jobs are sent
 * while the lines are read.  Memory grows by the receipts alone, which are bounded.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "scheduler/gallery/jobs/send.h"
#include "scheduler/gallery/parts/ask.h"
#include "scheduler/gallery/parts/json.h"
#include "scheduler/gallery/web/spool.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"

#define JSON_TYPE "application/json"
#define RECEIPTS_MAX 10000 /* lines; all are counted */
#define WAIT_S 5           /* for the scheduler, unless the address says another */
#define WAIT_S_MAX 10      /* so that a server that is stopped ends in time */
#define SETS_MAX 32

/* A line whose jobs are in the stream. */
struct receipt {
    uint64_t line, jobs;
    uint64_t job;          /* of its first picture; 0: not in the ledger */
    char *custom_id, *key; /* of its first picture */
};

struct sending {
    struct kiln_web_visit *visit;
    struct kiln_enqueue_request request;
    struct kiln_enqueue_result result;
    struct kiln_set sets[SETS_MAX];
    struct receipt *receipts;
    size_t count, room;
    bool more; /* lines beyond RECEIPTS_MAX */
    bool short_of_memory;
};

/* --- the request ------------------------------------------------------------------------------ */

static int read_flag(const struct kiln_web_arg *arg, bool *ret, struct kiln_error *err)
{
    if (strcmp(arg->value, "0") != 0 && strcmp(arg->value, "1") != 0)
        return kiln_fail(err, KILN_BAD_INPUT, "%s is \"%.20s\"; it must be 0 or 1", arg->name,
                         arg->value);
    *ret = arg->value[0] == '1';
    return 0;
}

static int read_wait(const char *text, struct kiln_enqueue_request *request, struct kiln_error *err)
{
    uint64_t wait_s = 0;
    request->no_wait = strcmp(text, "0") == 0;
    if (!request->no_wait && (!kiln_web_id(text, strlen(text), &wait_s) || wait_s > WAIT_S_MAX))
        return kiln_fail(err, KILN_BAD_INPUT, "wait is \"%.20s\"; it must be 0 to %d seconds", text,
                         WAIT_S_MAX);
    request->wait_s = (uint32_t)wait_s;
    return 0;
}

static int read_args(struct sending *sending, struct kiln_error *err)
{
    const struct kiln_web_args *args = sending->visit->args;
    struct kiln_enqueue_request *request = &sending->request;
    int rc = 0;
    request->wait_s = WAIT_S;
    for (size_t i = 0; i < args->count && rc == 0; i++) {
        const struct kiln_web_arg *arg = &args->at[i];
        if (strcmp(arg->name, "batch") == 0)
            request->batch = arg->value;
        else if (strcmp(arg->name, "on_done") == 0)
            request->on_done = arg->value;
        else if (strcmp(arg->name, "strict") == 0)
            rc = read_flag(arg, &request->strict, err);
        else if (strcmp(arg->name, "dry_run") == 0)
            rc = read_flag(arg, &request->dry_run, err);
        else if (strcmp(arg->name, "wait") == 0)
            rc = read_wait(arg->value, request, err);
        else if (strcmp(arg->name, "set") == 0 && request->set_count < SETS_MAX)
            sending->sets[request->set_count++] = (struct kiln_set){"set", arg->value};
        else if (strcmp(arg->name, "set") == 0)
            rc = kiln_fail(err, KILN_BAD_INPUT, "more than %d times set", SETS_MAX);
        else
            rc = kiln_gallery_ask_unknown(arg->name, err);
    }
    request->sets = sending->sets;
    return rc;
}

/* By the type alone: what a body looks like decides nothing. */
static int read_format(const char *type, enum kiln_format *ret, struct kiln_error *err)
{
    static const struct {
        const char *type;
        enum kiln_format format;
    } types[] = {
        {"application/jsonl", KILN_FORMAT_JSONL},
        {"application/x-jsonlines", KILN_FORMAT_JSONL},
        {"application/x-ndjson", KILN_FORMAT_JSONL},
        {"application/ndjson", KILN_FORMAT_JSONL},
        {"application/json", KILN_FORMAT_JSONL},
        {"text/plain", KILN_FORMAT_TEXT},
        {"text/csv", KILN_FORMAT_CSV},
    };
    const size_t len = strcspn(type, "; \t");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].type) == len && strncasecmp(type, types[i].type, len) == 0) {
            *ret = types[i].format;
            return 0;
        }
    return kiln_fail(err, KILN_BAD_INPUT,
                     "Content-Type is \"%.60s\"; send job lines as application/jsonl, prompts as "
                     "text/plain or a table as text/csv",
                     type);
}

/* --- receipts --------------------------------------------------------------------------------- */

static void note_sent(void *arg, uint64_t line, uint64_t copy, const struct kiln_job *job,
                      const char *key)
{
    struct sending *sending = arg;
    struct receipt *last = sending->count ? &sending->receipts[sending->count - 1] : NULL;
    if (last && last->line == line) {
        last->jobs++;
        return;
    }
    if (copy > 0 || sending->short_of_memory)
        return; /* of a line that has no receipt */
    if (sending->count == RECEIPTS_MAX) {
        sending->more = true;
        return;
    }
    struct receipt *all = kiln_room(sending->receipts, sending->count, &sending->room, sizeof *all);
    char *copy_of_key = all ? strdup(key) : NULL;
    char *id = copy_of_key && job->custom_id ? strdup(job->custom_id) : NULL;
    if (all)
        sending->receipts = all;
    sending->short_of_memory = !copy_of_key || (job->custom_id && !id);
    if (sending->short_of_memory)
        free(copy_of_key);
    else
        all[sending->count++] =
            (struct receipt){.line = line, .jobs = 1, .custom_id = id, .key = copy_of_key};
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(struct receipt *const *)a)->key, (*(struct receipt *const *)b)->key);
}

struct found {
    struct receipt **by_key;
    size_t count;
};

static int note_job(void *arg, const char *key, uint64_t id, struct kiln_error *err)
{
    const struct found *found = arg;
    struct receipt wanted = {.key = (char *)key}, *at = &wanted;
    (void)err;
    struct receipt **hit = bsearch(&at, found->by_key, found->count, sizeof *found->by_key, by_key);
    if (hit)
        (*hit)->job = id;
    return 0;
}

/* The jobs of the receipts, once the scheduler has said that they are in the ledger. */
static int find_jobs(struct sending *sending, struct kiln_error *err)
{
    const char **keys = calloc(sending->count + 1, sizeof *keys);
    struct found found = {.by_key = calloc(sending->count + 1, sizeof(struct receipt *)),
                          .count = sending->count};
    int rc = keys && found.by_key ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for receipts");
    for (size_t i = 0; rc == 0 && i < sending->count; i++) {
        keys[i] = sending->receipts[i].key;
        found.by_key[i] = &sending->receipts[i];
    }
    if (rc == 0) {
        qsort(found.by_key, found.count, sizeof *found.by_key, by_key);
        rc =
            kiln_ledger_keyed_jobs(sending->visit->session, kiln_gallery_app(sending->visit)->pool,
                                   sending->result.batch, keys, found.count, note_job, &found, err);
    }
    free(keys);
    free(found.by_key);
    return rc;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void add_count(struct kiln_text *out, const char *name, bool known, uint64_t count)
{
    if (known)
        kiln_json_number(out, name, count);
    else
        kiln_json_text(out, name, NULL);
}

static void add_receipts(const struct sending *sending, struct kiln_text *out)
{
    kiln_text_puts(out, ",\"lines\":[");
    for (size_t i = 0; i < sending->count; i++) {
        const struct receipt *receipt = &sending->receipts[i];
        kiln_text_puts(out, i ? ",\n{" : "\n{");
        kiln_json_number(out, "line", receipt->line);
        kiln_json_text(out, "custom_id", receipt->custom_id);
        kiln_json_text(out, "key", receipt->key);
        kiln_json_number(out, "jobs", receipt->jobs);
        add_count(out, "job", receipt->job != 0, receipt->job);
        kiln_text_puts(out, "}");
    }
    kiln_text_puts(out, "]");
    kiln_json_bool(out, "more_lines", sending->more || sending->short_of_memory);
}

static void add_refusals(const struct kiln_enqueue_result *result, struct kiln_text *out)
{
    kiln_text_puts(out, ",\"refused_lines\":[");
    for (size_t i = 0; i < result->refusal_count; i++) {
        kiln_text_puts(out, i ? ",\n{" : "\n{");
        add_count(out, "line", result->refusals[i].line != 0, result->refusals[i].line);
        kiln_json_text(out, "message", result->refusals[i].error);
        kiln_text_puts(out, "}");
    }
    kiln_text_puts(out, "]");
}

static void add_plan(const struct kiln_enqueue_result *result, struct kiln_text *out)
{
    json_t *plan = kiln_plan_json(&result->plan);
    char *text = plan ? json_dumps(plan, JSON_COMPACT) : NULL;
    kiln_text_puts(out, ",\"plan\":");
    kiln_text_puts(out, text ? text : "null");
    free(text);
    json_decref(plan);
}

/* failed: what ended it, or NULL. */
static void write_answer(struct sending *sending, const struct kiln_error *failed)
{
    const struct kiln_enqueue_result *result = &sending->result;
    struct kiln_text *out = &sending->visit->reply.body;
    const bool dry = sending->request.dry_run, counted = result->receipted && !dry;
    sending->visit->reply.type = JSON_TYPE;
    sending->visit->reply.cache = "no-store";
    kiln_text_puts(out, "{");
    if (failed) {
        kiln_json_text(out, "error", kiln_code_name(failed->code));
        kiln_json_text(out, "message", failed->text);
    }
    kiln_json_text(out, "batch", result->batch[0] && !dry ? result->batch : NULL);
    kiln_json_number(out, "sent", result->sent);
    add_count(out, "accepted", counted, result->accepted);
    add_count(out, "duplicate", counted, result->duplicate);
    kiln_json_number(out, "refused", result->refused);
    kiln_json_text(out, "passed_over", result->passed_over[0] ? result->passed_over : NULL);
    add_refusals(result, out);
    if (dry)
        add_plan(result, out);
    else
        add_receipts(sending, out);
    kiln_text_puts(out, "}\n");
}

/* 201: jobs are new in the ledger; 200: all were there; 202: safe in the queue; 422: no line was
 * good, or with strict not all. */
static unsigned status_of(const struct sending *sending, const struct kiln_error *failed)
{
    const struct kiln_enqueue_result *result = &sending->result;
    if (failed && kiln_code_retry(failed->code) != KILN_RETRY_NEVER)
        return 503;
    if (failed)
        return failed->code == KILN_BAD_INPUT && result->refused > 0 ? 422 : 400;
    if (sending->request.dry_run)
        return result->refused > 0 ? 422 : 200;
    if (result->sent == 0)
        return 422;
    if (!result->receipted)
        return 202;
    return result->accepted > 0 ? 201 : 200;
}

static int send(struct sending *sending, struct kiln_error *err)
{
    struct kiln_web_visit *visit = sending->visit;
    struct kiln_error failed = {0};
    char location[KILN_BATCH_NAME_MAX + 16];
    int rc = kiln_gallery_send(visit, &sending->request, &sending->result, &failed);
    if (rc == 0 && sending->result.receipted && find_jobs(sending, err))
        kiln_log(KILN_LOG_WARNING, "jobs_not_numbered", /* they are sent all the same */
                 kiln_f("batch", "%s", sending->result.batch), kiln_f("error", "%s", err->text));
    write_answer(sending, rc ? &failed : NULL);
    visit->reply.status = status_of(sending, rc ? &failed : NULL);
    if (visit->reply.status == 503)
        visit->reply.retry_after_s = 5;
    if (rc == 0 && sending->result.sent > 0) {
        snprintf(location, sizeof location, "/v1/batches/%s", sending->result.batch);
        visit->reply.location = strdup(location);
    }
    return 0;
}

int kiln_gallery_api_enqueue(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct sending *sending = calloc(1, sizeof *sending);
    enum kiln_format format = KILN_FORMAT_JSONL;
    if (!sending)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a batch");
    sending->visit = visit;
    sending->request.sent = note_sent;
    sending->request.arg = sending;
    int rc = read_format(visit->body_type, &format, err);
    if (rc)
        visit->reply.status = 415;
    rc = rc ? rc : read_args(sending, err);
    rc =
        rc ? rc
           : kiln_input_open_fd("the body", visit->spool->fd, format, &sending->request.input, err);
    rc = rc ? rc : send(sending, err);
    for (size_t i = 0; i < sending->count; i++) {
        free(sending->receipts[i].custom_id);
        free(sending->receipts[i].key);
    }
    free(sending->receipts);
    kiln_enqueue_release(&sending->result);
    free(sending);
    return rc;
}
