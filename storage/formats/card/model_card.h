/* model_card.h - kiln.json: what was measured about a model (schemas/model.md).
 *
 * The file is beside the model's folders of diffusers.  A model without one was not measured: its
 * coarse=auto is exact.
 */
#ifndef KILN_MODEL_CARD_H
#define KILN_MODEL_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"
#include "schemas/job/coarse.h"
#include "schemas/job/line.h"
#include "schemas/job/mode.h"
#include "schemas/limits.h"
#include "schemas/reuse/class.h"

#define KILN_MODEL_CARD "kiln.json" /* in the model's directory */
#define KILN_CARD_SHA256 65         /* hex digits of a SHA-256 and a NUL */
#define KILN_CARD_LORA_SIZES 8      /* sizes of a LoRA */
#define KILN_CARD_MODEL 17          /* hex digits of a model's hash and a NUL */
#define KILN_CARD_DTYPES 3
#define KILN_CARD_DTYPE 8       /* "bf16" and a NUL */
#define KILN_CARD_PATH 256      /* inside the model's directory */
#define KILN_CARD_PATH_MAX 4608 /* with the directory */
#define KILN_CARD_WHY 256
#define KILN_CARD_REUSE_ROWS 128
#define KILN_CARD_SMALL_ROWS 32
#define KILN_CARD_REUSE_LORAS 16
#define KILN_CARD_LORA_ROWS 192 /* of all LoRAs together */
#define KILN_CARD_REUSE_SIZES 8
#define KILN_CARD_SOFTEN 8       /* depths */
#define KILN_CARD_SOFTEN_MAX 256 /* values of a side */
/* Points of 100 that what the card offers may lose against full runs. */
#define KILN_CARD_LOSS_ATTRIBUTES 0.5
#define KILN_CARD_LOSS_WHOLE 1.5
#define KILN_CARD_LOSS_STYLE 1.0 /* with a LoRA */

/* Sizes whose width and height are both within the bounds, in pixels; equal bounds are one size. */
struct kiln_card_sizes {
    uint32_t width_min, height_min, width_max, height_max;
};

/* A LoRA with which coarse=auto was measured as well, by the content of its file. */
struct kiln_card_lora {
    char sha256[KILN_CARD_SHA256];
    double strength;                                    /* that it was measured with */
    struct kiln_card_sizes sizes[KILN_CARD_LORA_SIZES]; /* full sizes at which it was good */
    uint32_t size_count;
};

/* Weights for steps first .. end - 1, counted from 0: a LoRA on top of the model's, or the folder
 * of a transformer in place of the model's. */
struct kiln_card_weights {
    uint32_t first, end;
    bool transformer;
    char path[KILN_CARD_PATH];     /* inside the model's directory */
    char sha256[KILN_CARD_SHA256]; /* of the LoRA's file, or kiln_folder_hash of the folder */
    double scale;                  /* of a LoRA */
};

/* The number formats that something was measured in; none: not said. */
struct kiln_card_dtypes {
    char names[KILN_CARD_DTYPES][KILN_CARD_DTYPE];
    uint32_t count;
};

/* What was measured of runs that begin from a stored latent: so many steps skipped, from a pool of
 * at least `donors` latents of one prompt, each used at most `uses` times. */
struct kiln_card_reuse_row {
    enum kiln_reuse_class class;
    uint32_t depth, donors, uses;
    double variety;         /* distance to the nearest other picture, as a share of full runs' */
    double loss_attributes; /* points of 100, against full runs; below 0 is a gain */
    double loss_whole;      /* likewise of prompts that are wholly right */
    struct kiln_card_sizes sizes[KILN_CARD_REUSE_SIZES]; /* at which it was measured */
    uint32_t size_count;
    struct kiln_card_dtypes dtypes; /* in which it was measured; none: those of the table */
    double change[2]; /* bounds of what the first step of a right run changes of its start, as a
                         share of the start's size (diffusionz_batch.h); 0, 0: not said */
};
/* From donors of the job's size; of its small size, enlarged; and of its own size, shrunk, for the
 * small phase.  Number i of the LoRAs has table KILN_REUSE_LORA + i, of donors of the job's size
 * that were rendered with it as well. */
