/* teleport.h - `kiln bench teleport`: what a run that begins from a stored latent saves and loses;
 * the measurement behind teleport=auto.
 *
 * A pair is a target and a donor: two prompts, of which the donor's final latent is there.  A table
 * is one size and number format; its runs are the target in full, the same with another seed (the
 * noise floor), from the donor's latent with 1, 2, ... steps skipped, and in fewer steps.  The
 * guard (schemas/reuse) says to which group a pair belongs: a class of hits, or "refused" with what
 * the two prompts differ in. Refused pairs are what the table of kiln.json must never have: they
 * show what a hit would do.
 *
 * What a pool of donors leaves of variety is measured apart, by pools: eight donors of one prompt
 * and eight pictures from each, at each depth, without a judge.
 */
#ifndef KILN_BENCH_TELEPORT_H
#define KILN_BENCH_TELEPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "pipeline/bench/detail.h"
#include "pipeline/bench/features.h"
#include "schemas/limits.h"
#include "schemas/reuse/class.h"
#include "storage/formats/card/model_card.h"
#include "storage/formats/file_hash.h"
#include "worker/bench/measured/figures.h"
#include "worker/bench/measured/occasion.h"
#include "worker/bench/measured/records.h"
#include "worker/bench/modes.h"
#include "worker/bench/pictures.h"
#include "worker/bench/size.h"
#include "worker/bench/teleport/rule.h"

#define KILN_TELEPORT_SIZES_MAX 4
#define KILN_TELEPORT_TABLES_MAX (KILN_TELEPORT_SIZES_MAX * KILN_CARD_DTYPES)
#define KILN_TELEPORT_SEEDS_MAX 8
#define KILN_TELEPORT_POOLS_EACH_MAX 256 /* of a class */
#define KILN_TELEPORT_GROUPS_MAX 24
#define KILN_TELEPORT_GROUP_NAME 40
#define KILN_TELEPORT_WAYS 5 /* in which several donors are combined */
#define KILN_TELEPORT_MODES_MAX 4
/* full, again, donor, coarse first, and each depth: steps skipped, combined, and fewer steps. */
#define KILN_TELEPORT_RUNS_MAX                                                                     \
    (3 + KILN_TELEPORT_MODES_MAX + (2 + KILN_TELEPORT_WAYS) * (KILN_STEPS_MAX - 1))

struct kiln_teleport_options {
    const char *model, *judge, *lists, *pairs; /* lists: the folder of the standard prompts */
    const char *records;                       /* NULL where not given */
    int32_t device, threads, steps, seeds, dtypes[KILN_CARD_DTYPES];
    struct kiln_bench_size sizes[KILN_TELEPORT_SIZES_MAX];
    struct kiln_mode modes[KILN_TELEPORT_MODES_MAX]; /* of coarse first */
    struct kiln_mode coarse; /* of all runs, which begin their small phase late; EXACT: they are
                                full ones */
    struct kiln_mode donors; /* of the donors, likewise */
    DiffusionZLora lora;     /* of all runs, if lora_count is 1 */
    int size_count, soften_count, mode_count, dtype_count, lora_count;
    uint32_t soften[KILN_CARD_SOFTEN]; /* as in kiln.json */
    uint64_t count, refused, pools;    /* pairs of a group at most; pools of a class */
    uint64_t seed;                     /* another one: the same pairs with other noise */
    const char *embedder;              /* its directory, for --fit; NULL: none */
    bool combine, fit, extend, no_fewer, small, report, json, write, help;
    char command[512]; /* as typed, without the paths of this machine */
};

/* Reads the command line; argv is borrowed.  KILN_BAD_INPUT or KILN_CONFIG for a mistake. */
int kiln_teleport_options_read(int argc, char **argv, struct kiln_teleport_options *ret,
                               struct kiln_error *err) KILN_MUST_CHECK;
extern const char kiln_teleport_usage[];

/* --- pairs ------------------------------------------------------------------------------------ */

struct kiln_teleport_pair {
    char *target, *donor;
    struct kiln_asked asked; /* by the target */
    bool same_facts;         /* by how the pair was made, not by the guard */
    uint32_t line;           /* of the file; seeds depend on it alone */
    int group, rank;         /* rank: how many pairs of its group stand before it */
};

/* The accepted groups come first and are the classes of hits in their order. */
struct kiln_teleport_group {
    char name[KILN_TELEPORT_GROUP_NAME]; /* "reworded", "refused: one colour" */
    enum kiln_reuse_class class;         /* NONE: refused */
    size_t pairs;                        /* that were taken */
};

