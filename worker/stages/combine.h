/* combine.h - more stored latents beside a donor's, from which one run begins.
 *
 * The setting `combine` says whether and how; the default is one donor.  Latents are combined only
 * where they agree: at large, as means of 8 x 8 cells, each pair is at most `combine_apart` apart.
 * Two that do not agree make a double exposure, which early steps may resolve and late ones do not.
 */
#ifndef KILN_COMBINE_H
#define KILN_COMBINE_H

#include "worker/stages/start_load.h"
#include "worker/state/worker.h"

/* Adds to the start of a donor the latents of pictures of the same prompt that agree with it,
 * within the settings.  A latent that is gone or damaged, or a ledger that does not answer, leaves
 * the start as it is.  Returns 0, or what reading failed with where the store does not answer: the
 * start is good, and nothing else should be tried. */
int kiln_combine_add(const struct kiln_worker *worker, struct kiln_ledger *ledger,
                      struct kiln_store *store, uint64_t donor, const struct kiln_start_want *want,
                      struct kiln_start *start);
/* The root of the mean squared difference of the means of 8 x 8 cells of each channel; as
 * kiln_low_distance of pipeline/bench/detail.h.  [channels][height][width], sides of at least 8. */
double kiln_latents_apart(const float *a, const float *b, uint32_t channels, uint32_t height,
                          uint32_t width);

#endif