enum kiln_reuse_table { KILN_REUSE_OWN, KILN_REUSE_SMALL, KILN_REUSE_COARSE, KILN_REUSE_LORA };
/* A LoRA, by the content of its file, with rows of its own. */
struct kiln_card_reuse_lora {
    char sha256[KILN_CARD_SHA256];
    double strength;       /* that it was measured with */
    uint32_t first, count; /* of lora_rows */
};
struct kiln_card_reuse {
    struct kiln_card_reuse_row rows[KILN_CARD_REUSE_ROWS];
    uint32_t row_count;
    /* Likewise of runs from latents of the small size of coarse runs, enlarged. */
    struct kiln_card_reuse_row small_rows[KILN_CARD_SMALL_ROWS];
    uint32_t small_count;
    /* Likewise of coarse runs of this mode that leave out their first small steps, against whole
     * ones; the depth is below its small steps. */
    struct kiln_card_reuse_row coarse_rows[KILN_CARD_SMALL_ROWS];
    uint32_t coarse_count;
    struct kiln_mode coarse; /* EXACT: there are no such rows */
    struct kiln_card_reuse_row lora_rows[KILN_CARD_LORA_ROWS];
    uint32_t lora_row_count;
    struct kiln_card_reuse_lora loras[KILN_CARD_REUSE_LORAS];
    uint32_t lora_count;
    uint32_t steps;              /* of the schedule that was measured */
    char model[KILN_CARD_MODEL]; /* hash of the model that was measured; "": not said */
    struct kiln_card_dtypes dtypes;
    /* By steps skipped less 1: the side of the cells, in values of the latent, to which donors are
     * flattened (worker/engine/soften.h); 0: they stay as they are. */
    uint32_t soften[KILN_CARD_SOFTEN], soften_count;
};

/* The most variety that costs no more than KILN_CARD_LOSS_*, at sizes that it was measured at. */
struct kiln_card_variety {
    struct kiln_card_sizes sizes;
    double most; /* 0 .. 1 */
};

/* All zero: nothing was measured. */
struct kiln_model_card {
    struct kiln_mode coarse; /* what coarse=auto means: KILN_MODE_COARSE, or EXACT */
    uint32_t coarse_steps;   /* number of steps of the schedule that it was measured for */
    struct kiln_picture_size coarse_sizes[KILN_LIST_MAX]; /* good small sizes */
    uint32_t coarse_size_count;
    struct kiln_card_sizes coarse_for[KILN_LIST_MAX]; /* full sizes at which it was good */
    uint32_t coarse_for_count;
    struct kiln_card_lora coarse_loras[KILN_LIST_MAX];
    uint32_t coarse_lora_count;
    char coarse_model[KILN_CARD_MODEL]; /* hash of the model that was measured; "": not said */
    struct kiln_card_dtypes coarse_dtypes;
    struct kiln_card_sizes sizes[KILN_LIST_MAX]; /* that the model renders well; none: not said */
    uint32_t size_count;
    uint32_t steps;                /* of a picture whose job line sets none; 0: not said */
    double sigmas[KILN_STEPS_MAX]; /* of a run of so many steps, falling from near 1, ... */
    uint32_t sigma_count;          /* ... if this is steps; 0: those of the scheduler */
    double noise; /* the share of its noise that a step of any run replaces, 0 .. 1 */
    struct kiln_card_weights weights[KILN_STEP_LORAS_MAX]; /* likewise, of a run of so many steps */
    uint32_t weight_count;
    char base[KILN_NAME_MAX + 1], variant[KILN_NAME_MAX + 1]; /* for LoRAs; "": not said */
    struct kiln_card_reuse reuse; /* what a run from a stored latent may skip */
    struct kiln_card_variety variety[KILN_LIST_MAX];
    uint32_t variety_count; /* 0: nobody has measured it */
};

/* Reads dir/kiln.json; without such a file *ret is all zero.  KILN_CONFIG for a file that cannot
 * be read or is not valid; the error names it. */
