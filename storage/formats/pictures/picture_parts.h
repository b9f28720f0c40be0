/* picture_parts.h - what the files of the picture reader share. */
#ifndef KILN_PICTURE_PARTS_H
#define KILN_PICTURE_PARTS_H

#include "storage/formats/pictures/picture_read.h"

struct kiln_picture_header {
    enum kiln_picture_format format;
    uint32_t width, height; /* as stored, before the picture is turned */
    int orientation;        /* EXIF's 1 to 8; another number counts as 1 */
};

/* --- picture_header.c ------------------------------------------------------------------------- */
/* The headers of a file, without a decoder; refuses other formats, animations, and sizes beyond the
 * limits. */
int kiln_picture_header_read(const uint8_t *data, size_t size, struct kiln_picture_header *ret,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* --- picture_png.c, picture_jpeg.c ------------------------------------------------------------ */
/* Decode into rgb, [height][width][3] of the header. */
int kiln_png_decode(const uint8_t *data, size_t size, const struct kiln_picture_header *header,
                    uint8_t *rgb, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_jpeg_decode(const uint8_t *data, size_t size, const struct kiln_picture_header *header,
                     uint8_t *rgb, struct kiln_error *err) KILN_MUST_CHECK;

#endif
