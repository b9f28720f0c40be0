/* corpus.h - the captions that a search is tried on: encoded once, fitted and indexed. */
#ifndef KILN_CAPTION_CORPUS_H
#define KILN_CAPTION_CORPUS_H

#include "pipeline/bench/requests.h"
#include "pipeline/embed/captions/captions.h"
#include "pipeline/embed/captions/token_rows.h"
#include "pipeline/embed/index/code.h"
#include "pipeline/embed/index/index.h"

struct kiln_corpus {
    struct kiln_requests captions;
    struct kiln_caption_encoder encoder;
    struct kiln_caption_fit fit;
    /* Read before captions are encoded; of a model that has none too. */
    struct kiln_caption_head head;
    size_t width;
    float *means;     /* [captions][width], before the fit */
    uint8_t **tokens; /* [captions] stored token rows (token_rows.h); NULL: no token */
    size_t token_bytes;
    struct kiln_vector_index *index; /* row i is caption i */
    double encode_s;
};

/* Encodes all captions; the encoder stays the caller's.  Release also after a failure. */
int kiln_corpus_encode(struct kiln_corpus *c, struct kiln_error *err) KILN_MUST_CHECK;
/* A fit of these captions, into c->fit. */
int kiln_corpus_fit(struct kiln_corpus *c, size_t directions,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Fits the means and indexes them; c->fit is there. */
int kiln_corpus_index(struct kiln_corpus *c, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_corpus_release(struct kiln_corpus *c);

/* What a query finds. */
struct kiln_ranking {
    uint32_t numbers[KILN_INDEX_COUNT_MAX]; /* captions, best first */
    uint32_t count;
    double encode_ms, search_ms, rank_ms;
};
enum kiln_ranked_by {
    KILN_BY_VECTOR, /* the pooled vectors alone */
    KILN_BY_TOKENS, /* the tokens of the nearest by vector */
    KILN_BY_ALL     /* the tokens of every caption */
};
/* candidates: of KILN_BY_TOKENS, at most KILN_INDEX_COUNT_MAX. */
int kiln_corpus_search(const struct kiln_corpus *c, struct kiln_vector_search *search,
                       const char *query, enum kiln_ranked_by by, uint32_t candidates,
                       struct kiln_ranking *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
