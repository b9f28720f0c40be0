/* pdq.c - see pdq.h.  Sums are in fp32 and in the order of the published definition: with another
 * order, a coefficient near the median could change its bit. */
#include "storage/formats/pictures/pdq.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define GRID 64 /* places each way at which the blurred picture is sampled */
#define LOW 16  /* frequencies each way, from the first */
#define BITS (LOW * LOW)
#define SIDE_MIN 5 /* of a picture that has a hash */
#define PASSES 2   /* of the blur, each along both sides */

/* out: means over `window` of the n values `step` apart in `in`, fewer at the ends. */
static void blur_line(const float *in, float *out, size_t n, size_t step, size_t window)
{
    const size_t ahead = window / 2; /* values behind a place that its mean includes */
    size_t right = 0, left = 0;
    float sum = 0;
    for (; right < ahead; right++)
        sum += in[right * step];
    for (size_t at = 0; at < n; at++) {
        if (right < n)
            sum += in[right++ * step];
        if (right - left > window || (right == n && at + ahead >= n))
            sum -= in[left++ * step];
        out[at * step] = sum / (float)(right - left);
    }
}

static void blur(float *picture, float *other, size_t width, size_t height)
{
    const size_t across = (width + 2 * GRID - 1) / (2 * GRID);
    const size_t down = (height + 2 * GRID - 1) / (2 * GRID);
    for (int pass = 0; pass < PASSES; pass++) {
        for (size_t y = 0; y < height; y++)
            blur_line(picture + y * width, other + y * width, width, 1, across);
        for (size_t x = 0; x < width; x++)
            blur_line(other + x, picture + x, height, width, down);
    }
}

static void sample(const float *picture, size_t width, size_t height, float grid[GRID][GRID])
{
    for (int i = 0; i < GRID; i++)
        for (int j = 0; j < GRID; j++) {
            size_t y = (size_t)((i + 0.5) * (double)height / GRID);
            size_t x = (size_t)((j + 0.5) * (double)width / GRID);
            grid[i][j] = picture[y * width + x];
        }
}

/* Sum of the changes between neighbours, in percent of the range, scaled and cut at 100. */
static uint8_t quality_of(float grid[GRID][GRID])
{
    int sum = 0;
    for (int i = 0; i < GRID; i++)
        for (int j = 0; j < GRID; j++) {
            if (i + 1 < GRID)
                sum += abs((int)((grid[i][j] - grid[i + 1][j]) * 100 / 255));
            if (j + 1 < GRID)
                sum += abs((int)((grid[i][j] - grid[i][j + 1]) * 100 / 255));
        }
    return (uint8_t)(sum / 90 < 100 ? sum / 90 : 100);
}

/* The frequencies 1 .. LOW of the cosine transform. */
static void transform(float grid[GRID][GRID], float low[LOW][LOW])
{
    float wave[LOW][GRID], half[LOW][GRID];
    for (int i = 0; i < LOW; i++)
        for (int j = 0; j < GRID; j++)
            wave[i][j] =
                (float)(sqrt(2.0 / GRID) * cos(M_PI / 2 / GRID * (double)((i + 1) * (2 * j + 1))));
    for (int i = 0; i < LOW; i++)
        for (int j = 0; j < GRID; j++) {
            float sum = 0;
            for (int k = 0; k < GRID; k++)
                sum += wave[i][k] * grid[k][j];
            half[i][j] = sum;
        }
    for (int i = 0; i < LOW; i++)
        for (int j = 0; j < LOW; j++) {
            float sum = 0;
            for (int k = 0; k < GRID; k++)
                sum += half[i][k] * wave[j][k];
            low[i][j] = sum;
        }
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The lower of the two middle values. */
static float median_of(float low[LOW][LOW])
{
    float sorted[BITS];
    memcpy(sorted, low, sizeof sorted);
    qsort(sorted, BITS, sizeof *sorted, by_value);
    return sorted[BITS / 2 - 1];
}

/* The coefficients of the picture turned or mirrored.  Exchanging left and right changes the sign
 * of the odd frequencies across, exchanging top and bottom that of those down; frequency i + 1 is
 * in row i.  A turn by 90 degrees exchanges the sides, then left and right. */
static void turn(float low[LOW][LOW], bool sides, bool across, bool down, float ret[LOW][LOW])
{
    for (int i = 0; i < LOW; i++)
        for (int j = 0; j < LOW; j++) {
            float value = sides ? low[j][i] : low[i][j];
            bool minus = (across && j % 2 == 0) != (down && i % 2 == 0);
            ret[i][j] = minus ? -value : value;
        }
}

static void hash(float low[LOW][LOW], uint8_t *ret)
{
    const float median = median_of(low);
    memset(ret, 0, KILN_PDQ_BYTES);
    for (int bit = 0; bit < BITS; bit++)
        if (low[bit / LOW][bit % LOW] > median)
            ret[KILN_PDQ_BYTES - 1 - bit / 8] |= (uint8_t)(1 << bit % 8);
}

int kiln_pdq(const uint8_t *rgb, uint32_t width, uint32_t height,
             struct kiln_pdq ret[KILN_PDQ_TURNS], struct kiln_error *err)
{
    /* Sides exchanged, left and right, top and bottom; in the order of ret. */
    static const bool turns[KILN_PDQ_TURNS][3] = {{0, 0, 0}, {1, 1, 0}, {0, 1, 1}, {1, 0, 1},
                                                  {0, 1, 0}, {1, 1, 1}, {0, 0, 1}, {1, 0, 0}};
    const size_t pixels = (size_t)width * height;
    float grid[GRID][GRID], low[LOW][LOW], turned[LOW][LOW];
    memset(ret, 0, KILN_PDQ_TURNS * sizeof *ret);
    if (width < SIDE_MIN || height < SIDE_MIN)
        return 0;
    float *picture = malloc(2 * pixels * sizeof *picture);
    if (!picture)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to hash a picture of %ux%u", width,
                         height);
    for (size_t i = 0; i < pixels; i++)
        picture[i] = (float)(rgb[3 * i] * 0.299 + rgb[3 * i + 1] * 0.587 + rgb[3 * i + 2] * 0.114);
    blur(picture, picture + pixels, width, height);
    sample(picture, width, height, grid);
    free(picture);
    transform(grid, low);
    for (int i = 0; i < KILN_PDQ_TURNS; i++) {
        turn(low, turns[i][0], turns[i][1], turns[i][2], turned);
        hash(turned, ret[i].hash);
        ret[i].quality = quality_of(grid);
    }
    return 0;
}

int kiln_pdq_distance(const uint8_t *a, const uint8_t *b)
{
    int differ = 0;
    for (int i = 0; i < KILN_PDQ_BYTES; i++)
        differ += __builtin_popcount((unsigned)(a[i] ^ b[i]));
    return differ;
}
