/* picture_resize.c - Lanczos resampling with Pillow's arithmetic; see picture_resize.h.
 *
 * One pass makes each value of a line a weighted sum of values of another line.  Weights are
 * numbers of 22 bits behind the point, so that 8 bits of value and a sum beyond one fit into 32.
 */
#include "storage/formats/pictures/picture_resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"

#define CHANNELS 3
#define LOBES 3.0
#define WEIGHT_BITS 22

/* Which values of the old line a value of the new one is made of, for a whole line. */
struct pass {
    uint32_t count;    /* values of the new line */
    uint32_t taps_max; /* room for weights of each */
    uint32_t *from;    /* [count] */
    uint32_t *taps;    /* [count] */
    int32_t *weights;  /* [count][taps_max] */
};

void kiln_picture_job_size(uint32_t width, uint32_t height, uint32_t *ret_width,
                           uint32_t *ret_height)
{
    *ret_width = width - width % KILN_SIDE_STEP;
    *ret_height = height - height % KILN_SIDE_STEP;
}

static double sinc(double x)
{
    return x == 0 ? 1 : sin(x * M_PI) / (x * M_PI);
}

static double lanczos(double x)
{
    return x >= -LOBES && x < LOBES ? sinc(x) * sinc(x / LOBES) : 0;
}

/* The weights of one value, which add up to one before they are rounded. */
static void weigh(double *weights, uint32_t taps, double first, double step, int32_t *rounded)
{
    double sum = 0;
    for (uint32_t i = 0; i < taps; i++)
        sum += weights[i] = lanczos((i + first) * step);
    for (uint32_t i = 0; i < taps; i++) {
        double w = (sum != 0 ? weights[i] / sum : weights[i]) * (1 << WEIGHT_BITS);
        rounded[i] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
    }
}

static void pass_release(struct pass *p)
{
    free(p->from);
    free(p->taps);
    free(p->weights);
}

static bool pass_init(struct pass *p, uint32_t old, uint32_t count)
{
    const double scale = (double)old / count, wide = scale < 1 ? 1 : scale, reach = LOBES * wide;
    *p = (struct pass){.count = count, .taps_max = (uint32_t)ceil(reach) * 2 + 1};
    p->from = calloc(count, sizeof *p->from);
    p->taps = calloc(count, sizeof *p->taps);
    p->weights = calloc((size_t)count * p->taps_max, sizeof *p->weights);
    double *exact = calloc(p->taps_max, sizeof *exact);
    const bool good = p->from && p->taps && p->weights && exact;
    for (uint32_t i = 0; good && i < count; i++) {
        const double centre = (i + 0.5) * scale;
        const double low = centre - reach + 0.5, high = centre + reach + 0.5;
        const uint32_t from = low < 0 ? 0 : (uint32_t)low;
        const uint32_t end = high > old ? old : (uint32_t)high;
        p->from[i] = from;
        p->taps[i] = end - from;
        weigh(exact, end - from, from - centre + 0.5, 1 / wide,
              p->weights + (size_t)i * p->taps_max);
    }
    free(exact);
    return good;
}

static uint8_t to_byte(int32_t sum)
{
    sum >>= WEIGHT_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void along_row(const struct pass *p, const uint8_t *old, uint8_t *row)
{
    for (uint32_t x = 0; x < p->count; x++, row += CHANNELS) {
        const uint8_t *from = old + (size_t)p->from[x] * CHANNELS;
        const int32_t *weights = p->weights + (size_t)x * p->taps_max;
        int32_t sum[CHANNELS] = {1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1),
                                 1 << (WEIGHT_BITS - 1)};
        for (uint32_t i = 0; i < p->taps[x]; i++)
            for (int c = 0; c < CHANNELS; c++)
                sum[c] += from[i * CHANNELS + (uint32_t)c] * weights[i];
        for (int c = 0; c < CHANNELS; c++)
            row[c] = to_byte(sum[c]);
    }
}

