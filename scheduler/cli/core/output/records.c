/* records.c - listings, and a job of the ledger as JSON.
 *
 * The members are written in a fixed order and never left out: null says that there is nothing, so
 * a reader needs no test for a missing key.  See records.h for why jansson does not write them.
 */
#include "scheduler/cli/core/output/records.h"

#include "scheduler/cli/core/fit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/cli.h"
#include "schemas/job/line.h"
#include "schemas/job/sizes.h"
#include "schemas/reuse/class.h"
#include "schemas/route.h"

/* A comma before whatever follows a value. */
static void separate(struct kiln_text *out)
{
    if (out->len > 0 && !strchr("{[:\n", out->at[out->len - 1]))
        kiln_text_puts(out, ",");
}

static void put_counts(struct kiln_text *out, const struct kiln_counts *counts)
{
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        kiln_text_printf(out, "%s\"%s\":%llu", state ? "," : "{",
                         kiln_job_state_name((enum kiln_job_state)state),
                         (unsigned long long)counts->at[state]);
    kiln_text_puts(out, "}");
}

static void put_text(struct kiln_text *out, const char *text)
{
    if (text)
        kiln_text_json(out, text, strlen(text));
    else
        kiln_text_puts(out, "null");
}

void kiln_json_put(struct kiln_text *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    for (const char *at = format; *at; at++) {
        size_t key = strcspn(at, ":{}[] \n");
        if (*at != ' ' && *at != '}' && *at != ']' && *at != '\n')
            separate(out);
        if (key == 0) {
            kiln_text_add(out, at, *at != ' ');
            continue;
        }
        kiln_text_printf(out, "\"%.*s\":", (int)key, at);
        at += key + 1;
        int64_t number = strchr("ut", *at) ? va_arg(args, int64_t) : 0;
        double real = *at == 'd' ? va_arg(args, double) : 0;
        char time[64];
        if (*at == 's')
            put_text(out, va_arg(args, const char *));
        else if (*at == 'u')
            kiln_text_u64(out, (uint64_t)number);
        else if (*at == 'i')
            kiln_text_i64(out, va_arg(args, int));
        else if (*at == 'd')
            kiln_text_double(out, real);
        else if (*at == 'b')
            kiln_text_puts(out, va_arg(args, int) ? "true" : "false");
        else if (*at == 't')
            put_text(out, number ? kiln_time_text(number, time, sizeof time) : NULL);
        else if (*at == 'c')
            put_counts(out, va_arg(args, const struct kiln_counts *));
        else if (*at == 'n')
            kiln_text_puts(out, "null");
        else
            kiln_text_add(out, at, 1);
    }
    va_end(args);
}

/* How the picture comes about, and what it was made from. */
static void put_mode(struct kiln_text *out, const struct kiln_job *job)
{
    char mode[KILN_MODE_MAX];
    kiln_mode_text(&job->mode, mode);
    kiln_json_put(out, "mode:s init_image:s init_mask:s", kiln_mode_shown(mode), job->init_image,
                  job->init_mask);
    kiln_json_put(out, job->init_job ? "init_job:u" : "init_job:n", job->init_job);
    kiln_json_put(out, job->parent ? "parent:u" : "parent:n", job->parent);
}

void kiln_record_short(struct kiln_text *out, const struct kiln_job_row *row)
{
    const struct kiln_job *job = &row->job;
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)job->seed);
    bool over = job->state == KILN_JOB_DONE; /* what an earlier attempt died of is in the events */
    kiln_json_put(out,
                  "{job:u batch:s custom_id:s index:i state:s attempt:i width:i height:i steps:i "
                  "seed:u seed_text:s loras:[",
                  job->id, job->batch, job->custom_id, job->index, kiln_job_state_name(job->state),
                  job->attempt, job->width, job->height, job->steps, job->seed,
                  job->seed >= KILN_SEED_EXACT_MAX ? seed : NULL);
    for (uint32_t i = 0; i < job->lora_count; i++)
        kiln_json_put(out, "{name:s scale:d}", job->loras[i].name, job->loras[i].scale);
    kiln_text_puts(out, "]");
    put_mode(out, job);
    kiln_json_put(out, "error:s error_code:s", over ? NULL : row->error,
                  over || !row->error_code ? NULL : kiln_code_name(row->error_code));
}

/* What loras "auto" chose, and why; null for other jobs. */
static void put_route(struct kiln_text *out, const struct kiln_job *job)
{
    struct kiln_route_reason reason;
    struct kiln_text words = {0};
    kiln_json_put(out, "lora_auto:b drawn:s", job->lora_auto, kiln_job_drawn(job));
    if (!kiln_route_read(job, &reason)) {
        kiln_json_put(out, "route:n");
        return;
    }
    kiln_route_words(job, &words);
    kiln_json_put(out, "route:{version:u router:i words:s entries:[", reason.version, reason.router,
                  words.at);
    for (uint32_t i = 0; i < reason.count; i++)
        kiln_json_put(out, "{name:s p:d chosen:b why:s}", reason.entries[i].name,
                      reason.entries[i].p, reason.entries[i].chosen, reason.entries[i].words);
    kiln_text_puts(out, "]}");
    kiln_text_release(&words);
}

