/* soften.h - a stored latent as a run takes it: enlarged or shrunk, and for an early start with
 * flat cells instead of details.
 *
 * The first steps of a run decide its layout.  A run that skips them needs their layout, but from a
 * finished latent it also takes details of the donor, and its picture comes out near the donor's.
 * Without details it is as far from the donor as pictures of two seeds are, and as right.  A later
 * start needs the details, as the steps left do not make them.  What must go depends on the noise
 * level and is a matter of pixels, not of shares of the picture: cells of 64 px serve a run that
 * skips its first step at 256 and at 512 px alike.  How large they are for which start is measured
 * (`kiln bench teleport`) and in the model's kiln.json.
 */
#ifndef KILN_SOFTEN_H
#define KILN_SOFTEN_H

#include <stdint.h>

/* Sets each cell of each channel to its mean.  latent: [channels][height][width]; side: of a cell,
 * in values of the latent, above 0.  There are as many cells as fit best, and one at least. */
void kiln_soften(float *latent, uint32_t channels, uint32_t height, uint32_t width, uint32_t side);

/* The clean latent [channels][height][width] at a smaller size: the means of its parts; malloc'd,
 * NULL without memory.  For the small phase of a run that is coarse first. */
float *kiln_latent_shrunk(const float *clean, uint32_t channels, uint32_t height, uint32_t width,
                          uint32_t out_height, uint32_t out_width);

/* The clean latent [channels][height][width] at a larger size, as kernels/pictures/latent_enlarge.h
 * makes it; malloc'd, NULL without memory. */
float *kiln_latent_enlarged(const float *clean, uint32_t channels, uint32_t height, uint32_t width,
                            uint32_t out_height, uint32_t out_width);

#endif
