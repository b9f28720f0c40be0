/* assign.c - an assignment: the jobs of one batch of a worker, each as its job line.
 *
 *     {"v":1, "id":..., "model":..., "width":..., "height":..., "steps":..., "mode":...,
 * "loras":[{name, scale}], "lora_sha256":[...], "jobs":[{"id":.., "attempt":.., "batch_id":..,
 * "index":.., "created_ms":.., "parent":.., "added":.., "batch":.., "line":{job line}}]}
 *
 * A job line carries everything that is rendered, and its reader is the one that intake uses: a
 * worker trusts the scheduler no more than the scheduler trusts a file.
 */
#include <stdlib.h>
#include <string.h>

#include "schemas/job/inputs.h"
#include "schemas/job/line.h"
#include "schemas/reuse/class.h"
#include "schemas/wire/record.h"
#include "schemas/wire/wire.h"

static const struct kiln_wire_field fields[] = {
    KILN_WIRE_FIELD(struct kiln_assignment, id, KILN_WIRE_NAME, true),
    KILN_WIRE_FIELD(struct kiln_assignment, model, KILN_WIRE_ID, true),
    KILN_WIRE_FIELD(struct kiln_assignment, width, KILN_WIRE_U32, true),
    KILN_WIRE_FIELD(struct kiln_assignment, height, KILN_WIRE_U32, true),
    KILN_WIRE_FIELD(struct kiln_assignment, steps, KILN_WIRE_U32, true),
};
static const struct kiln_wire_table table = {"assignment", fields, sizeof fields / sizeof fields[0],
                                             false};

/* The envelope is what the ledger knows of a job; the line is what will be rendered.  So a parent
 * is in the envelope, where workers of before minor 7 ignore it: they refuse a line with it.
 * Whether a run may begin from a stored latent is the scheduler's to decide.  The line's prompt is
 * the drawn one, which any worker renders; "added" says how much of it the router put in front. */
static void write_job(struct kiln_text *out, const struct kiln_job *job)
{
    const char *batch = job->batch ? job->batch : "";
    struct kiln_job rendered = *job;
    rendered.parent = 0;
    rendered.teleport_said = false;
    rendered.alike = 0;
    rendered.lora_auto = false;
    rendered.prompt = job->drawn ? job->drawn : job->prompt;
    rendered.drawn = NULL;
    kiln_text_printf(out,
                     "{\"id\":%llu,\"attempt\":%u,\"batch_id\":%llu,\"index\":%u,"
                     "\"created_ms\":%lld,\"batch\":",
                     (unsigned long long)job->id, job->attempt, (unsigned long long)job->batch_id,
                     job->index, (long long)job->created_ms);
    kiln_text_json(out, batch, strlen(batch));
    if (job->donor.job)
        kiln_text_printf(out, ",\"donor\":%llu,\"donor_step\":%u,\"donor_class\":%d%s",
                         (unsigned long long)job->donor.job, job->donor.step, job->donor.hit,
                         job->donor.coarse ? ",\"donor_coarse\":true" : "");
    if (kiln_job_names_parent(job))
        kiln_text_printf(out, ",\"parent\":%llu", (unsigned long long)job->parent);
    if (kiln_job_added(job) > 0)
        kiln_text_printf(out, ",\"added\":%zu", kiln_job_added(job));
    kiln_text_puts(out, ",\"line\":");
    kiln_job_line_write(&rendered, true, out);
    kiln_text_puts(out, "}");
}

/* Beside the names, since workers of before minor 13 refuse a LoRA with another key. */
static void write_hashes(struct kiln_text *out, const struct kiln_assignment *a)
{
    bool any = false;
    for (uint32_t i = 0; i < a->lora_count; i++)
        any = any || a->loras[i].sha256[0];
    for (uint32_t i = 0; any && i < a->lora_count; i++)
        kiln_text_printf(out, "%s\"%s\"", i ? "," : "\"lora_sha256\":[", a->loras[i].sha256);
    kiln_text_puts(out, any ? "]," : "");
}

