/* rgb8_ref.c - see rgb8.h. */
#include "kernels/pictures/rgb8.h"

#include <math.h>

void kiln_rgb8_ref(const struct kiln_rgb8 *args)
{
    for (int64_t i = 0; i < 3 * args->pixels; i++) {
        const float x = kiln_load(args->x, i / 3 * args->channels + i % 3, args->format);
        /* Halving is exact; the sum and the product round once each, here as on any device. */
        const float unit = fminf(fmaxf(x * 0.5f + 0.5f, 0.0f), 1.0f);
        args->rgb[i] = (uint8_t)rintf(unit * 255.0f);
        if (args->bad && !isfinite(x))
            *args->bad = 1;
    }
}
