/* token_rows.h - the features of a caption's tokens as they are stored, and how well a query's
 * tokens are found among them.
 *
 * A pooled vector cannot tell "a red star on blue" from "a blue star on red"; tokens that have read
 * their neighbours can.  The score of late interaction (MaxSim: Khattab and Zaharia, "ColBERT",
 * SIGIR 2020) is the mean, over the query's tokens, of the best cosine with any of the caption's;
 * a token counts as much as its features are long.
 *
 * Stored form: u16 number of tokens n, u16 dims, f32 scales[n], f32 lengths[n], then n rows of dims
 * bytes, each round(x / scale) + 128 of a row of length 1 (the rows of kernels/vectors/scan.h);
 * little-endian.
 */
#ifndef KILN_TOKEN_ROWS_H
#define KILN_TOKEN_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_TOKEN_ROWS_MAX 64   /* tokens of a caption that are kept; the later ones are not */
#define KILN_TOKEN_DIMS_MAX 4096 /* of kernels/vectors/scan.h */

/* Bytes of a caption with so many tokens; count <= KILN_TOKEN_ROWS_MAX. */
size_t kiln_token_rows_size(size_t count, size_t dims);
/* features: [count][dims]; out: kiln_token_rows_size bytes.  A row that is zero or not finite
 * resembles nothing. */
void kiln_token_rows_encode(const float *features, size_t count, size_t dims, uint8_t *out);

struct kiln_token_query;

/* features: [count][dims] of the query's own tokens, 1 to KILN_TOKEN_ROWS_MAX of them. */
int kiln_token_query_new(const float *features, size_t count, size_t dims,
                         struct kiln_token_query **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* What is stored becomes a query, to find others like it.  KILN_CORRUPT for bytes that are no
 * caption of so many values a token. */
int kiln_token_query_of(const uint8_t *stored, size_t size, size_t dims,
                        struct kiln_token_query **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_token_query_free(struct kiln_token_query *q); /* accepts NULL */

/* -1 to 1 within 0.01, 0 for a query that says nothing; -2 for bytes that are not a caption of the
 * query's dims.  Any number of
 * threads may score with one query. */
float kiln_token_query_score(const struct kiln_token_query *q, const uint8_t *stored, size_t size);

#endif
