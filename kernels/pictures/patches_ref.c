/* patches_ref.c - see patches.h. */
#include "kernels/pictures/patches.h"

#include <math.h>

/* Calls `each` with the index of a latent's value and of the same value among the tokens. */
KILN_INLINE void walk(const struct kiln_patches *s,
                      void (*each)(const void *args, int64_t item, int64_t latent, int64_t token),
                      const void *args)
{
    const int64_t p = s->patch, down = s->height / p, across = s->width / p;
    const int64_t width = p * p * s->channels;
    for (int64_t item = 0; item < s->items; item++)
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t y = 0; y < s->height; y++)
                for (int64_t x = 0; x < s->width; x++) {
                    const int64_t row = (item * down + y / p) * across + x / p;
                    const int64_t place = (y % p * p + x % p) * s->channels + c;
                    each(args, item, ((item * s->channels + c) * s->height + y) * s->width + x,
                         row * width + place);
                }
}

static void copy_value(const void *args, int64_t item, int64_t latent, int64_t token)
{
    const struct kiln_patchify *a = args;
    (void)item;
    kiln_store(a->tokens, token, a->latent[latent], a->shape.format);
}

void kiln_patchify_ref(const struct kiln_patchify *args)
{
    walk(&args->shape, copy_value, args);
}

static void step_value(const void *args, int64_t item, int64_t latent, int64_t token)
{
    const struct kiln_euler_step *a = args;
    float out = kiln_load(a->with, token, a->shape.format);
    if (a->without)
        out += a->guidance * (out - kiln_load(a->without, token, a->shape.format));
    const float next = a->latent[latent] - a->stride[item] * out;
    a->latent[latent] = next;
    if (a->bad && !isfinite(next))
        a->bad[item] = 1;
}

void kiln_euler_step_ref(const struct kiln_euler_step *args)
{
    walk(&args->shape, step_value, args);
}
