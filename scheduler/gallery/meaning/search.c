/* search.c - searches of a world: prompts by their vectors, ranked by their tokens where the
 * embedder has such, as the newest pictures that pass. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/captions/token_rows.h"
#include "scheduler/gallery/meaning/world.h"
#include "schemas/reuse/known.h"
#include "schemas/text/text.h"

#define SPREADS 3       /* above the usual score: what is alike by its vector, */
#define TOKEN_SPREADS 1 /* to a query by its tokens, */
#define HEAD_SPREADS 4  /* and by tokens that a head has mapped (README.md has the measurements) */
#define FEW 50          /* prompts, up to which the spreads of tokens shrink with their number */
#define NO_SCORE (-2)   /* of a prompt without tokens */
#define SAMPLES 256     /* prompts whose token scores say what is usual */

struct kiln_meaning_scratch {
    struct kiln_vector_search *search;
    uint64_t *mask;
    size_t mask_words;
    char *mask_filter; /* what the mask is of, NULL: of nothing */
    uint64_t mask_world;
    uint32_t mask_rows;
    struct kiln_catalogue_seen mask_seen;
    float *vector;
    int8_t *query;
    struct kiln_vector_hit hits[KILN_MEANING_HITS_MAX];
    uint32_t prompts[KILN_MEANING_HITS_MAX];
    uint64_t jobs[KILN_MEANING_HITS_MAX];
    struct kiln_token_query *tokens; /* of the query in work; NULL: rank by vectors */
    float spreads;                   /* above the usual score, from which on a hit is alike */
};

/* --- searching ------------------------------------------------------------------------------ */
int kiln_meaning_scratch_new(struct kiln_meaning *m, struct kiln_meaning_scratch **ret,
                             struct kiln_error *err)
{
    struct kiln_meaning_scratch *s = calloc(1, sizeof *s);
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a search by meaning");
    s->vector = malloc(m->dims * sizeof *s->vector);
    s->query = malloc(m->dims);
    int code = s->vector && s->query
                   ? kiln_vector_search_new(&s->search, err)
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory for a search by meaning");
    if (code != 0) {
        kiln_meaning_scratch_free(s);
        return code;
    }
    *ret = s;
    return 0;
}

void kiln_meaning_scratch_free(struct kiln_meaning_scratch *s)
{
    if (!s)
        return;
    kiln_vector_search_free(s->search);
    free(s->mask), free(s->mask_filter), free(s->vector), free(s->query);
    free(s);
}

/* Whether the mask in memory is one of this filter, however old. */
static bool has_mask(const struct kiln_world *world, struct kiln_meaning_scratch *s,
                     const struct kiln_gallery_filter *filter)
{
    struct kiln_text text = {0};
    kiln_gallery_filter_put(&text, filter);
    char *name = kiln_text_take(&text);
    const bool same = name && s->mask_filter && s->mask_world == world->number &&
                      strcmp(name, s->mask_filter) == 0;
    free(s->mask_filter);
    s->mask_filter = name;
    s->mask_world = world->number;
    return same;
}

/* Rows that have come since the mask was made: their prompts were there, without a vector. */
static void add_rows(const struct kiln_world *world, struct kiln_meaning_scratch *s,
                     const struct kiln_gallery_filter *filter, uint32_t rows)
{
    for (uint32_t row = s->mask_rows; row < rows; row++) {
        uint64_t job;
        kiln_catalogue_newest(world->catalogue, filter, &world->prompts[row], 1, &job);
        if (job)
            s->mask[row / 64] |= UINT64_C(1) << (row % 64);
    }
}

/* The rows of the index whose prompts have a picture that passes.  Looking at a million pictures
 * takes longer than the search, so the mask is kept, and only what is new is looked at. */
