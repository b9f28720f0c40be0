/* coarse.h - `kiln bench coarse`: how much coarse first costs and loses, beside exact runs and
 * fewer steps; the measurement behind coarse=auto.
 *
 * A table is one size, dtype and LoRA; its rows are runs: exact, coarse first, a small picture
 * enlarged, fewer steps.  All runs of all tables have the same prompts and seeds.  --write puts the
 * result into the model's kiln.json (schemas/model.md).  --sheet needs no judge: it shows the
 * pictures of the runs side by side, for people to judge.
 */
#ifndef KILN_BENCH_COARSE_H
#define KILN_BENCH_COARSE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pipeline/bench/estimate.h"
#include "schemas/job/coarse.h"
#include "schemas/job/mode.h"
#include "schemas/limits.h"
#include "storage/formats/file_hash.h"
#include "worker/bench/measured/figures.h"
#include "worker/bench/measured/occasion.h"
#include "worker/bench/measured/records.h"
#include "worker/bench/pictures.h"
#include "worker/bench/size.h"

#define KILN_COARSE_LIST_MAX 8 /* values of --sizes, --modes, --dtype, --enlarge; LoRAs */
#define KILN_COARSE_SEEDS_MAX 16
#define KILN_COARSE_VARIETIES_MAX 12
#define KILN_COARSE_RUNS_MAX 52 /* of a table */
#define KILN_COARSE_FROM 56     /* bytes of kiln_coarse_from_text */
#define KILN_COARSE_TABLES_MAX (KILN_COARSE_LIST_MAX * KILN_COARSE_LIST_MAX * 9)

struct kiln_coarse_options {
    const char *model, *judge, *lists, *prompts; /* lists: the folder of the standard prompts */
    const char *records, *sheet;                 /* NULL where not given */
    int32_t device, threads, steps, seeds;
    struct kiln_bench_size sizes[KILN_COARSE_LIST_MAX], small_given[KILN_LIST_MAX];
    struct kiln_picture_size small[KILN_LIST_MAX]; /* the same as small_given */
    struct kiln_mode modes[KILN_COARSE_LIST_MAX];
    int32_t dtypes[KILN_COARSE_LIST_MAX], enlarge[KILN_COARSE_LIST_MAX];
    DiffusionZLora loras[KILN_COARSE_LIST_MAX];
    double varieties[KILN_COARSE_VARIETIES_MAX];
    int size_count, small_count, mode_count, dtype_count, enlarge_count, lora_count, variety_count;
    uint64_t count; /* prompts at most */
    bool no_fewer, report, json, write, help;
    char command[512]; /* as typed, without the paths of this machine */
};

/* Reads the command line; argv is borrowed.  KILN_BAD_INPUT or KILN_CONFIG for a mistake. */
int kiln_coarse_options_read(int argc, char **argv, struct kiln_coarse_options *ret,
                             struct kiln_error *err) KILN_MUST_CHECK;
extern const char kiln_coarse_usage[];

/* --- the plan --------------------------------------------------------------------------------- */

enum kiln_coarse_kind {
    KILN_RUN_EXACT,
    KILN_RUN_COARSE,
    KILN_RUN_DONOR, /* exact at the small size: what ENLARGE begins from */
    KILN_RUN_ENLARGE,
    KILN_RUN_FEWER,
    KILN_RUN_VARIETY
};

struct kiln_coarse_run {
    enum kiln_coarse_kind kind;
    struct kiln_mode mode; /* of the large size; ENLARGE: a start */
    int32_t steps;         /* of the schedule */
    double cost;           /* in forwards of the large size */
    char name[32]; /* "exact", "4+3", "3+1+3", "donor", "enlarge 3", "5 steps", "variety 0.3" */
};

/* What is measured of one run and one prompt, over its seeds: sums, but a mean for SPREAD. */
enum kiln_coarse_measure {
    KILN_OF_RIGHT,
    KILN_OF_ASKED, /* attributes */
    KILN_OF_WHOLE,
    KILN_OF_STYLED,
    KILN_OF_PICTURES,
    KILN_OF_SHARPNESS,
    KILN_OF_SPREAD, /* NaN with one seed */
    KILN_OF_STEPS_S,
    KILN_OF_DECODE_S,
    KILN_MEASURES
};

struct kiln_coarse_table {
    int32_t dtype;
    struct kiln_picture_size size, small; /* small: the middle size of runs with a third level, */
    struct kiln_picture_size smallest;    /* and their smallest; 0x0 if no mode has one */
    int lora;                             /* position in the options, or -1 */
    int style;                            /* of the LoRA, position in the judge's labels, or -1 */
    char suffix[64];                      /* of the prompts */
    struct kiln_coarse_run runs[KILN_COARSE_RUNS_MAX];
    int run_count;
    size_t prompts;
    double *values; /* [run][measure][prompt]; NaN: not measured yet */
};

struct kiln_coarse {
    struct kiln_coarse_options options;
    struct kiln_pictures pictures;
    struct kiln_requests requests;
    struct kiln_coarse_table *tables;
    int table_count;
    char lora_hash[KILN_COARSE_LIST_MAX][KILN_FILE_HASH_MAX];
    char lora_name[KILN_COARSE_LIST_MAX][KILN_NAME_MAX + 1];
    struct kiln_measured_at at;
    char prompts_hash[KILN_FILE_HASH_MAX];
    const char *prompts_name; /* the file without its folder */
    struct kiln_records records;
};

