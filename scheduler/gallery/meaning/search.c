/* search.c - searches of a world: prompts by their vectors, ranked by their tokens where the
 * embedder has such, as the newest pictures that pass.
 *
 * A million prompts have a gigabyte of tokens, so those of what the vectors found are read after
 * the lock of the world is released: from the gallery's file of tokens, and from the ledger what is
 * not there yet.  The tokens of SAMPLES prompts say what is usual; they stay in the scratch until
 * the index has grown by an eighth. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/captions/token_rows.h"
#include "scheduler/gallery/meaning/world.h"
#include "schemas/clock.h"
#include "schemas/reuse/known.h"
#include "schemas/text/text.h"

#define SPREADS 3 /* above the usual score: what is alike by its vector */
/* By its tokens: this part of the way from the usual score to 1, which only the same words have
 * (README.md has the measurements); */
#define ALIKE 0.25f          /* to a text, by tokens as they are, */
#define ALIKE_MAPPED 0.5f    /* and as a head has mapped them; */
#define ALIKE_TO_STORED 0.6f /* to a prompt, by mapped tokens */
#define NO_SCORE (-2)        /* of a prompt without tokens */
#define SAMPLES 256          /* prompts whose token scores say what is usual */
#define SAMPLES_STAY 8       /* until the index has grown by such a part */

struct candidate {
    uint64_t job; /* the newest picture that passes; 0: it was removed a moment ago */
    uint32_t row;
    float score;
};

struct stored_tokens {
    uint8_t *bytes;
    size_t size;
};

/* Rows of the index whose tokens are wanted: of some the places in the file, of the others the
 * hashes for the ledger. */
struct wants {
    uint32_t count, asked_count;
    kiln_token_place places[KILN_MEANING_HITS_MAX + SAMPLES]; /* 0: it is asked for */
    struct kiln_prompt_hash asked[KILN_MEANING_HITS_MAX + SAMPLES];
    uint32_t asked_for[KILN_MEANING_HITS_MAX + SAMPLES]; /* which of the wanted ones */
    struct kiln_token_file *file;                        /* held while there are places */
    struct kiln_token_bytes bytes;
};

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
    /* Of the query in work. */
    bool known;
    uint32_t wanted;
    uint32_t rows; /* of the index */
    struct kiln_vector_found found;
    struct candidate candidates[KILN_MEANING_HITS_MAX]; /* [found.count] */
    struct kiln_token_query *tokens;                    /* NULL: rank by vectors */
    float alike;        /* ALIKE, ALIKE_MAPPED or ALIKE_TO_STORED, of a query with tokens */
    struct wants wants; /* the candidates, and the samples if these are due */
    struct stored_tokens samples[SAMPLES];
    uint64_t world;         /* that was searched */
    uint64_t samples_world; /* 0: there are none */
    uint32_t samples_rows;  /* that the index had */
};

/* The arg of a kiln_each_prompt_tokens. */
struct taking {
    struct kiln_meaning_scratch *scratch;
    size_t dims;
};

/* The arg of another one, which gives what the ledger was asked for to `each`. */
struct asking {
    const struct wants *wants;
    kiln_each_prompt_tokens *each;
    void *arg;
};

/* --- a thread's memory ----------------------------------------------------------------------- */
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
    kiln_token_query_free(s->tokens);
    kiln_token_file_drop(s->wants.file);
    free(s->wants.bytes.at);
    for (int i = 0; i < SAMPLES; i++)
        free(s->samples[i].bytes);
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

/* --- reading tokens -------------------------------------------------------------------------- */
static void want_nothing(struct wants *wants)
{
    kiln_token_file_drop(wants->file);
    wants->file = NULL;
    wants->count = wants->asked_count = 0;
}

/* The world is locked. */
static void want(const struct kiln_world *world, struct wants *wants, uint32_t row)
{
    const kiln_token_place place = world->tokens[row];
    if (place && !wants->file)
        wants->file = kiln_token_file_hold(world->file);
    if (!place) {
        wants->asked_for[wants->asked_count] = wants->count;
        kiln_catalogue_hash(world->catalogue, world->prompts[row],
                            wants->asked[wants->asked_count++].hex);
    }
    wants->places[wants->count++] = place;
}

