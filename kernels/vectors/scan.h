/* scan.h - one query against many stored vectors: products of 8-bit rows, and distances of
 * sketches.
 *
 * A stored row is the vector in 8 bits, x + 128 as an unsigned byte, so that bytes of both signs
 * can be multiplied with one instruction; the query is signed bytes.  A sketch is KILN_SKETCH_BITS
 * signs of projections of the vector: the share of signs that differ grows with the angle between
 * two vectors (Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002).
 *
 * All results are integers, so every processor gives the same ones.  scan_ref.c is the definition
 * and, compiled for several instruction sets, the fast form; there is no CUDA kernel.
 */
#ifndef KILN_SCAN_H
#define KILN_SCAN_H

#include "kernels/floats.h"

#define KILN_SKETCH_BITS 512
#define KILN_SKETCH_WORDS (KILN_SKETCH_BITS / 64)
#define KILN_SCAN_DIMS_MAX 4096 /* so that a sum of products fits 32 bits */

/* ret[i] = sum over d of (rows[i][d] - 128) x query[d], for the `count` rows at `rows`.
 * rows: [count][dims]; query: [dims]; dims is at most KILN_SCAN_DIMS_MAX. */
void kiln_scan_rows(const uint8_t *rows, int64_t count, int64_t dims, const int8_t *query,
                    int32_t *ret);

/* The same for the rows picked[0 .. count), numbers of rows at `rows`. */
void kiln_scan_picked(const uint8_t *rows, const uint32_t *picked, int64_t count, int64_t dims,
                      const int8_t *query, int32_t *ret);

/* ret[i] = number of bits in which sketch i and the query's differ, 0 .. 64 x words.
 * sketches: [count][words]; words is KILN_SKETCH_WORDS, or another number for bits that are no
 * sketches, such as hashes of pictures. */
void kiln_scan_sketches(const uint64_t *sketches, int64_t count, int words, const uint64_t *query,
                        uint16_t *ret);

/* Adds to tally[d] how many of the rows 0, step, 2 step, ... are at distance d; a row counts only
 * if its bit in mask is set (row i is bit i % 64 of word i / 64).  A mask of NULL counts all.
 * distances: KILN_SKETCH_BITS at most.
 * tally: [KILN_SKETCH_BITS + 1] */
void kiln_scan_tally(const uint16_t *distances, const uint64_t *mask, int64_t count, int64_t step,
                     uint32_t *tally);

/* The numbers of the rows whose distance is below `below`, first + 0, 1, ..., and whose bit in mask
 * is set; returns how many, at most `most`. */
int64_t kiln_scan_below(const uint16_t *distances, const uint64_t *mask, int64_t count,
                        uint16_t below, uint32_t first, uint32_t *ret, int64_t most);

#endif
