/* code.h - the stored form of a vector: 8-bit values with a scale.
 *
 * A vector of length 1 becomes `dims` bytes, round(127 x / m) + 128 with m its largest absolute
 * value, and the scale m / 127.
 */
#ifndef KILN_VECTOR_CODE_H
#define KILN_VECTOR_CODE_H

#include <stdint.h>

/* A vector as it is stored.  vector, row: [dims].  Not finite or all zero: the scale is 0, which
 * says that nothing is known about the text; an index never finds it. */
void kiln_vector_encode(const float *vector, int64_t dims, uint8_t *row, float *scale);

/* The same for a query, in signed bytes. */
void kiln_vector_encode_query(const float *vector, int64_t dims, int8_t *query, float *scale);

#endif
