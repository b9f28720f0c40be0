/* downscale_ref.c - the meaning of the downscale, in whole numbers: every machine and every
 * implementation of it gives the same bytes.
 *
 *     L[v]   = round(65535 * linear(v / 255))        stored value to 16-bit linear light
 *     mean   = (sum of area weight * L + total / 2) / total
 *     S[m]   = the v whose light is nearest to m as sRGB sees it: 255 * srgb(m / 65535), rounded
 *
 * Along a side, source pixel i covers [i*out, (i+1)*out) and output pixel o covers
 * [o*in, (o+1)*in), so weights are whole numbers and their total over both sides is in_w * in_h.
 * A sum is below 2^16 * 2^32.  S[L[v]] = v, hence a constant picture stays constant.
 *
 * The exact half in both directions, which 1024 -> 512 -> 256 is, has a path of its own.
 */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "kernels/pictures/downscale.h"

#define CHANNELS 3
#define LIGHT_MAX 65535

static uint16_t light_of[256];
static uint8_t stored_of[LIGHT_MAX + 1];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

/* IEC 61966-2-1, from a stored value in 0..1 to light in 0..1. */
static double srgb_to_linear(double v)
{
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

static void make_tables(void)
{
    for (int v = 0; v < 256; v++)
        light_of[v] = (uint16_t)lround(LIGHT_MAX * srgb_to_linear(v / 255.0));
    /* Half-way between two stored values lies where S steps; no need to invert the curve. */
    int v = 0;
    for (int m = 0; m <= LIGHT_MAX; m++) {
        while (v < 255 && m >= LIGHT_MAX * srgb_to_linear((v + 0.5) / 255.0))
            v++;
        stored_of[m] = (uint8_t)v;
    }
}

void kiln_downscale_tables(const uint16_t **ret_light, const uint8_t **ret_stored)
{
    pthread_once(&tables_once, make_tables);
    *ret_light = light_of;
    *ret_stored = stored_of;
}

/* Four pixels to one: no weights, no division. */
static void halve(const uint8_t *src, uint32_t width, uint8_t *dst, uint32_t out_width,
                  uint32_t out_height)
{
    size_t stride = (size_t)width * CHANNELS;
    for (uint32_t y = 0; y < out_height; y++) {
        const uint8_t *top = src + 2 * y * stride, *low = top + stride;
        for (uint32_t x = 0; x < out_width; x++, top += 2 * CHANNELS, low += 2 * CHANNELS)
            for (int c = 0; c < CHANNELS; c++) {
                uint32_t sum = (uint32_t)light_of[top[c]] + light_of[top[c + CHANNELS]] +
                               light_of[low[c]] + light_of[low[c + CHANNELS]];
                *dst++ = stored_of[(sum + 2) >> 2];
            }
    }
}

/* The source pixels under one output pixel along one side: first .. last, with the weights of
 * the two ends; those between weigh `whole`.  With first == last the end weight is `head`. */
struct span {
    uint32_t first, last, head, tail;
};

/* Moves the span to output pixel o of out, over `in` source pixels. */
static struct span span_at(uint32_t o, uint32_t in, uint32_t out)
{
    uint64_t start = (uint64_t)o * in, end = start + in;
    struct span span = {.first = (uint32_t)(start / out), .last = (uint32_t)((end - 1) / out)};
    span.head = out - (uint32_t)(start % out);
    span.tail = (uint32_t)(end - (uint64_t)span.last * out);
    return span;
}

/* Adds weight times one source row's light under the span to sum. */
static void add_row(const uint8_t *row, struct span across, uint32_t whole, uint32_t weight,
                    uint64_t sum[CHANNELS])
{
    const uint8_t *first = row + (size_t)across.first * CHANNELS;
    const uint8_t *last = row + (size_t)across.last * CHANNELS;
    uint32_t inner[CHANNELS] = {0}; /* at most 65535 pixels of 65535: fits */
    for (const uint8_t *p = first + CHANNELS; p < last; p += CHANNELS)
        for (int c = 0; c < CHANNELS; c++)
            inner[c] += light_of[p[c]];
    for (int c = 0; c < CHANNELS; c++) {
        uint64_t line = (uint64_t)inner[c] * whole + (uint64_t)light_of[first[c]] * across.head;
        if (last != first)
            line += (uint64_t)light_of[last[c]] * across.tail;
        sum[c] += line * weight;
    }
}

/* Any ratio: the rectangle under an output pixel, its edges weighted by what they cover. */
static void shrink(const uint8_t *src, uint32_t width, uint32_t height, uint8_t *dst,
                   uint32_t out_width, uint32_t out_height)
{
    size_t stride = (size_t)width * CHANNELS;
    uint64_t total = (uint64_t)width * height;
    for (uint32_t y = 0; y < out_height; y++) {
        struct span down = span_at(y, height, out_height);
        for (uint32_t x = 0; x < out_width; x++) {
            struct span across = span_at(x, width, out_width);
            uint64_t sum[CHANNELS] = {0};
            for (uint32_t i = down.first; i <= down.last; i++) {
                uint32_t weight = i == down.first  ? down.head
                                  : i == down.last ? down.tail
                                                   : out_height;
                add_row(src + i * stride, across, out_width, weight, sum);
            }
            for (int c = 0; c < CHANNELS; c++)
                *dst++ = stored_of[(sum[c] + total / 2) / total];
        }
    }
}

void kiln_downscale_ref(const uint8_t *src, uint32_t width, uint32_t height, uint8_t *dst,
                        uint32_t out_width, uint32_t out_height)
{
    pthread_once(&tables_once, make_tables);
    if (width == out_width && height == out_height)
        memcpy(dst, src, (size_t)width * height * CHANNELS);
    else if (width == 2 * (uint64_t)out_width && height == 2 * (uint64_t)out_height)
        halve(src, width, dst, out_width, out_height);
    else
        shrink(src, width, height, dst, out_width, out_height);
}

int kiln_downscale_fit(uint32_t width, uint32_t height, uint32_t longest, uint32_t *ret_width,
                       uint32_t *ret_height)
{
    uint32_t side = width > height ? width : height;
    if (longest == 0 || side <= longest)
        return 0;
    uint32_t w = (uint32_t)(((uint64_t)width * longest + side / 2) / side);
    uint32_t h = (uint32_t)(((uint64_t)height * longest + side / 2) / side);
    *ret_width = w ? w : 1;
    *ret_height = h ? h : 1;
    return 1;
}
