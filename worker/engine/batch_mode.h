/* batch_mode.h - the mode of a job as fields of the engine's batch.
 *
 * Worker, `kiln render` and `kiln bench` begin batches in the same way.
 */
#ifndef KILN_WORKER_BATCH_MODE_H
#define KILN_WORKER_BATCH_MODE_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/job/coarse.h"
#include "schemas/job/mode.h"

/* Sets the fields of starts and of coarse first; width and height are set.  good: the small sizes
 * of the model's kiln.json, for kiln_coarse_sizes.  COARSE_AUTO has been decided, and is exact
 * here. False, with the batch exact, if coarse first has no small size for this one. */
bool kiln_batch_set_mode(DiffusionZBatch *batch, const struct kiln_mode *mode,
                         const struct kiln_picture_size *good, size_t good_count);

#endif
