/* rgb8.h - the decoder's picture to bytes: round(clamp(x/2 + 1/2, 0, 1) * 255), ties to even.
 *
 * A NaN becomes 0 and an infinity the end of its side; the mark tells them from black and white.
 * rgb8_ref.c is the definition; the arithmetic is exact enough that every implementation gives the
 * same bytes.
 */
#ifndef KILN_RGB8_H
#define KILN_RGB8_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_rgb8 {
    const void *x; /* [pixels][channels], -1 .. 1, the first three channels are red, green, blue */
    uint8_t *rgb;  /* [pixels][3] */
    uint32_t *bad; /* set to 1 where one of those values is not finite; or NULL */
    int64_t pixels;
    int channels; /* 3 or more */
    enum kiln_float format;
};

void kiln_rgb8_ref(const struct kiln_rgb8 *args);

/* On the device, bf16 or fp32; the promises of stream.h. */
int kiln_rgb8_launch(const struct kiln_rgb8 *args, kiln_stream stream,
                     struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
