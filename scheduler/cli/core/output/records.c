/* records.c - a job of the ledger as JSON.
 *
 * The members are written in a fixed order and never left out: null says that there is nothing, so
 * a reader needs no test for a missing key.  See records.h for why jansson does not write them.
 */
#include "scheduler/cli/core/output/records.h"

#include <string.h>

#include "scheduler/cli/core/cli.h"
#include "schemas/job/sizes.h"

/* Every member but the first of an object comes through here, comma first. */
static void name(struct kiln_text *out, const char *text)
{
    kiln_text_printf(out, ",\"%s\":", text);
}

void kiln_json_member_text(struct kiln_text *out, const char *key, const char *value)
{
    name(out, key);
    if (value)
        kiln_text_json(out, value, strlen(value));
    else
        kiln_text_puts(out, "null");
}

void kiln_json_member_u64(struct kiln_text *out, const char *key, uint64_t value)
{
    name(out, key);
    kiln_text_u64(out, value);
}

void kiln_json_member_double(struct kiln_text *out, const char *key, double value)
{
    name(out, key);
    kiln_text_double(out, value);
}

void kiln_json_member_bool(struct kiln_text *out, const char *key, bool value)
{
    name(out, key);
    kiln_text_puts(out, value ? "true" : "false");
}

void kiln_json_member_time(struct kiln_text *out, const char *key, int64_t ms)
{
    char text[64];
    kiln_json_member_text(out, key, ms ? kiln_time_text(ms, text, sizeof text) : NULL);
}

void kiln_json_member_counts(struct kiln_text *out, const char *key,
                             const struct kiln_counts *counts)
{
    name(out, key);
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        kiln_text_printf(out, "%s\"%s\":%llu", state ? "," : "{",
                         kiln_job_state_name((enum kiln_job_state)state),
                         (unsigned long long)counts->at[state]);
    kiln_text_puts(out, "}");
}

/* As in the job line: [{"name", "scale"}], in the order that was asked for. */
static void add_loras(struct kiln_text *out, const struct kiln_job *job)
{
    name(out, "loras");
    kiln_text_puts(out, "[");
    for (uint32_t i = 0; i < job->lora_count; i++) {
        kiln_text_puts(out, i ? ",{\"name\":" : "{\"name\":");
        kiln_text_json(out, job->loras[i].name, strlen(job->loras[i].name));
        kiln_json_member_double(out, "scale", job->loras[i].scale);
        kiln_text_puts(out, "}");
    }
    kiln_text_puts(out, "]");
}

void kiln_record_short(struct kiln_text *out, const struct kiln_job_row *row)
{
    const struct kiln_job *job = &row->job;
    kiln_text_puts(out, "{\"job\":");
    kiln_text_u64(out, job->id);
    kiln_json_member_text(out, "batch", job->batch);
    kiln_json_member_text(out, "custom_id", job->custom_id);
    kiln_json_member_u64(out, "index", job->index);
    kiln_json_member_text(out, "state", kiln_job_state_name(job->state));
    kiln_json_member_u64(out, "attempt", job->attempt);
    kiln_json_member_u64(out, "width", job->width);
    kiln_json_member_u64(out, "height", job->height);
    kiln_json_member_u64(out, "steps", job->steps);
    kiln_json_member_u64(out, "seed", job->seed);
    add_loras(out, job);
    bool over = job->state == KILN_JOB_DONE; /* what an earlier attempt died of is in the events */
    kiln_json_member_text(out, "error", over ? NULL : row->error);
    kiln_json_member_text(out, "error_code",
                          over || !row->error_code ? NULL : kiln_code_name(row->error_code));
}

void kiln_record_rest(struct kiln_text *out, const struct kiln_job_row *row)
{
    char sigmas[KILN_SIGMAS_TEXT_MAX];
    const struct kiln_job *job = &row->job;
    kiln_json_member_text(out, "prompt", job->prompt);
    kiln_json_member_text(out, "negative_prompt", job->negative_prompt);
    kiln_json_member_text(out, "style", job->style);
    kiln_json_member_text(out, "tenant", job->tenant);
    kiln_json_member_text(out, "model", job->model && job->model[0] ? job->model : NULL);
    kiln_json_member_double(out, "guidance", job->guidance);
    kiln_json_member_bool(out, "lora_auto", job->lora_auto);
    kiln_text_printf(out, ",\"priority\":%d", (int)job->priority);
    kiln_json_member_u64(out, "max_wait_s", job->max_wait_s);
    kiln_json_member_text(out, "kind", kiln_job_kind_name(job->kind));
    kiln_json_member_text(out, "latents", kiln_latents_name(job->latents));
    kiln_sigmas_text(job->sigmas, job->sigma_count, sigmas, sizeof sigmas);
    kiln_json_member_text(out, "sigmas", sigmas[0] ? sigmas : NULL);
    kiln_json_member_text(out, "teleport", kiln_teleport_name(job->teleport));
    kiln_json_member_bool(out, "embed_metadata", job->embed_metadata);
    kiln_json_member_text(out, "worker", row->worker[0] ? row->worker : NULL);
    kiln_json_member_u64(out, "tries", row->tries);
    kiln_json_member_u64(out, "crashes", row->crashes);
    kiln_json_member_time(out, "created_at", row->created_ms);
    kiln_json_member_time(out, "queued_at", row->queued_ms);
    kiln_json_member_time(out, "not_before", row->not_before_ms);
    kiln_json_member_time(out, "assigned_at", row->assigned_ms);
    kiln_json_member_time(out, "finished_at", row->finished_ms);
}

/* Latents share the objects table with pictures; in a record they stand apart. */
static bool is_latent(const struct kiln_object_row *object)
{
    return strcmp(object->role, KILN_ROLE_LATENT) == 0;
}

void kiln_record_images(struct kiln_text *out, const struct kiln_job_row *row)
{
    name(out, "images");
    kiln_text_puts(out, "[");
    bool first = true;
    for (uint32_t i = 0; i < row->object_count; i++) {
        const struct kiln_object_row *object = &row->objects[i];
        if (is_latent(object))
            continue;
        kiln_text_puts(out, first ? "{\"size\":" : ",{\"size\":");
        first = false;
        kiln_text_json(out, object->role, strlen(object->role));
        kiln_json_member_text(out, "key", object->key);
        kiln_json_member_u64(out, "width", object->width);
        kiln_json_member_u64(out, "height", object->height);
        kiln_json_member_u64(out, "bytes", object->bytes);
        kiln_json_member_text(out, "sha256", object->sha256);
        kiln_text_puts(out, "}");
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
