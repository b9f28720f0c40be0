/* resample.h - a picture brought to another size with the arithmetic of Pillow's Image.resize.
 *
 * Classifiers are trained on pictures that Pillow has resized: each output pixel is a weighted mean
 * of the pixels under its filter, which widens with the reduction (so small pictures do not alias).
 * First along lines, then along columns, rounded to 8 bits in between, with weights of 22 bits:
 * Pillow's src/libImaging/Resample.c defines it.  (Pillow 13 begins with the columns for some sizes,
 * which changes values by at most 1.)
 */
#ifndef KILN_VISION_RESAMPLE_H
#define KILN_VISION_RESAMPLE_H

#include <stdint.h>

#include "pipeline/vision/config.h"

/* rgb [height][width][3]; *ret [out_height][out_width][3], the caller frees it. */
int kiln_resample_rgb(const uint8_t *rgb, uint32_t width, uint32_t height,
                      enum kiln_resample filter, uint32_t out_width, uint32_t out_height,
                      uint8_t **ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
