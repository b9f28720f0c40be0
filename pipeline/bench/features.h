/* features.h - how much two pictures differ, by features of the model's VAE decoder.
 *
 *     d(a, b) = 1 / n * sum over the n positions p of |u_a(p) - u_b(p)|^2        0 .. 4
 *
 * u(p) are the features behind the decoder's middle block (kiln_vae_decode_middle) at a position of
 * the latent, divided by their length over the channels.  This is the distance of Zhang et al., The
 * Unreasonable Effectiveness of Deep Features as a Perceptual Metric (CVPR 2018), eq. 1, with one
 * layer and all weights 1.  Features of the decoder in place of a classifier's need no other
 * weights: Berrada et al., Boosting Latent Diffusion with Perceptual Objectives (arXiv 2411.04873).
 */
#ifndef KILN_BENCH_FEATURES_H
#define KILN_BENCH_FEATURES_H

#include "pipeline/diffusionz_batch.h"
#include "schemas/error.h"

/* Of one picture, on the context's device: 4 bytes for each channel and position. */
struct kiln_features;

/* latent: a run's final one, [channels][height][width].  No batch may run meanwhile.  Free *ret
 * before the context. */
int kiln_features_of(DiffusionZContext *ctx, const float *latent, int channels, int height,
                     int width, struct kiln_features **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Both of one size and context. */
int kiln_features_distance(const struct kiln_features *a, const struct kiln_features *b,
                           double *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_features_free(struct kiln_features *features); /* accepts NULL */

#endif
