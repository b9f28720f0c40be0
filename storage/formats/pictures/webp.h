/* webp.h - WebP files through libwebp, with optional XMP.
 *
 * Source of the format: libwebp and the WebP container specification (VP8X for metadata).
 */
#ifndef KILN_WEBP_H
#define KILN_WEBP_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_webp_options {
    float quality;   /* 0..100; 85 in Kiln */
    int method;      /* 0..6; 4 in Kiln, 2 is twice as fast */
    int lossless;    /* exact pixels; quality is then effort */
    const char *xmp; /* NULL, or an XMP packet to embed */
    size_t xmp_len;
};

/* rgb: [height][width][3] bytes.  The caller frees *ret_data. */
int kiln_webp_encode(const uint8_t *rgb, uint32_t width, uint32_t height,
                     const struct kiln_webp_options *options, uint8_t **ret_data, size_t *ret_size,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* Refuses pictures of more than max_pixels before decoding.  *ret_rgb is malloc'd. */
int kiln_webp_decode(const uint8_t *data, size_t size, uint64_t max_pixels, uint8_t **ret_rgb,
                     uint32_t *ret_width, uint32_t *ret_height,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* A rectangle in a larger picture. */
struct kiln_webp_window {
    uint8_t *rgb; /* its first pixel */
    uint32_t width, height;
    size_t stride; /* bytes from one row to the next */
};

/* As kiln_webp_decode, scaled to fill the window; the pixels around it are not changed. */
int kiln_webp_decode_scaled(const uint8_t *data, size_t size, uint64_t max_pixels,
                            const struct kiln_webp_window *into,
                            struct kiln_error *err) KILN_MUST_CHECK;

/* The XMP packet inside a file: *ret_xmp malloc'd, NUL-terminated, or NULL if it has none. */
int kiln_webp_xmp(const uint8_t *data, size_t size, char **ret_xmp,
                  struct kiln_error *err) KILN_MUST_CHECK;

/* The metadata in a picture's file: the IPTC label "trainedAlgorithmicMedia" and the
 * parameters that made it.  malloc'd XMP packet, XML-escaped; NULL when memory is short.  A NULL
 * or empty text is left out, as are a parent of 0 and the forwards of an exact run; about == NULL
 * makes the label alone. */
struct kiln_webp_about {
    const char *prompt;  /* as rendered */
    const char *written; /* as written, where that differs; else NULL */
    const char *negative_prompt, *model, *lora_set;
    const char *mode;  /* schemas/job/mode.h; NULL or "": exact */
    const char *start; /* the job or the object that it began from */
    const char *mask;  /* the object of its mask */
    uint64_t seed, parent;
    uint32_t width, height, steps;
    double guidance, forwards; /* of the transformer, in full-size forwards */
};
char *kiln_webp_xmp_packet(const struct kiln_webp_about *about);

#endif
