/* api.c - /v1: the gallery for scripts, as JSON; schemas/openapi.json describes it. */
#include <string.h>

#include "scheduler/gallery/jobs/send.h"
#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/ask.h"
#include "scheduler/gallery/parts/json.h"
#include "scheduler/gallery/parts/recipe.h"
#include "schemas/embedded.h"
#include "schemas/job/line.h"
#include "schemas/route.h"
#include "storage/ledger/read/batch.h"

#define JSON_TYPE "application/json"

/* --- lists ------------------------------------------------------------------------------------ */

static int add_tile(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct kiln_web_visit *visit = arg;
    struct kiln_text *out = &visit->reply.body;
    (void)err;
    kiln_text_puts(out, out->at[out->len - 1] == '[' ? "\n" : ",\n");
    kiln_json_tile(out, kiln_gallery_app(visit)->files, tile);
    return 0;
}

static int read_limit(struct kiln_web_visit *visit, struct kiln_gallery_ask *ask,
                      struct kiln_error *err)
{
    const char *limit = kiln_web_arg(visit->args, "limit");
    uint64_t value = KILN_GALLERY_TILES;
    if (limit && (!kiln_web_id(limit, strlen(limit), &value) || value > KILN_GALLERY_ROWS_MAX))
        return kiln_fail(err, KILN_BAD_INPUT, "limit is \"%.20s\"; it must be 1 to %d", limit,
                         KILN_GALLERY_ROWS_MAX);
    ask->query.rows_max = (uint32_t)value;
    return 0;
}

static void add_next(struct kiln_web_visit *visit, const struct kiln_gallery_ask *ask,
                     const struct kiln_gallery_page *page)
{
    struct kiln_text *out = &visit->reply.body, query = {0};
    const char *limit = kiln_web_arg(visit->args, "limit");
    kiln_json_text(out, "cursor", page->older[0] ? page->older : NULL);
    if (page->older[0]) {
        kiln_text_puts(out, ",\"next\":\"/v1/pictures?");
        kiln_gallery_ask_write(ask, NULL, "&", &query);
        if (query.at)
            kiln_text_printf(out, "%s&", query.at);
        if (limit)
            kiln_text_printf(out, "limit=%s&", limit);
        kiln_text_printf(out, "c=%s\"", page->older);
        out->failed = out->failed || query.failed;
        kiln_text_release(&query);
    } else {
        kiln_json_text(out, "next", NULL);
    }
    kiln_json_time(out, "searched_back_to", page->out_of_time ? page->searched_back_to_ms : 0);
}

int kiln_gallery_api_pictures(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct kiln_gallery_ask ask;
    struct kiln_gallery_page page = {0};
    struct kiln_text *out = &visit->reply.body;
    static const char *const others[] = {"sort", "limit", "c", NULL};
    visit->reply.type = JSON_TYPE;
    int rc = kiln_gallery_ask_only(visit->args, true, others, err);
    rc = rc ? rc : kiln_gallery_ask_read_page(visit, &ask, err);
    rc = rc ? rc : read_limit(visit, &ask, err);
    kiln_text_puts(out, "{\"pictures\":[");
    rc = rc ? rc : kiln_gallery_ask_list(&ask, visit->session, add_tile, visit, &page, err);
    if (rc)
        return rc;
    kiln_text_puts(out, "]");
    add_next(visit, &ask, &page);
    kiln_text_puts(out, "}\n");
    return 0;
}

struct fresh {
    uint64_t since;
    uint32_t count;
};

static int count_fresh(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct fresh *fresh = arg;
    (void)err;
    fresh->count += tile->job > fresh->since;
    return 0;
}

/* How many pictures of the list are newer than the one that the page begins with, wherever in the
 * list that page is. */
