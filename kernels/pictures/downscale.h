/* downscale.h - RGB8 to a smaller RGB8, by area averaging in linear light.
 *
 * Each output pixel is the mean of the source area it covers (fractional edges weighted), taken
 * in linear light (sRGB transfer of IEC 61966-2-1): averaging stored values would darken fine
 * bright detail.  Rounded to nearest.  downscale_ref.c is the definition.
 */
#ifndef KILN_DOWNSCALE_H
#define KILN_DOWNSCALE_H

#include <stdint.h>

#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* src [height][width][3] to dst [out_height][out_width][3]; out sides <= source sides, > 0. */
void kiln_downscale_ref(const uint8_t *src, uint32_t width, uint32_t height, uint8_t *dst,
                        uint32_t out_width, uint32_t out_height);

/* The two tables, for an implementation elsewhere: light[256] of a stored value, 16 bits, and
 * stored[65536] back, to nearest.  Made once, never freed. */
void kiln_downscale_tables(const uint16_t **ret_light, const uint8_t **ret_stored);

/* A picture on the device: the same bytes as the reference's. */
struct kiln_downscale {
    const uint8_t *src;                            /* [height][width][3] */
    uint8_t *dst;                                  /* [out_height][out_width][3], apart from src */
    uint32_t width, height, out_width, out_height; /* out sides <= source sides, > 0 */
    const uint16_t *light;                         /* the tables above, copied to the device */
    const uint8_t *stored;
};
int kiln_downscale_launch(const struct kiln_downscale *args, kiln_stream stream,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* The size with `longest` as its longer side and the source's shape, each side >= 1, rounded to
 * nearest.  Returns 0 if the source is not larger than that: pictures are never enlarged. */
int kiln_downscale_fit(uint32_t width, uint32_t height, uint32_t longest, uint32_t *ret_width,
                       uint32_t *ret_height);

#ifdef __cplusplus
}
#endif
#endif