static int give_asked(void *arg, size_t place, const uint8_t *tokens, size_t size,
                      struct kiln_error *err)
{
    const struct asking *asking = arg;
    return asking->each(asking->arg, asking->wants->asked_for[place], tokens, size, err);
}

/* Calls each for everything that was wanted, in any order; `place` is 0 for the first want. */
static int read_wanted(struct kiln_meaning *m, struct wants *wants, struct kiln_ledger *session,
                       kiln_each_prompt_tokens *each, void *arg, struct kiln_error *err)
{
    struct asking asking = {wants, each, arg};
    struct kiln_token_bytes *bytes = &wants->bytes;
    int code = 0;
    for (uint32_t i = 0; i < wants->count && code == 0; i++) {
        if (!wants->places[i])
            continue;
        code = kiln_token_file_read(wants->file, wants->places[i], bytes, err);
        code = code ? code : each(arg, i, bytes->at, bytes->size, err);
    }
    if (code == 0 && wants->asked_count > 0)
        code = kiln_gallery_tokens(session, kiln_embedder_info(m->embedder)->recipe, wants->asked,
                                   wants->asked_count, give_asked, &asking, err);
    want_nothing(wants);
    return code;
}

/* --- the vectors ---------------------------------------------------------------------------- */
/* The rows whose tokens rank what was found, and rows spread evenly if new samples are due. */
static void list_rows(const struct kiln_world *world, struct kiln_meaning_scratch *s)
{
    want_nothing(&s->wants);
    for (uint32_t i = 0; i < s->found.count; i++)
        want(world, &s->wants, s->candidates[i].row);
    if (s->samples_world == world->number &&
        s->rows - s->samples_rows <= s->samples_rows / SAMPLES_STAY)
        return;
    s->samples_world = 0; /* until they are read */
    const uint32_t samples = s->rows < SAMPLES ? s->rows : SAMPLES;
    for (uint32_t i = 0; i < samples; i++)
        want(world, &s->wants, (uint32_t)((uint64_t)i * s->rows / samples));
}

/* The nearest rows as candidates; not the row `own`.  The world is locked. */
static int find(const struct kiln_world *world, struct kiln_meaning_scratch *s,
                const struct kiln_gallery_filter *filter, struct kiln_vector_query *query,
                uint32_t own, struct kiln_error *err)
{
    int code = fill_mask(world, s, filter, query, err);
    const uint64_t bit = own < query->mask_rows ? UINT64_C(1) << (own % 64) : 0;
    const uint64_t mine = code == 0 && bit ? s->mask[own / 64] & bit : 0;
    if (mine)
        s->mask[own / 64] &= ~mine;
    query->count = s->tokens ? KILN_MEANING_HITS_MAX : s->wanted;
    query->hits_only = s->tokens != NULL; /* tokens say what is usual */
    if (code == 0)
        code = kiln_vector_index_search(world->index, s->search, query, s->hits, &s->found, err);
    if (mine)
        s->mask[own / 64] |= mine;
    if (code != 0)
        return code;
    s->world = world->number;
    s->rows = kiln_vector_index_count(world->index);
    for (uint32_t i = 0; i < s->found.count; i++)
        s->prompts[i] = world->prompts[s->hits[i].number];
    kiln_catalogue_newest(world->catalogue, filter, s->prompts, s->found.count, s->jobs);
    for (uint32_t i = 0; i < s->found.count; i++)
        s->candidates[i] = (struct candidate){s->jobs[i], s->hits[i].number, s->hits[i].score};
    if (s->tokens && s->found.count > 0)
        list_rows(world, s);
    return 0;
}

/* Ends the query before. */
static void begin(struct kiln_meaning_scratch *s, uint32_t count)
{
    kiln_token_query_free(s->tokens);
    s->tokens = NULL;
    want_nothing(&s->wants);
    s->known = false;
    s->wanted = count;
    s->found.count = 0;
}

