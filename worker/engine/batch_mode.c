/* batch_mode.c - see batch_mode.h. */
#include "worker/engine/batch_mode.h"

static bool set_coarse(DiffusionZBatch *batch, const struct kiln_mode *mode,
                       const struct kiln_picture_size *good, size_t good_count)
{
    const struct kiln_picture_size full = {(uint32_t)batch->width, (uint32_t)batch->height};
    struct kiln_picture_size small, middle;
    if (!kiln_coarse_sizes(mode, full, good, good_count, &small, &middle))
        return false;
    batch->coarse_steps = (int32_t)mode->small;
    batch->coarse_width = (int32_t)small.width;
    batch->coarse_height = (int32_t)small.height;
    batch->coarse_skip = mode->reused ? (int32_t)mode->step : 0;
    batch->middle_steps = (int32_t)mode->middle;
    batch->middle_width = (int32_t)middle.width;
    batch->middle_height = (int32_t)middle.height;
    batch->start = DIFFUSIONZ_FROM_SIGMA;
    batch->start_sigma = mode->sigma;
    batch->rest_steps = (int32_t)mode->full;
    return true;
}

bool kiln_batch_set_mode(DiffusionZBatch *batch, const struct kiln_mode *mode,
                         const struct kiln_picture_size *good, size_t good_count)
{
    batch->by_difference = mode->edited;
    switch (mode->kind) {
    case KILN_MODE_COARSE:
        return set_coarse(batch, mode, good, good_count);
    case KILN_MODE_START_STEP:
        batch->start = DIFFUSIONZ_FROM_STEP;
        batch->start_step = (int32_t)mode->step;
        break;
    case KILN_MODE_START_SIGMA:
        batch->start = DIFFUSIONZ_FROM_SIGMA;
        batch->start_sigma = mode->sigma;
        break;
    case KILN_MODE_EXACT:
    case KILN_MODE_COARSE_AUTO:
        break;
    }
    return true;
}
