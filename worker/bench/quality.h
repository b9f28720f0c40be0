/* quality.h - `kiln bench quality`: how much of what prompts say is in the pictures.
 *
 * Renders lists of prompts with the engine, in this process, lets the judge detect the objects in
 * each picture and counts.  A row of the table is one list at one size, step count and dtype.
 */
#ifndef KILN_QUALITY_H
#define KILN_QUALITY_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/bench/requests.h"
#include "pipeline/bench/score.h"
#include "pipeline/diffusionz_batch.h"
#include "schemas/job/mode.h"
#include "schemas/limits.h"
#include "worker/bench/size.h"

#define KILN_QUALITY_LIST_MAX 8   /* values of --sizes, --steps, --dtype */
#define KILN_QUALITY_ROWS_MAX 256 /* of the table */

struct kiln_quality_options {
    const char *model, *judge, *lists, *prompts; /* lists: the folder of the standard prompts */
    const char *style, *suffix, *failures;       /* NULL where not given */
    int32_t device, threads;
    struct kiln_bench_size sizes[KILN_QUALITY_LIST_MAX];
    int32_t steps[KILN_QUALITY_LIST_MAX], dtypes[KILN_QUALITY_LIST_MAX];
    int size_count, step_count, dtype_count;
    int32_t usual_steps; /* of the model, where steps is empty */
    DiffusionZLora loras[KILN_LORAS_MAX];
    int lora_count;
    struct kiln_mode mode; /* exact, or coarse first from half the side */
    uint64_t count;        /* prompts of a list at most */
    double at_least;       /* percent of attributes, or 0 */
    bool json, help;
};

/* Reads the command line; argv is borrowed.  KILN_BAD_INPUT or KILN_CONFIG for a mistake. */
int kiln_quality_options_read(int argc, char **argv, struct kiln_quality_options *ret,
                              struct kiln_error *err) KILN_MUST_CHECK;
extern const char kiln_quality_usage[];

struct kiln_quality_row {
    char path[1024], list[40]; /* the file of prompts, and its name in the table */
    int32_t width, height;     /* 0: each prompt at the size of its line */
    int32_t steps, dtype;
    struct kiln_tally tally;
    int64_t in_style;
    double
        seconds;   /* of rendering, without the judge and without the first batch, which warms up */
    int64_t timed; /* pictures rendered in these seconds */
};

/* The rows for the options, grouped by dtype because a model is loaded for each.  Returns their
 * number, or 0 with the error set. */
int kiln_quality_plan(const struct kiln_quality_options *options, struct kiln_quality_row *rows,
                      struct kiln_error *err);

/* --- the report --------------------------------------------------------------------------- */
/* Lines of the table on stdout; nothing when options->json. */
void kiln_quality_heading(const struct kiln_quality_options *options, const char *model_name,
                          const char *model_hash);
void kiln_quality_print(const struct kiln_quality_options *options,
                        const struct kiln_quality_row *row);
/* Progress on stderr if that is a terminal; total 0 clears it. */
void kiln_quality_progress(const struct kiln_quality_row *row, size_t done, size_t total);
/* The whole table as one JSON object on stdout. */
void kiln_quality_json(const struct kiln_quality_options *options, const char *model_name,
                       const char *model_hash, const struct kiln_quality_row *rows, int count);

/* One picture and its score. */
struct kiln_quality_picture {
    const struct kiln_request *request;
    const char *prompt; /* with the suffix */
    size_t number;      /* of the list, from 0 */
    const uint8_t *rgb;
    int32_t width, height;
    struct kiln_seen seen;
    struct kiln_score score;
};
/* Writes a picture that is not all right to DIR/LIST-NUMBER-SIZE-STEPS-DTYPE.webp, and appends a
 * line to DIR/failures.jsonl with the prompt, what it asks for and what was seen. */
int kiln_quality_failure(const struct kiln_quality_options *options,
                         const struct kiln_quality_row *row, const struct kiln_judge_labels *labels,
                         const struct kiln_quality_picture *picture,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
