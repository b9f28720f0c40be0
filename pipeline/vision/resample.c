/* resample.c - see resample.h. */
#include "pipeline/vision/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PRECISION 22 /* bits of a weight behind the point */
#define CUBIC (-0.5) /* the a of Keys' cubic that Pillow has */

static double weight_at(enum kiln_resample filter, double x)
{
    x = fabs(x);
    if (filter == KILN_RESAMPLE_BILINEAR)
        return x < 1 ? 1 - x : 0;
    if (x < 1)
        return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * CUBIC : 0;
}

/* The source pixels of each output pixel of a line, and their weights. */
struct taps {
    struct {
        uint32_t from, count;
    } * at;           /* [out] */
    int32_t *weights; /* [out][most] */
    uint32_t most;
};

static void release_taps(struct taps *taps)
{
    free(taps->at);
    free(taps->weights);
}

/* False: no memory. */
static bool make_taps(enum kiln_resample filter, uint32_t in, uint32_t out, struct taps *ret)
{
    const double scale = (double)in / out, wide = scale < 1 ? 1 : scale;
    const double support = (filter == KILN_RESAMPLE_BILINEAR ? 1 : 2) * wide;
    ret->most = (uint32_t)ceil(support) * 2 + 1;
    ret->at = calloc(out, sizeof *ret->at);
    ret->weights = calloc((size_t)out * ret->most, sizeof *ret->weights);
    double *exact = calloc(ret->most, sizeof *exact);
    for (uint32_t i = 0; i < out && ret->at && ret->weights && exact; i++) {
        const double centre = (i + 0.5) * scale;
        const double low = centre - support + 0.5, high = centre + support + 0.5;
        const uint32_t from = low < 0 ? 0 : (uint32_t)low;
        const uint32_t to = high > in ? in : (uint32_t)high;
        double sum = 0;
        for (uint32_t x = 0; x < to - from; x++)
            sum += exact[x] = weight_at(filter, (x + from - centre + 0.5) / wide);
        ret->at[i].from = from;
        ret->at[i].count = to - from;
        for (uint32_t x = 0; x < to - from; x++) {
            const double weight = (sum != 0 ? exact[x] / sum : exact[x]) * (1 << PRECISION);
            ret->weights[(size_t)i * ret->most + x] = (int32_t)(weight + (weight < 0 ? -0.5 : 0.5));
        }
    }
    const bool made = ret->at && ret->weights && exact;
    free(exact);
    return made;
}

static uint8_t clip(int64_t sum)
{
    const int64_t value = sum >> PRECISION;
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

/* One output pixel out of pixels that are `step` bytes apart. */
static void mix(const uint8_t *in, size_t step, const int32_t *weights, uint32_t count,
                uint8_t *out)
{
    int64_t sums[KILN_VISION_CHANNELS] = {1 << (PRECISION - 1), 1 << (PRECISION - 1),
                                          1 << (PRECISION - 1)};
    for (uint32_t i = 0; i < count; i++, in += step)
        for (int c = 0; c < KILN_VISION_CHANNELS; c++)
            sums[c] += (int64_t)in[c] * weights[i];
    for (int c = 0; c < KILN_VISION_CHANNELS; c++)
        out[c] = clip(sums[c]);
}

/* Lines of `width` pixels become lines of out_width; NULL: no memory. */
static uint8_t *along_lines(const uint8_t *in, uint32_t width, uint32_t height,
                            enum kiln_resample filter, uint32_t out_width)
{
    struct taps taps = {0};
    uint8_t *out = malloc((size_t)out_width * height * KILN_VISION_CHANNELS), *at = out;
    const bool made = make_taps(filter, width, out_width, &taps);
    for (uint32_t y = 0; y < height && out && made; y++)
        for (uint32_t x = 0; x < out_width; x++, at += KILN_VISION_CHANNELS)
            mix(in + ((size_t)y * width + taps.at[x].from) * KILN_VISION_CHANNELS,
                KILN_VISION_CHANNELS, taps.weights + (size_t)x * taps.most, taps.at[x].count, at);
    release_taps(&taps);
    if (!made) {
        free(out);
        out = NULL;
    }
    return out;
}

static uint8_t *along_columns(const uint8_t *in, uint32_t width, uint32_t height,
                              enum kiln_resample filter, uint32_t out_height)
{
    struct taps taps = {0};
    const size_t line = (size_t)width * KILN_VISION_CHANNELS;
    uint8_t *out = malloc(line * out_height), *at = out;
    const bool made = make_taps(filter, height, out_height, &taps);
    for (uint32_t y = 0; y < out_height && out && made; y++)
        for (uint32_t x = 0; x < width; x++, at += KILN_VISION_CHANNELS)
            mix(in + taps.at[y].from * line + (size_t)x * KILN_VISION_CHANNELS, line,
                taps.weights + (size_t)y * taps.most, taps.at[y].count, at);
    release_taps(&taps);
    if (!made) {
        free(out);
        out = NULL;
    }
    return out;
}

static uint8_t *copy(const uint8_t *in, size_t size)
{
    uint8_t *out = malloc(size);
    return out ? memcpy(out, in, size) : NULL;
}

int kiln_resample_rgb(const uint8_t *rgb, uint32_t width, uint32_t height,
                      enum kiln_resample filter, uint32_t out_width, uint32_t out_height,
                      uint8_t **ret, struct kiln_error *err)
{
    uint8_t *lines = width == out_width ? copy(rgb, (size_t)width * height * KILN_VISION_CHANNELS)
                                        : along_lines(rgb, width, height, filter, out_width);
    uint8_t *whole = lines;
    if (lines && height != out_height) {
        whole = along_columns(lines, out_width, height, filter, out_height);
        free(lines);
    }
    if (!whole)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to resize a picture of %ux%u", width,
                         height);
    *ret = whole;
    return 0;
}
