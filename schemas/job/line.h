/* line.h - the only validator of job lines.
 *
 * `kiln enqueue` checks with it before it sends anything, and the scheduler's intake checks again,
 * since any Redis client may write to the stream.  A line is a JSON object; job.schema.json lists
 * its keys.  "size" and "style" are resolved here: the job has width, height and the prompt as
 * rendered, and its line says "styled", so that no reader adds the style's words again.  Lines that
 * stand for many pictures ("count", seed ranges, lists of sizes or styles, {a|b} templates) are
 * read by expand.h and refused here.
 */
#ifndef KILN_JOB_LINE_H
#define KILN_JOB_LINE_H

#include <stddef.h>

#include "schemas/config/config.h"
#include "schemas/error.h"
#include "schemas/job.h"

#define KILN_SEED_EXACT_MAX (UINT64_C(1) << 53) /* smaller whole numbers are exact as doubles */
#define KILN_LINE_KEY_MAX 32

struct kiln_styles; /* schemas/job/styles.h */
struct kiln_text;   /* schemas/text/text.h */

/* What a line may name; a NULL member disables its check. */
struct kiln_job_context {
    const struct kiln_styles *styles; /* NULL: the built-in presets */
    const char *const *lora_names;    /* sorted; an unknown name is refused with the nearest one */
    size_t lora_name_count;
    /* Asked for more names, sorted, when one is not among these; NULL: there are no others. */
    int (*more_loras)(void *arg, const char *const **ret_names, size_t *ret_count,
                      struct kiln_error *err);
    void *more_loras_arg;
    const char *const *model_names; /* sorted; NULL: any name */
    size_t model_name_count;
    const char *overrides;  /* a JSON object whose keys replace those of every line */
    uint32_t width, height; /* of a line without a size; 0: KILN_SIDE_DEFAULT */
    uint32_t own;   /* the side of the model's own square, for "16:9"; 0: KILN_SIDE_DEFAULT */
    uint32_t steps; /* of a line without steps; 0: KILN_STEPS_DEFAULT */
    struct kiln_mode
        coarse;      /* of a picture whose line has no key coarse, where its job allows it */
    bool teleport;   /* auto for a picture whose line has no key teleport */
    bool no_empty;   /* refuse a prompt of nothing but blanks */
    bool init_files; /* init_image and init_mask may be paths, which the caller replaces by keys */
    bool recorded;   /* of a job or an order in the ledger: it may have a tenant of any name */
};

/* Fills width and height from the setting `size`; after own. */
int kiln_job_context_size(struct kiln_job_context *context, const struct kiln_config *config,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* Fills coarse and teleport from the settings of these names. */
int kiln_job_context_modes(struct kiln_job_context *context, const struct kiln_config *config,
                           struct kiln_error *err) KILN_MUST_CHECK;

/* Parses and checks text[0..len), one picture.  On success *ret_job is filled
 * (release it with kiln_job_release) with batch "", index 0 and, if the line has no seed,
 * *ret_has_seed = false.  KILN_BAD_INPUT names the key, its value and what is allowed;
 * unknown keys are refused with the nearest known one. */
int kiln_job_line_parse(const char *text, size_t len, const struct kiln_job_context *context,
                        struct kiln_job *ret_job, bool *ret_has_seed,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* Appends the line of a job as JSON with resolved width, height, prompt, seed: feeding it back
 * gives the same job.  The key of a job is made from the line without the seed. */
void kiln_job_line_write(const struct kiln_job *job, bool with_seed, struct kiln_text *out);

/* Appends the line of a job of the ledger.  False, and nothing is appended: the validator of this
 * release refuses the line, so it would not run. */
bool kiln_job_line_again(const struct kiln_job *job, struct kiln_text *out);

/* The seed of a job without one: the low 53 bits of the first 8 bytes (big endian) of
 * SHA-256("kiln seed" NUL batch NUL key), key being the job's identity within the batch.  A job of
 * a file has the key of its content and copy number, so its picture depends on these and on the
 * batch's name, and not on its place.  Below KILN_SEED_EXACT_MAX every JSON reader keeps it. */
uint64_t kiln_seed_derive(const char *batch, const char *key);

/* The key of a job of a file: "h:" and the first 16 hex digits of the SHA-256 of its line, which is
 * kiln_job_line_write's (with the seed only if the line named it), then '#' and which of equal
 * lines of the file it is, from 0. */
void kiln_job_line_key(const uint8_t digest[32], uint32_t copy, char ret[KILN_LINE_KEY_MAX]);

/* SHA-256 as 64 hex digits of "kiln prompt N M " and the two texts, N and M their lengths in bytes;
 * keys text-feature caches and the ledger's prompt_hash. */
void kiln_prompt_hash(const char *prompt, const char *negative, char ret_hex[65]);

#endif
