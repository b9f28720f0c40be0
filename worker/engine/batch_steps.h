/* batch_steps.h - the steps of a model's kiln.json as fields of the engine's batch.
 *
 * Worker, `kiln render` and `kiln bench` run a model in the same way: a run of as many steps as the
 * file says has its sigmas and its weights.
 */
#ifndef KILN_WORKER_BATCH_STEPS_H
#define KILN_WORKER_BATCH_STEPS_H

#include "pipeline/diffusionz_batch.h"
#include "storage/formats/card/model_card.h"

/* What a batch points to, as it does to the card; lives as long as the batch. */
struct kiln_batch_steps {
    char paths[KILN_STEP_LORAS_MAX][KILN_CARD_PATH_MAX];
    DiffusionZStepLora loras[KILN_STEP_LORAS_MAX];
    DiffusionZStepTransformer transformers[KILN_STEP_LORAS_MAX];
};

/* Sets sigmas, LoRAs and transformers of steps; num_steps is set.  dir: the model's directory.
 * KILN_NOT_FOUND or KILN_CORRUPT if a file is not the one that the card names: it was replaced
 * since. */
int kiln_batch_set_steps(DiffusionZBatch *batch, const struct kiln_model_card *card,
                         const char *dir, struct kiln_batch_steps *keep,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* The steps of a run for which the command line names none: those of the model in dir, which may be
 * NULL.  A damaged kiln.json is reported when the model is loaded. */
int32_t kiln_batch_steps_usual(const char *dir);

#endif
