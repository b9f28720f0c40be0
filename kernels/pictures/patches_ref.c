/* patches_ref.c - see patches.h. */
#include "kernels/pictures/patches.h"

#include <math.h>

/* A line of patches: where its first token is, and its place in the item's first channel. */
struct line {
    int64_t item, token, latent;
};

KILN_INLINE struct line line_of(const struct kiln_patches *s, int64_t index)
{
    const int64_t p = s->patch, down = s->height / p, item = index / down;
    return (struct line){item, index * s->width * p * s->channels,
                         (item * s->channels * s->height + index % down * p) * s->width};
}

/* Calls `each` with the index of a token's value and of the same value in the latent, for all
 * values of a line, in the order of the tokens. */
KILN_INLINE void walk(const struct kiln_patches *s, const struct line *line,
                      void (*each)(const void *args, int64_t item, int64_t latent, int64_t token),
                      const void *args)
{
    const int64_t plane = (int64_t)s->height * s->width;
    int64_t token = line->token;
    for (int64_t x = 0; x < s->width; x += s->patch)
        for (int64_t i = 0; i < s->patch; i++)
            for (int64_t j = 0; j < s->patch; j++)
                for (int64_t c = 0; c < s->channels; c++)
                    each(args, line->item, line->latent + c * plane + i * s->width + x + j,
                         token++);
}

KILN_INLINE void copy_value(const void *args, int64_t item, int64_t latent, int64_t token)
{
    const struct kiln_patchify *a = args;
    (void)item;
    kiln_store(a->tokens, token, a->latent[latent], a->shape.format);
}

void kiln_patchify_ref(const struct kiln_patchify *args, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const struct line line = line_of(&args->shape, i);
        walk(&args->shape, &line, copy_value, args);
    }
}

KILN_INLINE void step_value(const void *args, int64_t item, int64_t latent, int64_t token)
{
    const struct kiln_euler_step *a = args;
    float out = kiln_load(a->with, token, a->shape.format);
    if (a->without)
        out += a->guidance * (out - kiln_load(a->without, token, a->shape.format));
    const float next = a->latent[latent] - a->stride[item] * out;
    a->latent[latent] = next;
    if (a->bad && !isfinite(next))
        __atomic_store_n(&a->bad[item], 1, __ATOMIC_RELAXED); /* other lines may do the same */
}

void kiln_euler_step_ref(const struct kiln_euler_step *args, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const struct line line = line_of(&args->shape, i);
        walk(&args->shape, &line, step_value, args);
    }
}
