/* row.c - fields of a result row, and the job record made of one. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"
#include "schemas/text/utf8.h"
#include "storage/ledger/internal.h"

const char *kiln_row_text(const PGresult *rows, int row, int column)
{
    return PQgetisnull(rows, row, column) ? NULL : PQgetvalue(rows, row, column);
}

int64_t kiln_row_i64(const PGresult *rows, int row, int column)
{
    return strtoll(PQgetvalue(rows, row, column), NULL, 10);
}

uint64_t kiln_row_u64(const PGresult *rows, int row, int column)
{
    return strtoull(PQgetvalue(rows, row, column), NULL, 10);
}

bool kiln_row_bool(const PGresult *rows, int row, int column)
{
    return PQgetvalue(rows, row, column)[0] == 't';
}

bool kiln_row_bytes(const char *text, uint8_t *ret, size_t size)
{
    return text && strncmp(text, "\\x", 2) == 0 && kiln_unhex(text + 2, size, ret);
}

static bool read_field(const PGresult *rows, int row, int column, const struct kiln_field *field)
{
    bool null = row >= PQntuples(rows) || PQgetisnull(rows, row, column);
    const char *text = null ? "" : PQgetvalue(rows, row, column);
    uint64_t number;
    switch (field->type) {
    case KILN_FIELD_OWN:
        *(char **)field->to = null ? NULL : strdup(text);
        return null || *(char **)field->to;
    case KILN_FIELD_COPY:
        kiln_utf8_copy(field->to, field->size, text);
        return true;
    case KILN_FIELD_LENT:
        *(const char **)field->to = null ? NULL : text;
        return true;
    case KILN_FIELD_BOOL:
        *(bool *)field->to = text[0] == 't';
        return true;
    case KILN_FIELD_DOUBLE:
        *(double *)field->to = strtod(text, NULL);
        return true;
    case KILN_FIELD_INT:
    case KILN_FIELD_UINT:
        number = field->type == KILN_FIELD_INT ? (uint64_t)strtoll(text, NULL, 10)
                                               : strtoull(text, NULL, 10);
        if (field->size == sizeof number)
            *(uint64_t *)field->to = number;
        else
            *(uint32_t *)field->to = (uint32_t)number;
        return true;
    }
    return false;
}

bool kiln_row_read(const PGresult *rows, int row, int first, const struct kiln_field *fields)
{
    bool complete = true;
    for (; fields->to; fields++)
        complete &= read_field(rows, row, first++, fields);
    return complete;
}

void kiln_row_counts(const PGresult *rows, int row, int first, uint64_t ret[KILN_JOB_STATE_COUNT])
{
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        ret[state] = kiln_row_u64(rows, row, first + state);
}

/* loras is what intake wrote, [{"name", "scale", "sha256"}]; anything else is damage. */
static int read_loras(const char *text, struct kiln_job *job, struct kiln_error *err)
{
    json_error_t where;
    json_t *list = json_loads(text, 0, &where);
    if (!list && json_error_code(&where) == json_error_out_of_memory)
        return kiln_fail(err, KILN_NO_MEMORY, "job %llu: no memory", (unsigned long long)job->id);
    bool fits = json_is_array(list) && json_array_size(list) <= KILN_LORAS_MAX;
    job->lora_count = fits ? (uint32_t)json_array_size(list) : 0;
    for (uint32_t i = 0; i < job->lora_count; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        fits = fits && name && strlen(name) <= KILN_NAME_MAX;
        snprintf(job->loras[i].name, sizeof job->loras[i].name, "%s", name ? name : "");
        job->loras[i].scale = json_number_value(json_object_get(entry, "scale"));
        const char *hash = json_string_value(json_object_get(entry, "sha256"));
        snprintf(job->loras[i].sha256, sizeof job->loras[i].sha256, "%s", hash ? hash : "");
    }
    json_decref(list);
    if (!fits)
        return kiln_fail(err, KILN_CORRUPT, "ledger, job %llu: column loras is damaged",
                         (unsigned long long)job->id);
    return 0;
}

int kiln_row_job(const PGresult *rows, int row, struct kiln_job *ret, struct kiln_error *err)
{
    const char *loras, *sigmas, *mode;
    *ret = (struct kiln_job){0};
    bool complete =
        KILN_READ(rows, row, 0, ret->id, ret->batch_id, ret->batch, ret->custom_id, ret->index,
                  ret->prompt, ret->negative_prompt, ret->style, ret->tenant, ret->model);
    KILN_READ(rows, row, 10, ret->width, ret->height, ret->steps, ret->guidance, ret->seed, loras,
              ret->lora_auto, ret->priority, ret->max_wait_s, ret->kind, ret->latents,
              ret->teleport, ret->embed_metadata, ret->state, ret->attempt);
    complete &=
        KILN_READ(rows, row, 25, ret->created_ms, sigmas, mode, ret->init_image, ret->init_job,
                  ret->parent, ret->init_mask, ret->alike, ret->drawn, ret->route);
    ret->lora_auto = ret->route != NULL; /* an earlier release took the word and chose none */
    int rc;
    if (!complete)
        rc = kiln_fail(err, KILN_NO_MEMORY, "job %llu: no memory", (unsigned long long)ret->id);
    else if (sigmas && *sigmas && !kiln_sigmas_parse(sigmas, ret->sigmas, &ret->sigma_count))
        rc = kiln_fail(err, KILN_CORRUPT, "ledger, job %llu: column sigmas is damaged",
                       (unsigned long long)ret->id);
    else if (!kiln_mode_parse(mode ? mode : "", &ret->mode))
        rc = kiln_fail(err, KILN_CORRUPT, "ledger, job %llu: column mode is damaged",
                       (unsigned long long)ret->id);
    else
        rc = read_loras(loras ? loras : "", ret, err);
    if (rc != 0)
        kiln_job_release(ret);
    return rc;
}
