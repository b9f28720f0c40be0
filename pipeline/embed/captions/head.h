/* head.h - what makes tokens of a language model comparable for search: learned linear maps, and
 * how much each token counts.
 *
 * A text encoder that has learned to draw says much about a token beside its meaning: where it
 * stands, what is around it.  The maps keep what searches ask for; the weights pass over words such
 * as "a" or "of".  scripts/train/caption_head.py trains both by contrast.  Vague queries
 * (noun_phrase.h) have a map of their own: "round" in one must be near "disc" and "ring" in
 * captions, which stay apart.
 *
 * Of a token's features x: the row is its map's product with x at length w, where
 * w = softplus(weight . x / sqrt(mean(x^2) + 1e-5) + shift).  MaxSim (token_rows.h) takes the
 * length of a row for its weight.
 */
#ifndef KILN_CAPTION_HEAD_H
#define KILN_CAPTION_HEAD_H

#include "pipeline/embed/captions/fit.h"
#include "pipeline/embed/embedder.h"

#define KILN_HEAD_ROW_MAX 1024 /* values of a mapped token */

enum kiln_head_use {
    KILN_HEAD_STORED = KILN_EMBED_PASSAGE,
    KILN_HEAD_QUERY = KILN_EMBED_QUERY,
    KILN_HEAD_VAGUE, /* a query that noun_phrase.h has changed */
    KILN_HEAD_USES
};

struct kiln_caption_head {
    size_t dims, row;                /* values of a token before and after */
    float *map, *vague_map;          /* [row][dims]; NULL: rows are the features, at length 1 */
    float *weight;                   /* [KILN_HEAD_USES][dims]: a token of what is stored counts */
    float shift[KILN_HEAD_USES];     /* where others like it are sought */
    char model[KILN_FIT_MODEL_SIZE]; /* hash of the model whose features it was trained on */
};

/* The head of a model without one.  It needs no release. */
struct kiln_caption_head kiln_caption_head_none(size_t dims);

/* A safetensors file: "map" and "vague_map" [row][dims], "weight" [3][dims] and "shift" [3] in F32,
 * metadata format and model.  One of format 1 has no "vague_map" and [2] of the others: to it vague
 * queries are as all queries.  KILN_CORRUPT for a file of another form or with values that are not
 * finite. */
int kiln_caption_head_read(const char *path, struct kiln_caption_head *ret,
                           struct kiln_error *err) KILN_MUST_CHECK;
void kiln_caption_head_release(struct kiln_caption_head *head);

/* features: [count][dims]; rows: [count][row], another place.  A token whose features are zero or
 * not finite gets a row of zeros. */
void kiln_caption_head_apply(const struct kiln_caption_head *head, enum kiln_head_use use,
                             const float *features, size_t count, float *rows);

#endif