struct kiln_teleport_pairs {
    struct kiln_teleport_pair *items; /* the first of each group, then the second of each, ... */
    size_t count;
    struct kiln_teleport_group groups[KILN_TELEPORT_GROUPS_MAX];
    int group_count;
};

/* Reads a file of pairs (tests/quality/reuse), asks the guard with the words of the model, and
 * takes as many of each group as the options say.  suffix: what both prompts of a pair end with.
 * KILN_BAD_INPUT names file and line. */
int kiln_teleport_pairs_read(const struct kiln_teleport_options *options, const char *path,
                             const struct kiln_judge_labels *labels, const char *suffix,
                             struct kiln_teleport_pairs *ret,
                             struct kiln_error *err) KILN_MUST_CHECK;
void kiln_teleport_pairs_release(struct kiln_teleport_pairs *pairs);

/* --- tables ----------------------------------------------------------------------------------- */

enum kiln_teleport_kind {
    KILN_TELEPORT_FULL,
    KILN_TELEPORT_AGAIN,
    KILN_TELEPORT_DONOR,
    KILN_TELEPORT_SKIP,
    KILN_TELEPORT_COMBINED, /* as SKIP, from several donors */
    KILN_TELEPORT_COARSE,   /* coarse first, without a donor */
    KILN_TELEPORT_FEWER
};

struct kiln_teleport_run {
    enum kiln_teleport_kind kind;
    int32_t depth;         /* SKIP, COMBINED: steps skipped; FEWER: steps fewer */
    int32_t way, donors;   /* COMBINED: enum diffusionz_combine, and how many */
    struct kiln_mode mode; /* COARSE */
    /* "full", "again", "donor", "skip 3", "lerp 2, skip 3", "coarse 4+2", "5 steps" */
    char name[24];
};

/* What is measured of one run and one pair: sums over its seeds. */
enum kiln_teleport_measure {
    KILN_TELEPORT_RIGHT,
    KILN_TELEPORT_ASKED, /* attributes */
    KILN_TELEPORT_WHOLE,
    KILN_TELEPORT_PICTURES,
    KILN_TELEPORT_TO_FULL,  /* distance of low-pass latents to the full run of the same seed, */
    KILN_TELEPORT_TO_DONOR, /* and to the donor, of several the nearest */
    KILN_TELEPORT_CHANGE,   /* of the start by the first step (DiffusionZOutput) */
    KILN_TELEPORT_APART,    /* COMBINED: the largest distance between two of the donors */
    /* Distances of decoder features (pipeline/bench/features.h), to the full run of the same seed,
     * and of SKIP to the donor.  Records of before they were measured have none. */
    KILN_TELEPORT_FEATURES,
    KILN_TELEPORT_FEATURES_DONOR,
    KILN_TELEPORT_STYLED, /* pictures in the LoRA's style; without a style NaN */
    KILN_TELEPORT_MEASURES
};

/* What is measured of one pool: of full runs, and of runs at each depth. */
struct kiln_teleport_pool {
    size_t pair;                      /* position in the pairs */
    struct kiln_teleport_varied full; /* as many full runs as the pictures of each combination */
    struct kiln_teleport_varied skip[KILN_STEPS_MAX]; /* by depth; 0 is not used */
    bool has[KILN_STEPS_MAX];                         /* 0: full */
};

struct kiln_teleport_table {
    int32_t dtype;
    struct kiln_picture_size size;
    struct kiln_picture_size donor; /* of donors; with --small smaller, and they are enlarged */
    size_t pairs;
    double *values; /* [run][measure][pair]; NaN: not measured yet */
    struct kiln_teleport_pool *pools;
    size_t pool_count;
};

struct kiln_teleport_bench {
    struct kiln_teleport_options options;
    struct kiln_pictures pictures;
    struct kiln_teleport_pairs pairs;
    struct kiln_teleport_run runs[KILN_TELEPORT_RUNS_MAX];
    int run_count;
    struct kiln_teleport_table tables[KILN_TELEPORT_TABLES_MAX];
    int table_count;
    char lora_name[KILN_NAME_MAX + 1], lora_hash[KILN_FILE_HASH_MAX];
    char suffix[64];                /* of all prompts, for the LoRA's style */
    int style;                      /* of the LoRA, position in the judge's labels, or -1 */
    int32_t first_depth, end_depth; /* the fewest steps that are skipped; and one above the most */
    struct kiln_measured_at at;
    char pairs_hash[KILN_FILE_HASH_MAX];
    const char *pairs_name; /* the file without its folder */
    struct kiln_records records;
};

static inline double *kiln_teleport_column(const struct kiln_teleport_table *table, int run,
                                           enum kiln_teleport_measure measure)
{
    return table->values + ((size_t)run * KILN_TELEPORT_MEASURES + (size_t)measure) * table->pairs;
}

