/* latent_enlarge_ref.c - see latent_enlarge.h. */
#include "kernels/pictures/latent_enlarge.h"

#include <math.h>

#define A (-0.75f)

/* Where four neighbours lie along one axis, and their weights. */
struct taps {
    int at[4];
    float weight[4];
};

/* Keys' cubic kernel at distance up to 1, and from 1 to 2. */
static float near_weight(float d)
{
    return ((A + 2.0f) * d - (A + 3.0f)) * d * d + 1.0f;
}

static float far_weight(float d)
{
    return ((A * d - 5.0f * A) * d + 8.0f * A) * d - 4.0f * A;
}

static struct taps taps_of(int out, float scale, int size)
{
    const float real = scale * ((float)out + 0.5f) - 0.5f, base = floorf(real), t = real - base;
    struct taps taps = {.weight = {far_weight(t + 1.0f), near_weight(t), near_weight(1.0f - t),
                                   far_weight(2.0f - t)}};
    for (int i = 0; i < 4; i++) {
        const int at = (int)base - 1 + i;
        taps.at[i] = at < 0 ? 0 : at < size ? at : size - 1;
    }
    return taps;
}

static float weighted(const float *line, const struct taps *x)
{
    return line[x->at[0]] * x->weight[0] + line[x->at[1]] * x->weight[1] +
           line[x->at[2]] * x->weight[2] + line[x->at[3]] * x->weight[3];
}

void kiln_latent_enlarge_ref(const struct kiln_latent_enlarge *args)
{
    const float s = args->sigma;
    const float down = (float)args->height / (float)args->out_height;
    const float across = (float)args->width / (float)args->out_width;
    for (int row = 0; row < args->out_height; row++) {
        const struct taps y = taps_of(row, down, args->height);
        for (int column = 0; column < args->out_width; column++) {
            const struct taps x = taps_of(column, across, args->width);
            for (int c = 0; c < args->channels; c++) {
                const float *plane = args->clean + (int64_t)c * args->height * args->width;
                float enlarged = 0;
                for (int i = 0; i < 4; i++)
                    enlarged += weighted(plane + (int64_t)y.at[i] * args->width, &x) * y.weight[i];
                const int64_t i = ((int64_t)c * args->out_height + row) * args->out_width + column;
                args->x[i] = (1.0f - s) * enlarged + s * args->noise[i];
            }
        }
    }
}