int kiln_gallery_api_new(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct kiln_gallery_ask ask;
    struct kiln_gallery_page page;
    struct fresh fresh = {0};
    const char *since = kiln_web_arg(visit->args, "since");
    static const char *const others[] = {"since", "sort", "limit", "c", NULL};
    visit->reply.type = JSON_TYPE;
    int rc = kiln_gallery_ask_only(visit->args, true, others, err);
    rc = rc ? rc : kiln_gallery_ask_read(kiln_gallery_app(visit), visit->args, &ask, err);
    rc = rc ? rc : read_limit(visit, &ask, err);
    if (rc)
        return rc;
    if (!since || !kiln_web_id(since, strlen(since), &fresh.since))
        return kiln_fail(err, KILN_BAD_INPUT, "since must be the number of a job");
    ask.query.order = KILN_GALLERY_NEWEST;
    rc = kiln_gallery_list(visit->session, &ask.query, count_fresh, &fresh, &page, err);
    if (rc)
        return rc;
    kiln_text_printf(&visit->reply.body, "{\"pictures\":%u,\"more\":%s}\n", fresh.count,
                     fresh.count == ask.query.rows_max ? "true" : "false");
    return 0;
}

/* --- one picture ------------------------------------------------------------------------------ */

static void add_stages(struct kiln_text *out, const struct kiln_made *made)
{
    kiln_text_printf(out,
                     ",\"stages_ms\":{\"wait\":%.1f,\"text\":%.1f,\"denoise\":%.1f,"
                     "\"decode\":%.1f,\"encode\":%.1f,\"upload\":%.1f}",
                     made->wait_ms, made->text_ms, made->denoise_ms, made->decode_ms,
                     made->encode_ms, made->upload_ms);
}

/* What loras "auto" thought, as a sentence, and the prompt as it was drawn. */
static void add_route(struct kiln_text *out, const struct kiln_job *job)
{
    struct kiln_text words = {0};
    kiln_route_words(job, &words);
    kiln_text_printf(out, ",\"lora_auto\":%s", job->lora_auto ? "true" : "false");
    kiln_json_text(out, "lora_why", words.at);
    kiln_json_text(out, "drawn", kiln_job_drawn(job));
    kiln_text_release(&words);
}

static void add_job(struct kiln_text *out, const struct kiln_gallery_picture *picture)
{
    const struct kiln_job_row *row = picture->job;
    const struct kiln_job *job = &row->job;
    struct kiln_text line = {0}, command = {0};
    kiln_json_text(out, "custom_id", job->custom_id);
    kiln_json_number(out, "index", job->index);
    kiln_json_text(out, "negative_prompt", job->negative_prompt);
    kiln_json_number(out, "steps", job->steps);
    kiln_text_puts(out, ",\"guidance\":");
    kiln_text_double(out, job->guidance);
    kiln_text_puts(out, ",\"loras\":[");
    for (uint32_t i = 0; i < job->lora_count; i++) {
        kiln_text_puts(out, i ? ",{" : "{");
        kiln_json_text(out, "name", job->loras[i].name);
        kiln_text_puts(out, ",\"scale\":");
        kiln_text_double(out, job->loras[i].scale);
        kiln_text_puts(out, "}");
    }
    kiln_text_puts(out, "]");
    add_route(out, job);
    kiln_json_text(out, "model", picture->made.model_name);
    kiln_json_text(out, "model_hash", picture->made.model_hash);
    kiln_json_text(out, "worker", row->worker);
    kiln_json_number(out, "attempt", job->attempt);
    kiln_json_text(out, "rated_by", picture->safety_source);
    kiln_text_puts(out, ",\"rated_score\":");
    if (picture->safety_source && strncmp(picture->safety_source, "model:", 6) == 0)
        kiln_text_double(out, picture->safety_score);
    else
        kiln_text_puts(out, "null");
    kiln_text_printf(out, ",\"vote\":%d", picture->vote);
    kiln_text_puts(out, ",\"parent\":");
    if (picture->parent)
        kiln_text_u64(out, picture->parent);
    else
        kiln_text_puts(out, "null");
    kiln_json_number(out, "variants", picture->variants);
    kiln_json_number(out, "children", picture->children);
    kiln_text_puts(out, ",\"job_line\":");
    kiln_text_puts(out, kiln_job_line_again(job, &line) && line.at ? line.at : "null");
    kiln_json_text(out, "command", kiln_gallery_command(row, &command) ? command.at : NULL);
    kiln_text_release(&line);
    kiln_text_release(&command);
}