static int fill_mask(const struct kiln_world *world, struct kiln_meaning_scratch *s,
                     const struct kiln_gallery_filter *filter, struct kiln_vector_query *query,
                     struct kiln_error *err)
{
    const uint32_t rows = kiln_vector_index_count(world->index);
    const size_t words = rows / 64 + 1;
    if (words > s->mask_words) {
        uint64_t *mask = realloc(s->mask, words * sizeof *mask);
        if (!mask)
            return kiln_world_no_memory(err);
        memset(mask + s->mask_words, 0, (words - s->mask_words) * sizeof *mask);
        s->mask = mask, s->mask_words = words;
    }
    if (!has_mask(world, s, filter))
        s->mask_seen = (struct kiln_catalogue_seen){0};
    const bool kept = s->mask_seen.pictures > 0;
    kiln_catalogue_mask(world->catalogue, filter, world->places, world->prompt_count, s->mask, rows,
                        &s->mask_seen);
    if (kept)
        add_rows(world, s, filter, rows);
    s->mask_rows = rows;
    query->mask = s->mask, query->mask_rows = rows;
    return 0;
}

static int by_score(const void *a, const void *b)
{
    const struct kiln_vector_hit *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1)
                                : (x->number < y->number) - (x->number > y->number);
}

static float token_score(const struct kiln_world *world, const struct kiln_meaning_scratch *s,
                         uint32_t row)
{
    const struct kiln_prompt_tokens tokens = kiln_world_tokens(world, row);
    return tokens.at ? kiln_token_query_score(s->tokens, tokens.at, tokens.size) : NO_SCORE;
}

/* Median of the scores of prompts anywhere, and its spread, as of struct kiln_vector_found. */
static void measure_usual(const struct kiln_world *world, const struct kiln_meaning_scratch *s,
                          struct kiln_vector_found *found)
{
    const uint32_t rows = kiln_vector_index_count(world->index);
    const uint32_t samples = rows < SAMPLES ? rows : SAMPLES;
    float scores[SAMPLES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < samples; i++) {
        float score = token_score(world, s, (uint32_t)((uint64_t)i * rows / samples));
        if (score > NO_SCORE)
            scores[count++] = score;
    }
    kiln_vector_background(scores, count, found);
}

/* What the vectors found, ranked by tokens; prompts without any come last. */
static void rank(const struct kiln_world *world, struct kiln_meaning_scratch *s,
                 struct kiln_vector_found *found)
{
    for (uint32_t i = 0; i < found->count; i++)
        s->hits[i].score = token_score(world, s, s->hits[i].number);
    qsort(s->hits, found->count, sizeof *s->hits, by_score);
    measure_usual(world, s, found);
}

/* The nearest rows as pictures; not those of `own`.  The world is locked. */
static int search(const struct kiln_world *world, struct kiln_meaning_scratch *s,
                  const struct kiln_gallery_filter *filter, struct kiln_vector_query *query,
                  uint32_t own, struct kiln_meaning_hit *hits, struct kiln_meaning_found *ret,
                  struct kiln_error *err)
{
    struct kiln_vector_found found;
    const uint32_t wanted = query->count;
    int code = fill_mask(world, s, filter, query, err);
    const uint64_t bit = own < query->mask_rows ? UINT64_C(1) << (own % 64) : 0;
    const uint64_t mine = code == 0 && bit ? s->mask[own / 64] & bit : 0;
    if (mine)
        s->mask[own / 64] &= ~mine;
    if (s->tokens)
        query->count = KILN_MEANING_HITS_MAX;
    if (code == 0)
        code = kiln_vector_index_search(world->index, s->search, query, s->hits, &found, err);
    if (mine)
        s->mask[own / 64] |= mine;
    if (code != 0)
        return code;
    if (s->tokens)
        rank(world, s, &found);
    found.count = found.count < wanted ? found.count : wanted;
    for (uint32_t i = 0; i < found.count; i++)
        s->prompts[i] = world->prompts[s->hits[i].number];
    kiln_catalogue_newest(world->catalogue, filter, s->prompts, found.count, s->jobs);
    /* Of a dozen prompts several share a word with the query: they are what is usual, and widen its
     * spread, so that the right one does not stand out as it does among many. */
    const uint32_t rows = kiln_vector_index_count(world->index);
    const float few = s->tokens && rows < FEW ? (float)rows / FEW : 1;
    const float alike = found.usual + few * s->spreads * found.spread;
    for (uint32_t i = 0; i < found.count; i++) {
        if (s->jobs[i] == 0) /* removed a moment ago */
            continue;
        ret->near += s->hits[i].score > alike;
        hits[ret->count++] = (struct kiln_meaning_hit){s->jobs[i], s->hits[i].score};
    }
    return 0;
}

