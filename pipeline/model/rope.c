/* rope.c - tables of rotation angles; see rope.h.
 *
 * The roundings follow the reference implementations, because a position of a few hundred times
 * a frequency that is off by one unit in the last place moves the angle visibly: the text
 * encoder's ladder is fp32 throughout, the transformer's is fp64 up to the angle.
 */
#include "pipeline/model/rope.h"

#include <math.h>
#include <stdlib.h>

/* A host table under construction: rows of half angles each. */
struct angles {
    float *cos, *sin;
    int64_t rows, half;
};

static struct angles angles_new(struct kt_scope *s, int64_t rows, int64_t half)
{
    const size_t size = (size_t)(rows * half) * sizeof(float);
    struct angles a = {malloc(size), malloc(size), rows, half};
    struct kiln_error err;
    if (a.cos && a.sin)
        return a;
    a.rows = 0;
    kiln_fail(&err, KILN_NO_MEMORY, "no memory for the rotation table of %lld rows",
              (long long)rows);
    kt_scope_fail(s, &err);
    return a;
}

static void put(struct angles *a, int64_t row, int64_t i, float angle)
{
    a->cos[row * a->half + i] = cosf(angle);
    a->sin[row * a->half + i] = sinf(angle);
}

/* Uploads the table, unless s has failed, and frees the host's copy. */
static struct kiln_rope upload(struct angles a, struct kt_scope *s)
{
    const int64_t shape[2] = {a.rows, a.half};
    const struct kiln_rope rope = {kt_from_host(s, a.cos, KT_F32, KT_F32, 2, shape),
                                   kt_from_host(s, a.sin, KT_F32, KT_F32, 2, shape)};
    free(a.cos);
    free(a.sin);
    return rope;
}

struct kiln_rope kiln_rope_text(struct kt_scope *s, const struct kiln_text_config *config,
                                int64_t rows)
{
    struct angles a = angles_new(s, rows, config->head_dim / 2);
    for (int64_t i = 0; i < a.half; i++) {
        float exponent = (float)(2 * i) / (float)config->head_dim;
        float frequency = 1.0f / (float)pow(config->rope_theta, exponent);
        for (int64_t row = 0; row < a.rows; row++)
            put(&a, row, i, (float)row * frequency);
    }
    return upload(a, s);
}

struct kiln_rope kiln_rope_joint(struct kt_scope *s, const struct kiln_transformer_config *config,
                                 int64_t grid_height, int64_t grid_width, int64_t image_pad,
                                 int64_t caption_rows)
{
    const int64_t tokens = grid_height * grid_width, image_rows = tokens + image_pad;
    struct angles a = angles_new(s, image_rows + caption_rows, config->head_dim / 2);
    for (int axis = 0, at = 0; axis < KILN_ROPE_AXES; axis++)
        for (int i = 0; i < config->axes[axis] / 2; i++, at++) {
            const double frequency = 1.0 / pow(config->rope_theta, 2.0 * i / config->axes[axis]);
            for (int64_t row = 0; row < a.rows; row++) {
                int64_t place = 0;
                if (row >= image_rows)
                    place = axis == 0 ? 1 + row - image_rows : 0;
                else if (row < tokens)
                    place = axis == 0   ? caption_rows + 1
                            : axis == 1 ? row / grid_width
                                        : row % grid_width;
                put(&a, row, at, (float)((double)place * frequency));
            }
        }
    return upload(a, s);
}

struct kiln_rope kiln_rope_rows(struct kt_scope *s, struct kiln_rope rope, int64_t start,
                                int64_t rows)
{
    return (struct kiln_rope){kt_narrow(s, rope.cos, 0, start, rows),
                              kt_narrow(s, rope.sin, 0, start, rows)};
}
