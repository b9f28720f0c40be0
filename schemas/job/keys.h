/* keys.h - the keys of a job line in one table.
 *
 * The reader of lines, the columns of CSV files, --set and job.schema.json all follow it; a test
 * compares the schema file.
 */
#ifndef KILN_JOB_KEYS_H
#define KILN_JOB_KEYS_H

#include <stddef.h>

enum kiln_job_key {
    KILN_JOB_KEY_PROMPT,
    KILN_JOB_KEY_NEGATIVE_PROMPT,
    KILN_JOB_KEY_WIDTH,
    KILN_JOB_KEY_HEIGHT,
    KILN_JOB_KEY_SIZE,
    KILN_JOB_KEY_STYLE,
    KILN_JOB_KEY_STYLED,
    KILN_JOB_KEY_STEPS,
    KILN_JOB_KEY_GUIDANCE,
    KILN_JOB_KEY_SEED,
    KILN_JOB_KEY_COUNT,
    KILN_JOB_KEY_LORAS,
    KILN_JOB_KEY_ROUTED,
    KILN_JOB_KEY_MODEL,
    KILN_JOB_KEY_PRIORITY,
    KILN_JOB_KEY_TENANT,
    KILN_JOB_KEY_CUSTOM_ID,
    KILN_JOB_KEY_KIND,
    KILN_JOB_KEY_LATENTS,
    KILN_JOB_KEY_SIGMAS,
    KILN_JOB_KEY_COARSE,
    KILN_JOB_KEY_COARSE_SIGMA,
    KILN_JOB_KEY_VARIETY,
    KILN_JOB_KEY_INIT_IMAGE,
    KILN_JOB_KEY_INIT_JOB,
    KILN_JOB_KEY_INIT_MASK,
    KILN_JOB_KEY_STRENGTH,
    KILN_JOB_KEY_START_SIGMA,
    KILN_JOB_KEY_EDIT,
    KILN_JOB_KEY_PARENT,
    KILN_JOB_KEY_TELEPORT,
    KILN_JOB_KEY_ALIKE,
    KILN_JOB_KEY_MAX_WAIT_S,
    KILN_JOB_KEY_EMBED_METADATA,
    KILN_JOB_KEY_TEMPLATE,
    KILN_JOB_KEYS
};

enum kiln_job_key_type {
    KILN_JOB_TEXT,   /* UTF-8 of min .. max bytes */
    KILN_JOB_NAME,   /* a name of up to max bytes */
    KILN_JOB_WHOLE,  /* min .. max */
    KILN_JOB_NUMBER, /* min .. max */
    KILN_JOB_CHOICE,
    KILN_JOB_BOOL,
    KILN_JOB_SIZE,   /* a size or a list of sizes */
    KILN_JOB_STYLE,  /* the name of a preset or a list of them */
    KILN_JOB_SEED,   /* a whole number of 64 bits, or "FIRST-LAST" */
    KILN_JOB_COARSE, /* "off", "auto", "S+L" or "S+M+L" */
    KILN_JOB_SIGMAS, /* "0.9,0.75" or a list of numbers */
    KILN_JOB_LORAS   /* "none", "auto", "NAME:SCALE+NAME" or a list of {name, scale} */
};

struct kiln_job_key_row {
    const char *name;
    enum kiln_job_key_type type;
    double min, max;
    const char *const *choices; /* ended by NULL */
    const char *help;           /* what the value must be: ends "KEY must be ..." */
};
extern const struct kiln_job_key_row kiln_job_keys[KILN_JOB_KEYS];

/* enum kiln_job_key of name[0..len), or -1. */
int kiln_job_key_find(const char *name, size_t len);
#define KILN_JOB_KEY_HINT_MAX 512
/* A hint for an unknown key: `did you mean "seed"?` if a key is similar, else all keys. */
void kiln_job_key_hint(const char *name, size_t len, char ret[KILN_JOB_KEY_HINT_MAX]);

#endif
