/* picture_read.c - a picture file to RGB: the headers, the decoder of the format, the turn. */
#include "storage/formats/pictures/picture_read.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "storage/formats/pictures/picture_parts.h"
#include "storage/formats/pictures/webp.h"

#define CHANNELS 3

const char *kiln_picture_extension(enum kiln_picture_format format)
{
    return format == KILN_PICTURE_WEBP ? "webp" : format == KILN_PICTURE_PNG ? "png" : "jpg";
}

/* From 5 on, rows become columns. */
static bool swaps_sides(int orientation)
{
    return orientation >= 5 && orientation <= 8;
}

int kiln_picture_probe(const uint8_t *data, size_t size, enum kiln_picture_format *ret_format,
                       uint32_t *ret_width, uint32_t *ret_height, struct kiln_error *err)
{
    struct kiln_picture_header h;
    int code = kiln_picture_header_read(data, size, &h, err);
    if (code)
        return code;
    *ret_format = h.format;
    *ret_width = swaps_sides(h.orientation) ? h.height : h.width;
    *ret_height = swaps_sides(h.orientation) ? h.width : h.height;
    return 0;
}

/* --- turning ---------------------------------------------------------------------------------- */

/* Row 0 and column 0 of the picture as it is stored are, by EXIF:
 *     1 top, left     2 top, right    3 bottom, right   4 bottom, left
 *     5 left, top     6 right, top    7 right, bottom   8 left, bottom
 * Pixel (x, y) of the result, in width x height as stored. */
static const uint8_t *stored_pixel(const uint8_t *rgb, const struct kiln_picture_header *h,
                                   uint32_t x, uint32_t y)
{
    const int o = h->orientation;
    uint32_t column = swaps_sides(o) ? y : x, row = swaps_sides(o) ? x : y;
    if (o == 2 || o == 3 || o == 7 || o == 8)
        column = h->width - 1 - column;
    if (o == 3 || o == 4 || o == 6 || o == 7)
        row = h->height - 1 - row;
    return rgb + ((size_t)row * h->width + column) * CHANNELS;
}

/* Replaces *rgb by the turned picture. */
static int turn(uint8_t **rgb, const struct kiln_picture_header *h, uint32_t width, uint32_t height,
                struct kiln_error *err)
{
    uint8_t *turned = malloc((size_t)width * height * CHANNELS), *to = turned;
    if (!turned)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to turn a picture of %ux%u pixels", width,
                         height);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++, to += CHANNELS)
            memcpy(to, stored_pixel(*rgb, h, x, y), CHANNELS);
    free(*rgb);
    *rgb = turned;
    return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int decode_webp(const uint8_t *data, size_t size, const struct kiln_picture_header *h,
                       uint8_t *rgb, struct kiln_error *err)
{
    const struct kiln_webp_window whole = {rgb, h->width, h->height, (size_t)h->width * CHANNELS};
    return kiln_webp_decode_scaled(data, size, KILN_PICTURE_PIXELS_MAX, &whole, err);
}

int kiln_picture_read(const uint8_t *data, size_t size, struct kiln_picture_pixels *ret,
                      struct kiln_error *err)
{
    struct kiln_picture_header h;
    int code = kiln_picture_header_read(data, size, &h, err);
    if (code)
        return code;
    uint8_t *rgb = malloc((size_t)h.width * h.height * CHANNELS);
    if (!rgb)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a picture of %ux%u pixels", h.width,
                         h.height);
    code = h.format == KILN_PICTURE_WEBP  ? decode_webp(data, size, &h, rgb, err)
           : h.format == KILN_PICTURE_PNG ? kiln_png_decode(data, size, &h, rgb, err)
                                          : kiln_jpeg_decode(data, size, &h, rgb, err);
    const bool swap = swaps_sides(h.orientation);
    const uint32_t width = swap ? h.height : h.width, height = swap ? h.width : h.height;
    if (!code && h.orientation >= 2 && h.orientation <= 8)
        code = turn(&rgb, &h, width, height, err);
    if (code) {
        free(rgb);
        return code;
    }
    *ret = (struct kiln_picture_pixels){.rgb = rgb, .width = width, .height = height};
    return 0;
}
