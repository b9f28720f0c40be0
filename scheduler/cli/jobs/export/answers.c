/* answers.c - see answers.h.
 *
 * The jobs of a request need not follow each other: an edited file adds some later.  So answers are
 * kept until the walk has ended, about 200 bytes a picture.
 */
#include "scheduler/cli/jobs/export/answers.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"
#include "schemas/text/text.h"

struct answer {
    char *batch, *custom_id; /* one request; a search finds those of several batches */
    uint64_t job;            /* the first */
    uint32_t width, height;
    int64_t ended_ms;    /* the last of them */
    bool waits;          /* a job has not ended */
    bool cancelled;      /* one was cancelled */
    enum kiln_code code; /* of a failed one; 0: none */
    char *error;
    struct kiln_text data; /* {"url":"..."},... */
};

struct kiln_answers {
    struct answer **at; /* in the order of the requests */
    size_t count, room;
    void *by_request; /* the same as a tree (search.h) */
};

static int compare(const void *a, const void *b)
{
    const struct answer *x = a, *y = b;
    const int order = strcmp(x->custom_id, y->custom_id);
    return order ? order : strcmp(x->batch, y->batch);
}

static void free_answer(struct answer *answer)
{
    free(answer->batch);
    free(answer->custom_id);
    free(answer->error);
    kiln_text_release(&answer->data);
    free(answer);
}

struct kiln_answers *kiln_answers_new(void)
{
    return calloc(1, sizeof(struct kiln_answers));
}

/* The answer of the job's request, made if it is new; NULL: no memory. */
static struct answer *answer_of(struct kiln_answers *answers, const struct kiln_job *job)
{
    char name[32];
    snprintf(name, sizeof name, "job-%" PRIu64, job->id);
    struct answer wanted = {.batch = job->batch,
                            .custom_id = job->custom_id ? job->custom_id : name};
    struct answer **found = tfind(&wanted, &answers->by_request, compare);
    if (found)
        return *found;
    struct answer **at = kiln_room(answers->at, answers->count, &answers->room, sizeof *at);
    struct answer *answer = at ? calloc(1, sizeof *answer) : NULL;
    answers->at = at ? at : answers->at;
    if (!answer)
        return NULL;
    answer->job = job->id;
    answer->width = job->width;
    answer->height = job->height;
    answer->batch = strdup(wanted.batch);
    answer->custom_id = strdup(wanted.custom_id);
    if (!answer->batch || !answer->custom_id || !tsearch(answer, &answers->by_request, compare)) {
        free_answer(answer);
        return NULL;
    }
    answers->at[answers->count++] = answer;
    return answer;
}

/* Of a job without a picture; one that only stores a latent makes none. */
static bool has_failed(const struct kiln_job_row *row)
{
    return row->job.state == KILN_JOB_FAILED ||
           (row->job.state == KILN_JOB_DONE && row->job.kind == KILN_KIND_IMAGE);
}

int kiln_answers_add(struct kiln_answers *answers, const struct kiln_job_row *row, const char *path,
                     struct kiln_error *err)
{
    struct answer *answer = answer_of(answers, &row->job);
    if (!answer)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the answers");
    const enum kiln_job_state state = row->job.state;
    answer->ended_ms = row->finished_ms > answer->ended_ms ? row->finished_ms : answer->ended_ms;
    answer->waits |= state == KILN_JOB_QUEUED || state == KILN_JOB_ASSIGNED;
    answer->cancelled |= state == KILN_JOB_CANCELLED;
    if (path) {
        kiln_text_puts(&answer->data, answer->data.len ? ",{\"url\":" : "{\"url\":");
        kiln_text_json(&answer->data, path, strlen(path));
        kiln_text_puts(&answer->data, "}");
    } else if (!answer->code && has_failed(row)) {
        const bool failed = state == KILN_JOB_FAILED;
        answer->code = failed ? (enum kiln_code)row->error_code : KILN_CORRUPT;
        answer->error =
            strdup(failed && row->error ? row->error : "the picture is missing or damaged");
        if (!answer->error)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for the answers");
    }
    return answer->data.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for the answers") : 0;
}

static void put_error(struct kiln_text *line, const char *type, const char *code, const char *text)
{
    kiln_text_printf(line, "{\"code\":\"%s\",\"message\":", code);
    kiln_text_json(line, text, strlen(text));
    if (type)
        kiln_text_printf(line, ",\"type\":\"%s\",\"param\":null", type);
    kiln_text_puts(line, "}");
}

static void put_response(struct kiln_text *line, const struct answer *answer)
{
    const bool request = answer->code == KILN_BAD_INPUT || answer->code == KILN_NOT_FOUND;
    const int status = !answer->code ? 200 : request ? 400 : 500;
    kiln_text_printf(line,
                     "{\"status_code\":%d,\"request_id\":\"req_%" PRIu64
                     "\",\"body\":{\"created\":%" PRId64,
                     status, answer->job, answer->ended_ms / 1000);
    if (answer->code) {
        kiln_text_puts(line, ",\"error\":");
        put_error(line, request ? "invalid_request_error" : "server_error",
                  kiln_code_name(answer->code), answer->error);
    }
    kiln_text_printf(line, ",\"size\":\"%ux%u\",\"output_format\":\"webp\",\"data\":[%s]}}",
                     answer->width, answer->height, answer->data.at ? answer->data.at : "");
}

int kiln_answers_write(const struct kiln_answers *answers, FILE *file, struct kiln_error *err)
{
    struct kiln_text line = {0};
    int rc = 0;
    for (size_t i = 0; i < answers->count && rc == 0; i++) {
        const struct answer *answer = answers->at[i];
        if (answer->waits)
            continue;
        kiln_text_clear(&line);
        kiln_text_printf(&line, "{\"id\":\"batch_req_%" PRIu64 "\",\"custom_id\":", answer->job);
        kiln_text_json(&line, answer->custom_id, strlen(answer->custom_id));
        if (answer->cancelled) {
            kiln_text_puts(&line, ",\"response\":null,\"error\":");
            put_error(&line, NULL, "batch_cancelled", "the request was cancelled");
        } else {
            kiln_text_puts(&line, ",\"response\":");
            put_response(&line, answer);
            kiln_text_puts(&line, ",\"error\":null");
        }
        kiln_text_puts(&line, "}\n");
        if (line.failed)
            rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for a line of answers.jsonl");
        else if (fwrite(line.at, 1, line.len, file) != line.len)
            rc = kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write answers.jsonl: %s",
                           strerror(errno));
    }
    kiln_text_release(&line);
    return rc;
}

void kiln_answers_free(struct kiln_answers *answers)
{
    if (!answers)
        return;
    for (size_t i = 0; i < answers->count; i++) {
        tdelete(answers->at[i], &answers->by_request, compare);
        free_answer(answers->at[i]);
    }
    free(answers->at);
    free(answers);
}
