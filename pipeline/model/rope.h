/* rope.h - rotary position embedding: tables of cos and sin, fp32, [rows, head_dim/2].
 *
 * The text encoder rotates a head by one position.  The transformer splits a head into three axes
 * (place in the sequence, row, column), each with its own frequencies.
 */
#ifndef KILN_ROPE_H
#define KILN_ROPE_H

#include "pipeline/model/config.h"
#include "pipeline/torch/tensor.h"

struct kiln_rope {
    kt cos, sin;
};

/* Positions 0 .. rows-1. */
struct kiln_rope kiln_rope_text(struct kt_scope *s, const struct kiln_text_config *config,
                                int64_t rows);

/* The joint sequence, image first: token (h, w) at (caption_rows + 1, h, w); image_pad rows at
 * (0, 0, 0); caption slot k, pads included, at (1 + k, 0, 0).  caption_rows is the padded
 * length, on which the image's angles therefore depend.  An empty grid: the caption alone. */
struct kiln_rope kiln_rope_joint(struct kt_scope *s, const struct kiln_transformer_config *config,
                                 int64_t grid_height, int64_t grid_width, int64_t image_pad,
                                 int64_t caption_rows);

struct kiln_rope kiln_rope_rows(struct kt_scope *s, struct kiln_rope rope, int64_t start,
                                int64_t rows);

#endif