void kiln_record_rest(struct kiln_text *out, const struct kiln_job_row *row)
{
    char sigmas[KILN_SIGMAS_TEXT_MAX];
    const struct kiln_job *job = &row->job;
    kiln_sigmas_text(job->sigmas, job->sigma_count, sigmas, sizeof sigmas);
    kiln_json_put(out,
                  "prompt:s negative_prompt:s style:s tenant:s model:s guidance:d "
                  "priority:i max_wait_s:u kind:s latents:s sigmas:s teleport:s alike:i "
                  "embed_metadata:b",
                  job->prompt, job->negative_prompt, job->style, job->tenant,
                  job->model && job->model[0] ? job->model : NULL, job->guidance, job->priority,
                  (uint64_t)job->max_wait_s, kiln_job_kind_name(job->kind),
                  kiln_latents_name(job->latents), sigmas[0] ? sigmas : NULL,
                  kiln_teleport_name(job->teleport), job->alike, job->embed_metadata);
    put_route(out, job);
    bool rendered = row->forwards > 0;
    kiln_json_put(out, "rendered_mode:s", rendered ? kiln_mode_shown(row->rendered_mode) : NULL);
    kiln_json_put(out, rendered ? "forwards:d" : "forwards:n", row->forwards);
    kiln_json_put(out, job->donor.job ? "donor:u" : "donor:n", job->donor.job);
    kiln_json_put(out, "donor_class:s fallback:s",
                  job->donor.job ? kiln_reuse_class_name((enum kiln_reuse_class)job->donor.hit)
                                 : NULL,
                  row->fallback[0] ? row->fallback : NULL);
    kiln_json_put(out, row->start_sigma > 0 ? "start_sigma:d" : "start_sigma:n", row->start_sigma);
    const double wasted = kiln_row_wasted(row);
    kiln_json_put(out, kiln_row_reused(row) || wasted > 0 ? "steps_saved:d" : "steps_saved:n",
                  row->own_forwards - row->forwards);
    kiln_json_put(out, wasted > 0 ? "steps_wasted:d" : "steps_wasted:n", wasted);
    kiln_json_put(
        out,
        "gone:b worker:s tries:i crashes:i created_at:t queued_at:t not_before:t assigned_at:t "
        "finished_at:t",
        row->gone, row->worker[0] ? row->worker : NULL, row->tries, row->crashes, row->created_ms,
        row->queued_ms, row->not_before_ms, row->assigned_ms, row->finished_ms);
}

/* Latents share the objects table with pictures; in a record they stand apart. */
static bool is_latent(const struct kiln_object_row *object)
{
    return strcmp(object->role, KILN_ROLE_LATENT) == 0;
}

void kiln_record_images(struct kiln_text *out, const struct kiln_job_row *row)
{
    kiln_json_put(out, "images:[");
    for (uint32_t i = 0; i < row->object_count; i++) {
        const struct kiln_object_row *object = &row->objects[i];
        if (!is_latent(object))
            kiln_json_put(out, "{size:s key:s width:i height:i bytes:u sha256:s}", object->role,
                          object->key, object->width, object->height, object->bytes,
                          object->sha256);
    }
    kiln_text_puts(out, "]");
}

const struct kiln_object_row *kiln_row_latent(const struct kiln_job_row *row)
{
    for (uint32_t i = 0; i < row->object_count; i++)
        if (is_latent(&row->objects[i]))
            return &row->objects[i];
    return NULL;
}

const struct kiln_object_row *kiln_row_picture(const struct kiln_job_row *row, const char *role)
{
    for (uint32_t i = 0; i < row->object_count; i++)
        if (strcmp(row->objects[i].role, role) == 0)
            return &row->objects[i];
    return NULL;
}

/* --- listings --------------------------------------------------------------------------------- */

void kiln_listing_head(struct kiln_listing *listing, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(listing->head, sizeof listing->head, fmt, args);
    va_end(args);
}

int kiln_listing_put(struct kiln_listing *listing, struct kiln_error *err)
{
    if (listing->line.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a line of the listing");
    const struct kiln_cli *cli = listing->cli;
    struct kiln_text fitted = {0}, *line = &listing->line;
    if (listing->rows == 0 && listing->head[0] && cli->tty_out && !cli->json)
        kiln_print_fit(cli, KILN_CUT, "%s", listing->head);
    if (cli->columns && !cli->json) {
        kiln_text_fit(&fitted, line->at, cli->columns, listing->hang ? listing->hang : KILN_CUT);
        line = fitted.failed ? line : &fitted;
    }
    fwrite(line->at, 1, line->len, stdout);
    kiln_text_release(&fitted);
    kiln_text_clear(&listing->line);
    listing->rows++;
    bool enough = listing->left > 0 && --listing->left == 0;
    return enough || !kiln_stdout_ok() ? kiln_fail(err, KILN_CANCELLED, "end of the listing") : 0;
}

int kiln_listing_end(struct kiln_listing *listing, int rc, const struct kiln_error *err)
{
    kiln_text_release(&listing->line);
    if (rc == 0 && listing->rows == 0 && listing->none)
        kiln_say(listing->cli, "%s", listing->none);
    return rc && rc != KILN_CANCELLED ? kiln_report(listing->cli, err) : 0;
}
