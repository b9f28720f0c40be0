/* job.c - names of states and kinds, the table of legal moves, the canonical LoRA set. */
#include "schemas/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_NAME(state, name, number) [number] = #name,
static const char *const state_names[KILN_JOB_STATE_COUNT] = {KILN_JOB_STATES(STATE_NAME)};

/* legal[from][to].  DONE is for ever: its pictures are in the gallery. */
static const bool legal[KILN_JOB_STATE_COUNT][KILN_JOB_STATE_COUNT] = {
    [KILN_JOB_QUEUED] = {[KILN_JOB_ASSIGNED] = true, [KILN_JOB_CANCELLED] = true},
    [KILN_JOB_ASSIGNED] = {[KILN_JOB_DONE] = true,
                           [KILN_JOB_FAILED] = true,
                           [KILN_JOB_CANCELLED] = true,
                           [KILN_JOB_QUEUED] = true},
    [KILN_JOB_FAILED] = {[KILN_JOB_QUEUED] = true},
    [KILN_JOB_CANCELLED] = {[KILN_JOB_QUEUED] = true},
};

const char *kiln_job_state_name(enum kiln_job_state state)
{
    return (unsigned)state < KILN_JOB_STATE_COUNT ? state_names[state] : "unknown";
}

int kiln_job_state_by_name(const char *name)
{
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        if (strcmp(state_names[state], name) == 0)
            return state;
    return -1;
}

bool kiln_move_legal(enum kiln_job_state from, enum kiln_job_state to)
{
    return (unsigned)from < KILN_JOB_STATE_COUNT && (unsigned)to < KILN_JOB_STATE_COUNT &&
           legal[from][to];
}

const char *kiln_job_kind_name(enum kiln_job_kind kind)
{
    return kind == KILN_KIND_LATENT_CACHE ? "latent-cache" : "image";
}

const char *kiln_latents_name(enum kiln_latents latents)
{
    static const char *const names[] = {"final", "trajectory", "none"};
    return (unsigned)latents < 3 ? names[latents] : "unknown";
}

const char *kiln_teleport_name(enum kiln_teleport teleport)
{
    return teleport == KILN_TELEPORT_AUTO ? "auto" : "off";
}

#define SCALE "%.4g" /* in the text of a set */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kiln_lora *)a)->name, ((const struct kiln_lora *)b)->name);
}

static size_t set_text(const struct kiln_lora *loras, uint32_t count, bool files, char *out,
                       size_t size)
{
    struct kiln_lora sorted[KILN_LORAS_MAX];
    size_t len = 0;
    if (size > 0)
        out[0] = '\0';
    if (count == 0)
        return 0;
    if (count > KILN_LORAS_MAX)
        count = KILN_LORAS_MAX;
    memcpy(sorted, loras, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_name);
    for (uint32_t i = 0; i < count && len < size; i++) {
        const bool file = files && sorted[i].sha256[0];
        int added = snprintf(out + len, size - len, "%s%s:" SCALE "%s%.*s", i ? "+" : "",
                             sorted[i].name, sorted[i].scale, file ? "@" : "",
                             file ? KILN_LORA_KEY_DIGITS : 0, sorted[i].sha256);
        len += added > 0 ? (size_t)added : 0;
    }
    return len < size ? len : size ? size - 1 : 0;
}

size_t kiln_lora_set_text(const struct kiln_lora *loras, uint32_t count, char *out, size_t size)
{
    return set_text(loras, count, false, out, size);
}

size_t kiln_lora_set_key(const struct kiln_lora *loras, uint32_t count, char *out, size_t size)
{
    return set_text(loras, count, true, out, size);
}

double kiln_lora_set_scale(double scale)
{
    char text[32];
    snprintf(text, sizeof text, SCALE, scale);
    return strtod(text, NULL);
}

uint64_t kiln_lora_digits(const char *sha256)
{
    char digits[KILN_LORA_KEY_DIGITS + 1];
    snprintf(digits, sizeof digits, "%.*s", KILN_LORA_KEY_DIGITS, sha256);
    return strtoull(digits, NULL, 16);
}

bool kiln_lora_set_meant(const char *text, const char *key)
{
    if (strcmp(text, key) == 0)
        return true;
    for (; *key; key++) {
        if (*key == '@')
            key += strcspn(key, "+");
        if (*text != *key)
            return false;
        if (*key == '\0')
            return true;
        text++;
    }
    return *text == '\0';
}

size_t kiln_job_added(const struct kiln_job *job)
{
    return job->drawn ? strlen(job->drawn) - strlen(job->prompt) : 0;
}

bool kiln_job_draw(struct kiln_job *job, const char *words, size_t len)
{
    const size_t size = strlen(job->prompt) + 1;
    char *drawn = len ? malloc(len + size) : NULL;
    if (len && !drawn)
        return false;
    if (drawn) {
        memcpy(drawn, words, len);
        memcpy(drawn + len, job->prompt, size);
    }
    free(job->drawn);
    job->drawn = drawn;
    return true;
}

void kiln_job_release(struct kiln_job *job)
{
    free(job->batch);
    free(job->custom_id);
    free(job->prompt);
    free(job->drawn);
    free(job->route);
    free(job->negative_prompt);
    free(job->style);
    free(job->tenant);
    free(job->model);
    free(job->init_image);
    free(job->init_mask);
    *job = (struct kiln_job){0};
}