/* The size of a run's pictures. */
static inline struct kiln_picture_size kiln_coarse_size_of(const struct kiln_coarse_table *table,
                                                           const struct kiln_coarse_run *run)
{
    return run->kind == KILN_RUN_DONOR ? table->small : table->size;
}

/* Fills tables; the requests are read, unless for a sheet. */
int kiln_coarse_plan(struct kiln_coarse *bench, struct kiln_error *err) KILN_MUST_CHECK;
static inline double *kiln_coarse_column(const struct kiln_coarse_table *table, int run,
                                         enum kiln_coarse_measure measure)
{
    return table->values + ((size_t)run * KILN_MEASURES + measure) * table->prompts;
}
static inline uint64_t kiln_coarse_seed(uint64_t seed, int number)
{
    return seed + (uint64_t)number * 1000003; /* the first is the prompt's own */
}

/* Loads the model with a dtype, unless it is loaded so. */
int kiln_coarse_model(struct kiln_coarse *bench, int32_t dtype,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Renders items by a run of a table; *ret_steps_s and *ret_decode_s, of all, may be NULL. */
int kiln_coarse_render(struct kiln_coarse *bench, const struct kiln_coarse_table *table,
                       const struct kiln_coarse_run *run, DiffusionZItem *items, int count,
                       DiffusionZOutput *outputs, double *ret_steps_s, double *ret_decode_s,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* --- records: what was measured, in a file, so that a long bench can go on after an end ------- */

/* Opens options->records, if given, and takes over what it holds of the tables.  KILN_BAD_INPUT for
 * records of another model, file of prompts, number of seeds or device. */
int kiln_coarse_records_open(struct kiln_coarse *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_coarse_record(struct kiln_coarse *bench, const struct kiln_coarse_table *table, int run,
                       size_t prompt, struct kiln_error *err) KILN_MUST_CHECK;

/* --- the report ------------------------------------------------------------------------------- */

/* Shares are 0..1.  The to_ and of_ ones compare with exact: differences and ratios of pairs; the
 * donor_ ones, of enlarged pictures, are differences to the donor's.  NaN: not comparable. */
struct kiln_coarse_row {
    size_t prompts;
    int64_t pictures;
    struct kiln_estimate attributes, whole, style, sharpness, spread, steps_s, picture_s;
    struct kiln_estimate to_attributes, to_whole, to_style, of_sharpness, of_spread, faster;
    struct kiln_estimate donor_attributes, donor_whole;
    double asked; /* attributes, in number */
};
void kiln_coarse_row_fill(const struct kiln_coarse_table *table, int run,
                          struct kiln_coarse_row *ret);
/* Markdown on stdout. */
void kiln_coarse_heading(const struct kiln_coarse *bench);
void kiln_coarse_print(const struct kiln_coarse *bench, const struct kiln_coarse_table *table);
/* What was measured, as it is in kiln.json under "measured": about VARIETY the exact runs and
 * those, about COARSE all the others. */
json_t *kiln_coarse_json(const struct kiln_coarse *bench, enum kiln_coarse_kind about);
void kiln_coarse_size_text(struct kiln_picture_size size, char out[24]);
/* The small size of a run, with a third level both of them: "256x256, 512x512"; "" for none. */
void kiln_coarse_from_text(const struct kiln_coarse_table *table, int run,
                           char out[KILN_COARSE_FROM]);
/* Progress on stderr if that is a terminal; total 0 clears it. */
void kiln_coarse_progress(const struct kiln_coarse_table *table, size_t done, size_t total);

/* --- kiln.json -------------------------------------------------------------------------------- */

/* Whether a run is as good as exact: what it loses, with its standard error, is within the limits
 * (rule.c).  `why`: what is not, "" if it is. */
bool kiln_coarse_holds(const struct kiln_coarse_table *table, int run, char why[KILN_FIGURE_WHY]);
/* The same of attributes and whole prompts alone, from a row. */
bool kiln_coarse_content_holds(const struct kiln_coarse_row *row, char why[KILN_FIGURE_WHY]);
/* Whether an object of kiln.json was measured with the weights of this bench. */
bool kiln_coarse_same_model(const struct kiln_coarse *bench, const json_t *before);
/* The object "coarse" of kiln.json.  before: the present one, or NULL; its small sizes that were
 * not measured now stay if it is of the same weights. */
json_t *kiln_coarse_card(const struct kiln_coarse *bench, const json_t *before);
/* The object "variety" of kiln.json.  before: the present one, or NULL; its sizes that were not
 * measured now stay if it is of the same weights. */
json_t *kiln_coarse_variety(const struct kiln_coarse *bench, const json_t *before);
/* Print what is offered, and what is not and why. */
void kiln_coarse_card_print(const json_t *card, FILE *out);
void kiln_coarse_variety_print(const json_t *variety, FILE *out);

/* --- the sheet -------------------------------------------------------------------------------- */

int kiln_coarse_sheet(struct kiln_coarse *bench, struct kiln_error *err) KILN_MUST_CHECK;
/* The prompts of a sheet for which no file was given; ended by NULL. */
extern const char *const kiln_coarse_prompts[];

#endif