/* --- donors ----------------------------------------------------------------------------------- */

#define KILN_TELEPORT_CHANNELS_MAX 64
#define KILN_TELEPORT_LOW (KILN_TELEPORT_CHANNELS_MAX * KILN_LOW_CELLS * KILN_LOW_CELLS)
#define KILN_TELEPORT_CHOICE 8 /* donors of an item, of which the nearest are combined */

/* The donors of items that are rendered together; the first one of an item is its own. */
struct kiln_teleport_donors {
    float *latents[KILN_TELEPORT_CHOICE][KILN_PICTURES_BATCH]; /* owned; NULL: not rendered yet */
    float *low; /* [KILN_TELEPORT_CHOICE][KILN_PICTURES_BATCH][KILN_TELEPORT_LOW], owned */
    int order[KILN_PICTURES_BATCH][KILN_TELEPORT_CHOICE]; /* from the first one to the farthest */
};

static inline float *kiln_teleport_donor_low(const struct kiln_teleport_donors *donors, int which,
                                             int item)
{
    return donors->low + ((size_t)which * KILN_PICTURES_BATCH + (size_t)item) * KILN_TELEPORT_LOW;
}
/* Sorts the donors of an item by their distance to its first one. */
void kiln_teleport_donors_sort(struct kiln_teleport_donors *donors, int item, int channels);
/* The largest distance between two of the nearest `count`. */
double kiln_teleport_donors_apart(const struct kiln_teleport_donors *donors, int item, int count,
                                  int channels);
/* The distance from `low` to the next of them. */
double kiln_teleport_donors_near(const struct kiln_teleport_donors *donors, int item, int count,
                                 int channels, const float *low);
/* Frees the latents, not low. */
void kiln_teleport_donors_clear(struct kiln_teleport_donors *donors);

/* --- rendering -------------------------------------------------------------------------------- */

/* Which noise: of a pair's pictures by their number, and of its pool. */
enum kiln_teleport_noise { KILN_NOISE_TARGET, KILN_NOISE_AGAIN, KILN_NOISE_DONOR, KILN_NOISE_POOL };
uint64_t kiln_teleport_seed(const struct kiln_teleport_options *options, uint32_t line,
                            enum kiln_teleport_noise noise, uint32_t number);

/* Renders items of one size in the mode of the options; with `depth` above 0 so many steps are
 * skipped and each item has its donor's latent as its start, which is softened here.  Without
 * pictures (latents alone) if !decode. */
