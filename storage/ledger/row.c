/* row.c - fields of a result row, and the job record made of one. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/utf8.h"
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

double kiln_row_double(const PGresult *rows, int row, int column)
{
    return strtod(PQgetvalue(rows, row, column), NULL);
}

bool kiln_row_bool(const PGresult *rows, int row, int column)
{
    return PQgetvalue(rows, row, column)[0] == 't';
}

int kiln_row_minute(const PGresult *rows, int row, int column)
{
    return PQgetisnull(rows, row, column) ? -1 : (int)kiln_row_i64(rows, row, column);
}

void kiln_row_copy(const PGresult *rows, int row, int column, char *out, size_t size)
{
    kiln_utf8_copy(out, size, PQgetvalue(rows, row, column));
}

void kiln_row_counts(const PGresult *rows, int row, int first, uint64_t ret[KILN_JOB_STATE_COUNT])
{
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        ret[state] = kiln_row_u64(rows, row, first + state);
}

/* loras is what intake wrote, [{"name", "scale"}]; anything else is damage. */
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
    }
    json_decref(list);
    if (!fits)
        return kiln_fail(err, KILN_CORRUPT, "ledger, job %llu: column loras is damaged",
                         (unsigned long long)job->id);
    return 0;
}

static char *copy_text(const PGresult *rows, int row, int column, bool *short_of_memory)
{
    const char *text = kiln_row_text(rows, row, column);
    char *copy = text ? strdup(text) : NULL;
    *short_of_memory |= text && !copy;
    return copy;
}

int kiln_row_job(const PGresult *rows, int row, struct kiln_job *ret, struct kiln_error *err)
{
    bool short_of_memory = false;
    *ret = (struct kiln_job){
        .id = kiln_row_u64(rows, row, 0),
        .batch_id = kiln_row_u64(rows, row, 1),
        .batch = copy_text(rows, row, 2, &short_of_memory),
        .custom_id = copy_text(rows, row, 3, &short_of_memory),
        .index = (uint32_t)kiln_row_u64(rows, row, 4),
        .prompt = copy_text(rows, row, 5, &short_of_memory),
        .negative_prompt = copy_text(rows, row, 6, &short_of_memory),
        .style = copy_text(rows, row, 7, &short_of_memory),
        .tenant = copy_text(rows, row, 8, &short_of_memory),
        .model = copy_text(rows, row, 9, &short_of_memory),
        .width = (uint32_t)kiln_row_u64(rows, row, 10),
        .height = (uint32_t)kiln_row_u64(rows, row, 11),
        .steps = (uint32_t)kiln_row_u64(rows, row, 12),
        .guidance = kiln_row_double(rows, row, 13),
        .seed = kiln_row_u64(rows, row, 14),
        .lora_auto = kiln_row_bool(rows, row, 16),
        .priority = (int32_t)kiln_row_i64(rows, row, 17),
        .max_wait_s = (uint32_t)kiln_row_u64(rows, row, 18),
        .kind = (enum kiln_job_kind)kiln_row_i64(rows, row, 19),
        .latents = (enum kiln_latents)kiln_row_i64(rows, row, 20),
        .teleport = (enum kiln_teleport)kiln_row_i64(rows, row, 21),
        .embed_metadata = kiln_row_bool(rows, row, 22),
        .state = (enum kiln_job_state)kiln_row_i64(rows, row, 23),
        .attempt = (uint32_t)kiln_row_u64(rows, row, 24),
        .created_ms = kiln_row_i64(rows, row, 25),
    };
    const char *sigmas = PQgetvalue(rows, row, 26);
    if (*sigmas && !kiln_sigmas_parse(sigmas, ret->sigmas, &ret->sigma_count)) {
        kiln_job_release(ret);
        return kiln_fail(err, KILN_CORRUPT, "ledger, job %llu: column sigmas is damaged",
                         (unsigned long long)kiln_row_u64(rows, row, 0));
    }
    int rc = short_of_memory ? kiln_fail(err, KILN_NO_MEMORY, "job %llu: no memory",
                                         (unsigned long long)ret->id)
                             : read_loras(PQgetvalue(rows, row, 15), ret, err);
    if (rc != 0)
        kiln_job_release(ret);
    return rc;
}