char *kiln_assignment_encode(const struct kiln_assignment *a)
{
    struct kiln_text out = {0};
    kiln_wire_write(&out, &table, a);
    write_hashes(&out, a);
    char mode[KILN_MODE_MAX];
    if (kiln_mode_text(&a->mode, mode) > 0)
        kiln_text_printf(&out, "\"mode\":\"%s\",", mode);
    kiln_text_puts(&out, "\"loras\":[");
    for (uint32_t i = 0; i < a->lora_count && i < KILN_LORAS_MAX; i++) {
        kiln_text_puts(&out, i ? ",{\"name\":" : "{\"name\":");
        kiln_text_json(&out, a->loras[i].name, strlen(a->loras[i].name));
        kiln_text_puts(&out, ",\"scale\":");
        kiln_text_double(&out, a->loras[i].scale);
        kiln_text_puts(&out, "}");
    }
    kiln_text_puts(&out, "],\"jobs\":[");
    for (uint32_t i = 0; i < a->job_count; i++) {
        kiln_text_puts(&out, i ? "," : "");
        write_job(&out, &a->jobs[i]);
    }
    kiln_text_puts(&out, "]");
    return kiln_wire_close(&out);
}

void kiln_assignment_release(struct kiln_assignment *a)
{
    for (uint32_t i = 0; i < a->job_count; i++)
        kiln_job_release(&a->jobs[i]);
    free(a->jobs);
    *a = (struct kiln_assignment){0};
}

/* --- reading ------------------------------------------------------------------------------- */

#define CREATED_MAX_MS 253402300799999 /* the last millisecond of 9999 */

/* What stands beside the line; read into a struct of its own because a job's batch is a pointer. */
struct envelope {
    uint64_t id, batch_id, parent, donor;
    uint32_t attempt, index, donor_step, donor_class, added;
    int64_t created_ms;
    char batch[KILN_BATCH_NAME_MAX + 1];
    bool donor_coarse;
};

static const struct kiln_wire_field envelope_fields[] = {
    KILN_WIRE_FIELD(struct envelope, id, KILN_WIRE_ROW, true),
    KILN_WIRE_FIELD(struct envelope, attempt, KILN_WIRE_TRY, true),
    KILN_WIRE_FIELD(struct envelope, batch_id, KILN_WIRE_ROW, true),
    KILN_WIRE_FIELD(struct envelope, index, KILN_WIRE_U32, true),
    KILN_WIRE_FIELD(struct envelope, batch, KILN_WIRE_NAME, true),
    KILN_WIRE_FIELD(struct envelope, created_ms, KILN_WIRE_I64, false),
    KILN_WIRE_FIELD(struct envelope, parent, KILN_WIRE_ROW, false),
    KILN_WIRE_FIELD(struct envelope, donor, KILN_WIRE_ROW, false),
    KILN_WIRE_FIELD(struct envelope, donor_step, KILN_WIRE_U32, false),
    KILN_WIRE_FIELD(struct envelope, donor_class, KILN_WIRE_U32, false),
    KILN_WIRE_FIELD(struct envelope, donor_coarse, KILN_WIRE_BOOL, false),
    KILN_WIRE_FIELD(struct envelope, added, KILN_WIRE_U32, false),
};
static const struct kiln_wire_table envelope_table = {
    "assignment", envelope_fields, sizeof envelope_fields / sizeof envelope_fields[0], false};

/* Style presets and LoRA names were checked at intake; what counts here is that types and limits
 * hold. */
