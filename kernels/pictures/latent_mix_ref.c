/* latent_mix_ref.c - see latent_mix.h. */
#include "kernels/pictures/latent_mix.h"

#include <math.h>

void kiln_latent_split_ref(const struct kiln_latent_split *args)
{
    const float s = args->sigma;
    for (int64_t i = 0; i < args->n; i++) {
        const float x = args->x[i], v = args->velocity[i];
        if (args->clean)
            args->clean[i] = x - s * v;
        if (args->noise)
            args->noise[i] = x + (1.0f - s) * v;
    }
}

void kiln_latent_mix_ref(const struct kiln_latent_mix *args)
{
    for (int64_t i = 0; i < args->n; i++) {
        float clean = 0, noise = 0;
        for (int k = 0; k < args->clean_count; k++)
            clean += args->clean_weight[k] * args->clean[k][i];
        for (int k = 0; k < args->noise_count; k++)
            noise += args->noise_weight[k] * args->noise[k][i];
        args->x[i] = (1.0f - args->sigma) * clean + args->sigma * noise;
    }
}

void kiln_slerp_ref(const struct kiln_slerp *args)
{
    double aa = 0, bb = 0, ab = 0;
    for (int64_t i = 0; i < args->n; i++) {
        const double a = (double)args->a[i], b = (double)args->b[i];
        aa += a * a;
        bb += b * b;
        ab += a * b;
    }
    const double t = (double)args->t, size = sqrt(aa * bb);
    double cosine = size > 0 ? ab / size : 1;
    cosine = cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
    const double angle = acos(cosine), sine = sin(angle);
    double wa = 1 - t, wb = t;
    if (sine > KILN_SLERP_PARALLEL) {
        wa = sin((1 - t) * angle) / sine;
        wb = sin(t * angle) / sine;
    }
    const float fa = (float)wa, fb = (float)wb;
    for (int64_t i = 0; i < args->n; i++)
        args->x[i] = fa * args->a[i] + fb * args->b[i];
}
