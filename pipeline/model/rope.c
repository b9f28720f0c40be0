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

static bool angles_new(struct angles *a, struct kt_scope *s, int64_t rows, int64_t half)
{
    *a = (struct angles){.rows = rows, .half = half};
    a->cos = malloc((size_t)(rows * half) * sizeof *a->cos);
    a->sin = malloc((size_t)(rows * half) * sizeof *a->sin);
    if (a->cos && a->sin)
        return true;
    struct kiln_error err;
    kiln_fail(&err, KILN_NO_MEMORY, "no memory for the rotation table of %lld rows",
              (long long)rows);
    kt_scope_fail(s, &err);
    return false;
}

static void put(struct angles *a, int64_t row, int64_t i, float angle)
{
    a->cos[row * a->half + i] = cosf(angle);
    a->sin[row * a->half + i] = sinf(angle);
}

/* Uploads the table (unless its memory was not there) and frees the host copy. */
static struct kiln_rope angles_finish(struct angles *a, struct kt_scope *s)
{
    struct kiln_rope rope = {NULL, NULL};
    const int64_t shape[2] = {a->rows, a->half};
    if (a->cos && a->sin) {
        rope.cos = kt_from_host(s, a->cos, KT_F32, KT_F32, 2, shape);
        rope.sin = kt_from_host(s, a->sin, KT_F32, KT_F32, 2, shape);
    }
    free(a->cos);
    free(a->sin);
    return rope;
}

struct kiln_rope kiln_rope_text(struct kt_scope *s, const struct kiln_text_config *config,
                                int64_t rows)
{
    struct angles a;
    if (angles_new(&a, s, rows, config->head_dim / 2))
        for (int64_t i = 0; i < a.half; i++) {
            float exponent = (float)(2 * i) / (float)config->head_dim;
            float frequency = 1.0f / (float)pow(config->rope_theta, exponent);
            for (int64_t row = 0; row < rows; row++)
                put(&a, row, i, (float)row * frequency);
        }
    return angles_finish(&a, s);
}

/* The frequencies of a head, axis after axis; NULL with the scope's error set. */
static double *ladder(struct kt_scope *s, const struct kiln_transformer_config *config)
{
    double *frequencies = malloc((size_t)config->head_dim / 2 * sizeof *frequencies);
    if (!frequencies) {
        struct kiln_error err;
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for the rotation frequencies");
        kt_scope_fail(s, &err);
        return NULL;
    }
    for (int axis = 0, at = 0; axis < KILN_ROPE_AXES; axis++)
        for (int i = 0; i < config->axes[axis] / 2; i++)
            frequencies[at++] = 1.0 / pow(config->rope_theta, 2.0 * i / config->axes[axis]);
    return frequencies;
}

/* One row of the three-axis table. */
static void put_position(struct angles *a, const struct kiln_transformer_config *config,
                         const double *frequencies, int64_t row,
                         const int64_t position[KILN_ROPE_AXES])
{
    for (int axis = 0, at = 0; axis < KILN_ROPE_AXES; axis++)
        for (int i = 0; i < config->axes[axis] / 2; i++, at++)
            put(a, row, at, (float)((double)position[axis] * frequencies[at]));
}

static void put_caption(struct angles *a, const struct kiln_transformer_config *config,
                        const double *frequencies, int64_t row, int64_t rows)
{
    for (int64_t k = 0; k < rows; k++)
        put_position(a, config, frequencies, row + k, (int64_t[KILN_ROPE_AXES]){1 + k, 0, 0});
}

struct kiln_rope kiln_rope_caption(struct kt_scope *s, const struct kiln_transformer_config *config,
                                   int64_t caption_rows)
{
    struct angles a;
    double *frequencies = ladder(s, config);
    if (angles_new(&a, s, caption_rows, config->head_dim / 2) && frequencies)
        put_caption(&a, config, frequencies, 0, caption_rows);
    free(frequencies);
    return angles_finish(&a, s);
}

struct kiln_rope kiln_rope_joint(struct kt_scope *s, const struct kiln_transformer_config *config,
                                 int64_t grid_height, int64_t grid_width, int64_t image_pad,
                                 int64_t caption_rows)
{
    struct angles a;
    double *frequencies = ladder(s, config);
    int64_t tokens = grid_height * grid_width, image_rows = tokens + image_pad;
    if (angles_new(&a, s, image_rows + caption_rows, config->head_dim / 2) && frequencies) {
        for (int64_t row = 0; row < tokens; row++)
            put_position(
                &a, config, frequencies, row,
                (int64_t[KILN_ROPE_AXES]){caption_rows + 1, row / grid_width, row % grid_width});
        for (int64_t row = tokens; row < image_rows; row++)
            put_position(&a, config, frequencies, row, (int64_t[KILN_ROPE_AXES]){0, 0, 0});
        put_caption(&a, config, frequencies, image_rows, caption_rows);
    }
    free(frequencies);
    return angles_finish(&a, s);
}

struct kiln_rope kiln_rope_rows(struct kt_scope *s, struct kiln_rope rope, int64_t start,
                                int64_t rows)
{
    return (struct kiln_rope){kt_narrow(s, rope.cos, 0, start, rows),
                              kt_narrow(s, rope.sin, 0, start, rows)};
}