static int read_line(const struct kiln_json_value *value, struct kiln_job *job,
                     struct kiln_error *err)
{
    static const struct kiln_job_context nothing_known = {.recorded = true};
    struct kiln_error inner;
    bool has_seed;
    if (value->type != KILN_JSON_OBJECT)
        return kiln_fail(err, KILN_PROTOCOL, "assignment: field \"line\" must be a job line");
    if (kiln_job_line_parse(value->text, value->len, &nothing_known, job, &has_seed, &inner))
        return kiln_fail(err, KILN_PROTOCOL, "assignment: job line: %s", inner.text);
    job->lora_auto = false; /* an older scheduler took the word and chose none */
    return has_seed ? 0 : kiln_fail(err, KILN_PROTOCOL, "assignment: a job line has no seed");
}

/* One element of "jobs".  On failure *job is for kiln_job_release all the same. */
static int read_job(const struct kiln_json_value *object, struct kiln_job *job,
                    struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, value;
    struct envelope envelope = {0};
    const size_t count = envelope_table.count;
    uint32_t seen = 0, optional = 0;
    bool more;
    for (size_t i = 0; i < count; i++)
        optional |= (uint32_t)!envelope_fields[i].required << i;
    int code = kiln_json_open(&reader, object->text, object->len, KILN_JSON_OBJECT, err);
    while (!code && !(code = kiln_json_next(&reader, &key, &value, &more, err)) && more) {
        size_t i = 0;
        while (i < count && !kiln_json_equals(&key, envelope_fields[i].name))
            i++;
        bool is_line = kiln_json_equals(&key, "line");
        if (i == count && !is_line)
            continue;
        if (seen & (uint32_t)1 << i)
            return kiln_fail(err, KILN_PROTOCOL, "assignment: a field of a job is given twice");
        seen |= (uint32_t)1 << i;
        code = is_line ? read_line(&value, job, err)
                       : kiln_wire_read_field(&envelope_table, &envelope_fields[i], &value,
                                              &envelope, err);
    }
    if (!code && (seen | optional) != ((uint32_t)1 << (count + 1)) - 1)
        return kiln_fail(err, KILN_PROTOCOL,
                         "assignment: a job needs id, attempt, batch_id, index, batch and line");
    if (code)
        return code == KILN_BAD_INPUT
                   ? kiln_fail(err, KILN_PROTOCOL, "assignment: a job is not an object")
                   : code;
    if (envelope.attempt == 0)
        return kiln_fail(err, KILN_PROTOCOL, "assignment: \"attempt\" counts from 1");
    if (envelope.created_ms < 0 || envelope.created_ms > CREATED_MAX_MS)
        return kiln_fail(err, KILN_PROTOCOL,
                         "assignment: \"created_ms\" must be a time from 1970 to 9999");
    if (envelope.donor &&
        (envelope.donor_step == 0 || envelope.donor_step >= job->steps ||
         envelope.donor_class == KILN_REUSE_NONE ||
         envelope.donor_class >= KILN_REUSE_CLASS_COUNT || kiln_mode_starts(&job->mode)))
        return kiln_fail(
            err, KILN_PROTOCOL,
            "assignment: a \"donor\" needs a \"donor_step\" from 1 to below the steps, "
            "a known \"donor_class\", and a job without a start");
    if (envelope.added > KILN_ROUTED_MAX || envelope.added > strlen(job->prompt) || job->drawn ||
        (job->prompt[envelope.added] & 0xc0) == 0x80)
        return kiln_fail(err, KILN_PROTOCOL,
                         "assignment: \"added\" must be bytes of whole characters at the front "
                         "of the prompt, and the line has no \"routed\"");
    char *batch = strdup(envelope.batch);
    char *written = envelope.added ? strdup(job->prompt + envelope.added) : NULL;
    if (!batch || (envelope.added && !written)) {
        free(batch);
        free(written);
        return kiln_fail(err, KILN_NO_MEMORY, "assignment: no memory");
    }
    if (written) {
        job->drawn = job->prompt;
        job->prompt = written;
    }
    free(job->batch);
    job->batch = batch;
    job->id = envelope.id;
    job->batch_id = envelope.batch_id;
    job->attempt = envelope.attempt;
    job->index = envelope.index;
    job->created_ms = envelope.created_ms;
    if (envelope.donor)
        job->donor = (struct kiln_donor){.job = envelope.donor,
                                         .step = envelope.donor_step,
                                         .hit = (int)envelope.donor_class,
                                         .coarse = envelope.donor_coarse};
    if (envelope.parent)
        job->parent = envelope.parent;
    job->state = KILN_JOB_ASSIGNED;
    return 0;
}

