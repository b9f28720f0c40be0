/* scan.h - one query against many stored vectors: products of 8-bit rows, and distances of
 * sketches and of other bits.
 *
 * A stored row is the vector in 8 bits, x + 128 as an unsigned byte, so that bytes of both signs
 * can be multiplied with one instruction; the query is signed bytes.  A sketch is one sign for each
 * direction (pipeline/embed/index/sketch.h says which); the query keeps four bits of each, as four
 * sketches with the weights 1, 2, 4, 8 (after Gao and Long, "RaBitQ", SIGMOD 2024).
 *
 * All results are integers, so every processor gives the same ones.  scan_ref.c is the definition
 * and, compiled for several instruction sets, the fast form; there is no CUDA kernel.
 */
#ifndef KILN_SCAN_H
#define KILN_SCAN_H

#include "kernels/floats.h"

#define KILN_SKETCH_WORDS_MAX 8
#define KILN_SKETCH_BLOCK 8  /* sketches side by side */
#define KILN_SKETCH_PLANES 4 /* sketches of a query */
#define KILN_DISTANCE_MAX (64 * KILN_SKETCH_WORDS_MAX * ((1 << KILN_SKETCH_PLANES) - 1))
#define KILN_SCAN_DIMS_MAX 4096 /* so that a sum of products fits 32 bits */

/* ret[i] = sum over d of (rows[i][d] - 128) x query[d], for the `count` rows at `rows`.
 * rows: [count][dims]; query: [dims]; dims is at most KILN_SCAN_DIMS_MAX. */
void kiln_scan_rows(const uint8_t *rows, int64_t count, int64_t dims, const int8_t *query,
                    int32_t *ret);

/* The same for the rows picked[0 .. count), numbers of rows at `rows`. */
void kiln_scan_picked(const uint8_t *rows, const uint32_t *picked, int64_t count, int64_t dims,
                      const int8_t *query, int32_t *ret);

/* ret[i] = sum over planes p of 2^p x the number of bits in which sketch i and planes[p] differ, 0
 * .. KILN_DISTANCE_MAX.  Sketches lie in blocks of KILN_SKETCH_BLOCK: word w of sketch i is
 * sketches[(i / 8 * words + w) * 8 + i % 8].  The last block is as long as the others.
 * planes: [KILN_SKETCH_PLANES][words]; words is KILN_SKETCH_WORDS_MAX at most. */
void kiln_scan_sketches(const uint64_t *sketches, int64_t count, int words, const uint64_t *planes,
                        uint16_t *ret);

/* ret[i] = number of bits in which hash i and the query differ, 0 .. 64 x words.
 * hashes: [count][words] */
void kiln_scan_hashes(const uint64_t *hashes, int64_t count, int words, const uint64_t *query,
                      uint16_t *ret);

/* Adds to tally[d] how many of the rows 0, step, 2 step, ... are at distance d; a row counts only
 * if its bit in mask is set (row i is bit i % 64 of word i / 64).  A mask of NULL counts all.
 * distances: KILN_DISTANCE_MAX at most.
 * tally: [KILN_DISTANCE_MAX + 1] */
void kiln_scan_tally(const uint16_t *distances, const uint64_t *mask, int64_t count, int64_t step,
                     uint32_t *tally);

/* The numbers of the rows whose distance is below `below`, first + 0, 1, ..., and whose bit in mask
 * is set; returns how many, at most `most`. */
int64_t kiln_scan_below(const uint16_t *distances, const uint64_t *mask, int64_t count,
                        uint16_t below, uint32_t first, uint32_t *ret, int64_t most);

#endif