int kiln_model_card_read(const char *dir, struct kiln_model_card *ret,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* The same from its text; path is for errors. */
int kiln_model_card_parse(const char *text, size_t len, const char *path,
                          struct kiln_model_card *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* The card of the setting `model`; all zero if that is empty or the file cannot be used, which
 * whoever loads the model reports. */
void kiln_model_card_known(const struct kiln_config *config, struct kiln_model_card *ret);

/* Fills what job lines take from the model.  steps, of a picture whose line sets none: the setting
 * `default_steps`; if that is 0, what the card in the directory of the setting `model` says, if it
 * can be read from here; else KILN_STEPS_DEFAULT.  own: kiln_model_side of that directory. */
int kiln_model_card_context(const struct kiln_config *config, struct kiln_job_context *context,
                            struct kiln_error *err) KILN_MUST_CHECK;
/* The side of the square that a model renders best: sample_size of its vae/config.json; 0 if the
 * file does not exist or has none. */
uint32_t kiln_model_side(const char *dir);
/* Whether the model renders this size well, or nobody has said. */
bool kiln_model_card_knows(const struct kiln_model_card *card, uint32_t width, uint32_t height);
/* "256x256..512x512, 896x512": what it renders well, into out, which is returned. */
const char *kiln_model_card_sizes_text(const struct kiln_model_card *card, char *out, size_t size);
/* Whether a picture has more variety than was measured to cost little, or has it at a size where
 * nobody measured it; `why` says so, with the measured values.  False, and "", too if the card has
 * none. */
bool kiln_model_card_too_varied(const struct kiln_model_card *card, double variety, uint32_t width,
                                uint32_t height, char why[KILN_CARD_WHY]);
/* Whether a picture has guidance though the card's steps replace noise: such models were distilled
 * to do without it; `why` says so.  False, and "", otherwise. */
bool kiln_model_card_unguided(const struct kiln_model_card *card, double guidance,
                              char why[KILN_CARD_WHY]);
/* The card's sigmas for a run of so many steps, borrowed; NULL: those of the model's scheduler. */
const double *kiln_model_card_sigmas(const struct kiln_model_card *card, uint32_t steps);

/* Whether the card's LoRAs, in the model's directory, are the files that it names; a repeated
 * request costs a stat a file.  Its transformers are checked when they are loaded, once.
 * KILN_NOT_FOUND or KILN_CORRUPT, with the file. */
int kiln_card_weights_check(const struct kiln_model_card *card, const char *dir,
                            struct kiln_error *err) KILN_MUST_CHECK;
/* The same of one entry, LoRA or transformer. */
int kiln_card_weights_are(const struct kiln_card_weights *weights, const char *dir,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* A longer path is cut short, and then names no file. */
void kiln_card_weights_path(const struct kiln_card_weights *weights, const char *dir,
                            char path[KILN_CARD_PATH_MAX]);

/* Whether the measurements of the card are those of a loaded model: of its hash and number format
 * ("bf16").  Else COARSE_AUTO becomes exact in the card, and `why` says so; "" if it fits. */
bool kiln_model_card_fits(struct kiln_model_card *card, const char *model_hash, const char *dtype,
                          char why[KILN_CARD_WHY]);

/* The table that holds for a job and a donor: a small one, or one for its small steps (coarse).
 * False: none was measured.  A LoRA counts as measured as kiln_model_card_mode says. */
bool kiln_card_reuse_table_of(const struct kiln_card_reuse *reuse, const struct kiln_job *job,
                              bool small, bool coarse, enum kiln_reuse_table *ret);
/* Whether any table has rows. */
bool kiln_card_reuse_offers(const struct kiln_card_reuse *reuse);
/* Whether there are rows for jobs with this LoRA set (kiln_lora_set_key). */
bool kiln_card_reuse_serves(const struct kiln_card_reuse *reuse, const char *lora_set);
/* Runs of a class and depth at a size, in a table. */
struct kiln_card_reuse_run {
    enum kiln_reuse_table table;
    enum kiln_reuse_class class;
    uint32_t depth, width, height;
};
/* Whether such runs were measured with a model of this hash and number format. */
bool kiln_card_reuse_fits(const struct kiln_card_reuse *reuse,
                          const struct kiln_card_reuse_run *run, const char *model_hash,
                          const char *dtype);
/* The side of a donor's cells for a run that skips `depth` steps, 1 or more; 0: it stays as it is.
 */
uint32_t kiln_card_reuse_soften(const struct kiln_card_reuse *reuse, uint32_t depth);
/* The rows of one table. */
const struct kiln_card_reuse_row *kiln_card_reuse_rows(const struct kiln_card_reuse *reuse,
                                                       enum kiln_reuse_table table,
                                                       uint32_t *ret_count);
/* Whether the row was measured at this size. */
bool kiln_card_reuse_at(const struct kiln_card_reuse_row *row, uint32_t width, uint32_t height);
/* Leaves out all rows that were not measured in this number format. */
void kiln_card_reuse_keep(struct kiln_card_reuse *reuse, const char *dtype);
/* The bounds of the change for such runs; false: nothing is said. */
bool kiln_card_reuse_bounds(const struct kiln_card_reuse *reuse,
                            const struct kiln_card_reuse_run *run, double ret[2]);

/* What the measurements of a card depend on. */
struct kiln_card_picture {
    uint32_t width, height, steps;
    double guidance;
    uint32_t lora_count;
    const char *lora_sha256; /* of the file of the only LoRA, or at least its first
                                KILN_LORA_KEY_DIGITS; NULL: unknown */
    double lora_scale;       /* of the only LoRA; compared as LoRA sets name it */
};
struct kiln_card_picture kiln_card_picture_of(const struct kiln_job *job);

/* What COARSE_AUTO means for a picture: the card's mode where it was measured for this size, number
 * of steps and LoRA, without guidance and variety, else EXACT; the variety stays.  A LoRA counts as
 * measured at strengths from 0 to the measured one; several LoRAs never do.  Other modes are
 * returned as they are. */
struct kiln_mode kiln_model_card_mode(const struct kiln_model_card *card,
                                      const struct kiln_mode *mode,
                                      const struct kiln_card_picture *picture);
/* The same for a job, by the file that it names for its LoRA; without a name it counts as exact. */
struct kiln_mode kiln_model_card_mode_of(const struct kiln_model_card *card,
                                         const struct kiln_job *job);

#endif