static int read_jobs(struct kiln_assignment *a, const struct kiln_json_value *list,
                     struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    bool more;
    if (list->type != KILN_JSON_ARRAY || a->jobs)
        return kiln_fail(err, KILN_PROTOCOL, "assignment: field \"jobs\" must be one list");
    a->jobs = calloc(KILN_ASSIGN_MAX, sizeof *a->jobs);
    if (!a->jobs)
        return kiln_fail(err, KILN_NO_MEMORY, "assignment: no memory");
    int code = kiln_json_open(&reader, list->text, list->len, KILN_JSON_ARRAY, err);
    while (!code && !(code = kiln_json_next(&reader, NULL, &element, &more, err)) && more) {
        if (a->job_count == KILN_ASSIGN_MAX)
            return kiln_fail(err, KILN_PROTOCOL, "assignment: more than %d jobs", KILN_ASSIGN_MAX);
        code = read_job(&element, &a->jobs[a->job_count++], err);
    }
    return code;
}

/* {name, scale} objects, read by the reader of job lines as a line of that alone. */
static int read_loras(struct kiln_assignment *a, const struct kiln_json_value *list,
                      struct kiln_error *err)
{
    static const struct kiln_job_context nothing_known;
    struct kiln_text line = {0};
    struct kiln_error inner;
    struct kiln_job job;
    bool has_seed;
    if (list->type != KILN_JSON_ARRAY || a->lora_count > 0)
        return kiln_fail(err, KILN_PROTOCOL, "assignment: field \"loras\" must be one list");
    kiln_text_puts(&line, "{\"prompt\":\"\",\"loras\":");
    kiln_text_add(&line, list->text, list->len);
    kiln_text_puts(&line, "}");
    if (line.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "assignment: no memory");
    int code = kiln_job_line_parse(line.at, line.len, &nothing_known, &job, &has_seed, &inner);
    kiln_text_release(&line);
    if (code)
        return kiln_fail(err, KILN_PROTOCOL, "assignment: %s", inner.text);
    memcpy(a->loras, job.loras, sizeof a->loras);
    a->lora_count = job.lora_count;
    kiln_job_release(&job);
    return 0;
}

/* The hashes may come before the names, so they are kept apart until both are there. */
struct reading {
    struct kiln_assignment *to;
    char hashes[KILN_LORAS_MAX][KILN_LORA_SHA256_MAX];
    uint32_t hash_count;
};

static int read_hashes(struct reading *reading, const struct kiln_json_value *list,
                       struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    bool more, fits = list->type == KILN_JSON_ARRAY && reading->hash_count == 0;
    int code = fits ? kiln_json_open(&reader, list->text, list->len, KILN_JSON_ARRAY, err) : 0;
    while (fits && !code && !(code = kiln_json_next(&reader, NULL, &element, &more, err)) && more) {
        char hex[KILN_LORA_SHA256_MAX];
        size_t len = 0;
        fits = reading->hash_count < KILN_LORAS_MAX && element.type == KILN_JSON_STRING &&
               kiln_json_string(&element, hex, sizeof hex, &len) && strlen(hex) == len &&
               (len == 0 || kiln_sha256_valid(hex));
        if (fits)
            memcpy(reading->hashes[reading->hash_count++], hex, sizeof hex);
    }
    return fits && !code
               ? 0
               : kiln_fail(err, KILN_PROTOCOL,
                           "assignment: field \"lora_sha256\" must be one list of as many "
                           "hashes as there are LoRAs");
}

