/* halves.h - batches in two halves: each is begun while the one before is being finished by another
 * thread, and must come to the same bits as in one call.  A function fails the test where it says
 * nothing else.
 */
#ifndef KILN_TEST_HALVES_H
#define KILN_TEST_HALVES_H

#include "pipeline/diffusionz_batch.h"

/* What the second round took by the host's clock and by the device's own. */
struct halves_time {
    double wall_ms, device_ms;
};

/* Draws every batch in one call, then all once more in halves.  Batches that fail as a whole must
 * fail both ways. */
struct halves_time halves_compare(DiffusionZContext *ctx, const DiffusionZBatch *batches,
                                  int count);

#endif
