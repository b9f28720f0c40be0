/* picture_mask.h - a mask picture as values of the latent: which of them an inpainting run renders
 * anew, and which it keeps.
 *
 * As in ZImageInpaintPipeline of diffusers (0.42.1, masks through its load_image): the picture is
 * resized to the job's size as any other (picture_resize.h), made grey (ITU-R 601-2 luma, as PIL's
 * convert("L")), and black or white: below 128 it keeps.  Of the pixels of one value, 8 times 8 for
 * Z-Image, the first one counts (torch's nearest interpolation), so thinner lines may be lost, and
 * soft edges become hard ones.
 */
#ifndef KILN_PICTURE_MASK_H
#define KILN_PICTURE_MASK_H

#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job/coarse.h"

/* Whether a mask belongs to a picture that a job of some size starts from: it has the shape of the
 * one or of the other, to within one pixel of its own.  diffusers stretches a mask of any shape,
 * which then covers other things than it was drawn over.  KILN_BAD_INPUT. */
int kiln_mask_check(struct kiln_picture_size mask, struct kiln_picture_size picture,
                    struct kiln_picture_size job, struct kiln_error *err) KILN_MUST_CHECK;

/* rgb, [height][width][3], to [job.height / factor][job.width / factor] values of 1 (anew) and 0
 * (kept), malloc'd.  factor: pixels along a side of one value of the latent; the sides of the job
 * are multiples of it. */
int kiln_picture_mask(const uint8_t *rgb, uint32_t width, uint32_t height,
                      struct kiln_picture_size job, uint32_t factor, float **ret_grid,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