/* The vector of a query, and its tokens if the embedder has such. */
static int embed_query(struct kiln_meaning *m, struct kiln_meaning_scratch *s, const char *text,
                       struct kiln_error *err)
{
    const struct kiln_embed_text query = {text, strlen(text)};
    const size_t dims = kiln_embedder_info(m->embedder)->token_dims;
    size_t count = 0;
    s->spreads = SPREADS;
    if (!kiln_embedder_has_tokens(m->embedder))
        return kiln_embedder_embed(m->embedder, KILN_EMBED_QUERY, &query, 1, s->vector, err);
    float *features = malloc(KILN_TOKEN_ROWS_MAX * dims * sizeof *features);
    int code = features
                   ? kiln_embedder_embed_tokens(m->embedder, KILN_EMBED_QUERY, &query, s->vector,
                                                features, KILN_TOKEN_ROWS_MAX, &count, err)
                   : kiln_world_no_memory(err);
    if (code == 0 && count > 0)
        code = kiln_token_query_new(features, count, dims, &s->tokens, err);
    if (s->tokens)
        s->spreads = kiln_embedder_info(m->embedder)->learned ? HEAD_SPREADS : TOKEN_SPREADS;
    free(features);
    return code;
}

int kiln_meaning_search(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                        const struct kiln_gallery_filter *filter, const char *text, uint32_t count,
                        struct kiln_meaning_hit *hits, struct kiln_meaning_found *ret,
                        struct kiln_error *err)
{
    uint64_t sketch[KILN_SKETCH_WORDS];
    struct kiln_vector_query query = {.query = s->query, .sketch = sketch, .count = count};
    bool says = true;
    *ret = (struct kiln_meaning_found){0};
    int code = m->words ? kiln_reuse_has_own(m->words, text, &says, err) : 0;
    if (code == 0 && says)
        code = embed_query(m, s, text, err);
    if (code != 0 || !says)
        return code;
    kiln_vector_encode_query(m->coder, s->vector, s->query, &query.scale, sketch);
    ret->known = query.scale > 0;
    if (ret->known) {
        pthread_rwlock_rdlock(&m->lock);
        code = search(m->world, s, filter, &query, KILN_NONE, hits, ret, err);
        pthread_rwlock_unlock(&m->lock);
    }
    kiln_token_query_free(s->tokens);
    s->tokens = NULL;
    return code;
}

/* The tokens of a stored prompt become the query where a head was trained for that: as they come,
 * tokens rank pictures that are alike worse than vectors do (../alike/README.md). */
static int take_tokens(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                       struct kiln_prompt_tokens tokens, struct kiln_error *err)
{
    const struct kiln_embed_info *info = kiln_embedder_info(m->embedder);
    s->spreads = SPREADS;
    if (!info->learned || !tokens.at)
        return 0;
    s->spreads = HEAD_SPREADS;
    return kiln_token_query_of(tokens.at, tokens.size, info->token_dims, &s->tokens, err);
}

int kiln_meaning_similar(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                         const struct kiln_gallery_filter *filter, uint64_t job, uint32_t count,
                         struct kiln_meaning_hit *hits, struct kiln_meaning_found *ret,
                         struct kiln_error *err)
{
    uint64_t sketch[KILN_SKETCH_WORDS];
    struct kiln_vector_query query = {.query = s->query, .sketch = sketch, .count = count};
    int code = 0;
    *ret = (struct kiln_meaning_found){0};
    pthread_rwlock_rdlock(&m->lock);
    const struct kiln_world *world = m->world;
    uint32_t prompt = kiln_catalogue_prompt_of(world->catalogue, job);
    uint32_t row = prompt < world->prompt_count ? world->places[prompt] : KILN_NONE;
    ret->known = kiln_vector_index_query(world->index, row, s->query, &query.scale, sketch);
    if (ret->known)
        code = take_tokens(m, s, kiln_world_tokens(world, row), err);
    if (ret->known && code == 0)
        code = search(world, s, filter, &query, row, hits, ret, err);
    pthread_rwlock_unlock(&m->lock);
    kiln_token_query_free(s->tokens);
    s->tokens = NULL;
    return code;
}
