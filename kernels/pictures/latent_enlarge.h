/* latent_enlarge.h - a clean latent at another size and noise level: the start of a run.
 *
 *     x = (1 - sigma) * enlarged + sigma * noise
 *
 * `enlarged` is the clean latent at the size of the noise, channel by channel: bicubic with
 * a = -0.75 over four times four neighbours, the centres of corner pixels not aligned, edges
 * repeated.  That is torch.nn.functional.interpolate(mode="bicubic") in fp32.  At the same size it
 * is the clean latent itself, bit for bit.  A smaller size is sampled, not averaged.
 * latent_enlarge_ref.c is the definition.
 */
#ifndef KILN_LATENT_ENLARGE_H
#define KILN_LATENT_ENLARGE_H

#include <stdint.h>
#include <sys/cdefs.h>

#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_latent_enlarge {
    const float *clean; /* [channels][height][width] */
    const float *noise; /* [channels][out_height][out_width] */
    float *x;           /* the same; may be noise */
    int channels, height, width, out_height, out_width;
    float sigma; /* 0 .. 1 */
};

void kiln_latent_enlarge_ref(const struct kiln_latent_enlarge *args);

/* On the device; the promises of stream.h. */
int kiln_latent_enlarge_launch(const struct kiln_latent_enlarge *args, kiln_stream stream,
                               struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
