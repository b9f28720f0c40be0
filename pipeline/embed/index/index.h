/* index.h - finds the stored vectors nearest to a query, among those that a filter lets through.
 *
 * Rows are numbered in the order in which they were added and never move; a removed row's number is
 * not used again.  The filter is a bit for each row and is applied inside the search, so that a
 * search finds `count` rows if the filter has so many.  Few rows let through are all compared; of
 * many, the nearest by their sketches are (sketch.h).
 *
 * One thread may change an index while others search it: a search sees the rows whose add has
 * returned before it began.  Each searching thread has a kiln_vector_search of its own.
 */
#ifndef KILN_VECTOR_INDEX_H
#define KILN_VECTOR_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_INDEX_ROWS_MAX (1u << 24)
#define KILN_INDEX_COUNT_MAX 1000  /* rows that a search may return */
#define KILN_INDEX_CANDIDATES 2500 /* nearest by sketch, whose products are then computed */
#define KILN_INDEX_BACKGROUND 1024 /* rows that `usual` and `spread` are measured on */

struct kiln_vector_index;
struct kiln_vector_search;

/* An empty index of vectors of `dims` values. */
int kiln_vector_index_new(int64_t dims, struct kiln_vector_index **ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
void kiln_vector_index_free(struct kiln_vector_index *index);

/* Appends a row (code.h); *ret is its number.  KILN_FULL at KILN_INDEX_ROWS_MAX. */
int kiln_vector_index_add(struct kiln_vector_index *index, const uint8_t *row, float scale,
                          uint32_t *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* A number that is not a row, or one already removed, is ignored. */
void kiln_vector_index_remove(struct kiln_vector_index *index, uint32_t number);
/* A row as a query, for what is like it.  query: [dims].  False: no such row, or removed. */
bool kiln_vector_index_query(const struct kiln_vector_index *index, uint32_t number, int8_t *query,
                             float *scale);
/* Rows added so far, removed ones too. */
uint32_t kiln_vector_index_count(const struct kiln_vector_index *index);

/* What is asked for.  query, scale: kiln_vector_encode_query. */
struct kiln_vector_query {
    const int8_t *query;
    float scale;
    const uint64_t *mask; /* row i passes if bit i % 64 of word i / 64 is set; NULL: all pass */
    uint32_t mask_rows;   /* rows that the mask covers; later ones do not pass */
    uint32_t count;       /* 1 .. KILN_INDEX_COUNT_MAX */
    bool exact;           /* compare all rows, whatever it costs */
    bool hits_only;       /* leave out what is usual */
};

struct kiln_vector_hit {
    uint32_t number;
    float score; /* the cosine, with an error of about 0.01 from 8-bit values */
};

struct kiln_vector_found {
    uint32_t count;    /* hits, best first; equal scores: the later row first */
    uint32_t compared; /* rows whose product was computed */
    /* The scores of the query with rows anywhere: what is no resemblance.  Their median, and their
     * median absolute deviation x 1.4826, the standard deviation of a normal distribution; both
     * stay what they are when up to half of the rows do resemble the query.  0 with hits_only. */
    float usual, spread;
};

int kiln_vector_search_new(struct kiln_vector_search **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_vector_search_free(struct kiln_vector_search *search);

/* hits: [query->count].  A query of scale 0 finds nothing. */
int kiln_vector_index_search(const struct kiln_vector_index *index,
                             struct kiln_vector_search *search,
                             const struct kiln_vector_query *query, struct kiln_vector_hit *hits,
                             struct kiln_vector_found *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
