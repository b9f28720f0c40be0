/* detail.h - two measures of pictures that need no judge: how sharp they are, and how much the
 * pictures of different seeds differ.
 */
#ifndef KILN_BENCH_DETAIL_H
#define KILN_BENCH_DETAIL_H

#include <stdint.h>

/* The mean over all pixels that have four neighbours of |4 g - left - right - above - below|, for
 * the grey value g = 0.299 R + 0.587 G + 0.114 B in 0..1.  rgb: [height][width][3], sides of at
 * least 3. */
double kiln_sharpness(const uint8_t *rgb, int width, int height);

#define KILN_LOW_CELLS 8 /* a side */
/* What a latent shows at large: the means of 8 x 8 cells of each channel.  latent:
 * [channels][height][width], sides of at least 8; ret: [channels][8][8]. */
void kiln_low_pass(const float *latent, int channels, int height, int width, float *ret);
/* The root of the mean squared difference of two of these. */
double kiln_low_distance(const float *a, const float *b, int channels);
/* The mean distance over all pairs of `count` of these, one behind the other; NaN below two. */
double kiln_low_spread(const float *all, int count, int channels);

#endif
