/* roofline.h - the work in a forward of the transformer, and the time it cannot be done in less.
 *
 * Work is 2 operations a multiply-add of every matrix product; norms and gates are not counted.
 * The ceilings are what one card was measured to reach on exactly these products, so the share of
 * them says how much of a forward is anything else.
 */
#ifndef KILN_ROOFLINE_H
#define KILN_ROOFLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/model/config.h"

#define KILN_CEILING_CARD "NVIDIA H200"

/* A forward of one item: rows of its image and of its caption, both with their padding. */
struct kiln_forward_size {
    int64_t image_rows, caption_rows;
};

/* width, height in pixels; tokens of the wrapped prompt. */
struct kiln_forward_size kiln_forward_size(const struct kiln_model_config *c, int width, int height,
                                           int64_t tokens);

double kiln_forward_flops(const struct kiln_transformer_config *c, struct kiln_forward_size size);

/* Milliseconds on KILN_CEILING_CARD if every product ran at its ceiling and nothing else took
 * time.  e4m3: the products of joint layers and noise refiner are of 8-bit floats. */
double kiln_forward_ceiling_ms(const struct kiln_transformer_config *c,
                               struct kiln_forward_size size, bool e4m3);

#endif
