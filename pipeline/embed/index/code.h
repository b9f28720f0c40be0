/* code.h - the stored form of a vector: 8-bit values with a scale, and a sketch of signs.
 *
 * A vector of length 1 becomes `dims` bytes, round(127 x / m) + 128 with m its largest absolute
 * value, and the scale m / 127.  The sketch has one bit for each of KILN_SKETCH_BITS fixed random
 * directions: whether the vector, less the mean of all vectors, points that way.  The directions
 * depend on dims alone, so two programs make the same sketch of a vector.
 */
#ifndef KILN_VECTOR_CODE_H
#define KILN_VECTOR_CODE_H

#include <stdint.h>

#include "kernels/vectors/scan.h"
#include "schemas/error.h"

struct kiln_vector_coder;

/* Coder of vectors of `dims` values, 1 .. KILN_SCAN_DIMS_MAX.  mean: [dims], subtracted before a
 * sketch is made; NULL: nothing.  The caller frees the coder.  KILN_BAD_INPUT, KILN_NO_MEMORY. */
int kiln_vector_coder_new(int64_t dims, const float *mean, struct kiln_vector_coder **ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
void kiln_vector_coder_free(struct kiln_vector_coder *coder);

/* A vector as it is stored.  row: [dims].  Not finite or all zero: the scale is 0, which says that
 * nothing is known about the text; an index never finds it. */
void kiln_vector_encode(const struct kiln_vector_coder *coder, const float *vector, uint8_t *row,
                        float *scale, uint64_t *sketch);

/* The same for a query, in signed bytes. */
void kiln_vector_encode_query(const struct kiln_vector_coder *coder, const float *vector,
                              int8_t *query, float *scale, uint64_t *sketch);

#endif
