/* sketch.c - see sketch.h.
 *
 * Directions are rows of 8-bit values like vectors, and where a vector points is their product, so
 * all of it is integers, the same on every processor.
 */
#include "pipeline/embed/index/sketch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/index/code.h"
#include "schemas/random.h"

#define BITS_MIN 192
#define BITS_MAX (64 * KILN_SKETCH_WORDS_MAX)
#define LEVELS (1 << KILN_SKETCH_PLANES)

struct kiln_sketcher {
    int64_t dims;
    int bits, words;
    uint8_t *directions; /* [bits][dims] */
};

/* Takes the parts along the `count` rows before it off a row of length 1, twice, since the first
 * time leaves errors of rounding; then makes it that long again.  Of few values it may have been
 * one of those rows: nothing is left, and its bit says nothing. */
static void straighten(float *rows, int count, int64_t dims)
{
    float *row = rows + count * dims;
    for (int before = 0; before < 2 * count; before++) {
        const float *other = rows + before % count * dims;
        float product = 0;
        for (int64_t d = 0; d < dims; d++)
            product += row[d] * other[d];
        for (int64_t d = 0; d < dims; d++)
            row[d] -= product * other[d];
    }
    float square = 0;
    for (int64_t d = 0; d < dims; d++)
        square += row[d] * row[d];
    for (int64_t d = 0; d < dims; d++)
        row[d] = square > 1e-6f ? row[d] / sqrtf(square) : 0;
}

static void make_directions(struct kiln_sketcher *s, float *rows)
{
    uint64_t state = (uint64_t)s->dims, random = 0;
    float scale;
    for (int bit = 0, drawn = 0; bit < s->bits; bit++) {
        const int in_set = (int)(bit % s->dims);
        float *row = rows + in_set * s->dims;
        for (int64_t d = 0; d < s->dims; d++, drawn++, random >>= 1) {
            if (drawn % 64 == 0)
                random = kiln_random_next(&state);
            row[d] = (random & 1 ? 1 : -1) / sqrtf((float)s->dims);
        }
        straighten(rows, in_set, s->dims);
        kiln_vector_encode(row, s->dims, s->directions + bit * s->dims, &scale);
    }
}

int kiln_sketcher_new(int64_t dims, struct kiln_sketcher **ret, struct kiln_error *err)
{
    if (dims < 1 || dims > KILN_SCAN_DIMS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "vectors of %lld values; an index takes 1 to %d",
                         (long long)dims, KILN_SCAN_DIMS_MAX);
    struct kiln_sketcher *s = calloc(1, sizeof *s);
    const int64_t set = dims < BITS_MAX ? dims : BITS_MAX;
    float *rows = malloc((size_t)(set * dims) * sizeof *rows);
    if (s) {
        s->dims = dims;
        s->bits = (int)((BITS_MIN + set - 1) / set * set);
        s->words = (s->bits + 63) / 64;
        s->directions = malloc((size_t)(s->bits * dims));
    }
    if (!s || !rows || !s->directions) {
        free(rows);
        kiln_sketcher_free(s);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the directions of sketches");
    }
    make_directions(s, rows);
    free(rows);
    *ret = s;
    return 0;
}

void kiln_sketcher_free(struct kiln_sketcher *sketcher)
{
    if (!sketcher)
        return;
    free(sketcher->directions);
    free(sketcher);
}

int kiln_sketch_words(const struct kiln_sketcher *sketcher)
{
    return sketcher->words;
}

void kiln_sketch_row(const struct kiln_sketcher *sketcher, const uint8_t *row, uint64_t *ret)
{
    int8_t values[KILN_SCAN_DIMS_MAX];
    int32_t along[BITS_MAX];
    for (int64_t d = 0; d < sketcher->dims; d++)
        values[d] = (int8_t)(row[d] ^ 0x80);
    kiln_scan_rows(sketcher->directions, sketcher->bits, sketcher->dims, values, along);
    memset(ret, 0, (size_t)sketcher->words * sizeof *ret);
    for (int bit = 0; bit < sketcher->bits; bit++)
        ret[bit / 64] |= (uint64_t)(along[bit] > 0) << (bit % 64);
}

/* Equal steps from the value that points back most, or as far, to the one that points ahead. */
void kiln_sketch_query(const struct kiln_sketcher *sketcher, const int8_t *query, uint64_t *ret)
{
    int32_t along[BITS_MAX];
    int64_t most = 0;
    kiln_scan_rows(sketcher->directions, sketcher->bits, sketcher->dims, query, along);
    for (int bit = 0; bit < sketcher->bits; bit++)
        most = labs(along[bit]) > most ? labs(along[bit]) : most;
    memset(ret, 0, (size_t)(KILN_SKETCH_PLANES * sketcher->words) * sizeof *ret);
    for (int bit = 0; bit < sketcher->bits; bit++) {
        const uint64_t level = (uint64_t)((along[bit] + most) * LEVELS / (2 * most + 1));
        for (int p = 0; p < KILN_SKETCH_PLANES; p++)
            ret[p * sketcher->words + bit / 64] |= (level >> p & 1) << (bit % 64);
    }
}
