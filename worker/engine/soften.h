/* soften.h - a donor's latent as an early start takes it: a few flat cells instead of details.
 *
 * The first steps of a run decide its layout.  A run that skips them needs their layout, but from a
 * finished latent it also takes details of the donor, and its picture comes out near the donor's.
 * Without details it is as far from the donor as pictures of two seeds are, and as right.  A later
 * start needs the details, as the steps left do not make them.  How many cells serve which start is
 * measured (`kiln bench teleport`) and in the model's kiln.json.
 */
#ifndef KILN_SOFTEN_H
#define KILN_SOFTEN_H

#include <stdint.h>

/* Sets each of cells x cells parts of each channel to its mean; of a side that is shorter, each
 * value.  latent: [channels][height][width]; cells > 0. */
void kiln_soften(float *latent, uint32_t channels, uint32_t height, uint32_t width, uint32_t cells);

#endif
