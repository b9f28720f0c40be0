/* latent_mix.h - latents taken apart into picture and noise, and put together from several.
 *
 * A latent at noise level s is x = (1-s)*clean + s*noise, and the model's velocity is
 * v = noise - clean (minus its output), hence
 *
 *     split:  clean = x - s*v,   noise = x + (1-s)*v
 *     mix:    x = (1-s) * sum(clean_weight[i] * clean[i]) + s * sum(noise_weight[i] * noise[i])
 *     slerp:  along the arc from a to b, t of the way; along the line where they are parallel
 *
 * A mix keeps the signal where its clean weights sum to 1, and the noise level where the squares of
 * its noise weights do; both are the caller's to choose.  slerp is right for pure noise alone: it
 * scales what two latents have in common.  All in fp32.  latent_mix_ref.c is the definition.
 */
#ifndef KILN_LATENT_MIX_H
#define KILN_LATENT_MIX_H

#include <stdint.h>

#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_MIX_MAX 5 /* donors of one latent */

struct kiln_latent_split {
    const float *x, *velocity; /* [n] */
    float *clean, *noise;      /* [n]; may be the operands; either may be NULL */
    int64_t n;
    float sigma; /* 0 .. 1 */
};

struct kiln_latent_mix {
    const float *clean[KILN_MIX_MAX], *noise[KILN_MIX_MAX]; /* each [n] */
    float clean_weight[KILN_MIX_MAX], noise_weight[KILN_MIX_MAX];
    int clean_count, noise_count; /* 0 .. KILN_MIX_MAX */
    float *x;                     /* [n]; may be one of the operands */
    int64_t n;
    float sigma; /* 0 .. 1 */
};

struct kiln_slerp {
    const float *a, *b; /* [n] */
    float *x;           /* [n]; may be a or b */
    int64_t n;
    float t;           /* 0 .. 1 */
    double *workspace; /* KILN_SLERP_WORKSPACE values of device memory */
};

#define KILN_SLERP_PARTS_MAX 512
#define KILN_SLERP_WORKSPACE (3 * KILN_SLERP_PARTS_MAX)

/* Below this sine the two are parallel or opposite, and the arc is taken for the line. */
#define KILN_SLERP_PARALLEL 1e-4

void kiln_latent_split_ref(const struct kiln_latent_split *args);
void kiln_latent_mix_ref(const struct kiln_latent_mix *args);
void kiln_slerp_ref(const struct kiln_slerp *args);

/* On the device; the promises of stream.h. */
int kiln_latent_split_launch(const struct kiln_latent_split *args, kiln_stream stream,
                             struct kiln_error *err) KILN_MUST_CHECK;
int kiln_latent_mix_launch(const struct kiln_latent_mix *args, kiln_stream stream,
                           struct kiln_error *err) KILN_MUST_CHECK;
int kiln_slerp_launch(const struct kiln_slerp *args, kiln_stream stream,
                      struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
