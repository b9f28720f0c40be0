/* picture_write.h - pictures as files for people: WebP, PNG or JPEG, with what made them inside.
 *
 * The parameters are a text that other programs read ("parameters" of AUTOMATIC1111, which
 * ComfyUI's readers and Civitai understand too): in PNG a text chunk of that name, in JPEG and WebP
 * the EXIF tag UserComment.  The XMP packet (webp.h) goes beside it.
 */
#ifndef KILN_PICTURE_WRITE_H
#define KILN_PICTURE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "storage/formats/pictures/picture_read.h"
#include "storage/formats/pictures/webp.h"

/* "webp", "png", "jpeg" or "jpg"; -1 for anything else. */
int kiln_picture_format_by_name(const char *name);
/* By the ending of a path, in any case: -1 for that of another picture format (.gif); any other
 * ending, or none, is WebP. */
int kiln_picture_format_of_path(const char *path);

struct kiln_picture_metadata {
    const char *parameters, *xmp; /* UTF-8; NULL for none */
};

/* "PROMPT\nNegative prompt: ...\nSteps: 8, Sampler: Euler, CFG scale: 1, Seed: 7, Size: 64x64,
 * ...". LoRAs are named as "<lora:NAME:SCALE>" behind the prompt.  The CFG scale of other programs
 * is 1 + Kiln's guidance.  model_hash: a SHA-256 in hex, of which ten digits are named, or NULL.
 * malloc'd; NULL when memory is short. */
char *kiln_picture_parameters(const struct kiln_webp_about *about, const char *model_hash);

/* A TIFF block with Software and UserComment, as EXIF holds it.  malloc'd, NULL: no memory. Source:
 * CIPA DC-008 (Exif 2.32), TIFF 6.0; UTF-16 in the byte order of the block, which is big endian. */
uint8_t *kiln_picture_exif(const char *parameters, size_t *ret_size);

/* rgb: [height][width][3].  options are for WebP; their xmp is not used.  The caller frees
 * *ret_data.  A JPEG has segments of up to 64 KiB: a text that is longer is left out. */
int kiln_picture_write(enum kiln_picture_format format, const uint8_t *rgb, uint32_t width,
                       uint32_t height, const struct kiln_webp_options *options,
                       const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                       size_t *ret_size, struct kiln_error *err) KILN_MUST_CHECK;
/* The same from a stored WebP file.  As WebP its pixels are not encoded again. */
int kiln_picture_convert(enum kiln_picture_format format, const uint8_t *webp, size_t size,
                         const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                         size_t *ret_size, struct kiln_error *err) KILN_MUST_CHECK;

/* Of one format each; used by the above. */
int kiln_png_write(const uint8_t *rgb, uint32_t width, uint32_t height,
                   const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                   size_t *ret_size, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_jpeg_write(const uint8_t *rgb, uint32_t width, uint32_t height,
                    const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                    size_t *ret_size, struct kiln_error *err) KILN_MUST_CHECK;
/* Adds EXIF, and XMP where the file has none. */
int kiln_webp_annotate(const uint8_t *data, size_t size,
                       const struct kiln_picture_metadata *metadata, uint8_t **ret_data,
                       size_t *ret_size, struct kiln_error *err) KILN_MUST_CHECK;
/* What was added last: EXIF, and with xmp the XMP packet too.  Of a file that kiln_webp_annotate
 * made, one of the two gives the bytes that it was made from. */
int kiln_webp_strip(const uint8_t *data, size_t size, bool xmp, uint8_t **ret_data,
                    size_t *ret_size, struct kiln_error *err) KILN_MUST_CHECK;

#endif
