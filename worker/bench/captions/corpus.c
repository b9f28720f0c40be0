/* corpus.c - see corpus.h. */
#include "worker/bench/captions/corpus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"

static double now_ms(void)
{
    return kiln_ms_of(CLOCK_MONOTONIC);
}

/* --- building --------------------------------------------------------------------------------- */

/* features: [KILN_CAPTION_TOKENS_MAX][width]; rows: [KILN_TOKEN_ROWS_MAX][head.row]. */
static int encode_caption(struct kiln_corpus *c, size_t i, float *features, float *rows,
                          struct kiln_error *err)
{
    const char *text = c->captions.items[i].prompt;
    size_t count = 0;
    int rc = c->encoder.encode(c->encoder.arg, text, strlen(text), features, &count, err);
    if (rc || count == 0)
        return rc;
    float *mean = c->means + i * c->width;
    for (size_t t = 0; t < count; t++)
        for (size_t d = 0; d < c->width; d++)
            mean[d] += features[t * c->width + d] / (float)count;
    const size_t kept = count < KILN_TOKEN_ROWS_MAX ? count : KILN_TOKEN_ROWS_MAX;
    const size_t bytes = kiln_token_rows_size(kept, c->head.row);
    if (!(c->tokens[i] = malloc(bytes)))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the tokens of caption %zu", i);
    kiln_caption_head_apply(&c->head, KILN_HEAD_STORED, features, kept, rows);
    kiln_token_rows_encode(rows, kept, c->head.row, c->tokens[i]);
    c->token_bytes += bytes;
    return 0;
}

int kiln_corpus_encode(struct kiln_corpus *c, struct kiln_error *err)
{
    const double begin = now_ms();
    c->width = c->encoder.width;
    c->means = calloc(c->captions.count * c->width, sizeof *c->means);
    c->tokens = calloc(c->captions.count, sizeof *c->tokens);
    float *features = malloc(KILN_CAPTION_TOKENS_MAX * c->width * sizeof *features);
    float *rows = malloc(KILN_TOKEN_ROWS_MAX * c->head.row * sizeof *rows);
    int rc = c->means && c->tokens && features && rows
                 ? 0
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu captions", c->captions.count);
    for (size_t i = 0; i < c->captions.count && !rc; i++)
        rc = encode_caption(c, i, features, rows, err);
    free(features);
    free(rows);
    c->encode_s = (now_ms() - begin) / 1000;
    return rc;
}

int kiln_corpus_fit(struct kiln_corpus *c, size_t directions, struct kiln_error *err)
{
    struct kiln_caption_fitting *f = kiln_caption_fitting_new(c->width);
    if (!f)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a fit");
    for (size_t i = 0; i < c->captions.count; i++)
        if (c->tokens[i])
            kiln_caption_fitting_add(f, c->means + i * c->width);
    int rc = kiln_caption_fitting_finish(f, directions, c->encoder.model, &c->fit, err);
    kiln_caption_fitting_free(f);
    return rc;
}

/* Fitted and of length 1; zeros stay zeros. */
static void finish_row(const struct kiln_corpus *c, float *row)
{
    double sum = 0;
    kiln_caption_fit_apply(&c->fit, row);
    for (size_t d = 0; d < c->width; d++)
        sum += (double)row[d] * row[d];
    for (size_t d = 0; d < c->width; d++)
        row[d] = (float)(row[d] / sqrt(sum > 0 ? sum : 1));
}

int kiln_corpus_index(struct kiln_corpus *c, struct kiln_error *err)
{
    const int64_t dims = (int64_t)c->width;
    float scale;
    int rc = kiln_vector_index_new(dims, &c->index, err);
    uint8_t *row = malloc(c->width);
    if (!rc && !row)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for an index");
    for (size_t i = 0; i < c->captions.count && !rc; i++) {
        uint32_t number;
        float *mean = c->means + i * c->width;
        if (c->tokens[i])
            finish_row(c, mean);
        kiln_vector_encode(mean, dims, row, &scale);
        rc = kiln_vector_index_add(c->index, row, scale, &number, err);
    }
    free(row);
    return rc;
}

void kiln_corpus_release(struct kiln_corpus *c)
{
    for (size_t i = 0; c->tokens && i < c->captions.count; i++)
        free(c->tokens[i]);
    free(c->tokens);
    free(c->means);
    kiln_caption_fit_release(&c->fit);
    kiln_caption_head_release(&c->head);
    kiln_vector_index_free(c->index);
    kiln_requests_release(&c->captions);
}

