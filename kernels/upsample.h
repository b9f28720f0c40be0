/* upsample.h - a picture to twice its sides, every pixel four times; channels last.
 *
 * upsample_ref.c is the meaning.
 */
#ifndef KILN_UPSAMPLE_H
#define KILN_UPSAMPLE_H

#include <stdint.h>

#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_upsample {
    const void *x; /* [items][height][width][channels] of 16-bit values */
    void *y;       /* [items][2*height][2*width][channels] */
    int64_t items;
    int height, width, channels;
};

void kiln_upsample_ref(const struct kiln_upsample *args);

/* On the device; the promises of stream.h. */
int kiln_upsample_launch(const struct kiln_upsample *args, kiln_stream stream,
                         struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
