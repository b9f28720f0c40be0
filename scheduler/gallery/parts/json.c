/* json.c - see json.h. */
#include "scheduler/gallery/parts/json.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/gallery/parts/batch.h"
#include "scheduler/gallery/parts/files.h"
#include "schemas/text/utc.h"

static void name_it(struct kiln_text *out, const char *name)
{
    bool first = out->len == 0 || strchr("{[", out->at[out->len - 1]);
    kiln_text_printf(out, "%s\"%s\":", first ? "" : ",", name);
}

void kiln_json_text(struct kiln_text *out, const char *name, const char *text)
{
    name_it(out, name);
    if (text)
        kiln_text_json(out, text, strlen(text));
    else
        kiln_text_puts(out, "null");
}

void kiln_json_number(struct kiln_text *out, const char *name, uint64_t value)
{
    name_it(out, name);
    kiln_text_u64(out, value);
}

void kiln_json_bool(struct kiln_text *out, const char *name, bool value)
{
    name_it(out, name);
    kiln_text_puts(out, value ? "true" : "false");
}

void kiln_json_time(struct kiln_text *out, const char *name, int64_t ms)
{
    char text[32];
    kiln_json_text(out, name, ms ? kiln_time_text(ms, text, sizeof text) : NULL);
}

static void add_file(struct kiln_text *out, const struct kiln_gallery_files *files, uint64_t job,
                     const char *size, const struct kiln_gallery_object *object)
{
    if (!object->key[0])
        return;
    kiln_text_puts(out, out->at[out->len - 1] == '[' ? "{" : ",{");
    kiln_json_text(out, "size", size);
    kiln_text_puts(out, ",\"url\":\"");
    kiln_gallery_file_url(files, job, object->key, false, 0, out);
    kiln_text_puts(out, "\"");
    kiln_json_number(out, "width", object->width);
    kiln_json_number(out, "height", object->height);
    kiln_json_number(out, "bytes", object->bytes);
    kiln_text_puts(out, "}");
}

void kiln_json_tile(struct kiln_text *out, const struct kiln_gallery_files *files,
                    const struct kiln_gallery_tile *tile)
{
    bool rated = tile->level >= 0 && tile->level < KILN_SAFETY_LEVELS;
    kiln_text_puts(out, "{");
    kiln_json_number(out, "job", tile->job);
    kiln_json_time(out, "created", tile->created_ms);
    kiln_json_text(out, "prompt", tile->prompt);
    kiln_json_text(out, "prompt_hash", tile->prompt_hash);
    kiln_json_number(out, "width", tile->width);
    kiln_json_number(out, "height", tile->height);
    kiln_json_text(out, "seed", tile->seed);
    kiln_json_text(out, "mode", kiln_mode_shown(tile->mode));
    kiln_json_text(out, "batch", tile->batch);
    kiln_json_text(out, "tenant", tile->tenant);
    kiln_json_text(out, "style", tile->style);
    kiln_json_bool(out, "starred", tile->starred);
    char colour[8] = "";
    if (tile->colour >= 0)
        snprintf(colour, sizeof colour, "#%06x", (unsigned)tile->colour & 0xffffff);
    if (tile->stack)
        kiln_json_number(out, "stack", tile->stack);
    kiln_json_text(out, "colour", colour[0] ? colour : NULL);
    kiln_json_text(out, "rated", rated ? kiln_safety_level_names[tile->level] : NULL);
    kiln_text_printf(out, ",\"page\":\"/p/%llu\",\"files\":[", (unsigned long long)tile->job);
    add_file(out, files, tile->job, "full", &tile->full);
    add_file(out, files, tile->job, "512", &tile->medium);
    add_file(out, files, tile->job, "256", &tile->small);
    kiln_text_puts(out, "]}");
}

void kiln_json_batch(struct kiln_text *out, const struct kiln_batch_row *batch)
{
    kiln_text_puts(out, "{");
    kiln_json_text(out, "batch", batch->name);
    kiln_json_text(out, "tenants", batch->tenants);
    kiln_json_time(out, "created", batch->created_ms);
    kiln_json_bool(out, "whole", batch->whole);
    kiln_json_bool(out, "ended", kiln_batch_ended(batch));
    kiln_json_text(out, "state", kiln_gallery_batch_state(batch));
    kiln_json_number(out, "all", kiln_gallery_batch_all(batch));
    kiln_text_puts(out, ",\"jobs\":{");
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        kiln_json_number(out, kiln_job_state_name((enum kiln_job_state)state),
                         batch->jobs.at[state]);
    kiln_text_puts(out, "}}");
}
