/* picture_read.h - the picture files that people give: WebP, PNG and JPEG to RGB.
 *
 * The pixels are those of diffusers' load_image, which is PIL's ImageOps.exif_transpose and
 * convert("RGB"): turned as EXIF says, or XMP where there is no EXIF; grey, palettes and CMYK
 * become RGB; alpha is dropped, whatever colour lies under it; profiles and gamma are ignored.  Of
 * 16 bits the upper 8 count, also in grey pictures, where PIL would make everything above 255
 * white.
 *
 * The content decides on the format, not a file's name, and bytes behind the picture are ignored.
 * Files are hostile: sizes are checked before memory is allocated (limits.h), and animations,
 * damaged and cut files are refused.
 */
#ifndef KILN_PICTURE_READ_H
#define KILN_PICTURE_READ_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

enum kiln_picture_format { KILN_PICTURE_WEBP, KILN_PICTURE_PNG, KILN_PICTURE_JPEG };

/* "webp", "png" or "jpg": what a file of the format is stored under. */
const char *kiln_picture_extension(enum kiln_picture_format format);

struct kiln_picture_pixels {
    uint8_t *rgb; /* [height][width][3]; the caller frees it */
    uint32_t width, height;
};

/* Format and size, turned as EXIF says, from the headers alone: quick, and allocates nothing.
 * KILN_UNSUPPORTED for another format or an animation, KILN_BAD_INPUT beyond the limits,
 * KILN_CORRUPT for headers that make no sense.  Damage further in is found by kiln_picture_read. */
int kiln_picture_probe(const uint8_t *data, size_t size, enum kiln_picture_format *ret_format,
                       uint32_t *ret_width, uint32_t *ret_height,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* The whole picture; the same errors, and KILN_NO_MEMORY.  Messages do not know the file's name. */
int kiln_picture_read(const uint8_t *data, size_t size, struct kiln_picture_pixels *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