/* The vector of a query, and its tokens if the embedder has such. */
static int embed_query(struct kiln_meaning *m, struct kiln_meaning_scratch *s, const char *text,
                       struct kiln_error *err)
{
    const struct kiln_embed_text query = {text, strlen(text)};
    const size_t dims = kiln_embedder_info(m->embedder)->token_dims;
    size_t count = 0;
    if (!kiln_embedder_has_tokens(m->embedder))
        return kiln_embedder_embed(m->embedder, KILN_EMBED_QUERY, &query, 1, s->vector, err);
    float *features = malloc(KILN_TOKEN_ROWS_MAX * dims * sizeof *features);
    int code = features
                   ? kiln_embedder_embed_tokens(m->embedder, KILN_EMBED_QUERY, &query, s->vector,
                                                features, KILN_TOKEN_ROWS_MAX, &count, err)
                   : kiln_world_no_memory(err);
    if (code == 0 && count > 0)
        code = kiln_token_query_new(features, count, dims, &s->tokens, err);
    s->alike = kiln_embedder_info(m->embedder)->learned ? ALIKE_MAPPED : ALIKE;
    free(features);
    return code;
}

/* What is near to a text. */
static int find_text(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                     const struct kiln_gallery_filter *filter, const char *text, uint32_t count,
                     struct kiln_error *err)
{
    struct kiln_vector_query query = {.query = s->query};
    bool says = true;
    begin(s, count);
    int code = m->words ? kiln_reuse_has_own(m->words, text, &says, err) : 0;
    if (code == 0 && says)
        code = embed_query(m, s, text, err);
    if (code != 0 || !says)
        return code;
    kiln_vector_encode_query(s->vector, (int64_t)m->dims, s->query, &query.scale);
    s->known = query.scale > 0;
    if (!s->known)
        return 0;
    pthread_rwlock_rdlock(&m->lock);
    code = find(m->world, s, filter, &query, KILN_NONE, err);
    pthread_rwlock_unlock(&m->lock);
    return code;
}

/* --- like a picture --------------------------------------------------------------------------- */
static uint32_t row_of(const struct kiln_world *world, uint64_t job)
{
    const uint32_t prompt = kiln_catalogue_prompt_of(world->catalogue, job);
    return prompt < world->prompt_count ? world->places[prompt] : KILN_NONE;
}

static int make_query(void *arg, size_t place, const uint8_t *tokens, size_t size,
                      struct kiln_error *err)
{
    struct taking *taking = arg;
    (void)place;
    taking->scratch->alike = ALIKE_TO_STORED;
    return size > 0 ? kiln_token_query_of(tokens, size, taking->dims, &taking->scratch->tokens, err)
                    : 0;
}

/* The tokens of a stored prompt become the query where a head was trained for that: as they come,
 * tokens rank pictures that are alike worse than vectors do (../alike/README.md). */
static int query_tokens(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                        struct kiln_ledger *session, uint64_t job, struct kiln_error *err)
{
    const struct kiln_embed_info *info = kiln_embedder_info(m->embedder);
    struct taking taking = {s, info->token_dims};
    if (!info->learned)
        return 0;
    pthread_rwlock_rdlock(&m->lock);
    const uint32_t row = row_of(m->world, job);
    if (row < kiln_vector_index_count(m->world->index))
        want(m->world, &s->wants, row);
    pthread_rwlock_unlock(&m->lock);
    return read_wanted(m, &s->wants, session, make_query, &taking, err);
}

static int find_like(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                     struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                     uint64_t job, uint32_t count, struct kiln_error *err)
{
    struct kiln_vector_query query = {.query = s->query};
    begin(s, count);
    int code = query_tokens(m, s, session, job, err);
    if (code != 0)
        return code;
    pthread_rwlock_rdlock(&m->lock);
    const uint32_t row = row_of(m->world, job);
    s->known = kiln_vector_index_query(m->world->index, row, s->query, &query.scale);
    if (s->known)
        code = find(m->world, s, filter, &query, row, err);
    pthread_rwlock_unlock(&m->lock);
    return code;
}

