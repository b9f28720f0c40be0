/* meaning.h - an embedder's evidence: how near a prompt is to what a LoRA's texts mean.
 *
 * The router computes no vectors.  A snapshot gets those of its LoRAs once, and a request brings
 * those of its segments: the whole prompt without what it quotes or denies, and its longest
 * clauses.  Vectors are whole numbers of 8 bits and every cosine is counted in thousandths, so that
 * the same vectors give the same answer on every machine.
 *
 *     c  the best cosine of a segment with the mean of the LoRA's examples and description
 *     m  c minus the mean of the next five LoRAs' c
 *     x  how much nearer a segment is to one of its negative texts
 *     z = weights . (1, b, c, m, x)
 *
 * Meaning is asked only where words choose nothing.  In one sum with words it is worth less than
 * behind them: cosines are high for every relative of the LoRA that was asked for by name, and a
 * fit of both learns to distrust them.
 *
 * A LoRA whose own words stand in the prompt as a thing ("a clay pot") gets none of the three.
 * Once a LoRA is chosen, its clauses and the whole prompt speak for no other.
 */
#ifndef KILN_ROUTER_MEANING_H
#define KILN_ROUTER_MEANING_H

#include "scheduler/router/router.h"
#include "schemas/route.h"

#define KILN_MEANING_ID_SIZE KILN_ROUTE_EMBEDDER_SIZE
#define KILN_MEANING_SEGMENTS 4    /* of one prompt */
#define KILN_MEANING_TEXT_MAX 2000 /* bytes of a segment, and of a LoRA's text */

/* z in thousandths; b is 0 .. 1000, c -1000 .. 1000, m and x 0 .. 2000. */
struct kiln_meaning_weights {
    int bias, b, c, m, x;
};

/* The vectors of the LoRAs of one snapshot, in its order.  A row of zeros: no text. */
struct kiln_meaning {
    char id[KILN_MEANING_ID_SIZE]; /* of the embedder and its weights: in every reason */
    struct kiln_meaning_weights weights;
    size_t dims, count;
    uint8_t *rows;      /* [count][dims], each value + 128 (kernels/vectors/scan.h) */
    uint8_t *negatives; /* [first[count]][dims] */
    uint32_t *first;    /* [count + 1]: where the negatives of each begin */
    uint32_t *lengths;  /* [count + first[count]]: squares of the rows' lengths, then negatives' */
};
/* Zeroed rows for so many LoRAs and negatives; NULL: no memory. */
struct kiln_meaning *kiln_meaning_new(size_t dims, size_t count, size_t negatives);
void kiln_meaning_free(struct kiln_meaning *meaning); /* accepts NULL */
/* Writes a row; i counts the LoRAs, then all negatives. */
void kiln_meaning_put(struct kiln_meaning *meaning, size_t i, const int8_t *row);

/* A vector of any length in 8 bits, its largest value 127; zeros stay zeros. */
void kiln_meaning_round(const float *row, size_t dims, int8_t *ret);

/* The router takes *meaning over.  Before any reader of it is made. */
void kiln_router_set_meaning(struct kiln_router *router, struct kiln_meaning *meaning);
/* NULL: words alone. */
const struct kiln_meaning *kiln_router_meaning(const struct kiln_router *router);

/* Texts whose vectors a route of the request needs; lent until the reader's next use.  0: none. */
int kiln_router_segments(struct kiln_router_reader *reader,
                         const struct kiln_router_request *request,
                         const char *ret[KILN_MEANING_SEGMENTS], size_t *ret_count,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