/* --- searching -------------------------------------------------------------------------------- */

struct scored {
    float score;
    uint32_t number;
};

static int better(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->number > y->number ? -1 : x->number < y->number; /* the newer one first */
}

static int search_vectors(const struct kiln_corpus *c, struct kiln_vector_search *search,
                          float *row, uint32_t count, struct kiln_ranking *ret,
                          struct kiln_error *err)
{
    struct kiln_vector_hit hits[KILN_INDEX_COUNT_MAX];
    struct kiln_vector_found found;
    int8_t *query = malloc(c->width);
    float scale;
    if (!query)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a query");
    finish_row(c, row);
    kiln_vector_encode_query(row, (int64_t)c->width, query, &scale);
    const struct kiln_vector_query q = {.query = query, .scale = scale, .count = count};
    int rc = kiln_vector_index_search(c->index, search, &q, hits, &found, err);
    free(query);
    ret->count = rc ? 0 : found.count;
    for (uint32_t i = 0; i < ret->count; i++)
        ret->numbers[i] = hits[i].number;
    return rc;
}

/* Ranks by tokens: the captions in numbers, or all of them. */
static int rank_tokens(const struct kiln_corpus *c, enum kiln_head_use use, const float *features,
                       size_t count, bool all, struct kiln_ranking *ret, struct kiln_error *err)
{
    const size_t n = all ? c->captions.count : ret->count;
    struct scored *list = malloc((n + 1) * sizeof *list);
    float *rows = malloc((count + 1) * c->head.row * sizeof *rows);
    struct kiln_token_query *q = NULL;
    int rc = list && rows ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu candidates", n);
    if (!rc) {
        kiln_caption_head_apply(&c->head, use, features, count, rows);
        rc = kiln_token_query_new(rows, count, c->head.row, &q, err);
    }
    free(rows);
    for (size_t i = 0; i < n && !rc; i++) {
        const uint32_t number = all ? (uint32_t)i : ret->numbers[i];
        const uint8_t *stored = c->tokens[number];
        const size_t tokens = stored ? stored[0] | (size_t)stored[1] << 8 : 0;
        list[i] =
            (struct scored){kiln_token_query_score(
                                q, stored, stored ? kiln_token_rows_size(tokens, c->head.row) : 0),
                            number};
    }
    if (!rc) {
        qsort(list, n, sizeof *list, better);
        ret->count = (uint32_t)(n < KILN_INDEX_COUNT_MAX ? n : KILN_INDEX_COUNT_MAX);
        for (uint32_t i = 0; i < ret->count; i++)
            ret->numbers[i] = list[i].number;
    }
    kiln_token_query_free(q);
    free(list);
    return rc;
}

int kiln_corpus_search(const struct kiln_corpus *c, struct kiln_vector_search *search,
                       const char *query, enum kiln_ranked_by by, uint32_t candidates,
                       struct kiln_ranking *ret, struct kiln_error *err)
{
    float *features = malloc(KILN_CAPTION_TOKENS_MAX * c->width * sizeof *features);
    float *row = calloc(c->width, sizeof *row);
    enum kiln_head_use use = KILN_HEAD_QUERY;
    size_t count = 0;
    const double begin = now_ms();
    int rc = features && row ? kiln_caption_encode(&c->encoder, KILN_EMBED_QUERY, query,
                                                   strlen(query), features, &count, &use, err)
                             : kiln_fail(err, KILN_NO_MEMORY, "no memory for a query");
    for (size_t t = 0; t < count && !rc; t++)
        for (size_t d = 0; d < c->width; d++)
            row[d] += features[t * c->width + d] / (float)count;
    const double encoded = now_ms();
    ret->count = 0;
    if (!rc && count > 0 && by != KILN_BY_ALL)
        rc = search_vectors(c, search, row, candidates, ret, err);
    const double searched = now_ms();
    if (!rc && count > 0 && by != KILN_BY_VECTOR)
        rc =
            rank_tokens(c, use, features, count < KILN_TOKEN_ROWS_MAX ? count : KILN_TOKEN_ROWS_MAX,
                        by == KILN_BY_ALL, ret, err);
    ret->encode_ms = encoded - begin;
    ret->search_ms = searched - encoded;
    ret->rank_ms = now_ms() - searched;
    free(features);
    free(row);
    return rc;
}
