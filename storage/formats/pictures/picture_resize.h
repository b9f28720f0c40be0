/* picture_resize.h - a picture to the size of a job.
 *
 * A job that starts from a picture and names no size takes the picture's own, each side rounded
 * down to a multiple of KILN_SIDE_STEP; the picture is then resized to that.  So does
 * VaeImageProcessor of diffusers (get_default_height_width with vae_scale_factor 16).  A job that
 * names a size has the picture resized to it, as VaeImageProcessor.preprocess(image, height, width)
 * does: not cropped, so another shape is stretched.
 */
#ifndef KILN_PICTURE_RESIZE_H
#define KILN_PICTURE_RESIZE_H

#include <stdint.h>

#include "schemas/error.h"

/* The size of a job that names none.  Small and large pictures give sides that no job may have (0,
 * or beyond KILN_SIDE_MAX): check the result like any size. */
void kiln_picture_job_size(uint32_t width, uint32_t height, uint32_t *ret_width,
                           uint32_t *ret_height);

/* rgb, [height][width][3], to [out_height][out_width][3], the bytes that Pillow 13 gives for
 * Image.resize((out_width, out_height), Image.LANCZOS): a Lanczos window of three lobes, widened
 * when the picture shrinks, along rows and along columns, with 8 bits between.  Sides are 1 to
 * KILN_PICTURE_SIDE_MAX.  *ret_rgb is malloc'd, also where nothing changes. */
int kiln_picture_resize(const uint8_t *rgb, uint32_t width, uint32_t height, uint32_t out_width,
                        uint32_t out_height, uint8_t **ret_rgb,
                        struct kiln_error *err) KILN_MUST_CHECK;

#endif
