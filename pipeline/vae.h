/* vae.h - between latents and pictures: an AutoencoderKL of any widths, levels and depth.
 *
 *     decoder: conv - mid (residual, attention, residual) - levels (residuals, upsample) - conv
 *     encoder: conv - levels (residuals, downsample) - mid - conv
 */
#ifndef KILN_VAE_H
#define KILN_VAE_H

#include <stdbool.h>

#include "pipeline/model_config.h"
#include "pipeline/torch/tensor.h"

struct kiln_vae;

/* dir: the folder vae.  The weights live in scope.  The encoder is left out unless asked for. */
int kiln_vae_load(const char *dir, const struct kiln_vae_config *config, struct kt_scope *scope,
                  enum kt_dtype dtype, bool with_encoder, struct kiln_vae **ret,
                  struct kiln_error *err) KILN_MUST_CHECK;
void kiln_vae_free(struct kiln_vae *vae); /* accepts NULL */

/* Latent [C,h,w] as the sampler ends with it to a picture [1,3,H,W] in -1..1. */
kt kiln_vae_decode(const struct kiln_vae *vae, struct kt_scope *s, kt latent);
/* Picture [1,3,H,W] in -1..1 to the mean latent [C,h,w], scaled as the sampler wants it.  Needs
 * the encoder; sides are multiples of the factor. */
kt kiln_vae_encode(const struct kiln_vae *vae, struct kt_scope *s, kt picture);

#endif