/* The assignment's and each job's LoRAs get their hashes; they agree in names by now. */
static int take_hashes(const struct reading *reading, struct kiln_error *err)
{
    struct kiln_assignment *a = reading->to;
    if (reading->hash_count && reading->hash_count != a->lora_count)
        return kiln_fail(err, KILN_PROTOCOL, "assignment: %u LoRAs and %u hashes of LoRAs",
                         a->lora_count, reading->hash_count);
    for (uint32_t i = 0; i < reading->hash_count; i++) {
        memcpy(a->loras[i].sha256, reading->hashes[i], KILN_LORA_SHA256_MAX);
        for (uint32_t j = 0; j < a->job_count; j++)
            for (uint32_t k = 0; k < a->jobs[j].lora_count; k++)
                if (strcmp(a->jobs[j].loras[k].name, a->loras[i].name) == 0)
                    memcpy(a->jobs[j].loras[k].sha256, reading->hashes[i], KILN_LORA_SHA256_MAX);
    }
    return 0;
}

/* Only in assignments of a mode; without it they are exact. */
static int read_mode(struct kiln_assignment *a, const struct kiln_json_value *value,
                     struct kiln_error *err)
{
    char text[KILN_MODE_MAX];
    size_t len;
    bool read = value->type == KILN_JSON_STRING && a->mode.kind == KILN_MODE_EXACT &&
                kiln_json_string(value, text, sizeof text, &len) && strlen(text) == len;
    if (!read || !kiln_mode_parse(text, &a->mode))
        return kiln_fail(err, KILN_PROTOCOL,
                         "assignment: field \"mode\" must be one mode, such as \"coarse=4+3\"");
    return 0;
}

static int read_extra(void *arg, const struct kiln_json_value *key,
                      const struct kiln_json_value *value, struct kiln_error *err)
{
    struct reading *reading = arg;
    if (kiln_json_equals(key, "jobs"))
        return read_jobs(reading->to, value, err);
    if (kiln_json_equals(key, "loras"))
        return read_loras(reading->to, value, err);
    if (kiln_json_equals(key, "lora_sha256"))
        return read_hashes(reading, value, err);
    if (kiln_json_equals(key, "mode"))
        return read_mode(reading->to, value, err);
    return 0;
}

/* All jobs of an assignment share what the worker sets up once for it. */
static int check_same(const struct kiln_assignment *a, struct kiln_error *err)
{
    char set[KILN_LORA_SET_MAX], other[KILN_LORA_SET_MAX];
    kiln_lora_set_text(a->loras, a->lora_count, set, sizeof set);
    for (uint32_t i = 0; i < a->job_count; i++) {
        const struct kiln_job *job = &a->jobs[i];
        kiln_lora_set_text(job->loras, job->lora_count, other, sizeof other);
        if (job->width != a->width || job->height != a->height || job->steps != a->steps ||
            strcmp(job->model, a->model) != 0 || strcmp(set, other) != 0 ||
            !kiln_mode_same(&job->mode, &a->mode))
            return kiln_fail(err, KILN_PROTOCOL,
                             "assignment %s: job %llu differs in model, size, steps, LoRA set or "
                             "mode",
                             a->id, (unsigned long long)job->id);
    }
    return 0;
}

int kiln_assignment_decode(const char *text, size_t len, struct kiln_assignment *ret,
                           struct kiln_error *err)
{
    struct kiln_assignment a;
    struct reading reading = {.to = &a};
    memset(&a, 0, sizeof a);
    int code = kiln_wire_read(text, len, &table, &a, read_extra, &reading, err);
    if (!code && a.job_count == 0)
        code = kiln_fail(err, KILN_PROTOCOL, "assignment: it has no jobs");
    if (!code)
        code = check_same(&a, err);
    if (!code)
        code = take_hashes(&reading, err);
    if (code)
        kiln_assignment_release(&a);
    else
        *ret = a;
    return code;
}
