/* patches.h - between the latent picture and the transformer's rows, and the sampler's Euler step.
 *
 *     patchify:    tokens[item][y*W/p + x][(i*p + j)*C + c] = latent[item][c][y*p + i][x*p + j]
 *     euler_step:  latent += stride[item] * -(with + guidance * (with - without))
 *
 * the step reading the transformer's rows in the same order.  The latent and all sums are
 * fp32; strides lie in device memory, so that a recorded graph serves every step and items of a
 * batch may be at different ones.
 * patches_ref.c is the definition.
 */
#ifndef KILN_PATCHES_H
#define KILN_PATCHES_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_patches {
    int64_t items;
    int channels, height, width; /* of the latent: height and width are multiples of patch */
    int patch;
    enum kiln_float format; /* of the tokens */
};

struct kiln_patchify {
    struct kiln_patches shape;
    const float *latent; /* [items][channels][height][width] */
    void *tokens;        /* [items][patches][patch*patch*channels] */
};

struct kiln_euler_step {
    struct kiln_patches shape;
    const void *with;    /* the transformer's output, [items][patches][patch*patch*channels] */
    const void *without; /* that of the negative prompt; NULL without guidance */
    float guidance;
    const float *stride; /* [items], device memory: next sigma minus this one */
    float *latent;       /* [items][channels][height][width], moved in place */
    uint32_t *bad;       /* [items], device memory: set to 1 where a value is not finite; or NULL */
};

/* For the lines of patches from begin to end - 1; there are items * height / patch. */
void kiln_patchify_ref(const struct kiln_patchify *args, int64_t begin, int64_t end);
void kiln_euler_step_ref(const struct kiln_euler_step *args, int64_t begin, int64_t end);

/* On the device, tokens in bf16; the promises of stream.h. */
int kiln_patchify_launch(const struct kiln_patchify *args, kiln_stream stream,
                         struct kiln_error *err) KILN_MUST_CHECK;
int kiln_euler_step_launch(const struct kiln_euler_step *args, kiln_stream stream,
                           struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
