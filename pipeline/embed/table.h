/* table.h - the rows of an embedding table: in memory if it is small, else read from its file row
 * by row, so that a table of 250,000 words costs no memory and a file that is cut short gives an
 * error instead of a signal.
 */
#ifndef KILN_EMBED_TABLE_H
#define KILN_EMBED_TABLE_H

#include "storage/formats/safetensors.h"

#define KILN_TABLE_MEMORY_MAX (64 * 1024 * 1024) /* bytes of a table in memory */

struct kiln_table;

/* A tensor [rows][width] of F32, F16, BF16, I8 or F64; st must outlive the table.  width 0: any up
 * to width_max. */
int kiln_table_open(const struct kiln_st *st, const char *name, size_t width, size_t width_max,
                    struct kiln_table **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_table_free(struct kiln_table *t); /* accepts NULL */
size_t kiln_table_rows(const struct kiln_table *t);
size_t kiln_table_width(const struct kiln_table *t);

/* sums[i] += weight * row[i]; row < rows. */
int kiln_table_add(const struct kiln_table *t, size_t row, float weight, float *sums,
                   struct kiln_error *err) KILN_MUST_CHECK;

/* Bytes of a tensor, from one on: read and not mapped, so that a cut file is KILN_CORRUPT. */
int kiln_table_bytes(const struct kiln_st *st, const struct kiln_st_tensor *tensor, size_t from,
                     size_t size, void *out, struct kiln_error *err) KILN_MUST_CHECK;

/* All values of a tensor in fp32, malloc'd; it must have that many. */
int kiln_table_values(const struct kiln_st *st, const struct kiln_st_tensor *tensor, size_t count,
                      float **ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