/* Row y of the new picture; sums: [bytes] of a row. */
static void along_column(const struct pass *p, const uint8_t *old, size_t bytes, uint32_t y,
                         int32_t *sums, uint8_t *row)
{
    for (size_t x = 0; x < bytes; x++)
        sums[x] = 1 << (WEIGHT_BITS - 1);
    for (uint32_t i = 0; i < p->taps[y]; i++) {
        const uint8_t *from = old + (p->from[y] + i) * bytes;
        const int32_t weight = p->weights[(size_t)y * p->taps_max + i];
        for (size_t x = 0; x < bytes; x++)
            sums[x] += from[x] * weight;
    }
    for (size_t x = 0; x < bytes; x++)
        row[x] = to_byte(sums[x]);
}

/* Each takes a picture and returns the new one, or NULL without memory. */
static uint8_t *resize_rows(const uint8_t *rgb, uint32_t width, uint32_t height, uint32_t out_width)
{
    struct pass p = {0};
    uint8_t *out = malloc((size_t)out_width * height * CHANNELS);
    if (out && !pass_init(&p, width, out_width)) {
        free(out);
        out = NULL;
    }
    for (uint32_t y = 0; out && y < height; y++)
        along_row(&p, rgb + (size_t)y * width * CHANNELS, out + (size_t)y * out_width * CHANNELS);
    pass_release(&p);
    return out;
}

static uint8_t *resize_columns(const uint8_t *rgb, uint32_t width, uint32_t height,
                               uint32_t out_height)
{
    struct pass p = {0};
    const size_t bytes = (size_t)width * CHANNELS;
    uint8_t *out = malloc(bytes * out_height);
    int32_t *sums = malloc(bytes * sizeof *sums);
    if (out && (!sums || !pass_init(&p, height, out_height))) {
        free(out);
        out = NULL;
    }
    for (uint32_t y = 0; out && y < out_height; y++)
        along_column(&p, rgb, bytes, y, sums, out + y * bytes);
    pass_release(&p);
    free(sums);
    return out;
}

/* Pillow's order since 13: columns go first where the height loses more than twice what the width
 * does.  Before, rows always went first; a result can differ by a few levels. */
static bool columns_first(uint32_t width, uint32_t height, uint32_t out_width, uint32_t out_height)
{
    return out_height < height &&
           (int64_t)height - out_height > 2 * ((int64_t)width - (int64_t)out_width);
}

int kiln_picture_resize(const uint8_t *rgb, uint32_t width, uint32_t height, uint32_t out_width,
                        uint32_t out_height, uint8_t **ret_rgb, struct kiln_error *err)
{
    const uint32_t sides[] = {width, height, out_width, out_height};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        if (sides[i] < 1 || sides[i] > KILN_PICTURE_SIDE_MAX)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "a picture of %ux%u pixels cannot be resized to %ux%u: sides are 1 to "
                             "%d pixels",
                             width, height, out_width, out_height, KILN_PICTURE_SIDE_MAX);
    const bool columns = columns_first(width, height, out_width, out_height);
    uint8_t *out = NULL; /* the last pass made it */
    bool good = true;
    for (int i = 0; good && i < 2; i++) {
        const bool rows = (i == 0) != columns;
        if (rows ? width == out_width : height == out_height)
            continue;
        const uint8_t *from = out ? out : rgb;
        uint8_t *next = rows ? resize_rows(from, width, height, out_width)
                             : resize_columns(from, width, height, out_height);
        free(out);
        out = next;
        good = next != NULL;
        width = rows ? out_width : width;
        height = rows ? height : out_height;
    }
    if (good && !out && (out = malloc((size_t)width * height * CHANNELS)))
        memcpy(out, rgb, (size_t)width * height * CHANNELS);
    if (!out)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to resize a picture to %ux%u pixels",
                         out_width, out_height);
    *ret_rgb = out;
    return 0;
}