int kiln_teleport_render(struct kiln_teleport_bench *bench, struct kiln_picture_size size,
                         int32_t steps, int32_t depth, bool decode, DiffusionZItem *items,
                         int count, DiffusionZOutput *outputs,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* Full runs of donors in their mode, without pictures; their latents are of the table's size. */
int kiln_teleport_render_donors(struct kiln_teleport_bench *bench,
                                const struct kiln_teleport_table *table, DiffusionZItem *items,
                                int count, DiffusionZOutput *outputs,
                                struct kiln_error *err) KILN_MUST_CHECK;

/* Whether the run can be rendered at the size of the table: COARSE needs a small size for it. */
bool kiln_teleport_renders(const struct kiln_teleport_bench *bench,
                           const struct kiln_teleport_table *table, int run);
/* Renders and measures what the table lacks. */
int kiln_teleport_fill(struct kiln_teleport_bench *bench, struct kiln_teleport_table *table,
                       struct kiln_error *err) KILN_MUST_CHECK;
int kiln_teleport_fill_pools(struct kiln_teleport_bench *bench, struct kiln_teleport_table *table,
                             struct kiln_error *err) KILN_MUST_CHECK;
/* Progress on stderr if that is a terminal; total 0 clears it. */
void kiln_teleport_progress(const struct kiln_teleport_table *table, const char *what, size_t done,
                            size_t total);

/* --- records ---------------------------------------------------------------------------------- */

int kiln_teleport_records_open(struct kiln_teleport_bench *bench,
                               struct kiln_error *err) KILN_MUST_CHECK;
int kiln_teleport_record(struct kiln_teleport_bench *bench, const struct kiln_teleport_table *table,
                         int run, size_t pair, struct kiln_error *err) KILN_MUST_CHECK;
/* The lists --soften and --dtype. */
json_t *kiln_teleport_soften(const struct kiln_teleport_bench *bench);
json_t *kiln_teleport_dtypes(const struct kiln_teleport_bench *bench);
/* depth 0: the full runs of the pool. */
int kiln_teleport_record_pool(struct kiln_teleport_bench *bench,
                              const struct kiln_teleport_table *table,
                              const struct kiln_teleport_pool *pool, int32_t depth,
                              struct kiln_error *err) KILN_MUST_CHECK;

/* --- the report ------------------------------------------------------------------------------- */

/* A run on the pairs of a group.  Differences are to the mean of the two full runs of a pair;
 * shares are 0..1. */
struct kiln_teleport_row {
    size_t pairs;
    double asked, pictures;
    struct kiln_estimate attributes, whole, to_attributes, to_whole;
    struct kiln_estimate style, to_style;   /* NaN without a style */
    struct kiln_estimate of_full, of_donor; /* distances, as shares of that of two full runs */
    struct kiln_estimate features, features_donor; /* distances of decoder features, means */
};
/* In forwards of the table's size. */
double kiln_teleport_cost(const struct kiln_teleport_bench *bench,
                          const struct kiln_teleport_run *run);
/* group -1: all pairs. */
int kiln_teleport_row_fill(const struct kiln_teleport_bench *bench,
                           const struct kiln_teleport_table *table, int group, int run,
                           struct kiln_teleport_row *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* What a run lost or won of a pair, against the mean of the pair's full runs. */
double kiln_teleport_difference(const struct kiln_teleport_bench *bench,
                                const struct kiln_teleport_table *table, int run,
                                enum kiln_teleport_measure measure, size_t pair);
/* Everything measured of the accepted groups, as kiln_teleport_card takes it. */
int kiln_teleport_found(const struct kiln_teleport_bench *bench, struct kiln_teleport_finding **ret,
                        size_t *ret_count, struct kiln_error *err) KILN_MUST_CHECK;

/* Markdown on stdout. */
void kiln_teleport_heading(const struct kiln_teleport_bench *bench);
int kiln_teleport_print(const struct kiln_teleport_bench *bench,
                        const struct kiln_teleport_table *table,
                        struct kiln_error *err) KILN_MUST_CHECK;
/* What runs from several donors come to; nothing where none were rendered. */
int kiln_teleport_print_combined(const struct kiln_teleport_bench *bench,
                                 const struct kiln_teleport_table *table,
                                 struct kiln_error *err) KILN_MUST_CHECK;
/* The change in the first step, by group and depth, and which of the runs the bounds of a class
 * would give up. */
int kiln_teleport_print_changes(const struct kiln_teleport_bench *bench,
                                const struct kiln_teleport_table *table,
                                struct kiln_error *err) KILN_MUST_CHECK;
/* Orders doubles, for qsort. */
int kiln_teleport_by_value(const void *a, const void *b);
/* The bounds of the change for runs of a group that came out right; NaN where too few were
 * measured, or several runs a pair, whose mean is no bound of one run. */
int kiln_teleport_bounds(const struct kiln_teleport_bench *bench,
                         const struct kiln_teleport_table *table, int group, int run,
                         double ret_bounds[2], struct kiln_error *err) KILN_MUST_CHECK;
/* What was measured and how, as it is in kiln.json under "measured"; NULL without memory. */
json_t *kiln_teleport_json(const struct kiln_teleport_bench *bench);
/* The object "teleport" of kiln.json, or what belongs under "small" or "coarse" of it, or in its
 * list "loras". */
int kiln_teleport_card(const struct kiln_teleport_bench *bench, json_t **ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Puts such an object into kiln.json: what is there of other sizes and under other names stays, or
 * with --small, --coarse or --lora all else. */
int kiln_teleport_card_write(const struct kiln_teleport_bench *bench, json_t *card,
                             struct kiln_error *err) KILN_MUST_CHECK;
/* What the new card has not as the one that is there, "model", "dtypes", "steps" or "soften", or
 * NULL.  Then number formats that were measured beside those of the other rows are named in each
 * row of the new one. */
const char *kiln_teleport_differs(const json_t *had, json_t *card);
/* Prints in which further formats the rows of kiln.json hold, and with --write notes them there.
 * card: of kiln_teleport_card. */
int kiln_teleport_extend(const struct kiln_teleport_bench *bench, json_t *card,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* How much the words of two prompts have in common: the target's that the donor has, the donor's
 * that the target has, those in the same order, each a share; and the logarithm of the ratio of
 * their numbers. */
#define KILN_TELEPORT_OVERLAPS 4
void kiln_teleport_overlap(const char *target, const char *donor,
                           double ret[KILN_TELEPORT_OVERLAPS]);
/* Fits a learned gate for each size and depth and prints what it would accept; *ret: the object
 * "gate" of "teleport" in kiln.json. */
int kiln_teleport_fit(const struct kiln_teleport_bench *bench, json_t **ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Prints what is offered, and what is not and why. */
void kiln_teleport_card_print(const json_t *card);

#endif
