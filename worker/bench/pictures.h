/* pictures.h - renders prompts with the engine and lets the judge look: what `kiln bench quality`
 * and `kiln bench coarse` share.
 *
 * The pictures are those that a worker would store, because the engine is the same.  On the CPU
 * they are rendered one by one, which is as fast and shows progress; on a GPU in batches.
 */
#ifndef KILN_BENCH_PICTURES_H
#define KILN_BENCH_PICTURES_H

#include "pipeline/bench/judge.h"
#include "pipeline/bench/requests.h"
#include "pipeline/bench/score.h"
#include "pipeline/diffusionz_batch.h"
#include "pipeline/model/hash.h"
#include "worker/engine/batch_steps.h"

#define KILN_PICTURES_BATCH 16 /* items of a call at most */

/* All zero before the first open. */
struct kiln_pictures {
    DiffusionZContext *context;
    int32_t device, dtype; /* of the open context */
    const char *model;     /* its directory; borrowed */
    char hash[KILN_MODEL_HASH_LEN + 1], name[KILN_NAME_MAX + 1];
    struct kiln_model_card card;   /* its kiln.json */
    struct kiln_batch_steps steps; /* of the batch that runs */
    struct kiln_judge *judge;
    const struct kiln_judge_labels *labels; /* borrowed from the judge */
};

/* Reads what names a model, and its kiln.json, but loads nothing: enough for a report. */
int kiln_pictures_identify(struct kiln_pictures *p, const char *model,
                           struct kiln_error *err) KILN_MUST_CHECK;
/* Loads a model and reads its kiln.json, unless it is loaded with that dtype already. */
int kiln_pictures_model(struct kiln_pictures *p, const DiffusionZOptions *options,
                        struct kiln_error *err) KILN_MUST_CHECK;
int kiln_pictures_judge(struct kiln_pictures *p, const char *dir, int32_t device,
                        struct kiln_error *err) KILN_MUST_CHECK;
void kiln_pictures_close(struct kiln_pictures *p);

/* What is appended to a prompt to name a style of the judge: "" for its first one, which is none.
 * Returns the style's position in the labels, or -1 if the judge does not know it. */
int kiln_pictures_style(const struct kiln_pictures *p, const char *name, char suffix[64]);

/* Items of a call that the device renders best. */
int kiln_pictures_batch(int32_t device);

/* Runs a batch, through the sigmas and weights of the model's kiln.json if it has that number of
 * steps; a failed picture is an error.  *times may be NULL. */
int kiln_pictures_render(struct kiln_pictures *p, const DiffusionZBatch *batch,
                         DiffusionZOutput *outputs, DiffusionZTimes *times,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* Detects what is in a picture, and scores it against what was asked. */
int kiln_pictures_look(struct kiln_pictures *p, const struct kiln_asked *asked, const uint8_t *rgb,
                       int32_t width, int32_t height, struct kiln_seen *ret_seen,
                       struct kiln_score *ret_score, struct kiln_error *err) KILN_MUST_CHECK;

#endif
