/* code.c - see code.h. */
#include "pipeline/embed/index/code.h"

#include <math.h>
#include <string.h>

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

void kiln_vector_encode_query(const float *vector, int64_t dims, int8_t *query, float *scale)
{
    const float most = largest(vector, dims);
    *scale = most / 127;
    if (!(most > 0)) {
        memset(query, 0, (size_t)dims);
        return;
    }
    for (int64_t d = 0; d < dims; d++)
        query[d] = (int8_t)lrintf(127 * (vector[d] / most));
}

void kiln_vector_encode(const float *vector, int64_t dims, uint8_t *row, float *scale)
{
    kiln_vector_encode_query(vector, dims, (int8_t *)row, scale);
    for (int64_t d = 0; d < dims; d++)
        row[d] ^= 0x80; /* signed to + 128 */
}
