/* draft.h - a job line that was read but not yet expanded into jobs; private to schemas/.
 *
 *     text --open--> draft (values by key, and how many jobs) --job(n)--> job
 *
 * A line may have several styles, sizes, prompt choices and seeds.  It makes a job for each
 * combination; from one job to the next the seed changes fastest.  line.c reads lines of exactly
 * one job, expand.c all lines.
 */
#ifndef KILN_JOB_DRAFT_H
#define KILN_JOB_DRAFT_H

#include <stdint.h>

#include "schemas/job/keys.h"
#include "schemas/job/line.h"
#include "schemas/job/styles.h"
#include "schemas/text/json.h"

struct kiln_draft {
    const struct kiln_job_context *context;
    struct kiln_json_value values[KILN_JOB_KEYS]; /* borrowed from the line and the overrides */
    uint64_t present;                             /* a bit for each key */
    char *prompt;                                 /* decoded; still a template */
    size_t prompt_len;
    bool template;
    const struct kiln_style *styles[KILN_LIST_MAX]; /* NULL: no style */
    uint32_t style_count;
    struct {
        uint32_t width, height;
    } sizes[KILN_LIST_MAX];
    uint32_t size_count;
    uint64_t prompt_count, seed_first, seed_count;
    bool has_seed;
    uint64_t total; /* jobs of the line */
};

static inline bool kiln_draft_has(const struct kiln_draft *draft, enum kiln_job_key key)
{
    return draft->present & (uint64_t)1 << key;
}

/* Reads the line, and checks all but the values that kiln_draft_job reads.  text and context are
 * borrowed until release. */
int kiln_draft_open(struct kiln_draft *draft, const char *text, size_t len,
                    const struct kiln_job_context *context, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_draft_release(struct kiln_draft *draft);

/* Makes job number `which`, counted from 0; below total. */
int kiln_draft_job(const struct kiln_draft *draft, uint64_t which, struct kiln_job *ret_job,
                   struct kiln_error *err) KILN_MUST_CHECK;

/* Refuses the value of a key: "KEY is VALUE; it must be RULE". */
int kiln_draft_wrong(const struct kiln_draft *draft, enum kiln_job_key key, struct kiln_error *err);
/* The value of a WHOLE or NUMBER key, fallback if it is absent. */
int kiln_draft_whole(const struct kiln_draft *draft, enum kiln_job_key key, int64_t fallback,
                     int64_t *ret, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_draft_number(const struct kiln_draft *draft, enum kiln_job_key key, double *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
int kiln_draft_choice(const struct kiln_draft *draft, enum kiln_job_key key, int *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
int kiln_draft_bool(const struct kiln_draft *draft, enum kiln_job_key key, bool fallback, bool *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* A TEXT or NAME key, malloc'd; a copy of fallback (or NULL, if that is NULL) when absent. */
int kiln_draft_text(const struct kiln_draft *draft, enum kiln_job_key key, const char *fallback,
                    char **ret, struct kiln_error *err) KILN_MUST_CHECK;

/* Reads "loras" into the job (loras.c). */
int kiln_draft_loras(const struct kiln_draft *draft, struct kiln_job *job,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* Reads "sigmas" into the job, whose latents have been read (sigmas.c). */
int kiln_draft_sigmas(const struct kiln_draft *draft, struct kiln_job *job,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* Reads the keys of the mode into the job, whose size, steps, kind and latents have been read
 * (mode_keys.c). */
int kiln_draft_mode(const struct kiln_draft *draft, struct kiln_job *job,
                    struct kiln_error *err) KILN_MUST_CHECK;

#endif
