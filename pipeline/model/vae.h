/* vae.h - between latents and pictures: an AutoencoderKL of any widths, levels and depth.
 *
 *     decoder: conv - mid (residual, attention, residual) - levels (residuals, upsample) - conv
 *     encoder: conv - levels (residuals, downsample) - mid - conv
 */
#ifndef KILN_VAE_H
#define KILN_VAE_H

#include "pipeline/model/config.h"
#include "pipeline/torch/tensor.h"

#define KILN_VAE_WHOLE_PIXELS (1536 * 1536)
#define KILN_VAE_STRIP_ROWS 64
#define KILN_VAE_STRIP_ROWS_MIN 16 /* fewer save next to nothing */

struct kiln_vae;

/* Loads the decoder.  dir: the folder vae, or NULL for random weights.  The weights live in scope.
 */
int kiln_vae_load(const char *dir, const struct kiln_vae_config *config, struct kt_scope *scope,
                  enum kt_dtype dtype, struct kiln_vae **ret,
                  struct kiln_error *err) KILN_MUST_CHECK;
/* Loads the encoder from the same folder unless it is loaded; the autoencoder owns its weights.
 * KILN_UNSUPPORTED if the folder has none.  After an error nothing is loaded, and the next call
 * tries again. */
int kiln_vae_need_encoder(struct kiln_vae *vae, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_vae_free(struct kiln_vae *vae); /* accepts NULL */

/* Latent [C,h,w] as the sampler ends with it to a picture [1,3,H,W] in -1..1.  Pictures of more
 * than KILN_VAE_WHOLE_PIXELS are decoded in strips. */
kt kiln_vae_decode(const struct kiln_vae *vae, struct kt_scope *s, kt latent);
/* The same with the last level in strips of so many rows, an even number: a third of the memory for
 * a tenth more time; 0: in one piece.  Strips are not blended: each reads the rows that it needs of
 * its neighbours, and norms are of the whole picture. */
kt kiln_vae_decode_strips(const struct kiln_vae *vae, struct kt_scope *s, kt latent, int rows);
/* The decoder's features behind its middle block, [1,C,h,w] in the weights' dtype: as many rows and
 * columns as the latent, for comparing pictures (pipeline/bench/features.h). */
kt kiln_vae_decode_middle(const struct kiln_vae *vae, struct kt_scope *s, kt latent);
/* Picture [1,3,H,W] in -1..1 (kt_of_rgb8) to the latent [C,h,w] that the encoder holds for most
 * likely, (mean - shift) * scale, as the sampler wants it.  The encoder is loaded; sides are
 * multiples of the factor. */
kt kiln_vae_encode(const struct kiln_vae *vae, struct kt_scope *s, kt picture);
/* The same with a sample in place of the mean (kt_gaussian): what ZImageImg2ImgPipeline of
 * diffusers 0.42.1 starts from.  noise: [C,h,w] fp32, there the first draw of the seed's generator.
 */
kt kiln_vae_encode_sample(const struct kiln_vae *vae, struct kt_scope *s, kt picture, kt noise);
/* Both, with the first level in strips of so many rows, an even number: two pictures of its width
 * in memory instead of three; 0: in one piece.  noise NULL: the mean.  The two above use strips for
 * pictures of more than KILN_VAE_WHOLE_PIXELS. */
kt kiln_vae_encode_strips(const struct kiln_vae *vae, struct kt_scope *s, kt picture, kt noise,
                          int rows);

#endif