static int add_picture(void *arg, const struct kiln_gallery_picture *picture,
                       struct kiln_error *err)
{
    struct kiln_web_visit *visit = arg;
    struct kiln_text *out = &visit->reply.body;
    (void)err;
    kiln_json_tile(out, kiln_gallery_app(visit)->files, &picture->tile);
    if (!out->failed)
        out->len--; /* the object goes on */
    add_job(out, picture);
    add_stages(out, &picture->made);
    kiln_text_puts(out, "}\n");
    return 0;
}

int kiln_gallery_api_picture(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const struct kiln_gallery_filter filter = kiln_gallery_all(kiln_gallery_app(visit));
    const char *id = kiln_web_rest(visit);
    uint64_t job;
    visit->reply.type = JSON_TYPE;
    if (!kiln_web_id(id, strlen(id), &job))
        return kiln_fail(err, KILN_NOT_FOUND, "\"%.40s\" is not the number of a job", id);
    int rc = kiln_gallery_ask_only(visit->args, false, KILN_ASK_NOTHING, err);
    return rc ? rc : kiln_gallery_picture(visit->session, &filter, job, add_picture, visit, err);
}

/* --- batches ---------------------------------------------------------------------------------- */

#define BATCHES_MAX 1000

struct batches {
    struct kiln_text *out;
    int rows;
    bool more;
};

static int add_batch(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err)
{
    struct batches *batches = arg;
    struct kiln_text *out = batches->out;
    if (batches->rows == BATCHES_MAX) {
        batches->more = true;
        return kiln_fail(err, KILN_FULL, "more than %d batches", BATCHES_MAX);
    }
    kiln_text_puts(out, batches->rows++ ? ",\n" : "");
    kiln_json_batch(out, batch);
    return 0;
}

/* name NULL: all of them, the newest first. */
static int list_batches(struct kiln_web_visit *visit, const char *name, struct kiln_error *err)
{
    struct batches batches = {.out = &visit->reply.body};
    visit->reply.type = JSON_TYPE;
    int rc = kiln_gallery_ask_only(visit->args, false, KILN_ASK_NOTHING, err);
    if (!name)
        kiln_text_puts(batches.out, "{\"batches\":[");
    rc = rc ? rc
            : kiln_ledger_batches(visit->session, kiln_gallery_app(visit)->pool, name, add_batch,
                                  &batches, err);
    if (rc && !batches.more)
        return rc;
    if (!name)
        kiln_text_printf(batches.out, "],\"more\":%s}", batches.more ? "true" : "false");
    kiln_text_puts(batches.out, "\n");
    return 0;
}

int kiln_gallery_api_batches(struct kiln_web_visit *visit, struct kiln_error *err)
{
    return visit->method == KILN_WEB_POST ? kiln_gallery_api_enqueue(visit, err)
                                          : list_batches(visit, NULL, err);
}

int kiln_gallery_api_batch(struct kiln_web_visit *visit, struct kiln_error *err)
{
    return visit->method == KILN_WEB_POST ? kiln_gallery_api_cancel(visit, err)
                                          : list_batches(visit, kiln_web_rest(visit), err);
}

int kiln_gallery_api_description(struct kiln_web_visit *visit, struct kiln_error *err)
{
    (void)err;
    for (const struct kiln_embedded *file = kiln_embedded_gallery; file->name; file++)
        if (strcmp(file->name, "openapi.json") == 0)
            kiln_text_add(&visit->reply.body, file->text, file->size);
    visit->reply.type = JSON_TYPE;
    return 0;
}
