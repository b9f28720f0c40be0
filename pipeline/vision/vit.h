/* vit.h - a Vision Transformer that classifies pictures (Dosovitskiy et al., 2021), in fp32:
 *
 *     x = [class token, patches We + be] + positions
 *     layer:  x += Wo attention(norm(x));  x += W2 gelu(W1 norm(x))
 *     logits = Wc norm(x)[class token]
 *
 * Norms come before the sublayers, GELU is the exact one.  Tensors have the names of Hugging Face's
 * ViTForImageClassification.
 */
#ifndef KILN_VISION_VIT_H
#define KILN_VISION_VIT_H

#include <stdint.h>

#include "pipeline/torch/tensor.h"
#include "pipeline/vision/config.h"

struct kiln_vit;

/* dir: model.safetensors, one file or shards.  A missing tensor, or one of another shape, is an
 * error that names it.  The scope owns the weights. */
int kiln_vit_load(const char *dir, const struct kiln_vision_config *config, struct kt_scope *scope,
                  struct kiln_vit **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_vit_free(struct kiln_vit *vit); /* accepts NULL */

/* rgb [side][side][3], the picture in the encoder's size.  logits: [labels]. */
int kiln_vit_run(const struct kiln_vit *vit, const uint8_t *rgb, float *logits,
                 struct kiln_error *err) KILN_MUST_CHECK;

#endif
