/* roofline.h - the work in a forward of the transformer, and the least time for it.
 *
 * Work is two operations for each multiply-add of the matrix products; norms and gates do not
 * count. The ceilings are the rates that one card reached on exactly these products.  A forward's
 * share of its ceiling is therefore the part of its time that is spent on products.
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

/* Milliseconds on KILN_CEILING_CARD if each product ran at its ceiling and nothing else took time.
 * e4m3: the products of joint layers and noise refiner are in FP8. */
double kiln_forward_ceiling_ms(const struct kiln_transformer_config *c,
                               struct kiln_forward_size size, bool e4m3);

#endif