/* --- ranking ---------------------------------------------------------------------------------- */
static int by_score(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1)
                                : (x->row < y->row) - (x->row > y->row);
}

static int keep_sample(struct stored_tokens *sample, const uint8_t *tokens, size_t size,
                       struct kiln_error *err)
{
    uint8_t *bytes = realloc(sample->bytes, size + 1);
    if (!bytes)
        return kiln_world_no_memory(err);
    if (size > 0)
        memcpy(bytes, tokens, size);
    *sample = (struct stored_tokens){bytes, size};
    return 0;
}

/* A kiln_each_prompt_tokens: of a candidate, or of a sample behind them. */
static int take_tokens(void *arg, size_t place, const uint8_t *tokens, size_t size,
                       struct kiln_error *err)
{
    struct kiln_meaning_scratch *s = ((struct taking *)arg)->scratch;
    if (place >= s->found.count)
        return keep_sample(&s->samples[place - s->found.count], tokens, size, err);
    s->candidates[place].score = kiln_token_query_score(s->tokens, tokens, size);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* What a quarter of the prompts do not reach.  Of a dozen prompts half may share a word with the
 * query: their median would be no background, and their spread as wide as the way to 1. */
static void measure_usual(struct kiln_meaning_scratch *s)
{
    const uint32_t samples = s->samples_rows < SAMPLES ? s->samples_rows : SAMPLES;
    float scores[SAMPLES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < samples; i++) {
        const struct stored_tokens *sample = &s->samples[i];
        const float score = kiln_token_query_score(s->tokens, sample->bytes, sample->size);
        if (score > NO_SCORE)
            scores[count++] = score;
    }
    qsort(scores, count, sizeof *scores, by_value);
    s->found.usual = count > 0 ? scores[count / 4] : 1;
}

/* What the vectors found, ranked by tokens; prompts without any come last. */
static int rank_by_tokens(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                          struct kiln_ledger *session, struct kiln_error *err)
{
    struct taking taking = {s, kiln_embedder_info(m->embedder)->token_dims};
    const bool samples = s->wants.count > s->found.count;
    int code = read_wanted(m, &s->wants, session, take_tokens, &taking, err);
    if (code != 0)
        return code;
    if (samples)
        s->samples_world = s->world, s->samples_rows = s->rows;
    qsort(s->candidates, s->found.count, sizeof *s->candidates, by_score);
    measure_usual(s);
    return 0;
}

/* The best of what was found, as pictures. */
static int rank(struct kiln_meaning *m, struct kiln_meaning_scratch *s, struct kiln_ledger *session,
                struct kiln_meaning_hit *hits, struct kiln_meaning_found *ret,
                struct kiln_error *err)
{
    *ret = (struct kiln_meaning_found){.known = s->known};
    int code = s->tokens && s->found.count > 0 ? rank_by_tokens(m, s, session, err) : 0;
    if (code != 0)
        return code;
    const float usual = s->found.usual;
    const float alike =
        s->tokens ? usual + s->alike * (1 - usual) : usual + SPREADS * s->found.spread;
    for (uint32_t i = 0; i < s->found.count && i < s->wanted; i++) {
        const struct candidate *c = &s->candidates[i];
        if (c->job == 0)
            continue;
        ret->near += c->score > alike;
        hits[ret->count++] = (struct kiln_meaning_hit){c->job, c->score};
    }
    return 0;
}

int kiln_meaning_search(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                        struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                        const char *text, uint32_t count, struct kiln_meaning_hit *hits,
                        struct kiln_meaning_found *ret, struct kiln_error *err)
{
    atomic_store(&m->searched_ms, kiln_clock_ms());
    int code = find_text(m, s, filter, text, count, err);
    return code ? code : rank(m, s, session, hits, ret, err);
}

int kiln_meaning_similar(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                         struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                         uint64_t job, uint32_t count, struct kiln_meaning_hit *hits,
                         struct kiln_meaning_found *ret, struct kiln_error *err)
{
    int code = find_like(m, s, session, filter, job, count, err);
    return code ? code : rank(m, s, session, hits, ret, err);
}
