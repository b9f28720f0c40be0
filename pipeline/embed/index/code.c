/* code.c - see code.h. */
#include "pipeline/embed/index/code.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/random.h"

struct kiln_vector_coder {
    int64_t dims;
    float *mean;       /* [dims] */
    float *directions; /* [KILN_SKETCH_BITS][dims], each value 1 or -1 */
};

int kiln_vector_coder_new(int64_t dims, const float *mean, struct kiln_vector_coder **ret,
                          struct kiln_error *err)
{
    if (dims < 1 || dims > KILN_SCAN_DIMS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "vectors of %lld values; an index takes 1 to %d",
                         (long long)dims, KILN_SCAN_DIMS_MAX);
    struct kiln_vector_coder *coder = calloc(1, sizeof *coder);
    size_t values = (size_t)(KILN_SKETCH_BITS * dims);
    if (coder) {
        coder->dims = dims;
        coder->mean = calloc((size_t)dims, sizeof *coder->mean);
        coder->directions = malloc(values * sizeof *coder->directions);
    }
    if (!coder || !coder->mean || !coder->directions) {
        kiln_vector_coder_free(coder);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the directions of sketches");
    }
    if (mean)
        memcpy(coder->mean, mean, (size_t)dims * sizeof *mean);
    uint64_t state = (uint64_t)dims, bits = 0;
    for (size_t i = 0; i < values; i++, bits >>= 1) {
        if (i % 64 == 0)
            bits = kiln_random_next(&state);
        coder->directions[i] = bits & 1 ? 1 : -1;
    }
    *ret = coder;
    return 0;
}

void kiln_vector_coder_free(struct kiln_vector_coder *coder)
{
    if (!coder)
        return;
    free(coder->mean), free(coder->directions);
    free(coder);
}

/* One sum: the compiler may not reorder it, so eight run side by side. */
static float project(const float *a, const float *b, const float *mean, int64_t dims)
{
    enum { LANES = 8 };
    float sums[LANES] = {0};
    int64_t d = 0;
    for (; d + LANES <= dims; d += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += (a[d + lane] - mean[d + lane]) * b[d + lane];
    for (; d < dims; d++)
        sums[0] += (a[d] - mean[d]) * b[d];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/* The largest absolute value; 0 if any value is not finite. */
static float largest(const float *vector, int64_t dims)
{
    float most = 0;
    for (int64_t d = 0; d < dims; d++) {
        if (!isfinite(vector[d]))
            return 0;
        most = fmaxf(most, fabsf(vector[d]));
    }
    return most;
}

static void make_sketch(const struct kiln_vector_coder *coder, const float *vector,
                        uint64_t *sketch)
{
    for (int bit = 0; bit < KILN_SKETCH_BITS; bit++) {
        const float *direction = coder->directions + bit * coder->dims;
        uint64_t positive = project(vector, direction, coder->mean, coder->dims) > 0;
        sketch[bit / 64] |= positive << (bit % 64);
    }
}

void kiln_vector_encode_query(const struct kiln_vector_coder *coder, const float *vector,
                              int8_t *query, float *scale, uint64_t *sketch)
{
    const float most = largest(vector, coder->dims);
    memset(sketch, 0, KILN_SKETCH_WORDS * sizeof *sketch);
    *scale = most / 127;
    if (!(most > 0)) {
        memset(query, 0, (size_t)coder->dims);
        return;
    }
    for (int64_t d = 0; d < coder->dims; d++)
        query[d] = (int8_t)lrintf(127 * (vector[d] / most));
    make_sketch(coder, vector, sketch);
}

void kiln_vector_encode(const struct kiln_vector_coder *coder, const float *vector, uint8_t *row,
                        float *scale, uint64_t *sketch)
{
    int8_t values[KILN_SCAN_DIMS_MAX];
    kiln_vector_encode_query(coder, vector, values, scale, sketch);
    for (int64_t d = 0; d < coder->dims; d++)
        row[d] = (uint8_t)(values[d] + 128);
}
